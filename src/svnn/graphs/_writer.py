"""Edges to files as they come. A file or folder is complete, or it is not there."""

from __future__ import annotations

import json
import os
import shutil
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

PARQUET = (".parquet", ".pq")
#: Edges in a row group of Parquet, and in a file where there are several.
GROUP, _PART = 2**20, 2**25
#: Where Parquet files say how many nodes there are, and their names.
ABOUT = b"svnn"


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return where edges are to be written, or raise an error where they cannot be."""
    path = Path(path).expanduser()
    if not path.absolute().parent.is_dir():
        raise NotADirectoryError(f"out: there is no folder {path.parent}; make it first.")
    if path.is_dir():
        if any(path.iterdir()):
            raise FileExistsError(f"out: {path} is a folder that is not empty; name a new folder, or a file.")
    elif path.suffix.lower() not in (*PARQUET, ".csv", ".npz", ""):
        raise ValueError(
            f"out: {path} has the ending {path.suffix!r}; use .parquet, .csv, .npz, or a folder without one."
        )
    elif path.exists() and not path.suffix:
        raise FileExistsError(f"out: {path} is a file; a name without an ending is a folder.")
    if file_kind(path) in ("parquet", "folder"):
        need_parquet(path)
    return path


def streams(path: Path) -> bool:
    """Tell whether edges can be written one after the other."""
    return file_kind(path) != "npz"


class EdgeWriter:
    """Writes edges as they come; a file or folder of another name becomes the one asked for at the end.

    Parameters
    ----------
    path : Path
    n_features : int
    names : ndarray of shape (N,), optional
    """

    def __init__(self, path: Path, n_features: int, names: np.ndarray | None = None) -> None:
        self.path, self.n_features, self.names = path, n_features, names
        self._kind = file_kind(path)
        self._unfinished = unfinished(path)
        self._held: list[tuple[np.ndarray, ...]] = []
        self._size = self._in_part = self._parts = 0
        self._sink: Any = None
        self._text: IO[str] | None = None
        self._words: Any = None
        if names is not None and self._kind == "csv":
            self._words = np.array([_cell(name) for name in names], dtype=object)

    def __enter__(self) -> Self:
        if self._kind == "folder":
            self._unfinished.mkdir()
        elif self._kind == "csv":
            self._text = open(self._unfinished, "w", encoding="utf-8", newline="")
            self._text.write("source,target,weight\n")
        return self

    def add(self, source: np.ndarray, target: np.ndarray, weight: np.ndarray) -> None:
        """Add edges; they are written when there are enough of them for a row group."""
        self._held.append((source, target, weight))
        self._size += len(source)
        if self._size >= GROUP:
            self._write()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and (self._held or self._sink is None):
                self._write()
            for each in (self._sink, self._text):
                if each is not None:
                    each.close()
            if kind is None:
                self._unfinished.replace(self.path)
        finally:
            if self._unfinished.is_dir():
                shutil.rmtree(self._unfinished, ignore_errors=True)
            else:
                self._unfinished.unlink(missing_ok=True)

    def _write(self) -> None:
        """Write what is held."""
        if not self._held:
            self._held.append((np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0)))
        source, target, weight = (np.concatenate(part) for part in zip(*self._held, strict=True))
        self._held, self._size = [], 0
        if self._text is not None:
            ends = (part.tolist() if self._words is None else self._words[part] for part in (source, target))
            self._text.writelines(f"{a},{b},{w}\n" for a, b, w in zip(*ends, map(str, weight), strict=True))
            return
        table = _arrow_table(source, target, weight, self.n_features, self.names)
        if self._sink is None:
            path = self._unfinished
            if self._kind == "folder":
                path = path / f"part-{self._parts:05}.parquet"
                self._parts, self._in_part = self._parts + 1, 0
            self._sink = import_module("pyarrow.parquet").ParquetWriter(path, table.schema)
        self._sink.write_table(table)
        self._in_part += len(source)
        if self._kind == "folder" and self._in_part >= _PART:
            self._sink.close()
            self._sink = None


def _cell(name: str) -> str:
    """Return a name as CSV; one of digits has quotes, so that nobody takes it for the number of a node."""
    plain = name and not name.isdigit() and not any(each in name for each in ',"\r\n')
    return name if plain else '"' + name.replace('"', '""') + '"'


def unfinished(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.absolute().parent / f".{path.name}.{os.getpid()}.part"


def file_kind(path: Path) -> str:
    """Return what a path is by its ending: "parquet", "csv", "npz", or "folder"."""
    ending = path.suffix.lower()
    if path.is_dir() or not ending:
        return "folder"
    return {".csv": "csv", ".npz": "npz"}.get(ending, "parquet")


def need_parquet(path: Path) -> Any:
    """Return the package that reads and writes Parquet, or say how to get it."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError(f'{path}: Parquet needs pyarrow: pip install "svnn[files]", or use .csv or .npz.') from None


def _arrow_table(source: np.ndarray, target: np.ndarray, weight: np.ndarray, n: int, names: np.ndarray | None) -> Any:
    """Return edges as a table of Arrow; names are stored once, and the edges point to them."""
    pa = import_module("pyarrow")
    about = {"n_features": n}
    ends = [pa.array(part.astype(np.int32)) for part in (source, target)]
    if names is not None:
        about["names"] = names.tolist()
        words = pa.array(names.tolist(), pa.string())
        ends = [pa.DictionaryArray.from_arrays(part, words) for part in ends]
    table = pa.table({"source": ends[0], "target": ends[1], "weight": pa.array(weight)})
    return table.replace_schema_metadata({ABOUT: json.dumps(about).encode()})
