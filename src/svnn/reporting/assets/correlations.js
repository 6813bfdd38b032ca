// The correlations of the page, and the edges that a threshold keeps.
function correlationsOf(data) {
  const n = data.names.length;
  const r = new Int16Array(n * n); // in steps of the slider: thousandths
  const edges = []; // [i, j, correlation], the strongest first
  const degrees = new Int32Array(n);
  const view = new DataView(Uint8Array.from(atob(data.r), (c) => c.charCodeAt(0)).buffer);
  for (let i = 0, at = 0; i < n; i++) {
    r[i * n + i] = data.steps;
    for (let j = i + 1; j < n; j++, at += 2) {
      const value = view.getInt16(at, true);
      r[i * n + j] = r[j * n + i] = value;
      if (value) edges.push([i, j, value]);
    }
  }
  edges.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));

  return {
    n,
    edges,
    degrees,
    names: data.names,
    cut: 0,
    kept: 0, // number of edges that are kept, the first ones
    at: (i, j) => r[i * n + j],
    dropped(value) {
      return Math.abs(value) < Math.max(this.cut, 1);
    },
    // From 0 to 1, over the range of the correlations in the page.
    strength: (value) => (Math.abs(value) - data.floor) / Math.max(data.steps - data.floor, 1),
    text: (value) => (value / data.steps).toFixed(2).replace("-", "−"),
    keep(cut) {
      this.cut = cut;
      this.kept = 0;
      degrees.fill(0);
      while (this.kept < edges.length && !this.dropped(edges[this.kept][2])) {
        degrees[edges[this.kept][0]]++;
        degrees[edges[this.kept][1]]++;
        this.kept++;
      }
    },
  };
}

// Helpers of both pictures.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function prepared(canvas) {
  const size = Math.max(canvas.clientWidth, 1);
  const ratio = window.matchMedia("print").matches ? 3 : window.devicePixelRatio || 1; // paper has finer dots
  if (canvas.width !== Math.round(size * ratio)) canvas.width = canvas.height = Math.round(size * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size, size);
  return [context, size];
}

function showTip(canvas, text, x, y) {
  const tip = canvas.parentElement.querySelector(".tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const below = y + 18;
  const fits = below + tip.offsetHeight <= canvas.clientHeight;
  tip.style.left = `${Math.max(0, Math.min(x + 14, canvas.clientWidth - tip.offsetWidth))}px`;
  tip.style.top = `${fits ? below : Math.max(0, y - tip.offsetHeight - 10)}px`;
}
