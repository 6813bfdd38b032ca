"""Graphs in files: edges as Parquet, in one file or several, or CSV; the matrix as NPZ.

Edges are written as they come. A file or folder is complete, or it is not there.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import scipy.sparse as sp

from svnn._types import MatrixLike
from svnn.functional._sparse import check_sparse
from svnn.functional.correlations import symmetric_matrix
from svnn.graphs._graph import Graph, as_graph, unique_names, upper_edges, with_matrix
from svnn.sources._table import naming, need

PARQUET = (".parquet", ".pq")
#: Edges in a row group of Parquet, and in a file where there are several.
GROUP, _PART = 2**20, 2**25
#: Where Parquet files say how many nodes there are, and their names.
ABOUT = b"svnn"
_COLUMNS = ("source", "target", "weight")
#: A node by its number in a file: from 0, below this limit. All else is a name.
_NUMBER, _NUMBERS = re.compile(r"0|[1-9][0-9]{0,7}"), 10**8
#: Weights of one edge may differ by this share, by the rounding of single precision.
_ROUNDING = 1e-5


def write_edges(C: Graph | MatrixLike, path: str | os.PathLike[str], names: Any = None) -> Graph:
    """Write the edges of a graph, each once, to a file that is there only when it is complete.

    Parameters
    ----------
    C : Graph, or symmetric matrix of shape (N, N), operator or fitted covariance estimator
        The diagonal is left out.
    path : path
        ``.parquet`` and ``.csv`` have the columns source, target and weight: nodes are names where the graph has
        some, else numbers from 0. In CSV names of digits are in quotes. ``.npz`` is the matrix, as
        ``scipy.sparse.load_npz`` reads it. Any other name is a folder for Parquet files of up to 33 million edges each.
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
    if file_kind(path) == "npz":
        _write_npz(path, graph.matrix, graph.names)
    else:
        source, target, weight = upper_edges(graph.matrix)
        with EdgeWriter(path, graph.n_features, graph.names) as writer:
            for a in range(0, max(len(source), 1), GROUP):
                part = slice(a, a + GROUP)
                writer.add(source[part], target[part], weight[part])
    return replace(graph, matrix=None, path=path)


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
    """Return the package that reads and writes Parquet."""
    message = f'{path}: Parquet needs pyarrow: pip install "svnn[files]", or use .csv or .npz.'
    return need("pyarrow.parquet", message)


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


def _write_npz(path: Path, matrix: sp.csr_array, names: np.ndarray | None) -> None:
    part = unfinished(path)
    parts: dict[str, Any] = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    if names is not None:
        parts["names"] = names.astype(str)
    try:
        with open(part, "wb") as file:
            np.savez_compressed(
                file, **parts, shape=matrix.shape, format=b"csr", _is_array=np.array(True), allow_pickle=False
            )
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# -- reading ----------------------------------------------------------------------------------------


def read_edges(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file or folder that :func:`write_edges` wrote, or of any table of edges.

    Parameters
    ----------
    path : path
        Parquet, a folder of it, or CSV with the columns source, target and weight; or NPZ. Nodes that have no edge
        are known from Parquet and NPZ only. Whole numbers of up to eight digits are nodes by their number, from 0, all
        else are names. In CSV quotes make names of numbers, as in ``"1990"``.

    Returns
    -------
    Graph
        Each edge counts once, also where the table has it in both directions. Edges from a node to itself are left out.

    Raises
    ------
    ValueError
        For a file that is damaged or no table of edges, or that has two weights for one edge.

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
    with naming(path):
        if file_kind(path) == "npz":
            return _read_npz(path)
        return _graph(*(_read_csv(path) if file_kind(path) == "csv" else _read_parquet(path)))


def _graph(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, n: int | None = None, names: Any = None
) -> Graph:
    """Return the graph of listed edges, whose ends are numbers of nodes or names."""
    ends, n, names = _numbered(np.concatenate([source, target]), n, names)
    if not np.isfinite(weight).all():
        raise ValueError("it has a weight that is missing, NaN or infinite; leave such edges out.")
    first, second = np.sort(ends.reshape(2, -1), axis=0)
    order = np.lexsort((second, first))
    order = order[first[order] != second[order]]
    first, second, weight = first[order], second[order], weight[order]
    again = np.zeros(len(first), dtype=bool)
    again[1:] = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
    differ = again & ~np.isclose(weight, np.roll(weight, 1), rtol=_ROUNDING, atol=0)
    if differ.any():
        k = int(np.flatnonzero(differ)[0])
        a, b = (each if names is None else repr(str(names[each])) for each in (first[k], second[k]))
        raise ValueError(f"the edge between {a} and {b} has two weights, {weight[k - 1]} and {weight[k]}; keep one.")
    matrix = symmetric_matrix(first[~again], second[~again], weight[~again], n)
    return with_matrix(matrix, unique_names(names))


def _numbered(ends: np.ndarray, n: int | None, names: Any) -> tuple[np.ndarray, int, Any]:
    """Return the ends of edges as numbers of nodes, and how many nodes there are, with their names where they have any.

    Where the file does not say of which nodes it knows, integers that are too large or negative are names.
    """
    numbers = ends.dtype.kind in "iu"
    if names is None and not (numbers and (n is not None or not len(ends) or 0 <= ends.min() <= ends.max() < _NUMBERS)):
        names, ends = np.unique(ends.astype(str), return_inverse=True)
    elif names is not None and not numbers:
        place = {name: i for i, name in enumerate(names)}
        unknown = next((each for each in ends if each not in place), None)
        if unknown is not None:
            raise ValueError(f"{unknown!r} is not among the names of its nodes.")
        ends = np.array([place[each] for each in ends])
    n = len(names) if names is not None else int(ends.max(initial=-1)) + 1 if n is None else n
    if len(ends) and not 0 <= ends.min() <= ends.max() < n:
        raise ValueError(f"its nodes are numbers from {ends.min()} to {ends.max()}, but there are {n} nodes, from 0.")
    return ends.astype(np.int64), n, names


def _read_parquet(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int | None, Any]:
    pq, pa = need_parquet(path), import_module("pyarrow")
    files = sorted(each for each in path.iterdir() if each.suffix.lower() in PARQUET) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} is a folder without Parquet files.")
    for file in files:
        present = pq.read_schema(file).names
        if not set(_COLUMNS) <= set(present):
            raise ValueError(f"it has the columns {', '.join(present)}; it needs source, target and weight.")
    tables = [pq.read_table(file, columns=list(_COLUMNS)) for file in files]
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    about = json.loads((tables[0].schema.metadata or {}).get(ABOUT, b"{}"))
    n, names = about.get("n_features"), about.get("names")
    if not (n is None or (isinstance(n, int) and 0 <= n < 2**31)) or (names is not None and len(names) != n):
        raise ValueError("what it says of its nodes is not what svnn writes.")
    parts = []
    for name in ("source", "target"):
        column = table[name]
        if column.null_count:
            raise ValueError(f"{column.null_count} of its edges have no {name}.")
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        parts.append(column.to_numpy())
    weight = table["weight"].to_numpy()
    return parts[0], parts[1], weight if weight.dtype == np.float32 else weight.astype(np.float64), n, names


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        text = file.read()
    rows = csv.reader(io.StringIO(text, newline=""))
    if next(rows, None) != list(_COLUMNS):
        raise ValueError(f"{path} must have the columns source, target and weight.")
    ends: list[str] = []
    weight: list[float] = []
    for row in filter(None, rows):
        if len(row) != 3:
            raise ValueError(f"line {rows.line_num} has {len(row)} values; it needs source, target and weight.")
        ends += row[:2]
        try:
            weight.append(float(row[2]))
        except ValueError:
            raise ValueError(f"line {rows.line_num}: the weight {row[2]!r} is not a number.") from None
    nodes = np.array(ends, dtype=object).reshape(-1, 2).T
    # Quotes anywhere below the header: svnn writes them around names of digits, which are no numbers then.
    if '"' not in re.split(r"[\r\n]", text, maxsplit=1)[-1] and all(map(_NUMBER.fullmatch, ends)):
        nodes = nodes.astype(np.int64)
    return nodes[0], nodes[1], np.array(weight)


def _read_npz(path: Path) -> Graph:
    with np.load(path, allow_pickle=False) as archive:
        names = archive["names"] if "names" in archive.files else None
    return as_graph(check_sparse(sp.load_npz(path), "it"), names)
