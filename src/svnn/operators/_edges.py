"""Graphs given by edges and weights as operators, and operators as graphs of PyTorch Geometric."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svnn.operators._batched import BatchedOperator
from svnn.operators._csr import CSROperator
from svnn.operators._filter_banks import SMALL
from svnn.operators._operator import CovarianceOperator
from svnn.operators._packed import PackedOperator

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from svnn._types import ColumnLike, DataLike

#: Weights that differ from those of the way back by less than this, relative to the largest, differ by rounding.
_ROUNDING = 1e-5


def from_edges(
    edge_index: DataLike,
    edge_weight: ColumnLike | None = None,
    n_nodes: int | None = None,
    batch: ColumnLike | None = None,
) -> CSROperator:
    """Return the operator of a graph that is given by its edges, as PyTorch Geometric gives it (which is not needed).

    Parameters
    ----------
    edge_index : integers of shape (2, E)
        The two nodes of every edge. An edge stands there both ways, (i, j) and (j, i); (i, i) is an entry of the
        diagonal. The weights of an edge that is given several times are added up.
    edge_weight : numbers of shape (E,) or (E, 1), optional
        The entries of the matrix; 1 by default. Gradients reach a tensor that asks for them.
    n_nodes : int, optional
        N; by default the largest node of all edges, plus one.
    batch : integers of shape (N,), optional
        The graph of every node, in ascending order, where there are several graphs; N is its length then.

    Returns
    -------
    CSROperator; with ``batch`` a PackedOperator, for which networks have an output for every graph

    Raises
    ------
    ValueError
        Where the matrix is not symmetric, or nodes, weights or graphs make no sense.

    Examples
    --------
    >>> import torch
    >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> from_edges(edges, torch.tensor([2.0, 2.0, 3.0, 3.0])).to_dense()
    tensor([[0., 2., 0.],
            [2., 0., 3.],
            [0., 3., 0.]])
    """
    pairs = _tensor(edge_index)
    if pairs.ndim != 2 or len(pairs) != 2 or not are_integers(pairs):
        raise ValueError(f"edge_index must be integers of shape (2, E), got {pairs.dtype} {tuple(pairs.shape)}.")
    pairs = pairs.long()
    weights = torch.ones(pairs.shape[1], device=pairs.device) if edge_weight is None else _tensor(edge_weight)
    weights = weights[:, 0] if weights.ndim == 2 and weights.shape[1] == 1 else weights
    if weights.shape != pairs.shape[1:] or weights.is_complex():
        raise ValueError(
            f"edge_weight must have a number for each of the {pairs.shape[1]} edges, got shape {tuple(weights.shape)}."
        )
    weights = weights if weights.is_floating_point() else weights.double()
    if weights.device != pairs.device:
        raise ValueError(
            f"edge_weight is on {weights.device}, edge_index on {pairs.device}; move one with .to(device)."
        )
    if not bool(torch.isfinite(weights.detach()).all()):
        raise ValueError("edge_weight holds NaN or infinite values; remove those edges.")
    sizes = None if batch is None else _sizes(_tensor(batch))
    n = _n_nodes(pairs, n_nodes if sizes is None else sum(sizes))
    rows, columns, values = _entries(pairs, weights, n)
    counts = torch.bincount(rows, minlength=n)
    arrays = values, columns, torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    if sizes is not None:
        return PackedOperator(*arrays, sizes)
    operator = CSROperator(*arrays)
    operator.adaptive = not weights.requires_grad and n > SMALL
    return operator


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


def are_integers(values: object) -> TypeIs[Tensor | np.ndarray]:
    """Return whether these are a tensor or an array of integers."""
    if isinstance(values, Tensor):
        return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)
    return isinstance(values, np.ndarray) and values.dtype.kind in "iu"


def _tensor(values: DataLike) -> Tensor:
    return values if isinstance(values, Tensor) else torch.as_tensor(np.array(values))


def _n_nodes(pairs: Tensor, n_nodes: int | None) -> int:
    low, high = (int(pairs.min()), int(pairs.max())) if pairs.numel() else (0, -1)
    if low < 0:
        raise ValueError(f"edge_index holds node {low}; nodes are counted from 0.")
    if n_nodes is None:
        n_nodes = high + 1
    if n_nodes < 1 or int(n_nodes) != n_nodes:
        raise ValueError(f"n_nodes must be an integer >= 1, got {n_nodes!r}; a graph without edges needs it.")
    if high >= n_nodes:
        raise ValueError(f"edge_index holds node {high}, but there are {n_nodes} nodes; see n_nodes.")
    return int(n_nodes)


def _sizes(batch: Tensor) -> list[int]:
    """Return the number of nodes of every graph."""
    steps = batch.diff()
    if batch.ndim != 1 or not len(batch) or int(batch[0]) != 0 or bool(((steps != 0) & (steps != 1)).any()):
        raise ValueError("batch must name the graph of each node in ascending order, 0, …, 0, 1, …, and skip none.")
    sizes: list[int] = torch.bincount(batch.long()).tolist()
    return sizes


def _entries(pairs: Tensor, weights: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the entries by rows, each once, after a look at the ways back."""
    keys, place = torch.unique(pairs[0] * n + pairs[1], return_inverse=True)
    values = weights.new_zeros(len(keys)).index_add(0, place, weights)
    rows, columns = keys // n, keys % n
    mirrored = columns * n + rows
    back = torch.searchsorted(keys, mirrored).clamp(max=max(len(keys) - 1, 0))
    there = keys[back] == mirrored
    difference = values.detach() - torch.where(there, values.detach()[back], 0)
    largest = float(values.detach().abs().max()) if len(values) else 0.0
    wrong = (difference.abs() > _ROUNDING * largest).nonzero()
    if len(wrong):
        first = int(wrong[0])
        i, j, weight = int(rows[first]), int(columns[first]), float(values[first])
        other = f"has weight {float(values[back[first]]):.4g}" if bool(there[first]) else "is missing"
        raise ValueError(
            f"the graph is not symmetric: edge ({i}, {j}) has weight {weight:.4g}, ({j}, {i}) {other}. "
            "Give every edge both ways with one weight, as torch_geometric.utils.to_undirected does."
        )
    if not weights.requires_grad:
        values = torch.where(there, 0.5 * (values + values[back]), values)
    return rows, columns, values
