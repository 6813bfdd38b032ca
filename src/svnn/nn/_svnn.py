"""The sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from svnn.nn._dropout import Dropout
from svnn.nn._filter import CovarianceFilter, as_shifts
from svnn.nn._norm import NodeNorm, norm_then
from svnn.nn._readout import Readout
from svnn.nn._shifted import ShiftedSignals
from svnn.operators import CovarianceOperator, as_operator

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "leaky_relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "identity": nn.Identity,
}


class SVNN(nn.Module):
    r"""Layers of covariance filters, a readout over the nodes and an MLP head (Eq. 2).

    .. math:: u^l = \sigma\Big(\text{norm}\Big(\sum_k C^k u^{l-1} W^l_k\Big)\Big), \qquad
              \hat y = \text{MLP}(\text{readout}(u^L))

    Parameters
    ----------
    in_features : int
        Values per node, F.
    out_features : int
        Outputs per sample.
    hidden : sequence of int, default=(32,)
        Values per node after each layer; its length is the number of layers.
    order : int, default=2
        K, the number of shifts of every filter.
    activation : {"leaky_relu", "relu", "elu", "gelu", "silu", "tanh", "identity"}
    dropout : float in [0, 1), default=0.0
    batch_norm : bool, default=True
    readout : {"mean", "weighted", "flatten"}, default="mean"
        "mean" is the paper's and runs on any N, but cannot tell nodes apart. "weighted" learns
        ``heads`` weights a node, starting as the mean. "flatten" feeds every node to the head.
    heads : int, default=1
        Weight vectors of the weighted readout.
    n_nodes : int, optional
        N; needed by "weighted" and "flatten".
    mlp : sequence of int, default=(32,)
        Hidden sizes of the head; empty for a linear head.
    node_dropout : float in [0, 1), default=0.0
        Share of the nodes left out of a sample's readout at random during training.
    normalize : bool, default=True
        Scale the shift to unit spectral norm, so that powers neither overflow nor vanish. An
        operator that carries a ``scale`` is left as it is; see
        :meth:`svnn.operators.CovarianceOperator.normalized`.

    Shapes
    ------
    x : (…, N, in_features); shift : (N, N); result : (…, out_features).

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import SVNN
    >>> network = SVNN(1, 1, hidden=(8, 8))
    >>> network(torch.randn(5, 3, 1), torch.eye(3)).shape
    torch.Size([5, 1])

    The shift is an argument: the same network runs on another covariance, of another size.

    >>> network(torch.randn(5, 7, 1), torch.eye(7)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Sequence[int] = (32,),
        order: int = 2,
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
        readout: str = "mean",
        heads: int = 1,
        n_nodes: int | None = None,
        mlp: Sequence[int] = (32,),
        node_dropout: float = 0.0,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if not len(hidden):
            raise ValueError("hidden must name at least one layer, e.g. (32,).")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {tuple(ACTIVATIONS)}, got {activation!r}.")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout!r}.")
        self.order, self.normalize = order, normalize
        sizes = [in_features, *hidden]
        pairs = list(pairwise(sizes))
        self.widest = max(int(b) for _, b in pairs)  # values per node at most
        # The normalisation has a bias of its own.
        self.filters = nn.ModuleList(CovarianceFilter(a, b, order, bias=not batch_norm) for a, b in pairs)
        self.norms = nn.ModuleList(NodeNorm(b) if batch_norm else nn.Identity() for _, b in pairs)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.readout = Readout(readout, sizes[-1], n_nodes, heads, node_dropout)
        self.head = nn.Sequential()
        width = self.readout.out_features
        for size in mlp:
            self.head.extend([nn.Linear(width, size), ACTIVATIONS[activation]()])
            width = size
        self.head.append(nn.Linear(width, out_features))

    def forward(self, x: Tensor | ShiftedSignals, shift: Any = None) -> Tensor:
        """Return the prediction for ``x`` of shape (…, N, in_features) on ``shift``.

        ``shift`` is an operator or matrix, or a sequence of ``order`` of them used by every layer,
        or of ``order`` for each layer in turn. Where the same signals pass many times, ``x`` can be
        :class:`ShiftedSignals`, whose shifts (by the same operator) are known already.
        """
        u, norm = self._last_layer(x, shift)
        pool = None if self.dropout.p and self.training else self.readout.weights(u)
        if pool is None:
            pooled = self.readout(self.dropout(norm_then(norm, self.activation, u)))
        else:
            pooled = norm_then(norm, self.activation, u, pool)
        return self.head(pooled)

    def embed(self, x: Tensor | ShiftedSignals, shift: Any = None) -> Tensor:
        """Return the node embeddings before the readout, of shape (…, N, hidden[-1])."""
        u, norm = self._last_layer(x, shift)
        embedding: Tensor = self.dropout(norm_then(norm, self.activation, u))
        return embedding

    def _last_layer(self, x: Tensor | ShiftedSignals, shift: Any) -> tuple[Tensor, nn.Module | None]:
        """Return what the last filter makes of ``x``, and the norm that is still to be applied to it."""
        if isinstance(x, ShiftedSignals) and self.order:
            scale = None if isinstance(shift, (list, tuple)) else as_operator(shift).scale
            if scale != x.scale or (self.normalize and scale is None):
                raise ValueError(
                    "x was shifted by an operator of another scale; give operator.normalized() to "
                    "ShiftedSignals.of and to the network (a sequence of shifts needs plain signals)."
                )
        u, left = None, None
        for layer, norm, shifts in zip(self.filters, self.norms, self._layer_shifts(shift), strict=True):
            if u is not None:
                x = self.dropout(norm_then(left, self.activation, u))
            u, left = first_layer(x, layer, norm) if isinstance(x, ShiftedSignals) else (layer(x, shifts), norm)
        assert u is not None
        return u, left

    def _layer_shifts(self, shift: Any) -> list[Any]:
        n_layers = len(self.filters)
        if self.order == 0:
            return [None] * n_layers
        per_layer = isinstance(shift, (list, tuple)) and n_layers > 1 and len(shift) == n_layers * self.order
        shifts = as_shifts(shift, self.order * (n_layers if per_layer else 1))
        if self.normalize:
            shifts = normalized_together(shifts)
        if all(s is shifts[0] for s in shifts):
            return [shifts[0]] * n_layers
        if not per_layer:
            return [shifts] * n_layers
        return [shifts[i * self.order : (i + 1) * self.order] for i in range(n_layers)]


def normalized_together(shifts: list[CovarianceOperator]) -> list[CovarianceOperator]:
    """Divide all operators by one number, the largest of their norms: realisations of one matrix."""
    raw = [s for s in shifts if s.scale is None]
    if not raw:
        return shifts
    if all(s is raw[0] for s in shifts):
        return [raw[0].normalized()] * len(shifts)
    scale = max(s.norm() for s in raw) or 1.0
    return [s.normalized(scale) if s.scale is None else s for s in shifts]


def first_layer(x: ShiftedSignals, layer: Any, norm: nn.Module) -> tuple[Tensor, nn.Module | None]:
    """Return the filtered signals, and the norm unless it could be folded into the weights."""
    if x.order != layer.order or x.shape[2] != layer.in_features:
        raise ValueError(
            f"x holds {x.shape[2]} values a node shifted {x.order} times, the filter takes {layer.in_features} "
            f"values and order {layer.order}."
        )
    if isinstance(norm, NodeNorm) and layer.bias is None:
        moments = x.batch_moments() if norm.training else None
        if moments is not None or not norm.training:
            return x.filtered(*norm.folded(layer.weight, moments, x.shape[0] * x.shape[1])), None
    return x.filtered(layer.weight, layer.bias), norm
