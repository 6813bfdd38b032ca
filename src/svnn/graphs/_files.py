"""Graphs in files: edges as Parquet, in one file or several, or CSV; the matrix as NPZ."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn._types import MatrixLike
from svnn.functional._sparse import check_sparse
from svnn.functional.significance import symmetric_matrix
from svnn.graphs._edges import upper_edges
from svnn.graphs._graph import Graph, as_graph, unique_names, with_matrix
from svnn.graphs._writer import ABOUT, GROUP, PARQUET, EdgeWriter, check_target, file_kind, need_parquet, unfinished
from svnn.sources._table import naming

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
    return Graph(
        None, graph.names, graph.degrees, graph.n_samples, constant=graph.constant, threshold=graph.threshold, path=path
    )


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
