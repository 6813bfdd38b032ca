// The slider, and the pictures and numbers that follow it. The data are in the page; nothing is fetched.
function start(data) {
  const byId = (id) => document.getElementById(id);
  const slider = byId("threshold");
  const correlations = correlationsOf(data);
  const heatMap = heatMapOf(byId("heat-map"), byId("heat-map-said"), correlations, data.order, redraw);
  const graph = graphOf(byId("graph"), byId("graph-said"), correlations, data.xy, redraw);

  function draw() {
    heatMap.draw();
    graph.draw();
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  const asNumber = (value) => Math.round(value).toLocaleString("en").replace(/,/g, "\u202f");
  function asPercent(share) {
    if (share === 0 || share === 1) return `${share * 100} %`;
    if (share > 0.9995) return "over 99.9 %";
    return `${+(share * 100).toPrecision(share > 0.1 ? 3 : 2)} %`;
  }

  function say(step) {
    const cut = (step / data.steps).toFixed(3);
    const pairs = (count) => (count * (count - 1)) / 2;
    const share = data.kept[step] / Math.max(pairs(data.counted), 1);
    const about = data.counted < data.features ? "about " : "";
    const alone = (data.alone[step] * data.features) / data.counted;
    const sentences = [
      `Keeps ${about}${asNumber(share * pairs(data.features))} of ${asNumber(pairs(data.features))} pairs ` +
        `(${asPercent(share)}); ${about}${asNumber(alone)} of ${asNumber(data.features)} features have no edge.`,
    ];
    if (correlations.n < data.features) sentences.push(`Among the ${correlations.n} features shown: ${asNumber(correlations.kept)} edges.`);
    if (correlations.kept > MOST_DRAWN) sentences.push(`The graph draws the ${asNumber(MOST_DRAWN)} strongest.`);
    byId("kept").textContent = sentences.join(" ");
    byId("cut").textContent = cut;
    slider.setAttribute("aria-valuetext", `${cut}, keeps ${asPercent(share)} of the pairs`);
    const { left, right, low, high } = byId("marker").dataset;
    const x = +left + ((step / data.steps - low) / (high - low)) * (right - left);
    byId("marker").setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
  }

  function move(step) {
    slider.value = step;
    correlations.keep(+slider.value);
    say(+slider.value);
    redraw();
  }

  slider.addEventListener("input", () => move(slider.value));
  slider.addEventListener("keydown", (event) => {
    const way = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
    if (!way || event.shiftKey) return; // with Shift the browser takes its smallest step
    event.preventDefault();
    move(+slider.value + 10 * way);
  });
  byId("back").addEventListener("click", () => move(data.start));
  byId("closer").addEventListener("click", () => graph.zoom(1.5));
  byId("farther").addEventListener("click", () => graph.zoom(1 / 1.5));
  byId("reset").addEventListener("click", graph.whole);
  byId("find").addEventListener("input", (event) => graph.find(event.target.value));
  for (const value of data.names) byId("names").append(Object.assign(document.createElement("option"), { value }));

  const sizes = new ResizeObserver(redraw);
  for (const name of ["heat-map", "graph"]) sizes.observe(byId(name));
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    window.matchMedia(query).addEventListener("change", draw); // at once: a printer does not wait
  }
  move(data.start);
}

const holder = document.getElementById("report-data");
if (holder) start(JSON.parse(holder.textContent));
