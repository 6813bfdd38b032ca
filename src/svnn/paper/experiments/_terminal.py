"""What the terminal shows: tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from svnn._jobs import Row

if TYPE_CHECKING:
    import pandas as pd


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
