"""Data files: where they are, tables of text (CSV), and files inside zips."""

from __future__ import annotations

import csv
import io
import math
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from svnn.sources._frames import PathLike as PathLike
from svnn.sources._frames import read_text

#: Environment variable that names the data folder.
VARIABLE = "SVNN_DATA"
#: The errors, besides OSError, that reading a damaged zip may raise.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)
#: Every official file is far smaller than this (bytes); a zip that claims to hold a larger one is damaged or hostile.
LARGEST_FILE = 4 * 2**30
#: Cells that stand for a missing value, in lower case.
MISSING = {"", "na", "n/a", "nan", "null", "none"}


def data_root(root: PathLike | None, title: str, where: str) -> Path:
    """Return the data folder: ``root``, or else the folder that the environment variable ``SVNN_DATA`` names.

    Without either, the error names the data set by its ``title`` and says ``where`` to get it.
    """
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    raise FileNotFoundError(
        f"Where are the files of {title}? Give their folder as root=, or name it in the environment variable "
        f"{VARIABLE} (not set). {where}"
    )


def find_file(root: PathLike | None, names: tuple[str, ...], title: str, where: str) -> Path:
    """Return the file in the data folder that matches one of ``names``, which are glob patterns.

    The first pattern that any file matches decides. ``root`` may also be the file itself.
    """
    folder = data_root(root, title, where)
    if folder.is_file():
        return folder
    for name in names:
        if paths := sorted(path for path in folder.glob(name) if path.is_file()):
            return paths[-1]  # where names end in a date, this is the newest
    raise FileNotFoundError(
        f"{title}: no {' or '.join(names)} in {folder}{'' if folder.is_dir() else ' (no such folder)'}. {where} "
        f"Put it there, or name its folder with root= or the environment variable {VARIABLE}."
    )


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read one file of a zip into memory; raise a ``ValueError`` if it is damaged or absurdly large."""
    size = archive.getinfo(name).file_size
    if size > LARGEST_FILE:
        raise ValueError(
            f"{name} in {archive.filename} claims to unpack to {size} bytes; this is not an official archive."
        )
    try:
        return archive.read(name)
    except (*UNREADABLE, OSError) as error:
        raise ValueError(f"{name} in {archive.filename} cannot be read ({error}); download the zip again.") from error


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
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a table.")
    text = read_text(path).decode()
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
