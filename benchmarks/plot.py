"""The plot of the benchmark: time against density, time against N, memory against N.

``python benchmarks/plot.py runs/bench/curves.json`` draws it again from a stored result.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLOURS = {"ours": "#c1272d", "textbook": "#444444", "torch CSR": "#1f6fb4", "PyG CSR": "#7a5195"}
LABELS = {"ours": "svnn", "textbook": "textbook (dense)", "torch CSR": "torch CSR", "PyG CSR": "PyG TAGConv"}
INK, FAINT = "#333333", "#dddddd"


def draw(result: dict[str, Any], path: Path) -> Path:
    """Draw the three panels from the result of ``curves.measure`` into a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style = {"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK}
    with plt.rc_context(style):
        figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
        density, size, memory = result["density"], result["size"], result["memory"]
        panels = (
            (density, "ms", "density", f"Time against density, N = {density['nodes']:,}", "milliseconds"),
            (size, "ms", "N", f"Time against N, density {size['density']:g}", "milliseconds"),
            (memory, "GB", "N", f"Memory against N, density {memory['density']:g}", "GB beside the sparse matrix"),
        )
        for axis, (curve, unit, x, title, y) in zip(axes, panels, strict=True):
            _panel(axis, curve["x"], curve[unit], title, x, y)
        save(
            figure,
            f"Forward + backward of one covariance filter: {result['batch']} samples, "
            f"{result['features']} → 32 features, K = 3, float32, CPU",
            path,
        )
    return path


def save(figure: Any, title: str, path: Path, dpi: int = 150, size: int = 12) -> None:
    """Write a figure with a title at its left, and close it."""
    import matplotlib.pyplot as plt

    figure.suptitle(title, x=0.01, ha="left", fontsize=size)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
    plt.close(figure)


def _panel(axis: Any, xs: list[float], curves: dict[str, list[float | None]], title: str, x: str, y: str) -> None:

    ends = []
    for name, values in curves.items():
        points = [(a, b) for a, b in zip(xs, values, strict=True) if b]
        if not points:
            continue
        width = 2.4 if name == "ours" else 1.4
        axis.plot(*zip(*points, strict=True), color=COLOURS[name], linewidth=width, marker="o", markersize=2.2 * width)
        ends.append((name, *points[-1]))
    axis.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axis.set_title(title, loc="left", fontsize=11)
    axis.set_xlim(min(xs) / 1.3, max(xs) * (max(xs) / min(xs)) ** 0.45)  # room for the names at the right
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * (high / low) ** 0.06)
    plain_axes(axis, xs)
    _name_curves(axis, ends)


def plain_axes(axis: Any, xs: Sequence[float]) -> None:
    """Give logarithmic axes plain numbers, marks at ``xs``, and lines across."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axis.xaxis.set_major_locator(FixedLocator(list(xs)))
    axis.xaxis.set_minor_locator(NullLocator())
    plain = FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e4 else f"{value:,.0f}")
    axis.xaxis.set_major_formatter(plain)
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.grid(axis="y", color=FAINT, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _name_curves(axis: Any, ends: list[tuple[str, float, float]]) -> None:
    """Write each name beside its curve's last point, moved apart where they would overlap."""
    low, high = axis.get_ylim()
    gap = (high / low) ** 0.055
    previous = 0.0
    for name, x, y in sorted(ends, key=lambda end: end[2]):
        place = max(y, previous * gap)
        axis.annotate(
            LABELS[name],
            (x, y),
            xytext=(x * (axis.get_xlim()[1] / axis.get_xlim()[0]) ** 0.02, place),
            color=COLOURS[name],
            fontweight="bold" if name == "ours" else "normal",
            va="center",
        )
        previous = place


if __name__ == "__main__":
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/bench/curves.json")
    print("written:", draw(json.loads(source.read_text())["curves"], source.with_suffix(".png")))
