// The slider, the heat map and the graph. The data are in the page; nothing is fetched.
(() => {
  "use strict";
  const holder = document.getElementById("report-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const names = data.names;
  const n = names.length;
  const MOST_DRAWN = 2500;
  const byId = (id) => document.getElementById(id);
  const slider = byId("threshold");

  // -- the correlations ---------------------------------------------------------------------------

  const r = new Int16Array(n * n); // thousandths
  const edges = []; // [i, j, correlation], the strongest first
  const bytes = Uint8Array.from(atob(data.r), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  for (let i = 0, at = 0; i < n; i++) {
    r[i * n + i] = data.steps;
    for (let j = i + 1; j < n; j++, at += 2) {
      const value = view.getInt16(at, true);
      r[i * n + j] = r[j * n + i] = value;
      if (value) edges.push([i, j, value]);
    }
  }
  edges.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  const degrees = new Int32Array(n);
  let kept = 0; // the first so many edges are kept

  const least = () => Math.max(+slider.value, 1);
  const asNumber = (value) => Math.round(value).toLocaleString("en").replace(/,/g, "\u202f");
  const asPercent = (share) => {
    if (share === 0 || share === 1) return `${share * 100} %`;
    if (share > 0.9995) return "over 99.9 %";
    return `${+(share * 100).toPrecision(share > 0.1 ? 3 : 2)} %`;
  };
  const correlation = (value) => (value / data.steps).toFixed(2).replace("-", "−");

  // From 0 to 1, over the range of the correlations in the page.
  const strength = (value) => (Math.abs(value) - data.floor) / (data.steps - data.floor);

  function count() {
    degrees.fill(0);
    kept = 0;
    while (kept < edges.length && Math.abs(edges[kept][2]) >= least()) {
      degrees[edges[kept][0]]++;
      degrees[edges[kept][1]]++;
      kept++;
    }
  }

  function say() {
    const step = +slider.value;
    const cut = (step / data.steps).toFixed(3);
    const pairs = (data.counted * (data.counted - 1)) / 2;
    const share = pairs ? data.kept[step] / pairs : 0;
    const times = data.features / data.counted;
    const all = (data.features * (data.features - 1)) / 2;
    const about = data.counted < data.features ? "about " : "";
    byId("cut").textContent = cut;
    slider.setAttribute("aria-valuetext", `${cut}, keeps ${asPercent(share)} of the pairs`);
    const shown = Math.min(kept, MOST_DRAWN);
    const some = n < data.features ? ` Among the ${n} features shown: ${asNumber(kept)} edges.` : "";
    const few = shown < kept ? ` The graph draws the ${asNumber(shown)} strongest.` : "";
    byId("kept").textContent =
      `Keeps ${about}${asNumber(share * all)} of ${asNumber(all)} pairs (${asPercent(share)}); ` +
      `${about}${asNumber(data.alone[step] * times)} of ${asNumber(data.features)} features have no edge.${some}${few}`;
    const marker = byId("marker");
    const { left, right, low, high } = marker.dataset;
    const x = +left + ((step / data.steps - low) / (high - low)) * (right - left);
    marker.setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
  }

  // -- drawing ------------------------------------------------------------------------------------

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function channels(name) {
    const text = colour(name);
    return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  }

  function prepared(canvas) {
    const size = Math.max(canvas.clientWidth, 1);
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(size * ratio)) canvas.width = canvas.height = Math.round(size * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size, size);
    return [context, size];
  }

  const heatMap = byId("heat-map");
  const small = document.createElement("canvas");
  small.width = small.height = Math.max(n, 1);
  let cell = null; // [row, column], in the order of the picture

  function drawHeatMap() {
    const [context, size] = prepared(heatMap);
    const [low, mid, high, blank] = ["--low", "--mid", "--high", "--blank"].map(channels);
    const image = new ImageData(n, n);
    const cut = least();
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < n; b++) {
        const value = r[data.order[a] * n + data.order[b]];
        const share = strength(value);
        const end = value < 0 ? low : high;
        const at = 4 * (a * n + b);
        for (let c = 0; c < 3; c++) {
          image.data[at + c] = Math.abs(value) < cut ? blank[c] : mid[c] + share * (end[c] - mid[c]);
        }
        image.data[at + 3] = 255;
      }
    }
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = size < n;
    context.drawImage(small, 0, 0, size, size);
    if (cell) {
      const width = size / n;
      context.strokeStyle = colour("--ink");
      context.lineWidth = 2;
      context.strokeRect(cell[1] * width, cell[0] * width, Math.max(width, 3), Math.max(width, 3));
    }
  }

  const graph = byId("graph");
  const seen = { zoom: 1, x: 0, y: 0 }; // how much closer, and what part of the unit square is at the left and top
  let chosen = -1;
  const onScreen = (i, size) => [(data.xy[i][0] - seen.x) * seen.zoom * size, (data.xy[i][1] - seen.y) * seen.zoom * size];

  function drawEdges(context, size) {
    const drawn = Math.min(kept, MOST_DRAWN);
    const crowd = Math.min(1, 500 / Math.max(drawn, 1));
    // Weak edges first, in a few groups of one look each.
    for (let group = 0; group < 5; group++) {
      for (const sign of [1, -1]) {
        context.beginPath();
        for (let e = drawn - 1; e >= 0; e--) {
          const [i, j, value] = edges[e];
          if (Math.min(4, Math.floor(strength(value) * 5)) !== group || Math.sign(value) !== sign) continue;
          context.moveTo(...onScreen(i, size));
          context.lineTo(...onScreen(j, size));
        }
        context.strokeStyle = colour(sign > 0 ? "--c1" : "--c2");
        context.setLineDash(sign > 0 ? [] : [5, 4]);
        context.globalAlpha = (0.25 + 0.15 * group) * (0.2 + 0.8 * crowd);
        context.lineWidth = (0.6 + 0.35 * group) * (0.4 + 0.6 * crowd);
        context.stroke();
      }
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
    graph.dataset.edges = drawn;
  }

  function drawChosen(context, size) {
    context.strokeStyle = colour("--ink");
    context.lineWidth = 1.6;
    context.beginPath();
    for (let e = 0; e < kept; e++) {
      if (edges[e][0] !== chosen && edges[e][1] !== chosen) continue;
      context.moveTo(...onScreen(edges[e][0], size));
      context.lineTo(...onScreen(edges[e][1], size));
    }
    context.stroke();
  }

  function drawGraph() {
    const [context, size] = prepared(graph);
    drawEdges(context, size);
    if (chosen >= 0) drawChosen(context, size);
    const most = Math.max(1, ...degrees);
    const visible = [];
    for (let i = 0; i < n; i++) {
      const [x, y] = onScreen(i, size);
      if (x < -10 || y < -10 || x > size + 10 || y > size + 10) continue;
      visible.push(i);
      context.beginPath();
      context.arc(x, y, radius(i, most) * Math.max(0.6, Math.min(1, size / 480)), 0, 2 * Math.PI);
      context.fillStyle = colour(i === chosen ? "--mark" : degrees[i] ? "--ink" : "--page");
      context.fill();
      context.strokeStyle = colour(degrees[i] ? "--page" : "--soft");
      context.lineWidth = 1;
      context.stroke();
    }
    const labels = visible.length <= 30 ? visible : chosen >= 0 && visible.includes(chosen) ? [chosen] : [];
    for (const i of labels) label(context, size, i);
  }

  function radius(i, most) {
    return (n > 120 ? 2.5 : 4) + 2.5 * Math.sqrt(degrees[i] / most);
  }

  function label(context, size, i) {
    const [x, y] = onScreen(i, size);
    const text = names[i].length > 32 ? `${names[i].slice(0, 31)}…` : names[i];
    context.font = "13px system-ui, sans-serif";
    const width = context.measureText(text).width;
    const left = Math.max(2, Math.min(x + 8, size - width - 4));
    context.lineWidth = 4;
    context.strokeStyle = colour("--page");
    context.strokeText(text, left, y - 7);
    context.fillStyle = colour("--ink");
    context.fillText(text, left, y - 7);
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawHeatMap();
      drawGraph();
    });
  }

  function moved() {
    count();
    say();
    redraw();
  }

  // -- names on hover -----------------------------------------------------------------------------

  function tell(canvas, text, x, y) {
    const tip = canvas.parentElement.querySelector(".tip");
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(0, Math.min(x + 14, canvas.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > canvas.clientHeight ? Math.max(0, y - tip.offsetHeight - 10) : y + 18}px`;
  }

  function cellText([row, column]) {
    const [a, b] = [data.order[row], data.order[column]];
    if (a === b) return names[a];
    const value = r[a * n + b];
    return `${names[a]} and ${names[b]}: ${correlation(value)}${Math.abs(value) < least() ? ", dropped" : ""}`;
  }

  function featureText(i) {
    return `${names[i]}: ${degrees[i]} ${degrees[i] === 1 ? "edge" : "edges"}`;
  }

  heatMap.addEventListener("pointermove", (event) => {
    const width = heatMap.clientWidth / n;
    cell = [event.offsetY, event.offsetX].map((at) => Math.max(0, Math.min(n - 1, Math.floor(at / width))));
    tell(heatMap, cellText(cell), event.offsetX, event.offsetY);
    redraw();
  });
  heatMap.addEventListener("pointerleave", () => {
    cell = null;
    tell(heatMap, "");
    redraw();
  });
  heatMap.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !n) return;
    event.preventDefault();
    cell = cell ? cell.map((at, axis) => Math.max(0, Math.min(n - 1, at + step[axis]))) : [0, 0];
    byId("heat-map-said").textContent = cellText(cell);
    redraw();
  });

  // -- moving the graph ---------------------------------------------------------------------------

  function zoom(factor, x = 0.5, y = 0.5) {
    const before = seen.zoom;
    seen.zoom = Math.max(1, Math.min(40, before * factor));
    seen.x += x / before - x / seen.zoom;
    seen.y += y / before - y / seen.zoom;
    pan(0, 0);
  }

  function pan(x, y) {
    const most = 1 - 1 / seen.zoom;
    seen.x = Math.max(-0.1, Math.min(most + 0.1, seen.x + x / seen.zoom));
    seen.y = Math.max(-0.1, Math.min(most + 0.1, seen.y + y / seen.zoom));
    redraw();
  }

  function whole() {
    Object.assign(seen, { zoom: 1, x: 0, y: 0 });
    redraw();
  }

  function choose(i) {
    chosen = i;
    byId("graph-said").textContent = i < 0 ? "" : featureText(i);
    if (i >= 0) {
      const [x, y] = onScreen(i, 1);
      if (x < 0 || y < 0 || x > 1 || y > 1) pan(x - 0.5, y - 0.5);
    }
    redraw();
  }

  function nearest(x, y) {
    let best = -1;
    let distance = 18 ** 2;
    for (let i = 0; i < n; i++) {
      const [a, b] = onScreen(i, graph.clientWidth);
      const square = (a - x) ** 2 + (b - y) ** 2;
      if (square < distance) [best, distance] = [i, square];
    }
    return best;
  }

  const pointers = new Map();
  graph.addEventListener("pointerdown", (event) => {
    graph.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    graph.classList.add("dragged");
    const near = nearest(event.offsetX, event.offsetY);
    choose(near);
  });
  graph.addEventListener("pointermove", (event) => {
    const size = graph.clientWidth;
    const now = [event.offsetX, event.offsetY];
    const before = pointers.get(event.pointerId);
    if (before) {
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
        zoom(apart(now) / Math.max(apart(before), 1), (now[0] + other[0]) / 2 / size, (now[1] + other[1]) / 2 / size);
      } else {
        pan((before[0] - now[0]) / size, (before[1] - now[1]) / size);
      }
      pointers.set(event.pointerId, now);
    }
    const near = nearest(...now);
    tell(graph, near < 0 ? "" : featureText(near), ...now);
  });
  for (const ending of ["pointerup", "pointercancel"]) {
    graph.addEventListener(ending, (event) => {
      pointers.delete(event.pointerId);
      if (!pointers.size) graph.classList.remove("dragged");
    });
  }
  graph.addEventListener("pointerleave", () => tell(graph, ""));
  graph.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== graph) return; // the page scrolls as usual
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 400), event.offsetX / graph.clientWidth, event.offsetY / graph.clientWidth);
    },
    { passive: false },
  );
  graph.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowUp: () => pan(0, -0.1),
      ArrowDown: () => pan(0, 0.1),
      ArrowLeft: () => pan(-0.1, 0),
      ArrowRight: () => pan(0.1, 0),
      "+": () => zoom(1.3),
      "=": () => zoom(1.3),
      "-": () => zoom(1 / 1.3),
      0: whole,
      n: () => choose((chosen + 1) % n),
      p: () => choose((chosen + n - (chosen < 0 ? 0 : 1)) % n),
      Escape: () => choose(-1),
    };
    const action = actions[event.key] || actions[event.key.toLowerCase()];
    if (!action || !n) return;
    event.preventDefault();
    action();
  });
  byId("closer").addEventListener("click", () => zoom(1.5));
  byId("farther").addEventListener("click", () => zoom(1 / 1.5));
  byId("reset").addEventListener("click", whole);

  const list = byId("names");
  for (const name of names) list.append(Object.assign(document.createElement("option"), { value: name }));
  byId("find").addEventListener("input", (event) => {
    const text = event.target.value.trim().toLowerCase();
    const exact = names.findIndex((name) => name.toLowerCase() === text);
    choose(!text ? -1 : exact >= 0 ? exact : names.findIndex((name) => name.toLowerCase().includes(text)));
  });

  slider.addEventListener("input", moved);
  slider.addEventListener("keydown", (event) => {
    const way = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
    if (!way || event.shiftKey) return; // with Shift the smallest step
    event.preventDefault();
    slider.value = +slider.value + way * 10;
    moved();
  });
  byId("back").addEventListener("click", () => {
    slider.value = data.start;
    moved();
  });
  slider.value = data.start; // browsers keep the old place on a reload
  const sizes = new ResizeObserver(redraw);
  [heatMap, graph].forEach((canvas) => sizes.observe(canvas));
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    window.matchMedia(query).addEventListener("change", () => {
      drawHeatMap();
      drawGraph();
    });
  }
  moved();
})();
