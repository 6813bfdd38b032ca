"""Graphs in files: edges as Parquet, in one file or several, or CSV; the matrix as NPZ."""

from __future__ import annotations

import csv
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn._types import MatrixLike
from svnn.graphs._edges import upper_edges
from svnn.graphs._graph import Graph, as_graph, unique_names, with_matrix
from svnn.graphs._writer import ABOUT, GROUP, PARQUET, EdgeWriter, check_target, file_kind, need_parquet, unfinished


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
    if file_kind(path) == "npz":
        with np.load(path, allow_pickle=False) as archive:
            names = archive["names"] if "names" in archive.files else None
        return with_matrix(sp.csr_array(sp.load_npz(path)), unique_names(names))
    source, target, weight, n, names = _read_csv(path) if file_kind(path) == "csv" else _read_parquet(path)
    if names is None and not all(np.issubdtype(part.dtype, np.integer) for part in (source, target)):
        names, inverse = np.unique(np.concatenate([source, target]).astype(str), return_inverse=True)
        source, target = np.split(inverse, 2)
    elif names is not None and not np.issubdtype(source.dtype, np.integer):
        place = {name: i for i, name in enumerate(names)}
        source, target = (np.array([place[each] for each in part], dtype=np.int64) for part in (source, target))
    n = n or (len(names) if names is not None else int(max(source.max(initial=-1), target.max(initial=-1))) + 1)
    places = (np.concatenate([source, target]), np.concatenate([target, source]))
    return with_matrix(sp.csr_array((np.tile(weight, 2), places), shape=(n, n)), unique_names(names))


def _read_parquet(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, Any]:
    pq, pa = need_parquet(path), import_module("pyarrow")
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
    about = json.loads((tables[0].schema.metadata or {}).get(ABOUT, b"{}"))
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
