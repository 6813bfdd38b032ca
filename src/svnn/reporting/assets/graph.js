// The graph: features in the plane, and a line for every correlation that is kept.
const MOST_DRAWN = 2500; // edges, the strongest ones

function graphOf(canvas, said, correlations, places, redraw) {
  const { n, edges, degrees, names } = correlations;
  const seen = { zoom: 1, x: 0, y: 0 }; // how much closer, and what of the unit square is at the left and at the top
  let chosen = -1;

  const onScreen = (i, size) => [(places[i][0] - seen.x) * seen.zoom * size, (places[i][1] - seen.y) * seen.zoom * size];
  const text = (i) => `${names[i]}: ${degrees[i]} ${degrees[i] === 1 ? "edge" : "edges"}`;

  // -- drawing ------------------------------------------------------------------------------------

  function lines(context, size, wanted, count) {
    context.beginPath();
    for (let e = count - 1; e >= 0; e--) {
      if (!wanted(edges[e])) continue;
      context.moveTo(...onScreen(edges[e][0], size));
      context.lineTo(...onScreen(edges[e][1], size));
    }
    context.stroke();
  }

  function drawEdges(context, size) {
    const drawn = Math.min(correlations.kept, MOST_DRAWN);
    const room = Math.min(1, 500 / Math.max(drawn, 1)); // the more lines, the fainter they are
    for (let group = 0; group < 5; group++) { // weak ones first, each group with one look
      for (const sign of [1, -1]) {
        context.strokeStyle = colour(sign > 0 ? "--c1" : "--c2");
        context.setLineDash(sign > 0 ? [] : [5, 4]);
        context.globalAlpha = (0.25 + 0.15 * group) * (0.2 + 0.8 * room);
        context.lineWidth = (0.6 + 0.35 * group) * (0.4 + 0.6 * room);
        const of = (value) => Math.min(4, Math.floor(correlations.strength(value) * 5)) === group && value * sign > 0;
        lines(context, size, (edge) => of(edge[2]), drawn);
      }
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
    canvas.dataset.edges = drawn;
  }

  function drawFeatures(context, size) {
    const most = degrees.reduce((a, b) => Math.max(a, b), 1);
    const scale = Math.max(0.6, Math.min(1, size / 480));
    const visible = [];
    for (let i = 0; i < n; i++) {
      const [x, y] = onScreen(i, size);
      if (Math.min(x, y) < -10 || Math.max(x, y) > size + 10) continue;
      if (Math.min(x, y) >= 0 && Math.max(x, y) <= size) visible.push(i);
      context.beginPath();
      context.arc(x, y, scale * ((n > 120 ? 2.5 : 4) + 2.5 * Math.sqrt(degrees[i] / most)), 0, 2 * Math.PI);
      context.fillStyle = colour(i === chosen ? "--mark" : degrees[i] ? "--ink" : "--page");
      context.fill();
      context.strokeStyle = colour(degrees[i] ? "--page" : "--soft");
      context.lineWidth = 1;
      context.stroke();
    }
    return visible;
  }

  function drawName(context, size, i) {
    const [x, y] = onScreen(i, size);
    const letters = Array.from(names[i]); // of the two halves of some letters, none is cut off
    const name = letters.length > 32 ? `${letters.slice(0, 31).join("")}…` : names[i];
    context.font = "13px system-ui, sans-serif";
    const left = Math.max(2, Math.min(x + 8, size - context.measureText(name).width - 4));
    context.lineWidth = 4;
    context.strokeStyle = colour("--page");
    context.strokeText(name, left, Math.max(y - 7, 14));
    context.fillStyle = colour("--ink");
    context.fillText(name, left, Math.max(y - 7, 14));
  }

  function draw() {
    const [context, size] = prepared(canvas);
    drawEdges(context, size);
    if (chosen >= 0) {
      context.strokeStyle = colour("--ink");
      context.lineWidth = 1.6;
      lines(context, size, (edge) => edge[0] === chosen || edge[1] === chosen, correlations.kept);
    }
    const visible = drawFeatures(context, size);
    const named = seen.zoom > 1 && visible.length <= 30 ? visible : visible.filter((i) => i === chosen);
    for (const i of named) drawName(context, size, i);
  }

  // -- moving -------------------------------------------------------------------------------------

  function pan(x, y) {
    const most = 1 - 1 / seen.zoom;
    seen.x = Math.max(-0.1, Math.min(most + 0.1, seen.x + x / seen.zoom));
    seen.y = Math.max(-0.1, Math.min(most + 0.1, seen.y + y / seen.zoom));
    redraw();
  }

  function zoom(factor, x = 0.5, y = 0.5) { // the place at (x, y) stays where it is
    const before = seen.zoom;
    seen.zoom = Math.max(1, Math.min(40, before * factor));
    pan(x * (seen.zoom / before - 1), y * (seen.zoom / before - 1));
  }

  function whole() {
    Object.assign(seen, { zoom: 1, x: 0, y: 0 });
    redraw();
  }

  function choose(i) {
    chosen = i;
    said.textContent = i < 0 ? "" : text(i);
    const [x, y] = i < 0 ? [0, 0] : onScreen(i, 1);
    if (Math.min(x, y) < 0 || Math.max(x, y) > 1) pan(x - 0.5, y - 0.5);
    redraw();
  }

  function find(words) {
    const wanted = words.trim().toLowerCase();
    const exact = names.findIndex((name) => name.toLowerCase() === wanted);
    choose(exact >= 0 || !wanted ? exact : names.findIndex((name) => name.toLowerCase().includes(wanted)));
  }

  function nearest(x, y) {
    let [best, distance] = [-1, 18 ** 2];
    for (let i = 0; i < n; i++) {
      const [a, b] = onScreen(i, canvas.clientWidth);
      const square = (a - x) ** 2 + (b - y) ** 2;
      if (square < distance) [best, distance] = [i, square];
    }
    return best;
  }

  const fingers = new Map(); // the pointers that are down, and where
  function drag(event, now) {
    const size = canvas.clientWidth;
    const before = fingers.get(event.pointerId);
    if (!before) return;
    fingers.set(event.pointerId, now);
    if (fingers.size === 1) return pan((before[0] - now[0]) / size, (before[1] - now[1]) / size);
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const apart = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
    zoom(apart(now) / apart(before), (now[0] + other[0]) / 2 / size, (now[1] + other[1]) / 2 / size);
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    choose(nearest(event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = [event.offsetX, event.offsetY];
    drag(event, now);
    const near = nearest(...now);
    showTip(canvas, near < 0 ? "" : text(near), ...now);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", () => showTip(canvas, ""));
  const turn = (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls as usual
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientWidth);
  };
  canvas.addEventListener("wheel", turn, { passive: false });
  const keys = {
    ArrowUp: () => pan(0, -0.1),
    ArrowDown: () => pan(0, 0.1),
    ArrowLeft: () => pan(-0.1, 0),
    ArrowRight: () => pan(0.1, 0),
    "+": () => zoom(1.3),
    "=": () => zoom(1.3),
    "-": () => zoom(1 / 1.3),
    0: whole,
    n: () => choose((chosen + 1) % n),
    p: () => choose((Math.max(chosen, 0) + n - 1) % n),
    Escape: () => choose(-1),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key] || keys[event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  return { draw, zoom, whole, find };
}
