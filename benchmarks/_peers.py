"""The filter bank ``Y[b] = Σ_k C^k X[b] W_k + bias`` as users of other libraries would write it.

A peer is made from a symmetric CSR matrix ``C``, a weight (K+1, F_in, F_out) and a bias, and maps
x (B, N, F_in) to y (B, N, F_out). What can be prepared once per matrix is prepared there, untimed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from svnn import as_operator
from svnn.nn import CovarianceFilter

Shift = Callable[[Tensor], Tensor]


class Candidate:
    """A way to compute the bank: ``forward`` and the parameters it learns (weights first, bias last)."""

    def __init__(self, forward: Callable[[Any], Any], parameters: Sequence[Tensor] = ()) -> None:
        self.forward, self.parameters = forward, list(parameters)

    def gradients(self, x: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of x, of the weight and of the bias."""
        dx, *weights, bias = torch.autograd.grad(y, [x, *self.parameters], g)
        return dx, weights[0] if len(weights) == 1 else torch.stack([w.T for w in weights]), bias

    def step(self, x: Tensor, g: Tensor) -> None:
        torch.autograd.grad(self.forward(x), [x, *self.parameters], g)


def ours(C: sp.csr_array, weight: Tensor, bias: Tensor) -> Candidate:
    """``svnn.nn.CovarianceFilter`` on ``svnn.as_operator(C)``, everything at its default."""
    layer = CovarianceFilter(weight.shape[1], weight.shape[2], order=len(weight) - 1)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    operator = as_operator(C)
    return Candidate(lambda x: layer(x, operator), [layer.weight, layer.bias])


def dense_shift(C: Tensor) -> Shift:
    """``C x`` broadcast over the batch, in the layout (B, F, N) @ (1, N, N) of public code.

    Broadcasting ``C @ x`` itself is slower, several times so for one feature per node.
    """
    return lambda x: (x.mT @ C[None]).mT


def folded_shift(product: Shift) -> Shift:
    """One product for the whole batch: (N, N) @ (N, B·F)."""

    def shift(x: Tensor) -> Tensor:
        nodes_first = x.movedim(-2, 0)
        return product(nodes_first.reshape(len(nodes_first), -1)).reshape(nodes_first.shape).movedim(0, -2)

    return shift


def powers_then_mix(shift: Shift, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """All powers side by side, then one matmul: the textbook."""
    powers = [x]
    for _ in weight[1:]:
        powers.append(shift(powers[-1]))
    y = torch.cat(powers, -1) @ weight.flatten(0, 1)
    return y if bias is None else y + bias


def narrow_side_first(shift: Shift, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Shift the inputs or, by Horner's rule, the outputs, whichever are fewer."""
    if weight.shape[1] <= weight.shape[2]:
        return powers_then_mix(shift, x, weight, bias)
    mixed = (x @ weight.movedim(0, 1).flatten(1)).unflatten(-1, (len(weight), -1)).unbind(-2)
    y = mixed[-1]
    for part in reversed(mixed[:-1]):
        y = shift(y) + part
    return y + bias


def textbook(C: Tensor, weight: Tensor, bias: Tensor) -> Candidate:
    """Dense powers concatenated, then one matmul."""
    return Candidate(lambda x: powers_then_mix(dense_shift(C), x, weight, bias), [weight, bias])


def torch_dense(C: Tensor, weight: Tensor, bias: Tensor) -> Candidate:
    """The best plain torch: the narrow side, and one big product unless a sample's own is big enough."""
    folded, small = folded_shift(C.matmul), len(C) <= 512

    def shift(x: Tensor) -> Tensor:
        return C @ x if small and x.shape[-1] >= 16 else folded(x)

    return Candidate(lambda x: narrow_side_first(shift, x, weight, bias), [weight, bias])


def to_torch_csr(C: sp.csr_array) -> Tensor:
    parts = (C.indptr.astype(np.int32), C.indices.astype(np.int32), C.data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=C.shape, check_invariants=False)


def block_diagonal(C: sp.csr_array, times: int) -> sp.csr_array:
    steps = np.arange(times)[:, None]
    columns = (C.indices + steps * C.shape[0]).ravel()
    row_starts = np.append((C.indptr[:-1] + steps * C.nnz).ravel(), times * C.nnz)
    return sp.csr_array((np.tile(C.data, times), columns, row_starts), shape=(times * C.shape[0],) * 2)


def torch_csr(C: sp.csr_array, weight: Tensor, bias: Tensor) -> Candidate:
    shift = folded_shift(to_torch_csr(C).matmul)
    return Candidate(lambda x: narrow_side_first(shift, x, weight, bias), [weight, bias])


def scipy_csr(C: sp.csr_array, weight: Tensor, bias: Tensor) -> Candidate:
    """``scipy.sparse`` for the shifts; it has no gradients."""

    def product(x: Tensor) -> Tensor:
        return torch.from_numpy(C @ x.numpy())

    def forward(x: Tensor) -> Tensor:
        return narrow_side_first(folded_shift(product), x.detach(), weight.detach(), bias.detach())

    return Candidate(forward)


def pyg(C: sp.csr_array, weight: Tensor, bias: Tensor, batch: int, form: str) -> Candidate:
    """PyTorch Geometric's ``TAGConv(normalize=False)``.

    With "edges" one edge list serves a 3-D batch. With "csr", which takes no 3-D batch, the samples
    are the blocks of one block-diagonal matrix.
    """
    from torch_geometric.nn import TAGConv

    conv = TAGConv(weight.shape[1], weight.shape[2], K=len(weight) - 1, normalize=False)
    with torch.no_grad():
        for linear, w in zip(conv.lins, weight, strict=True):
            linear.weight.copy_(w.T)
        conv.bias.copy_(bias)
    parameters = [*(linear.weight for linear in conv.lins), conv.bias]
    if form == "edges":
        index, values = as_operator(C, backend="csr").edge_index()
        return Candidate(lambda x: conv(x, index, values), parameters)
    blocks = to_torch_csr(block_diagonal(C, batch))
    return Candidate(lambda x: conv(x.flatten(0, 1), blocks).unflatten(0, x.shape[:2]), parameters)


class TextbookSVNN(nn.Module):
    """The network of ``svnn.nn.SVNN(…, readout="mean")`` in plain torch; it loads that one's ``state_dict``."""

    def __init__(
        self, in_features: int, out_features: int, hidden: Sequence[int], order: int, mlp: Sequence[int], shift: Shift
    ) -> None:
        super().__init__()
        self.shift = shift
        pairs = list(pairwise([in_features, *hidden]))
        self.filters = nn.ModuleList(
            nn.ParameterDict({"weight": nn.Parameter(torch.empty(order + 1, a, b))}) for a, b in pairs
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(b) for _, b in pairs)
        head: list[nn.Module] = []
        for a, b in pairwise([hidden[-1], *mlp]):
            head += [nn.Linear(a, b), nn.LeakyReLU()]
        self.head = nn.Sequential(*head, nn.Linear([hidden[-1], *mlp][-1], out_features))

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.filters, self.norms, strict=True):
            x = powers_then_mix(self.shift, x, layer["weight"], None)
            x = nn.functional.leaky_relu(norm(x.flatten(0, 1)).reshape(x.shape))
        return self.head(x.mean(1))


class TextbookMember(nn.Module):
    """One member of the default estimators in plain torch: ``svnn.nn.SVNN`` with a layer without batch norm and the
    weighted readout. It loads that one's ``state_dict``.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        n_nodes: int,
        hidden: int,
        order: int,
        heads: int,
        mlp: Sequence[int],
        node_dropout: float,
        shift: Shift,
    ) -> None:
        super().__init__()
        self.shift, self.n_nodes, self.node_dropout = shift, n_nodes, nn.Dropout(node_dropout)
        weight, bias = nn.Parameter(torch.empty(order + 1, in_features, hidden)), nn.Parameter(torch.empty(hidden))
        self.filters = nn.ModuleList([nn.ParameterDict({"weight": weight, "bias": bias})])
        self.readout = nn.ParameterDict({"weight": nn.Parameter(torch.empty(heads, n_nodes))})
        head: list[nn.Module] = []
        for a, b in pairwise([heads * hidden, *mlp]):
            head += [nn.Linear(a, b), nn.SiLU()]
        self.head = nn.Sequential(*head, nn.Linear([heads * hidden, *mlp][-1], out_features))

    def forward(self, x: Tensor) -> Tensor:
        layer = self.filters[0]
        u = nn.functional.silu(powers_then_mix(self.shift, x, layer["weight"], layer["bias"]))
        weights = self.readout["weight"] / self.n_nodes * self.node_dropout(x.new_ones(len(x), 1, self.n_nodes))
        return self.head((weights @ u).flatten(1))
