r"""A fitted covariance network as one torch module of plain operations.

All members run as one network: their filters of the first layer share the shifted signals, and what follows is a
product for each member, all made at once. Batch norm is folded into the filters. Parts of weight zero are left out, and
shifts that no filter uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn.estimators._plain_shift import PlainShift, plain_shift
from svnn.estimators._training_data import LabelTargets, NumberTargets
from svnn.nn import SVNN, CovarianceFilter, Members
from svnn.nn._layers import NodeNorm

if TYPE_CHECKING:
    from svnn.estimators._covariance_network import CovarianceNetwork


class FilterLayer(nn.Module):
    r"""The filters of all members: from (B, N, …) to (members, B N, out).

    ``weight`` has the shape (members, K + 1, in, out). In the first layer all members have the same ``x``, (B, N, in);
    further layers get (members, B N, in).
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, shift: PlainShift | None, n_nodes: int, first: bool) -> None:
        super().__init__()
        self.first, self.n_nodes = first, n_nodes
        self.members, self.taps, self.n_in, _ = weight.shape
        self.shift = None if shift is None else shift.module
        self.register_buffer("weight", (weight if shift is None else shift.rewritten(weight)).flatten(1, 2))
        self.register_buffer("bias", bias[:, None])

    def forward(self, x: Tensor, own: Tensor | None = None) -> Tensor:
        """Filter ``x``; ``own`` (B, N, N) are the matrices of rows that have their own."""
        if self.first:
            return torch.matmul(self._shifted(x, own).flatten(0, 1), self.weight) + self.bias
        # The members' values are further values of a node while they are shifted.
        nodes = x.reshape(self.members, -1, self.n_nodes, self.n_in).permute(1, 2, 0, 3).flatten(2)
        apart = self._shifted(nodes, own).reshape(-1, self.taps, self.members, self.n_in)
        return torch.matmul(apart.permute(2, 0, 1, 3).flatten(2), self.weight) + self.bias

    def _shifted(self, x: Tensor, own: Tensor | None) -> Tensor:
        if own is None:
            found: Tensor = cast(nn.Module, self.shift)(x)
            return found
        powers = [x]
        for _ in range(self.taps - 1):
            powers.append(torch.matmul(own, powers[-1]))
        return torch.cat(powers, -1)


class Stacked(nn.Module):
    """All members as one network, from (B, N, F) to (members, B, out)."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, own: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, own) if isinstance(layer, FilterLayer) else layer(x)
        return x


class Pooling(nn.Module):
    """The readouts of all members: from (members, B N, F) to (members, B, pooled)."""

    weight: Tensor

    def __init__(self, readouts: Sequence[Any], n_nodes: int) -> None:
        super().__init__()
        self.kind, self.n_nodes, self.members = readouts[0].kind, n_nodes, len(readouts)
        if self.kind == "weighted":
            self.register_buffer("weight", torch.stack([own.weight.double() for own in readouts])[:, None] / n_nodes)

    def forward(self, u: Tensor) -> Tensor:
        nodes = u.reshape(self.members, -1, self.n_nodes, u.shape[-1])
        if self.kind == "mean":
            return nodes.mean(2)
        return (torch.matmul(self.weight, nodes) if self.kind == "weighted" else nodes).flatten(2)


class LinearLayer(nn.Module):
    """A linear map for each member: from (members, B, in) to (members, B, out)."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.register_buffer("weight", torch.stack([layer.weight.T for layer in layers]))
        self.register_buffer("bias", torch.stack([layer.bias for layer in layers])[:, None])

    def forward(self, h: Tensor) -> Tensor:
        return torch.matmul(h, self.weight) + self.bias


class PlainNetwork(nn.Module):
    """From X in its own units to predictions in theirs; see :func:`plain_network`."""

    mean: Tensor
    scale: Tensor
    weights: Tensor
    target_mean: Tensor
    target_scale: Tensor

    def __init__(self, model: CovarianceNetwork) -> None:
        super().__init__()
        from svnn.estimators._covariance_network import networks_of

        module = model.module_
        self.n_nodes, self.n_values = int(model.n_features_in_), int(model._n_values)
        standardizer, shape = model._standardizer, (self.n_nodes, self.n_values)
        self.register_buffer("mean", _filled(standardizer.mean, shape))
        self.register_buffer("scale", _filled(standardizer.scale, shape))
        networks = networks_of(module)
        weights = module.weights.cpu() if isinstance(module, Members) else torch.ones(1, dtype=torch.float64)
        counts = [network for network, weight in zip(networks, weights.tolist(), strict=False) if weight]
        self.network = _stacked(counts, model) if counts else None
        self.linear = None
        if isinstance(module, Members) and module.linear_weight is not None and float(weights[-1]):
            self.linear = nn.Linear(module.linear_weight.shape[1], module.linear_weight.shape[0], dtype=torch.float64)
            self.linear.load_state_dict({"weight": module.linear_weight, "bias": cast(Tensor, module.linear_bias)})
        self.register_buffer("weights", weights[weights != 0][:, None, None])
        self.targets = model._targets
        if isinstance(self.targets, NumberTargets):
            outputs = (self.targets.n_outputs,)
            self.register_buffer("target_mean", _filled(self.targets.standardizer.mean, outputs))
            self.register_buffer("target_scale", _filled(self.targets.standardizer.scale, outputs))

    def forward(self, X: Tensor) -> Tensor:
        return self._predict(X, None)

    def _predict(self, X: Tensor, own: Tensor | None) -> Tensor:
        wanted = f"(t, {self.n_nodes})" if self.n_values == 1 else f"(t, {self.n_nodes}, {self.n_values})"
        torch._assert(X.shape[1] == self.n_nodes, f"X must have shape {wanted}.")
        x = X.to(self.mean).reshape(X.shape[0], self.n_nodes, self.n_values)
        z = (x - self.mean) / self.scale
        parts = [] if self.network is None else [self.network(z, own)]
        if self.linear is not None:
            parts.append(self.linear(z.flatten(1))[None])
        outputs = torch.cat(parts) if len(parts) > 1 else parts[0]
        if isinstance(self.targets, LabelTargets):
            return (self.weights * outputs.softmax(-1)).sum(0)
        found = (self.weights * outputs).sum(0) * self.target_scale + self.target_mean
        return found if self.targets.shape else found.flatten()


class PlainNetworkOfRows(PlainNetwork):
    """The same for rows that come with matrices of their own, of shape (t, N, N)."""

    divisor: Tensor

    def __init__(self, model: CovarianceNetwork) -> None:
        super().__init__(model)
        self.register_buffer("divisor", torch.tensor(model._scale, dtype=torch.float64))

    def forward(self, X: Tensor, shift: Tensor) -> Tensor:  # type: ignore[override]
        return self._predict(X, shift.to(self.mean) / self.divisor)


def plain_network(model: CovarianceNetwork, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
    """Return a fitted estimator as a module of plain operations, in evaluation mode and in main memory."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}.")
    kind = PlainNetwork if model._per == "table" else PlainNetworkOfRows
    with torch.no_grad():
        traced = torch.fx.symbolic_trace(kind(model).double())
    for node in traced.graph.nodes:
        node.type = None  # annotations, which are text here, cannot be pickled
    traced.recompile()
    return traced.requires_grad_(False).to(dtype).eval()


def _stacked(networks: Sequence[SVNN], model: CovarianceNetwork) -> Stacked:
    """Return networks of the same shape as one, which gives their outputs (members, B, out)."""
    layers = []
    for depth in range(len(networks[0].filters)):
        pairs = [_folded(own.filters[depth], own.norms[depth]) for own in networks]
        layers.append(tuple(torch.stack(each) for each in zip(*pairs, strict=True)))
    used = [int(tap) for weight, _ in layers for tap in weight.ne(0).any(-1).any(-1).any(0).nonzero()]
    order, n = max(used, default=0), model.n_features_in_
    shift = plain_shift(model.operator_, order, model.covariance_) if model._per == "table" else None
    stacked: list[nn.Module] = []
    for depth, (weight, bias) in enumerate(layers):
        layer = FilterLayer(weight[:, : order + 1], bias, shift, n, first=depth == 0)
        stacked += [layer, networks[0].activation]
    stacked.append(Pooling([own.readout for own in networks], n))
    for parts in zip(*(own.head for own in networks), strict=True):
        linear = isinstance(parts[0], nn.Linear)
        stacked.append(LinearLayer(cast("Sequence[nn.Linear]", parts)) if linear else parts[0])
    return Stacked(stacked)


def _folded(layer: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a filter, with the batch norm behind it, in double precision."""
    own = cast(CovarianceFilter, layer)
    weight = own.weight.detach().cpu().double()
    if isinstance(norm, NodeNorm):
        factor = norm.weight.double() * torch.rsqrt(norm.running_var.double() + norm.eps)
        return weight * factor.cpu(), (norm.bias.double() - norm.running_mean.double() * factor).detach().cpu()
    bias = weight.new_zeros(own.out_features) if own.bias is None else own.bias.detach().cpu().double()
    return weight, bias


def _filled(values: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """Return a copy of an array, or of a single number, in a shape."""
    return torch.tensor(np.broadcast_to(np.asarray(values, dtype=np.float64), shape).copy())
