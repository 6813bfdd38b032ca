"""Graphs of any sizes in one operator: their matrices along the diagonal of a sparse one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from svnn.functional._matrix import stored_matrix
from svnn.operators._batched import PerSample, leading_of_batch
from svnn.operators._csr import CSROperator
from svnn.operators._operator import EXACT_LIMIT, CovarianceOperator, leading

if TYPE_CHECKING:
    from svnn._types import DataLike, MatrixLike

#: Numbers in a batch of small blocks whose eigenvalues are found at a time.
_BLOCK_VALUES = 2**24


class PackedOperator(PerSample, CSROperator):
    """B graphs of any sizes as one block-diagonal CSR matrix over all nodes; made by :func:`pack`.

    A signal has the nodes of all graphs one after the other, (N_1 + … + N_B, F), as in PyTorch Geometric's ``Batch``.
    A network pools the nodes of each graph by themselves: its output has a row for every graph. ``normalized`` divides
    every block by its own norm. Shifts and filter banks are those of :class:`CSROperator`.

    Attributes
    ----------
    sizes : tuple of int
        Number of nodes of each graph.
    batch : Tensor of shape (N_1 + … + N_B,)
        The graph of each node.
    """

    backend = "csr"

    def __init__(self, values: Tensor, columns: Tensor, row_starts: Tensor, sizes: Sequence[int]) -> None:
        CSROperator.__init__(self, values, columns, row_starts)
        self.sizes = tuple(int(size) for size in sizes)
        self.n_samples = len(self.sizes)
        if sum(self.sizes) != self.shape[0] or min(self.sizes, default=0) < 1:
            raise ValueError(f"sizes must be positive and add up to {self.shape[0]} nodes, got {self.sizes}.")
        (rows, own), _ = self.edge_index()
        graph = self.batch
        crossing = (graph[rows] != graph[own]).nonzero()
        if len(crossing):
            first = int(crossing[0])
            raise ValueError(
                f"an edge joins nodes {int(rows[first])} and {int(own[first])} of different graphs, "
                f"{int(graph[rows[first]])} and {int(graph[own[first]])}."
            )

    @property
    def batch(self) -> Tensor:
        """The graph of each node."""

        def make() -> Tensor:
            counts = torch.tensor(self.sizes, device=self.device)
            return torch.arange(self.n_samples, device=self.device).repeat_interleave(counts)

        return self._cached("batch", make)

    def __getitem__(self, index: Any) -> Any:
        """Return the operator of one graph (an integer), or those of some graphs, packed: a slice or integers."""
        found = torch.arange(self.n_samples)[index.cpu() if isinstance(index, Tensor) else index]
        return pack([self._graph(i) for i in found.tolist()]) if found.ndim else self._graph(int(found))

    def _graph(self, i: int) -> CSROperator:
        first = sum(self.sizes[:i])
        starts = self.row_starts[first : first + self.sizes[i] + 1]
        own = slice(int(starts[0]), int(starts[-1]))
        graph = CSROperator(self.values[own], self.columns[own] - first, starts - starts[0])
        graph.scale = None if self.scale is None else float(self.scale[i])
        return graph

    @property
    def same_size(self) -> int | None:
        """The number of nodes of every graph, or None where they differ."""
        return self.sizes[0] if len(set(self.sizes)) == 1 else None

    def split(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the parts (…, N_i, F) of signals or embeddings (…, N_1 + … + N_B, F).

        Examples
        --------
        >>> packed = pack([torch.eye(2), torch.eye(3)])
        >>> [tuple(part.shape) for part in packed.split(torch.ones(5, 4))]
        [(2, 4), (3, 4)]
        """
        return u.split(self.sizes, -2)

    def means(self, u: Tensor) -> Tensor:
        """Return the mean (…, B, F) over the nodes of every graph of (…, N_1 + … + N_B, F)."""
        if self.same_size is not None:
            return u.unflatten(-2, (self.n_samples, self.same_size)).mean(-2)
        counts = torch.tensor(self.sizes, dtype=u.dtype, device=u.device)
        totals = u.new_zeros(*u.shape[:-2], self.n_samples, u.shape[-1]).index_add(-2, self.batch, u)
        return totals / counts[:, None]

    def _sums(self, u: Tensor) -> Tensor:
        return u.new_zeros(self.n_samples).index_add(0, self.batch, u[:, 0])

    def _leading(self, vectors: bool) -> tuple[Tensor, Tensor | None]:
        values = torch.empty(self.n_samples, dtype=torch.float64)
        found = torch.zeros(self.shape[0], 1, dtype=torch.float64) if vectors else None
        sizes = torch.tensor(self.sizes)
        starts = sizes.cumsum(0) - sizes
        for size in sorted(set(self.sizes)):
            own = (sizes == size).nonzero()[:, 0]
            for graphs in own.split(max(_BLOCK_VALUES // size**2, 1) if size <= EXACT_LIMIT else 1):
                part: Tensor | None
                if size > EXACT_LIMIT:
                    value, vector = leading(self._graph(int(graphs[0])))
                    values[graphs], part = value, vector[None].cpu().double()
                else:
                    values[graphs], part = leading_of_batch(self._blocks(starts[graphs], size), vectors)
                if found is not None and part is not None:
                    found[starts[graphs][:, None] + torch.arange(size)] = part
        return values, found

    def _blocks(self, starts: Tensor, size: int) -> Tensor:
        """Return the matrices (G, size, size) of graphs of the same size, which start at these nodes."""
        row_starts, columns, values = (v.detach().cpu() for v in (self.row_starts, self.columns, self.values))
        first = row_starts[starts].long()
        counts = row_starts[starts + size].long() - first
        before = counts.cumsum(0) - counts
        edges = torch.arange(int(counts.sum())) + (first - before).repeat_interleave(counts)
        mine, node = torch.arange(len(starts)).repeat_interleave(counts), starts.repeat_interleave(counts)
        rows = torch.searchsorted(row_starts.long(), edges, right=True) - 1
        blocks = values.new_zeros(len(starts), size, size)
        return blocks.index_put((mine, rows - node, columns[edges].long() - node), values[edges], accumulate=True)

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        if isinstance(factor, Tensor):
            factor = factor.to(self.values)[self.batch[self.edge_index()[0][0]]]
            self.values = self.values * factor
            factor = 1.0
        super()._map(function, factor)


def pack(shifts: Iterable[MatrixLike]) -> PackedOperator:
    """Return matrices of any sizes, one for each graph, as one operator.

    Parameters
    ----------
    shifts : iterable of matrices (N_i, N_i)
        Of any kind that :func:`svnn.as_operator` takes. Gradients reach the entries of tensors that ask for them,
        where they are not zero. Either all or none of them may be normalised operators.

    Returns
    -------
    PackedOperator

    See Also
    --------
    pack_signals : The signals of several graphs as one tensor.

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import SVNN
    >>> from svnn.operators import pack, pack_signals
    >>> shift = pack([torch.eye(3), torch.eye(5)])
    >>> x = pack_signals([torch.ones(3, 1), torch.ones(5, 1)])
    >>> x.shape, SVNN(1, 2)(x, shift).shape
    (torch.Size([8, 1]), torch.Size([2, 2]))
    """
    graphs = [_sparse(C, f"shifts[{i}]") for i, C in enumerate(shifts)]
    if not graphs:
        raise ValueError("shifts must hold at least one matrix.")
    devices = {graph.device for graph in graphs}
    if len(devices) > 1:
        raise ValueError(f"shifts are on several devices, {sorted(map(str, devices))}; move them to one.")
    scales = [graph.scale for graph in graphs]
    if None in scales and any(scale is not None for scale in scales):
        raise ValueError("shifts holds normalised operators beside others; normalise all of them, or none.")
    sizes = [graph.shape[0] for graph in graphs]
    nodes, edges = np.cumsum([0, *sizes]), np.cumsum([0, *(len(graph.values) for graph in graphs)])
    columns = [graph.columns.long() + int(first) for graph, first in zip(graphs, nodes, strict=False)]
    starts = [graph.row_starts[:-1].long() + int(first) for graph, first in zip(graphs, edges, strict=False)]
    last = torch.tensor([int(edges[-1])], device=graphs[0].device)
    dtype = max((graph.dtype for graph in graphs), key=lambda kind: kind.itemsize)
    values = torch.cat([graph.values.to(dtype) for graph in graphs])
    packed = PackedOperator(values, torch.cat(columns), torch.cat([*starts, last]), sizes)
    packed._set_scale(None if None in scales else torch.tensor(scales, dtype=torch.float64))
    return packed


def _sparse(C: MatrixLike, name: str) -> CSROperator:
    """Return a matrix of any kind as a sparse operator."""
    from svnn.operators._build import as_operator, stored

    if isinstance(C, PerSample):
        raise ValueError(f"{name} holds several matrices itself; pack(operator) packs those of one operator.")
    if isinstance(C, CovarianceOperator):
        return cast(CSROperator, as_operator(C, backend="csr"))
    return cast(CSROperator, stored(stored_matrix(C, name), "csr", None))


def pack_signals(signals: Iterable[DataLike]) -> Tensor:
    """Return signals (N_i, F) of several graphs as one tensor (N_1 + … + N_B, F), in the order of :func:`pack`.

    Examples
    --------
    >>> import numpy as np
    >>> pack_signals([np.ones((2, 1)), np.zeros((1, 1))]).flatten().tolist()
    [1.0, 1.0, 0.0]
    """
    parts = [x if isinstance(x, Tensor) else torch.as_tensor(np.array(x)) for x in signals]
    if not parts:
        raise ValueError("signals must hold at least one tensor.")
    for i, part in enumerate(parts):
        if part.ndim != 2 or part.shape[1] != parts[0].shape[-1]:
            raise ValueError(
                f"signals[{i}] must have shape (N_{i}, F) with the same F for all graphs, got {tuple(part.shape)} "
                f"after {tuple(parts[0].shape)}."
            )
    return torch.cat(parts)
