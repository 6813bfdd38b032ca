"""Graphs of PyTorch Geometric as operators, and operators as its graphs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import Tensor

from svnn.operators._batched import BatchedOperator
from svnn.operators._csr import CSROperator
from svnn.operators._edges import from_edges
from svnn.operators._operator import CovarianceOperator
from svnn.operators._packed import PackedOperator


def from_pyg(data: Any) -> CSROperator:
    """Return the operator of a graph, or of several graphs, of PyTorch Geometric.

    Parameters
    ----------
    data : torch_geometric.data.Data or Batch
        Its ``edge_weight``, or else its ``edge_attr`` of one number per edge, has the entries of the matrix; without
        them all are 1. Every edge stands there both ways.

    Returns
    -------
    CSROperator; for a Batch a PackedOperator, for which networks have an output for every graph

    See Also
    --------
    to_pyg : The way back.
    from_edges : The same for edges alone.

    Examples
    --------
    >>> import pytest
    >>> pyg = pytest.importorskip("torch_geometric.data")
    >>> import torch
    >>> from svnn.nn import SVNN
    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> graphs = [pyg.Data(x=torch.ones(n, 1), edge_index=edges) for n in (2, 3, 4)]
    >>> batch = pyg.Batch.from_data_list(graphs)
    >>> SVNN(1, 5)(batch.x, from_pyg(batch)).shape
    torch.Size([3, 5])
    """
    edges = getattr(data, "edge_index", None)
    if edges is None:
        raise ValueError(f"data must be a Data or Batch with an edge_index, got {data!r}.")
    weight = getattr(data, "edge_weight", None)
    weight = getattr(data, "edge_attr", None) if weight is None else weight
    if weight is not None and weight.ndim > 1 and weight.shape[1:] != (1,):
        raise ValueError(
            f"data has {tuple(weight.shape[1:])} values for each edge, but a matrix has one; set data.edge_weight."
        )
    batch = getattr(data, "batch", None)
    if batch is not None and getattr(data, "num_graphs", 1) != int(batch[-1]) + 1:
        raise ValueError("the last graph of data has no nodes; leave it out.")
    return from_edges(edges, weight, int(data.num_nodes), batch)


def to_pyg(operator: CovarianceOperator, x: Tensor | None = None) -> Any:
    """Return an operator as a graph of PyTorch Geometric, with weights ``edge_weight``.

    Parameters
    ----------
    operator : CovarianceOperator
        A normalised one gives the matrix that it shifts by, C / s.
    x : Tensor, optional
        Signals, which become the ``x`` of the graph: (N, F); for an operator of several matrices (B, N, F) or
        (N_1 + … + N_B, F), as the operator takes them.

    Returns
    -------
    torch_geometric.data.Data, or Batch for an operator of several matrices

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("torch_geometric")
    >>> import torch
    >>> from svnn import as_operator
    >>> to_pyg(as_operator(torch.eye(3)), torch.ones(3, 2))
    Data(x=[3, 2], edge_index=[2, 3], edge_weight=[3])
    """
    try:
        pyg = import_module("torch_geometric.data")
    except ImportError as error:
        raise ImportError('to_pyg needs PyTorch Geometric: pip install "svnn[gnn]".') from error
    if x is not None:
        operator._in_dtype_of(x)  # which says what is wrong with it
    if isinstance(operator, (BatchedOperator, PackedOperator)):
        signals: Any = [None] * len(operator)
        if x is not None:
            signals = operator.split(x) if isinstance(operator, PackedOperator) else x
        return pyg.Batch.from_data_list([to_pyg(one, u) for one, u in zip(operator, signals, strict=True)])
    index, weight = operator.edge_index()
    if x is None:
        return pyg.Data(edge_index=index, edge_weight=weight, num_nodes=operator.shape[-1])
    return pyg.Data(x=x, edge_index=index, edge_weight=weight)
