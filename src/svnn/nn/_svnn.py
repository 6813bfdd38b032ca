"""The sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from svnn.nn._filter import CovarianceFilter, as_shifts
from svnn.nn._hooks import watched
from svnn.nn._layers import ACTIVATIONS, Dropout, NodeNorm
from svnn.nn._readout import Readout
from svnn.nn._shifted import ShiftedSignals, same_scale
from svnn.operators import CovarianceOperator, PackedOperator, as_operator, common_scale
from svnn.operators._tracing import traced

if TYPE_CHECKING:
    from svnn.nn._filter import ShiftLike

#: Bytes of embeddings, in single precision, to make at a time.
_SLICE_BYTES = 2**22


class SVNN(nn.Module):
    r"""Layers of covariance filters, a readout over the nodes and an MLP head (Eq. 4).

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
        Over all samples and nodes of a batch; across processes after
        ``torch.nn.SyncBatchNorm.convert_sync_batchnorm(network)``.
    readout : {"mean", "weighted", "flatten"}, default="mean"
        "mean", the readout of the paper, runs on any N but cannot tell nodes apart. "weighted" learns
        ``heads`` weights per node and starts as the mean. "flatten" gives every node to the head.
    heads : int, default=1
        Weight vectors of the weighted readout.
    n_nodes : int, optional
        N; "weighted" and "flatten" need it.
    mlp : sequence of int, default=(32,)
        Hidden sizes of the head; empty for a linear head.
    node_dropout : float in [0, 1), default=0.0
        Share of the nodes that are left out of a sample's readout at random during training.
    normalize : bool, default=True
        Scale the shift to unit spectral norm, so that powers neither overflow nor vanish. An
        operator that carries a ``scale`` is left as it is; see
        :meth:`svnn.operators.CovarianceOperator.normalized`.

    Shapes
    ------
    x : (…, N, in_features); shift : (N, N); result : (…, out_features).
    With a matrix for each sample, x : (…, B, N, in_features); shift : (B, N, N). With packed graphs of any sizes, see
    :func:`svnn.operators.pack`, x : (…, N_1 + … + N_B, in_features); result : (…, B, out_features).

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

    def forward(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the prediction for ``x`` of shape (…, N, in_features) on ``shift``.

        ``shift`` is an operator or matrix, or a sequence of ``order`` of them used by every layer,
        or of ``order`` for each layer in turn. Where the same signals pass many times, ``x`` can be
        :class:`ShiftedSignals`, whose shifts (by the same operator) are known already.
        """
        graphs = packed_graphs(shift)
        pooled = [self.readout(self.dropout(self.activation(u)), *graphs) for u in self._last_layer(x, shift)]
        output: Tensor = self.head(pooled[0] if len(pooled) == 1 else torch.cat(pooled))
        return output

    def embed(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the node embeddings before the readout, of shape (…, N, hidden[-1])."""
        return torch.cat([self.dropout(self.activation(u)) for u in self._last_layer(x, shift)])

    def _last_layer(self, x: Tensor | ShiftedSignals, shift: ShiftLike) -> list[Tensor]:
        """Return the filtered and normalised signals of the last layer, in slices of a few samples.

        The system clears fresh memory page by page, which is slow. The C library has memory of a few megabytes at
        hand, so what follows is done slice by slice. With 60 samples of 20,000 nodes an epoch takes 0.45 of the time
        that it takes in one piece, and 0.4 in batches of 16 (one core of an x86 server). Where somebody listens to what
        follows, or torch traces it, there is one piece.
        """
        if isinstance(x, ShiftedSignals) and self.order:
            scale = None if isinstance(shift, (list, tuple)) else as_operator(shift).scale
            if not same_scale(scale, x.scale) or (self.normalize and scale is None):
                raise ValueError(
                    "x was shifted by an operator of another scale; give operator.normalized() to "
                    "ShiftedSignals.of and to the network (a sequence of shifts needs plain signals)."
                )
        whole = traced() or watched(self.activation, self.dropout, self.readout, self.readout.node_dropout)
        rows = max(1, _SLICE_BYTES // (4 * x.shape[-2] * self.widest))
        u: Tensor | None = None
        for layer, norm, own in zip(self.filters, self.norms, self._layer_shifts(shift), strict=True):
            x = x if u is None else self.dropout(self.activation(u))
            weights = folded(x, layer, norm)
            if weights is not None and isinstance(x, Tensor) and isinstance(own, CovarianceOperator):
                u = own.filter(x, *weights)
            elif weights is None or isinstance(x, Tensor):
                u = layer(x, own)
                # What torch puts in the place of a NodeNorm for several processes has its values in the second axis.
                u = norm(u.flatten(0, -2)).view_as(u) if isinstance(norm, nn.SyncBatchNorm) else norm(u)
            elif whole or layer is not self.filters[-1]:
                u = x.filtered(*weights)
            else:
                return [x[i : i + rows].filtered(*weights) for i in range(0, max(x.shape[0], 1), rows)]
        assert u is not None
        return [u] if whole or u.ndim <= 2 else list(u.split(rows))

    def _layer_shifts(self, shift: ShiftLike) -> list[CovarianceOperator | list[CovarianceOperator] | None]:
        """Return the shift of every layer: one operator, or ``order`` of them; None where there are no shifts."""
        n_layers = len(self.filters)
        if self.order == 0:
            return [None] * n_layers
        per_layer = isinstance(shift, (list, tuple)) and n_layers > 1 and len(shift) == n_layers * self.order
        shifts = as_shifts(shift, self.order * (n_layers if per_layer else 1))
        same = all(s is shifts[0] for s in shifts)
        if self.normalize and any(s.scale is None for s in shifts):
            if same:
                shifts = [shifts[0].normalized()] * len(shifts)
            else:  # realisations of one matrix: all are divided by the same number
                scale = common_scale([s for s in shifts if s.scale is None])
                shifts = [s.normalized(scale) if s.scale is None else s for s in shifts]
        if same:
            return [shifts[0]] * n_layers
        if not per_layer:
            return [shifts] * n_layers
        return [shifts[i * self.order : (i + 1) * self.order] for i in range(n_layers)]


def packed_graphs(shift: ShiftLike) -> tuple[()] | tuple[PackedOperator]:
    """Return the packed graphs whose nodes a readout has to pool apart, if the shift is of such."""
    first = shift[0] if isinstance(shift, (list, tuple)) and shift else shift
    return (first,) if isinstance(first, PackedOperator) else ()


def folded(x: Tensor | ShiftedSignals, layer: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor] | None:
    """Return the weights and the bias of a filter that also normalises, or None where the two have to run in turn.

    In training that needs the moments of ``x``. Hooks need the two to run in turn: nothing else would call them.
    A prediction for 481 samples takes 0.94 of the time that it takes in turn with 68 nodes, and 0.7 with 300 (one core
    of an x86 server).
    """
    if type(layer) is not CovarianceFilter or type(norm) is not NodeNorm or watched(layer, norm):
        return None  # others may do something else
    if layer.bias is not None or x.shape[-1] != layer.in_features:
        return None  # the filter says what is wrong
    if isinstance(x, Tensor):
        return None if norm.training else norm.folded(layer.weight, None, 0)
    moments = x.batch_moments() if norm.training else None
    if x.order != layer.order or (norm.training and moments is None):
        return None
    return norm.folded(layer.weight, moments, x.shape[0] * x.shape[1])
