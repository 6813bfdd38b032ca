"""How all plots look: one set of colours, sizes and lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from svnn.experiments._jobs import Row
from svnn.experiments._tables import column

#: Colours that remain apart for colour-blind readers (Okabe & Ito), and the marker that goes with each.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5A5A5A", "#8B6914", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES = ("-", "--", "-.", ":")

RC: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}


def context() -> Any:
    """Return the context in which figures are made and saved."""
    import matplotlib as mpl

    return mpl.rc_context(RC)


def subplots(rows: int, columns: int, *, width: float = 4.2, height: float = 3.3, **more: Any) -> tuple[Any, Any]:
    """Return a figure in this style and its axes as an array of shape (rows, columns)."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = (width * columns, height * rows)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **more)


def panels(names: Sequence[str], across: int, **more: Any) -> tuple[Any, dict[str, Any]]:
    """Return a figure with a titled panel for every name, at most ``across`` in a row, and the panels by name."""
    columns = min(len(names), across)
    figure, axes = subplots(-(-len(names) // columns), columns, **more)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    found = dict(zip(names, axes.flat, strict=False))
    for name, axis in found.items():
        axis.set_title(name)
    return figure, found


def look(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour, marker and dashes for every name, the same in all panels of a figure."""
    return {
        name: {
            "color": PALETTE[i % len(PALETTE)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(PALETTE) % len(DASHES)],
        }
        for i, name in enumerate(names)
    }


def curve(axis: Any, rows: Iterable[Row], x: str, y: str, *, base: float = 0.0, **style: Any) -> None:
    """Draw ``base + y`` against ``x``: medians and a band of quartiles where there are any, else means and one std."""
    rows = sorted(rows, key=lambda row: row[x])
    if f"{y}_q50" in rows[0]:
        low, middle, high = (base + column(rows, f"{y}_q{q}") for q in (25, 50, 75))
    else:
        middle, spread = base + column(rows, f"{y}_mean"), np.nan_to_num(column(rows, f"{y}_std"))
        low, high = middle - spread, middle + spread
    axis.plot(column(rows, x), middle, **style)
    axis.fill_between(column(rows, x), low, high, color=style["color"], alpha=0.15, linewidth=0)


def level(axis: Any, rows: Iterable[Row], y: str, **style: Any) -> None:
    """Draw ``y`` against p; a method without a budget is one point, at the share of entries that it keeps."""
    rows = [{**row, "at": row["density_mean"] if row["p"] is None else row["p"]} for row in rows]
    if len(rows) == 1:
        style = {**style, "linestyle": "none", "markersize": 9, "markeredgecolor": "white"}
    curve(axis, rows, "at", y, **style)


def reference(axis: Any, height: float, label: str) -> None:
    """Draw a horizontal line that curves are compared with; the next one on the same panel has other dashes."""
    dash = ("--", ":", "-.")[sum(line.get_gid() == "reference" for line in axis.lines) % 3]
    axis.axhline(height, color="#5A5A5A", linestyle=dash, linewidth=1.2, label=label, gid="reference")


def symlog_y(axis: Any, linear: float) -> None:
    """Make the y axis logarithmic beyond ``linear`` on both sides of zero, with plain numbers as ticks."""
    axis.set_yscale("symlog", linthresh=linear)
    axis.yaxis.set_major_formatter("{x:g}")


def log_y(axis: Any) -> None:
    """Make the y axis logarithmic, with plain numbers as ticks, where the values differ by a factor of three."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.dataLim.y0, axis.dataLim.y1
    if not 0 < 3 * low < high:
        return
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low > 8 else (1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


#: How scores that differ between data sets are shown: what a change of the covariance adds to them.
ADDED = "medians of the change, on top of the mean, and bands of quartiles"


def legend_below(figure: Any, axis: Any, most: int = 6, note: str = "medians, and bands of quartiles") -> None:
    """Put one legend for all panels under the figure, in rows of about equal length, with a word on what is drawn."""
    handles, labels = axis.get_legend_handles_labels()
    lines = math.ceil(len(labels) / most)
    columns = math.ceil(len(labels) / lines)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=note, title_fontsize=9)


def sizes_axis(axis: Any, values: Sequence[int], label: str) -> None:
    """Make the x axis one of numbers that double: logarithmic, with the numbers themselves as ticks."""
    axis.set_xscale("log")
    axis.set_xticks(list(values), [str(v) for v in values])
    axis.minorticks_off()
    axis.set_xlabel(label)


def save(figure: Any, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF and close it; returns the files."""
    import matplotlib.pyplot as plt

    files = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    figure.savefig(files[0])
    figure.savefig(files[1], metadata={"CreationDate": None})
    plt.close(figure)
    return files
