"""Graphs of features: the largest correlations of a table of any size, as a matrix, as edges in files, or elsewhere.

:func:`correlation_graph` makes them, without the matrix of all correlations; the command ``svnn graph`` does the same
for files. :func:`edge_list`, :func:`to_networkx` and :func:`to_igraph` give any sparse covariance to others, and
:func:`svnn.operators.to_pyg` gives an operator to PyTorch Geometric. :func:`write_edges` and :func:`read_edges` are for
files.
"""

from svnn.graphs._correlation import correlation_graph
from svnn.graphs._files import read_edges, write_edges
from svnn.graphs._graph import Edges, Graph, edge_list, to_igraph, to_networkx

__all__ = ["Edges", "Graph", "correlation_graph", "edge_list", "read_edges", "to_igraph", "to_networkx", "write_edges"]
