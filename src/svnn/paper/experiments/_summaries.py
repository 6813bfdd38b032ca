"""Tables as pandas frames: means over repeats, and CSV files in which equal results are equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pandas as pd

#: The tables of an experiment by the names of their files.
Tables: TypeAlias = dict[str, pd.DataFrame]
QUARTILES = (25, 50, 75)


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
