"""Reading tables of text (CSV), packed or not, without a frame library; the data sets that are one such table."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._files import PathLike, find_file
from svnn.sources._memory import available_memory
from svnn.sources._text import open_text

#: Cells that stand for a missing value, in lower case.
MISSING = {"", "na", "n/a", "nan", "null", "none"}


@dataclass
class Table:
    """The cells of a table, as text."""

    path: Path
    names: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        """Return the cells of one column."""
        if self.names.count(name) > 1:
            raise ValueError(f"{self.path} has the column {name!r} twice; remove or rename one of them.")
        at = self.names.index(name)
        return [row[at].strip() for row in self.rows]

    def numbers(self, names: list[str]) -> np.ndarray:
        """Return some columns as a float64 array of shape (rows, columns); missing cells are NaN."""
        values = np.empty((len(self.rows), len(names)))
        for j, name in enumerate(names):
            values[:, j] = [number(cell, self.path, name) for cell in self.column(name)]
        return values


def number(cell: str, path: Path, column: str) -> float:
    """Return the number in a cell; a missing one is NaN."""
    if cell.lower() in MISSING:
        return np.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path}: column {column!r} holds {cell!r}, which is not a number.")
    return value


def read_table(path: PathLike) -> Table:
    """Read a table with a header and with commas, tabs or semicolons between the cells, also from a ``.gz`` file."""
    path = Path(path)
    text = _read_text(path)
    delimiter = max("\t;,", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"{path} is not a readable table (line {reader.line_num}: {error}).") from error
    if not lines:
        raise ValueError(f"{path} is empty.")
    names = [name.strip() for name in lines[0][1]]
    if len(lines) == 1:
        raise ValueError(f"{path} has a header, but no rows below it.")
    for line, row in lines[1:]:
        if len(row) != len(names):
            raise ValueError(f"{path}: line {line} has {len(row)} cells, the header has {len(names)}.")
    return Table(path, names, [row for _, row in lines[1:]])


def _read_text(path: Path) -> str:
    """Return the text of a file, or say why it is not text."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a table.")
    with open_text(path, available_memory()) as text:
        return text.read()


def load_meats(root: PathLike | None = None, *, target: str = "fat") -> Bunch:
    """Load near-infrared spectra of meat; a row is one of 215 samples of meat, a column is one of 100 wavelengths.

    The target is what the meat is made of.

    Parameters
    ----------
    root : path, optional
        The folder of ``meats.csv`` or ``meats.csv.gz``, or the file. By default the folder is that of the environment
        variable ``SVNN_DATA``.
    target : {"fat", "water", "protein"}, default="fat"
        The percentage to predict.

    Returns
    -------
    Bunch with
        X : float64 array of shape (215, 100), absorbances
        y : float64 array of shape (215,)
        groups, split : None
        feature_names, DESCR

    Notes
    -----
    The three percentages nearly sum to a constant, so the two that are not the target are never inputs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "meats.csv").write_text("x_001,x_002,water,fat,protein\\n2.6,2.7,60,22,17\\n")
    ...     data = load_meats(folder, target="protein")
    >>> data.X.tolist(), data.y.tolist()
    ([[2.6, 2.7]], [17.0])
    """
    if target not in (known := ("fat", "water", "protein")):
        raise ValueError(f"target must be one of {', '.join(known)}, got {target!r}.")
    where = "It is the table `meats` of the R package modeldata."
    table = read_table(find_file(root, ("meats.csv.gz", "meats.csv"), "meats", where))
    features = [name for name in table.names if name.startswith("x_")]
    if not features or target not in table.names:
        raise ValueError(f"{table.path} must have columns x_001, x_002, … and {target}; it has {table.names[:3]}, ….")
    return Bunch(
        X=table.numbers(features),
        y=table.numbers([target])[:, 0],
        groups=None,
        split=None,
        feature_names=features,
        DESCR=f"Near-infrared spectra of meat and its percentage of {target}, read from {table.path}.",
    )
