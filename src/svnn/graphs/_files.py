"""Files of edges: Parquet, in one file or several, CSV, and the matrix as NPZ. A file is complete or not there."""

from __future__ import annotations

import csv
import json
import os
import shutil
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import scipy.sparse as sp

from svnn._types import MatrixLike
from svnn.graphs._edges import upper_edges
from svnn.graphs._graph import Graph, as_graph, unique_names, with_matrix

PARQUET = (".parquet", ".pq")
#: Edges in a row group of Parquet, and in a file where there are several.
_GROUP, _PART = 2**20, 2**25
#: Where Parquet files say how many nodes there are, and their names.
_ABOUT = b"svnn"


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
    if _kind(path) in ("parquet", "folder"):
        _need("pyarrow.parquet", path)
    return path


def streams(path: Path) -> bool:
    """Tell whether edges can be written one after the other."""
    return _kind(path) != "npz"


def write_edges(C: Graph | MatrixLike, path: str | os.PathLike[str], names: Any = None) -> Graph:
    """Write the edges of a graph, each once, to a file that is there only when it is complete.

    Parameters
    ----------
    C : Graph, or symmetric matrix of shape (N, N), operator or fitted covariance estimator
        The diagonal is left out.
    path : path
        ``.parquet`` and ``.csv`` have the columns source, target and weight: nodes are names where the graph has
        some, else numbers from 0. ``.npz`` is the matrix, as ``scipy.sparse.load_npz`` reads it. Any other name is a
        folder for Parquet files of up to 33 million edges each.
    names : sequence of N names, optional
        By default those of the graph, where it has some.

    Returns
    -------
    Graph
        Without its matrix, and with ``path``.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/edges.csv"
    >>> _ = write_edges([[1, 0.5, 0], [0.5, 1, -0.2], [0, -0.2, 1]], path, names=["a", "b", "c"])
    >>> print(open(path).read().strip())
    source,target,weight
    a,b,0.5
    b,c,-0.2
    """
    path, graph = check_target(path), as_graph(C, names)
    assert graph.matrix is not None
    if _kind(path) == "npz":
        _write_npz(path, graph.matrix, graph.names)
    else:
        source, target, weight = upper_edges(graph.matrix)
        with EdgeWriter(path, graph.n_features, graph.names) as writer:
            for a in range(0, max(len(source), 1), _GROUP):
                part = slice(a, a + _GROUP)
                writer.add(source[part], target[part], weight[part])
    return Graph(
        None, graph.names, graph.degrees, graph.n_samples, constant=graph.constant, threshold=graph.threshold, path=path
    )


def read_edges(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file or folder that :func:`write_edges` wrote, or of any table of edges.

    Parameters
    ----------
    path : path
        Parquet, a folder of it, or CSV with the columns source, target and weight; or NPZ. Nodes that have no edge
        are known from Parquet and NPZ only.

    Returns
    -------
    Graph

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("pyarrow")
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/edges.parquet"
    >>> _ = write_edges([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], path)
    >>> read_edges(path)
    Graph(3 features, 1 edge)
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if _kind(path) == "npz":
        with np.load(path, allow_pickle=False) as archive:
            names = archive["names"] if "names" in archive.files else None
        return with_matrix(sp.csr_array(sp.load_npz(path)), unique_names(names))
    source, target, weight, n, names = _read_csv(path) if _kind(path) == "csv" else _read_parquet(path)
    if names is None and not all(np.issubdtype(part.dtype, np.integer) for part in (source, target)):
        found, places = np.unique(np.concatenate([source, target]).astype(str), return_inverse=True)
        names, (source, target) = found, np.split(places, 2)
    elif names is not None and not np.issubdtype(source.dtype, np.integer):
        place = {name: i for i, name in enumerate(names)}
        source, target = (np.array([place[each] for each in part], dtype=np.int64) for part in (source, target))
    n = n or (len(names) if names is not None else int(max(source.max(initial=-1), target.max(initial=-1))) + 1)
    places = (np.concatenate([source, target]), np.concatenate([target, source]))
    return with_matrix(sp.csr_array((np.tile(weight, 2), places), shape=(n, n)), unique_names(names))


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
        self._kind = _kind(path)
        self._unfinished = path.absolute().parent / f".{path.name}.{os.getpid()}.part"
        self._held: list[tuple[np.ndarray, ...]] = []
        self._size = self._in_part = self._parts = 0
        self._sink: Any = None
        self._text: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._kind == "folder":
            self._unfinished.mkdir()
        elif self._kind == "csv":
            self._text = open(self._unfinished, "w", encoding="utf-8", newline="")
            csv.writer(self._text, lineterminator="\n").writerow(("source", "target", "weight"))
        return self

    def add(self, source: np.ndarray, target: np.ndarray, weight: np.ndarray) -> None:
        """Add edges; they are written when there are enough of them for a row group."""
        self._held.append((source, target, weight))
        self._size += len(source)
        if self._size >= _GROUP:
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
            ends = (source, target) if self.names is None else (self.names[source], self.names[target])
            rows = zip(*(part.tolist() for part in ends), map(str, weight), strict=True)
            csv.writer(self._text, lineterminator="\n").writerows(rows)
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


def _kind(path: Path) -> str:
    ending = path.suffix.lower()
    if path.is_dir() or not ending:
        return "folder"
    return {".csv": "csv", ".npz": "npz"}.get(ending, "parquet")


def _need(package: str, path: Path) -> Any:
    try:
        return import_module(package)
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
    return table.replace_schema_metadata({_ABOUT: json.dumps(about).encode()})


def _read_parquet(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, Any]:
    pq, pa = _need("pyarrow.parquet", path), import_module("pyarrow")
    files = sorted(each for each in path.iterdir() if each.suffix.lower() in PARQUET) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} is a folder without Parquet files.")
    try:
        tables = [pq.read_table(file, columns=["source", "target", "weight"]) for file in files]
        table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{path}: no table of source, target and weight: {' '.join(str(error).split())}") from None
    if table.column_names != ["source", "target", "weight"]:
        raise ValueError(f"{path} has the columns {', '.join(table.column_names)}; it needs source, target and weight.")
    about = json.loads((tables[0].schema.metadata or {}).get(_ABOUT, b"{}"))
    names = about.get("names")
    parts = []
    for name in ("source", "target"):
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        parts.append(column.to_numpy())
    return parts[0], parts[1], table["weight"].to_numpy(), int(about.get("n_features", 0)), names


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, Any]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        if next(rows, None) != ["source", "target", "weight"]:
            raise ValueError(f"{path} must have the columns source, target and weight.")
        listed = list(rows)
    source, target, weight = (np.array([row[i] for row in listed], dtype=str) for i in range(3))
    if all(each.isdecimal() for part in (source, target) for each in part):
        source, target = source.astype(np.int64), target.astype(np.int64)
    return source, target, weight.astype(np.float64), 0, None


def _write_npz(path: Path, matrix: sp.csr_array, names: np.ndarray | None) -> None:
    unfinished = path.absolute().parent / f".{path.name}.{os.getpid()}.part"
    parts: dict[str, Any] = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    if names is not None:
        parts["names"] = names.astype(str)
    try:
        with open(unfinished, "wb") as file:
            np.savez_compressed(
                file, **parts, shape=matrix.shape, format=b"csr", _is_array=np.array(True), allow_pickle=False
            )
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
