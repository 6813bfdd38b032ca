"""Graphs as lists of edges, and for other packages."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn._types import MatrixLike
from svnn.graphs._graph import Edges, Graph, as_graph


def edge_list(C: Graph | MatrixLike, names: Any = None) -> Edges:
    """Return the edges of a graph, each once, row by row.

    Parameters
    ----------
    C : Graph, or symmetric matrix of shape (N, N), operator or fitted covariance estimator
        The diagonal is left out.
    names : sequence of N names, optional
        By default those of the graph, where it has some; else nodes are numbered from 0.

    Returns
    -------
    Edges
        ``source``, ``target``, ``weight``: arrays; ``to_frame()`` makes a data frame of them.

    Examples
    --------
    >>> edge_list([[1, 0.5, 0], [0.5, 1, -0.2], [0, -0.2, 1]], names=["a", "b", "c"])
    Edges(source=array(['a', 'b'], dtype=object), target=array(['b', 'c'], dtype=object), weight=array([ 0.5, -0.2]))
    """
    graph = as_graph(C, names)
    assert graph.matrix is not None
    source, target, weight = upper_edges(graph.matrix)
    if graph.names is not None:
        return Edges(graph.names[source], graph.names[target], weight)
    return Edges(source, target, weight)


def upper_edges(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, columns and values above the diagonal, row by row."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    above = matrix.indices > rows
    return rows[above], matrix.indices[above], matrix.data[above]


def to_networkx(C: Graph | MatrixLike, names: Any = None) -> Any:
    """Return a graph as one of NetworkX, with the attribute ``weight`` on every edge; see :func:`edge_list`.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("networkx")
    >>> graph = to_networkx([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], names=["a", "b", "c"])
    >>> list(graph.nodes), list(graph.edges(data="weight"))
    (['a', 'b', 'c'], [('a', 'b', 0.5)])
    """
    networkx = _need("networkx", "to_networkx")
    graph = as_graph(C, names)
    made = networkx.Graph()
    made.add_nodes_from(range(graph.n_features) if graph.names is None else graph.names)
    made.add_weighted_edges_from(zip(*(part.tolist() for part in edge_list(graph)), strict=True))
    return made


def to_igraph(C: Graph | MatrixLike, names: Any = None) -> Any:
    """Return a graph as one of igraph, with ``weight`` of edges and ``name`` of vertices; see :func:`edge_list`.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("igraph")
    >>> graph = to_igraph([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], names=["a", "b", "c"])
    >>> graph.vs["name"], graph.get_edgelist(), graph.es["weight"]
    (['a', 'b', 'c'], [(0, 1)], [0.5])
    """
    igraph = _need("igraph", "to_igraph")
    graph = as_graph(C, names)
    assert graph.matrix is not None
    source, target, weight = upper_edges(graph.matrix)
    made = igraph.Graph(n=graph.n_features, edges=np.stack([source, target], 1).tolist())
    made.es["weight"] = weight.tolist()
    if graph.names is not None:
        made.vs["name"] = graph.names.tolist()
    return made


def _need(package: str, function: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(f"{function} needs {package}: pip install {package}.") from None
