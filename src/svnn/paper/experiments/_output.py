"""From results to tables and figures: means over repeats, CSV files, tables on the screen, and plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pandas as pd
from rich import box
from rich.table import Table

from svnn._jobs import Row
from svnn.plotting._style import GREY as GREY
from svnn.plotting._style import PALETTE as PALETTE
from svnn.plotting._style import Look as Look
from svnn.plotting._style import context as context
from svnn.plotting._style import looks as looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

#: The tables of an experiment by the names of their files.
Tables: TypeAlias = dict[str, pd.DataFrame]
QUARTILES = (25, 50, 75)
#: The figures of an experiment by the names of their files.
Figures: TypeAlias = "dict[str, Figure]"

#: Notes below a figure: what its lines and bands are.
MEDIANS = "medians, with bands from the lower to the upper quartile"
ADDED = "mean score on the sample covariance, plus the median change; bands from the lower to the upper quartile"


# -- tables ---------------------------------------------------------------------------------------------------


def summarise(
    frame: pd.DataFrame, by: Sequence[str], values: Sequence[str], quartiles: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the mean, the standard deviation and the number of the rows that agree in the columns ``by``.

    Parameters
    ----------
    frame : DataFrame
    by : sequence of str
        A missing value counts as a value. Groups keep the order in which they first appear.
    values : sequence of str
        The columns to average. The standard deviation is that of a sample (ddof=1): NaN for a single row.
    quartiles : sequence of str
        Those of ``values`` of which the three quartiles are given too. A single bad draw does not move quartiles.

    Returns
    -------
    DataFrame

    Examples
    --------
    >>> rows = pd.DataFrame({"T": [50, 50, 99], "f1": [0.5, 1.0, 1.0]})
    >>> print(summarise(rows, by=["T"], values=["f1"]))
        T  f1_mean    f1_std  n
    0  50     0.75  0.353553  2
    1  99     1.00       NaN  1
    """
    numbers = frame.reindex(columns=[*by, *values]).astype(dict.fromkeys(values, float))
    groups = numbers.groupby(list(by), sort=False, dropna=False)
    columns: dict[str, pd.Series] = {}
    for name in values:
        columns[f"{name}_mean"] = groups[name].mean()
        columns[f"{name}_std"] = groups[name].std()
        if name in quartiles:
            columns |= {f"{name}_q{q}": groups[name].quantile(q / 100) for q in QUARTILES}
    return pd.DataFrame({**columns, "n": groups.size()}).reset_index()


def by_level(summary: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the medians of ``value`` with a row for every method and a column for every level p."""
    levels = summary["p"].map(lambda p: "no budget" if pd.isna(p) else f"p = {p}")
    wide = summary.assign(level=levels).pivot(index="method", columns="level", values=f"{value}_q50")
    wide = wide.reindex(index=summary["method"].unique(), columns=levels.unique())
    return wide.rename_axis(columns=None).reset_index()


def write_csv(path: Path, frame: pd.DataFrame) -> Path:
    """Write a frame to a file, floats with six digits, and return the path."""
    text = frame.apply(lambda column: column.map(cell) if column.dtype == object else column)
    text.to_csv(path, index=False, float_format="%.6g", lineterminator="\n", encoding="utf-8")
    return path


def cell(value: object) -> object:
    """Return a value as it stands in a CSV file: settings as ``name=value``, lists with hyphens.

    Examples
    --------
    >>> cell("VNN"), cell({"layers": 2, "mlp": [32, 32]}), cell({})
    ('VNN', 'layers=2 mlp=32-32', 'defaults')
    """
    if isinstance(value, dict):
        return " ".join(f"{name}={cell(part)}" for name, part in value.items()) or "defaults"
    if isinstance(value, (list, tuple)):
        return "-".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) and value == value else value


def screen_table(title: str, frame: pd.DataFrame) -> Table:
    """Return a frame as a table for the terminal, with ``x_mean`` and ``x_std`` in one column ``x``."""
    rows: list[Row] = frame.to_dict("records")
    names = [str(name).removesuffix("_mean") for name in frame if not str(name).endswith("_std") and name != "n"]
    table = Table(title=title, title_justify="left", pad_edge=False, box=box.SIMPLE_HEAD)
    for name in names:
        words = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(name.replace("_", " "), justify="left" if words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_text(row, name) for name in names))
    return table


def _text(row: Row, name: str) -> str:
    mean, std = row.get(f"{name}_mean"), row.get(f"{name}_std", math.nan)
    if not isinstance(mean, float) or not isinstance(std, float):
        value = row.get(name)
        return str(value) if isinstance(value, (str, int)) else _number(value)
    if math.isnan(mean):
        return _number(mean)
    # The mean gets as many decimals as are needed to show the first two digits of the spread.
    spread = std if std > 0 else abs(mean) / 10
    decimals = min(max(1 - math.floor(math.log10(spread)), 0), 3) if spread > 0 else 2
    return f"{mean:.{decimals}f}" + ("" if math.isnan(std) else f" ± {std:.{decimals}f}")


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and not math.isnan(value) else "–"


# -- figures --------------------------------------------------------------------------------------------------


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
    by_name = dict(zip(names, axes.flat, strict=False))
    for name, axis in by_name.items():
        axis.set_title(name)
    return figure, by_name


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
    """Write a name beside the right end of every line, in its colour; names are at least ``gap`` apart.

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
