"""The plot of ``graph.py``: seconds and memory against N, one line for each library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plot import INK, plain_axes, save

COLOURS = {"ours": "#c1272d", "numpy": "#444444", "Dask": "#1f6fb4", "deepgraph": "#7a5195", "CorALS": "#2f8f5b"}


def draw(rows: list[dict[str, Any]], path: Path) -> Path:
    """Draw time and memory of the first question, and time of the second, from rows with one of each library."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    first, samples = rows[0].get("share"), rows[0]["t"]
    pairs = [row for row in rows if row.get("share") == first and row["t"] == samples]
    neighbours = [row for row in rows if row.get("top_k") and row["t"] == samples]
    k = neighbours[0]["top_k"]
    panels = (
        (pairs, "processor seconds", f"Seconds of the processors: {100 * first:g} % strongest pairs"),
        (pairs, "peak GB", f"Peak GB: {100 * first:g} % strongest pairs"),
        (neighbours, "processor seconds", f"Seconds of the processors: {k} strongest of every feature"),
        (neighbours, "peak GB", f"Peak GB: {k} strongest of every feature"),
    )
    style = {"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK}
    with plt.rc_context(style):
        figure, axes = plt.subplots(2, 2, figsize=(11, 8.4), layout="constrained")
        for axis, (of, key, title) in zip(axes.flat, panels, strict=True):
            _panel(axis, of, key, title)
        figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
        save(
            figure,
            f"Correlation graphs of N features, {samples} samples, two threads; a cross is where a limit was passed",
            path,
            dpi=130,
        )
    return path


def _panel(axis: Any, rows: list[dict[str, Any]], key: str, title: str) -> None:

    for way, colour in COLOURS.items():
        points = [(row["N"], row[key]) for row in rows if row["way"] == way and "seconds" in row]
        if not points:
            continue
        limits = [
            (row["N"], row["at least"][key]) for row in rows if row["way"] == way and key in row.get("at least", {})
        ]
        width = 2.4 if way == "ours" else 1.4
        style = {"color": colour, "linewidth": width, "marker": "o", "markersize": 2.2 * width}
        axis.plot(*zip(*points, strict=True), **style, label="svnn" if way == "ours" else way)
        if limits:  # where it was stopped
            axis.plot(*zip(points[-1], limits[0], strict=True), color=colour, linewidth=1, linestyle=":")
            axis.plot(*limits[0], color=colour, marker="x", markersize=7)
    sizes = sorted({row["N"] for row in rows})
    axis.set(xscale="log", yscale="log", xlabel="N")
    axis.set_title(title, loc="left", fontsize=11)
    axis.set_xlim(sizes[0] / 1.2, sizes[-1] * 1.2)
    plain_axes(axis, sizes)
