"""How the figures of the experiments are put together; their colours, sizes and lines are those of all plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from svnn.plotting._style import GREY as GREY
from svnn.plotting._style import PALETTE as PALETTE
from svnn.plotting._style import Look as Look
from svnn.plotting._style import context as context
from svnn.plotting._style import looks as looks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

#: The figures of an experiment by the names of their files.
Figures: TypeAlias = "dict[str, Figure]"

#: Notes below a figure: what its lines and bands are.
MEDIANS = "medians, with bands from the lower to the upper quartile"
ADDED = "mean score on the sample covariance, plus the median change; bands from the lower to the upper quartile"
MEANS = "means, with bands of one standard deviation"


def subplots(
    rows: int, columns: int, *, width: float, height: float, sharex: bool = False, sharey: bool | Literal["row"] = False
) -> tuple[Figure, np.ndarray]:
    """Return a figure and an array of its axes of shape (rows, columns); ``width`` and ``height`` are of one panel."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = (width * columns, height * rows)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharex=sharex, sharey=sharey)


def panels(
    names: Sequence[str], across: int, *, width: float, height: float, sharex: bool = False
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a titled panel for every name, at most ``across`` side by side, and the panels by name."""
    columns = min(len(names), across)
    figure, axes = subplots(-(-len(names) // columns), columns, width=width, height=height, sharex=sharex)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    found = dict(zip(names, axes.flat, strict=False))
    for name, axis in found.items():
        axis.set_title(name)
    return figure, found


def curve(axis: Axes, summary: pd.DataFrame, x: str, y: str, *, label: str, look: Look, base: float = 0.0) -> None:
    """Draw ``base + y`` against ``x``: medians with a band between quartiles, or means with a band of one deviation."""
    summary = summary.sort_values(x)
    if f"{y}_q50" in summary:
        low, middle, high = (base + summary[f"{y}_q{q}"] for q in (25, 50, 75))
    else:
        middle, spread = base + summary[f"{y}_mean"], summary[f"{y}_std"].fillna(0)
        low, high = middle - spread, middle + spread
    axis.plot(summary[x], middle, label=label, **look)
    axis.fill_between(summary[x], low, high, color=look["color"], alpha=0.15, linewidth=0)


def curve_over_levels(axis: Axes, summary: pd.DataFrame, y: str, *, label: str, look: Look, base: float = 0.0) -> None:
    """Draw ``y`` against p. A method without a budget is one point, at the share of pairs that it keeps."""
    if len(summary) == 1:
        look = {**look, "linestyle": "none", "markersize": 9, "markeredgecolor": "white"}
    at = summary.assign(at=summary["p"].fillna(summary["density_mean"]))
    curve(axis, at, "at", y, label=label, look=look, base=base)


def reference(axis: Axes, height: float, label: str) -> None:
    """Draw a horizontal line to compare curves with; a second one on the same panel has other dashes."""
    dash = ("--", ":", "-.")[sum(line.get_gid() == "reference" for line in axis.lines) % 3]
    axis.axhline(height, color=GREY, linestyle=dash, linewidth=1.2, label=label, gid="reference")


def log_y(axis: Axes) -> None:
    """Make the y axis logarithmic, with plain numbers as ticks, where the values differ by more than a factor of 3."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.dataLim.y0, axis.dataLim.y1
    if not 0 < 3 * low < high:
        return
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low > 8 else (1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def sizes_axis(axis: Axes, values: Sequence[int], label: str) -> None:
    """Make the x axis logarithmic, with ``values``, which double from one to the next, as ticks."""
    axis.set_xscale("log")
    axis.set_xticks(list(values), [str(v) for v in values])
    axis.minorticks_off()
    axis.set_xlabel(label)


def legend_below(figure: Figure, axis: Axes, most: int = 6, note: str = MEDIANS) -> None:
    """Put one legend for all panels under the figure, in rows of at most ``most``, with a note on what is drawn."""
    handles, labels = axis.get_legend_handles_labels()
    lines = math.ceil(len(labels) / most)
    columns = math.ceil(len(labels) / lines)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=note, title_fontsize=9)


def label_ends(axis: Axes, ends: Sequence[tuple[str, float, str]], gap: float) -> None:
    """Write a name beside the right end of every line, in its colour, at least ``gap`` apart and so in another height.

    ``ends`` holds names, heights and colours. Of lines that end at the same height the first is written on top.
    """
    at = math.inf
    for name, height, colour in sorted(ends, key=lambda end: -end[1]):
        at = min(height, at - gap)
        axis.annotate(
            name, (1, at), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            va="center", color=colour, fontsize=9, annotation_clip=False,
        )  # fmt: skip


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, close it, and return the two files."""
    import matplotlib.pyplot as plt

    files = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    figure.savefig(files[0])
    figure.savefig(files[1], metadata={"CreationDate": None})
    plt.close(figure)
    return files
