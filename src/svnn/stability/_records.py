"""A table as a list of records, which pandas and polars read, and which prints with aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class Records(list[dict[str, Any]]):
    """Rows of a table, each a dict with the same keys; ``pandas.DataFrame(records)`` makes a frame of them.

    Examples
    --------
    >>> table = Records([{"n": 50, "error": 0.25}, {"n": 50, "error": 0.5}, {"n": 100, "error": 0.125}])
    >>> print(table.mean("n"))
      n  error
     50  0.375
    100  0.125
    >>> table["error"]
    array([0.25 , 0.5  , 0.125])
    """

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self[0]) if len(self) else []

    def __getitem__(self, key: Any) -> Any:
        """Return a row by its number, a column by its name."""
        return np.array([row[key] for row in self]) if isinstance(key, str) else super().__getitem__(key)

    def mean(self, by: str) -> Records:
        """Return the means of the numeric columns over the rows that agree in column ``by``."""
        numeric = [c for c in self.columns if c != by and self[c].dtype.kind in "fiu"]
        groups = list(dict.fromkeys(row[by] for row in self))
        return Records(
            {by: group, **{c: float(np.mean([row[c] for row in self if row[by] == group])) for c in numeric}}
            for group in groups
        )

    def __str__(self) -> str:
        return aligned(self.columns, ([row[c] for c in self.columns] for row in self))


def aligned(header: Sequence[str], rows: Iterable[Sequence[Any]], digits: str = ".4g") -> str:
    """Return a table as text: words to the left, numbers to the right, floats in the format ``digits``."""
    rows = [list(row) for row in rows]
    text = [[format(value, digits) if isinstance(value, float) else str(value) for value in row] for row in rows]
    cells = [list(header), *text]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = [any(isinstance(value, str) for value in column) for column in zip(*rows, strict=True)] or [True] * len(
        widths
    )
    lines = (
        "  ".join(c.ljust(w) if words else c.rjust(w) for c, w, words in zip(line, widths, left, strict=True))
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)
