"""A graph of features, what may stand for one, its list of edges, and the same for other packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from svnn._types import MatrixLike
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._matrix import numpy_matrix, stored_matrix
from svnn.sources._table import need

if TYPE_CHECKING:
    import pandas as pd


class Edges(NamedTuple):
    """Edges of a graph, each once: arrays of its two ends, as indices or names, and of its weight."""

    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray

    def to_frame(self) -> pd.DataFrame:
        """Return the edges as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self._asdict())


@dataclass(frozen=True, eq=False)
class Graph:
    """Features as nodes, and the edges between them.

    Attributes
    ----------
    matrix : csr_array of shape (N, N), or None
        Weights of the edges, both ways; nothing is stored on the diagonal. None where the edges went to a file.
    names : ndarray of shape (N,), or None
        Names of the features, where they have some; one that comes again got a number.
    degrees : ndarray of shape (N,)
        Number of edges of every feature.
    n_samples : int
        Rows of the data; 0 where it is not known.
    constant : ndarray
        Features that do not vary, and so have no edges.
    threshold : float, ndarray of shape (N,), or None
        Correlations of at least this size are edges; with ``top_k`` of either feature.
    path : Path or None
        Where the edges went.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.graphs import correlation_graph
    >>> X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0], [4.0, 8.0, 1.0]])
    >>> graph = correlation_graph(X, threshold=0.9)
    >>> graph
    Graph(3 features, 1 edge)
    >>> graph.matrix.toarray().round(3)
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """

    matrix: sp.csr_array | None
    names: np.ndarray | None
    degrees: np.ndarray
    n_samples: int = 0
    constant: np.ndarray | None = None
    threshold: Any = None
    path: Path | None = None

    @property
    def n_features(self) -> int:
        """Number of nodes."""
        return len(self.degrees)

    @property
    def n_edges(self) -> int:
        """Number of edges, each counted once."""
        return int(self.degrees.sum()) // 2

    def __repr__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        edges = f"{self.n_edges:,} edge" + ("" if self.n_edges == 1 else "s")
        return f"Graph({self.n_features:,} features, {edges}{where})"


def unique_names(names: Any) -> np.ndarray | None:
    """Return names as text of which none comes twice: a second "a" becomes "a-1", as AnnData has it.

    Examples
    --------
    >>> unique_names(["a", "b", "a", "a-1"]).tolist()
    ['a', 'b', 'a-2', 'a-1']
    """
    if names is None:
        return None
    listed = [str(name) for name in names]
    taken, seen, unique = set(listed), set(), []
    for name in listed:
        new, number = name, 0
        while new in seen or (number and new in taken):
            number += 1
            new = f"{name}-{number}"
        seen.add(new)
        unique.append(new)
    return np.array(unique, dtype=object)


def as_graph(C: Graph | MatrixLike, names: Any = None) -> Graph:
    """Return a graph, or the matrix of one (also a fitted covariance), as a Graph with a matrix."""
    if isinstance(C, Graph):
        if C.matrix is None:
            raise ValueError(f"the edges of this graph went to {C.path}; svnn.graphs.read_edges reads them.")
        return C if names is None else with_matrix(C.matrix, _checked(names, C.n_features))
    matrix = stored_matrix(C)
    weights = sp.csr_array(numpy_matrix(C) if is_torch(matrix) else matrix)
    names = getattr(C, "feature_names_in_", None) if names is None else names
    return with_matrix(_without_diagonal(weights), _checked(names, weights.shape[0]))


def with_matrix(matrix: sp.csr_array, names: np.ndarray | None, **more: Any) -> Graph:
    """Return the graph of a matrix without a diagonal."""
    return Graph(matrix, names, np.diff(matrix.indptr).astype(np.int64), **more)


def _without_diagonal(matrix: sp.csr_array) -> sp.csr_array:
    coo = matrix.tocoo()
    row, column = coo.row, coo.col
    edge = (row != column) & (coo.data != 0)
    return sp.csr_array((coo.data[edge], (row[edge], column[edge])), shape=matrix.shape)


def _checked(names: Any, n: int) -> np.ndarray | None:
    if names is not None and len(names) != n:
        raise ValueError(f"names has {len(names)} entries, but the graph has {n} nodes.")
    return unique_names(names if names is None or not is_torch(names) else to_numpy(names))


# -- lists of edges, and other packages --------------------------------------------------------------


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
    networkx = need("networkx", "to_networkx needs networkx: pip install networkx.")
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
    igraph = need("igraph", "to_igraph needs igraph: pip install igraph.")
    graph = as_graph(C, names)
    assert graph.matrix is not None
    source, target, weight = upper_edges(graph.matrix)
    made = igraph.Graph(n=graph.n_features, edges=np.stack([source, target], 1).tolist())
    made.es["weight"] = weight.tolist()
    if graph.names is not None:
        made.vs["name"] = graph.names.tolist()
    return made
