"""Networks of one shape as one: what predicts, is explained and is exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from svnn.nn._filter import CovarianceFilter
from svnn.nn._layers import fold_norm
from svnn.nn._powers import Powers, RowShifts
from svnn.nn._readout import Readout
from svnn.nn._svnn import SVNN


def folded_filter(layer: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return weight (K + 1, in, out) and bias (out,) of a filter as it predicts, batch norm included, in float64.

    Examples
    --------
    >>> layer = CovarianceFilter(1, 8, order=2, bias=False)
    >>> [each.shape for each in folded_filter(layer, nn.Identity())]
    [torch.Size([3, 1, 8]), torch.Size([8])]
    """
    own = cast(CovarianceFilter, layer)
    weight = own.weight.detach().double()
    bias = weight.new_zeros(own.out_features) if own.bias is None else own.bias.detach().double()
    if getattr(norm, "running_var", None) is None:
        return weight, bias
    known: Any = norm
    weight, shift = fold_norm(known, weight, known.running_mean.double() - bias, known.running_var.double())
    return weight.detach(), shift.detach()


class StackedNetworks(nn.Module):
    """Networks of one shape on one shift as one module in double precision, as they predict.

    All share the shifted signals, and what follows is one product for all of them. Batch norm is folded into the
    filters; there is no dropout.

    Parameters
    ----------
    networks : sequence of SVNN
    powers : Powers
        Shifts signals up to the order of the networks, by an operator that is normalised where they need it.

    Attributes
    ----------
    n_members : int
    widest : int
        Values per node at most, of all networks.
    activation : Module
        Of the layers of filters. It may be replaced.

    Examples
    --------
    >>> from svnn import as_operator
    >>> C = as_operator(torch.eye(3))
    >>> networks = StackedNetworks([SVNN(1, 2, hidden=(8,)) for _ in range(4)], Powers(C, order=2))
    >>> x = torch.ones(5, 3, 1, dtype=torch.float64)
    >>> networks(x).shape, networks.embed(x).shape
    (torch.Size([4, 5, 2]), torch.Size([5, 3, 32]))
    """

    def __init__(self, networks: Sequence[SVNN], powers: Powers) -> None:
        super().__init__()
        first = networks[0]
        self.n_members, self.widest = len(networks), len(networks) * first.widest
        self.powers, self.activation = powers, first.activation
        self.filters = nn.ModuleList()
        for depth in range(len(first.filters)):
            pairs = [folded_filter(own.filters[depth], own.norms[depth]) for own in networks]
            weight, bias = (torch.stack(each) for each in zip(*pairs, strict=True))
            weight = powers.rewritten(weight).flatten(1, 2)
            if depth == 0:  # all members have the same input: it is one filter
                weight, bias = weight.transpose(0, 1).flatten(1)[None], bias.flatten()[None]
            self.filters.append(MemberLayer(weight, bias))
        self.readout = MemberReadout([own.readout for own in networks])
        self.head = nn.Sequential()
        for parts in zip(*(own.head for own in networks), strict=True):
            linear = [part for part in parts if isinstance(part, nn.Linear)]
            if linear:
                weights, biases = zip(*((part.weight.T, part.bias) for part in linear), strict=True)
                self.head.append(MemberLayer(torch.stack(weights), torch.stack(biases)))
            else:
                self.head.append(parts[0])

    def forward(self, x: Tensor, own: RowShifts = None) -> Tensor:
        """Return the outputs (members, B, out) for signals (B, N, F).

        ``own`` shifts them in place of the operator of ``powers``: another one, or one of several matrices.
        """
        outputs: Tensor = self.head(self.readout(self.embed(x, own)))
        return outputs

    def embed(self, x: Tensor, own: RowShifts = None) -> Tensor:
        """Return the embeddings of the nodes, members side by side, of shape (B, N, members * hidden[-1])."""
        for part in self.filters:
            layer = cast(MemberLayer, part)
            x = self.activation(self.powers.filter(x, layer.weight, layer.bias, own))
        return x


class MemberLayer(nn.Module):
    """A linear map for each member, in double precision: from (members, B, in) to (members, B, out)."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().double())
        self.register_buffer("bias", bias.detach().double()[:, None])

    def forward(self, h: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, h, self.weight)


class MemberReadout(nn.Module):
    """The readouts of all members: from (B, N, members * F) to (members, B, pooled)."""

    weight: Tensor

    def __init__(self, readouts: Sequence[Readout]) -> None:
        super().__init__()
        self.kind, self.members = readouts[0].kind, len(readouts)
        if self.kind == "weighted":
            weights = torch.stack([own.weight.detach().double() for own in readouts])
            self.register_buffer("weight", weights[:, None] / weights.shape[-1])  # (members, 1, heads, N)

    def forward(self, u: Tensor) -> Tensor:
        if self.kind == "mean":
            return u.mean(1).reshape(u.shape[0], self.members, -1).transpose(0, 1)
        nodes = u.reshape(u.shape[0], u.shape[1], self.members, -1).permute(2, 0, 1, 3)
        return (torch.matmul(self.weight, nodes) if self.kind == "weighted" else nodes).flatten(2)
