"""Tables: means over repeats, CSV files with fixed digits, and what the terminal shows."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from svnn.experiments._jobs import Row

QUARTILES = (0.25, 0.5, 0.75)


def summarise(
    rows: Iterable[Row], by: Sequence[str], values: Sequence[str], quartiles: Sequence[str] = ()
) -> list[Row]:
    """Return mean, standard deviation and number of ``values`` over the rows that agree in ``by``.

    Of those that are in ``quartiles`` too, also the three quartiles, which a single bad draw does not move. The
    standard deviation is that of a sample (ddof 1), NaN where there is one row only. Groups come in the order of their
    first row.

    Examples
    --------
    >>> summarise([{"T": 50, "f1": 0.5}, {"T": 50, "f1": 1.0}, {"T": 99, "f1": 1.0}], by=["T"], values=["f1"])[0]
    {'T': 50, 'f1_mean': 0.75, 'f1_std': 0.3535533905932738, 'n': 2}
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(cell(row.get(name)) for name in by), []).append(row)
    summary = []
    for members in groups.values():
        out: Row = {name: members[0].get(name) for name in by}
        for name in values:
            numbers = [m[name] for m in members if m.get(name) is not None]
            out[f"{name}_mean"] = float(np.mean(numbers)) if numbers else math.nan
            out[f"{name}_std"] = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else math.nan
            if name in quartiles:
                parts = np.quantile(numbers, QUARTILES) if numbers else [math.nan] * 3
                out |= {f"{name}_q{round(100 * q)}": float(part) for q, part in zip(QUARTILES, parts, strict=True)}
        summary.append({**out, "n": len(members)})
    return summary


def by_level(summary: Iterable[Row], value: str) -> list[Row]:
    """Return a line for every method, with the median of ``value`` at each p in columns."""
    lines: dict[str, Row] = {}
    for row in summary:
        at = "no budget" if row["p"] is None else f"p = {row['p']}"
        line = lines.setdefault(row["method"], {"method": row["method"]})
        line[at] = row[f"{value}_q50"]
    return list(lines.values())


def where(rows: Iterable[Row], **conditions: Any) -> list[Row]:
    """Return the rows that have these values.

    Examples
    --------
    >>> where([{"T": 50, "f1": 0.5}, {"T": 99, "f1": 1.0}], T=99)
    [{'T': 99, 'f1': 1.0}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in conditions.items())]


def column(rows: Iterable[Row], name: str) -> np.ndarray:
    """Return one column as floats."""
    return np.array([row[name] for row in rows], dtype=float)


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Return the values of a column, each once, in the order of their first row."""
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    """Write a table; floats with six digits, so that equal results are equal bytes."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return path


def cell(value: Any) -> str:
    """Return a value as it stands in a CSV file.

    Examples
    --------
    >>> cell(1 / 3), cell(100), cell(None), cell(float("nan")), cell({"layers": 2, "mlp": [32, 32]})
    ('0.333333', '100', '', '', 'layers=2 mlp=32-32')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return format(value, ".6g")
    if isinstance(value, dict):
        return " ".join(f"{name}={cell(part)}" for name, part in value.items()) or "defaults"
    return "-".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def shown(title: str, rows: Sequence[Row]) -> Table:
    """Return rows as a table for the terminal; ``x_mean`` and ``x_std`` share a column ``x``."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [name.removesuffix("_mean") for name in names if not name.endswith("_std") and name != "n"]
    table = Table(title=title, title_justify="left", pad_edge=False, box=box.SIMPLE_HEAD)
    for name in names:
        words = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(name.replace("_", " "), justify="left" if words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_text(row, name) for name in names))
    return table


def _text(row: Row, name: str) -> str:
    if f"{name}_mean" not in row:
        value = row.get(name)
        return format(value, ".4g") if isinstance(value, float) and not math.isnan(value) else cell(value) or "–"
    mean, std = row[f"{name}_mean"], row.get(f"{name}_std", math.nan)
    if math.isnan(mean):
        return "–"
    # As many decimals as the first digits of the spread need.
    spread = std if std > 0 else abs(mean) / 10
    decimals = min(max(1 - math.floor(math.log10(spread)), 0), 3) if spread > 0 else 2
    return f"{mean:.{decimals}f}" + ("" if math.isnan(std) else f" ± {std:.{decimals}f}")
