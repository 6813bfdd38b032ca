"""The picture of ``make rivals``: mean ranks on a line, models that cannot be told apart joined by bars."""

from __future__ import annotations

from math import ceil, floor
from pathlib import Path
from typing import Any

from _ranks import alike
from plot import COLOURS, INK, save

#: Room above the line of ranks, and between two names, in rows.
TOP, STEP = 1.5, 0.62


def draw(places: dict[str, float], difference: float, tables: int, path: Path) -> Path:
    """Draw the mean rank of every model, the critical difference and the groups within it, into a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = sorted(places, key=lambda name: places[name])
    bars = alike([places[name] for name in names], difference)
    left = names[: ceil(len(names) / 2)]
    low = floor(min(places.values()))
    high = ceil(max(*places.values(), low + difference))  # the scale holds the critical difference too
    below = 0.42 + 0.24 * len(bars)
    depth = below + STEP * (len(left) - 0.4)
    with plt.rc_context({"font.size": 10, "text.color": INK}):
        figure, axis = plt.subplots(figsize=(8, 0.5 + 0.45 * (depth + TOP)), layout="constrained")
        width = high - low
        axis.set_xlim(low - 0.36 * width, high + 0.36 * width)
        axis.set_ylim(depth, -TOP)
        axis.axis("off")
        _scale(axis, low, high, difference)
        for i, (first, last) in enumerate(bars):
            ends = places[names[first]], places[names[last]]
            axis.plot(ends, [0.32 + 0.24 * i] * 2, color=INK, linewidth=3, solid_capstyle="round", alpha=0.75)
        for i, name in enumerate(left):
            _name(axis, name, places[name], below + STEP * i, low - 0.03 * width, "right")
        for i, name in enumerate(reversed(names[len(left) :])):
            _name(axis, name, places[name], below + STEP * i, high + 0.03 * width, "left")
        title = (
            f"Mean ranks over {tables} tables: 1 is the best; bars join those that cannot be told apart (Nemenyi, 5 %)"
        )
        save(figure, title, path, size=11)
    return path


def _scale(axis: Any, low: int, high: int, difference: float) -> None:
    """Draw the line of ranks, and the critical difference above its left end."""
    axis.plot([low, high], [0, 0], color=INK, linewidth=1)
    for rank in range(low, high + 1):
        axis.plot([rank, rank], [0, -0.14], color=INK, linewidth=1)
        axis.text(rank, -0.24, str(rank), ha="center", va="bottom")
    axis.plot([low, low + difference], [-0.9, -0.9], color=INK, linewidth=1.4, marker="|", markersize=7)
    axis.text(
        low + difference / 2, -1.02, f"critical difference {difference:.1f}", ha="center", va="bottom", fontsize=9
    )


def _name(axis: Any, name: str, rank: float, height: float, edge: float, align: str) -> None:
    """Write a model's name beside the line, with its rank, and lead to its place."""
    ours = name == "svnn"
    colour = COLOURS["ours"] if ours else INK
    axis.plot(
        [rank, rank, edge], [0, height, height], color=colour if ours else "#999999", linewidth=1.6 if ours else 0.9
    )
    axis.plot([rank], [0], color=colour, marker="o", markersize=5 if ours else 4, zorder=4 if ours else 3)
    text = f"{name}  {rank:.1f} " if align == "right" else f" {rank:.1f}  {name}"
    axis.text(edge, height, text, ha=align, va="center", color=colour, fontweight="bold" if ours else "normal")
