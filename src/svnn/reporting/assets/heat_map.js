// The heat map: a cell for two features, in an order that puts correlated ones side by side.
function heatMapOf(canvas, said, correlations, order, redraw) {
  const n = correlations.n;
  const small = document.createElement("canvas"); // a pixel for a cell
  small.width = small.height = n;
  const large = document.createElement("canvas"); // the same with sharp cells, also on paper
  large.width = large.height = n * Math.max(1, Math.round(900 / n));
  let cell = null; // [row, column], in the order of the picture

  function channels(name) {
    const text = colour(name);
    return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  }

  function draw() {
    const [context, size] = prepared(canvas);
    const [low, mid, high, blank] = ["--low", "--mid", "--high", "--blank"].map(channels);
    const image = new ImageData(n, n);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < n; b++) {
        const value = correlations.at(order[a], order[b]);
        const end = value < 0 ? low : high;
        const share = correlations.strength(value);
        const at = 4 * (a * n + b);
        for (let c = 0; c < 3; c++) {
          image.data[at + c] = correlations.dropped(value) ? blank[c] : mid[c] + share * (end[c] - mid[c]);
        }
        image.data[at + 3] = 255;
      }
    }
    small.getContext("2d").putImageData(image, 0, 0);
    const sharp = large.getContext("2d");
    sharp.imageSmoothingEnabled = false;
    sharp.drawImage(small, 0, 0, large.width, large.width);
    context.drawImage(large, 0, 0, size, size);
    if (!cell) return;
    const width = size / n;
    context.strokeStyle = colour("--ink");
    context.lineWidth = 2;
    context.strokeRect(cell[1] * width, cell[0] * width, Math.max(width, 3), Math.max(width, 3));
  }

  const within = (at) => Math.max(0, Math.min(n - 1, at));

  function text() {
    const [a, b] = [order[cell[0]], order[cell[1]]];
    if (a === b) return correlations.names[a];
    const value = correlations.at(a, b);
    return `${correlations.names[a]} and ${correlations.names[b]}: ${correlations.text(value)}${correlations.dropped(value) ? ", dropped" : ""}`;
  }

  canvas.addEventListener("pointermove", (event) => {
    const width = canvas.clientWidth / n;
    cell = [event.offsetY, event.offsetX].map((at) => within(Math.floor(at / width)));
    showTip(canvas, text(), event.offsetX, event.offsetY);
    redraw();
  });
  canvas.addEventListener("pointerleave", () => {
    cell = null;
    showTip(canvas, "");
    redraw();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    cell = cell ? cell.map((at, axis) => within(at + step[axis])) : [0, 0];
    said.textContent = text();
    redraw();
  });
  return { draw };
}
