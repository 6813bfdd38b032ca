"""Several networks that predict together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from svnn.nn._shifted import ShiftedSignals
from svnn.nn._svnn import SVNN, packed_graphs
from svnn.operators import as_operator
from svnn.operators._tracing import traced

if TYPE_CHECKING:
    from svnn.nn._filter import ShiftLike


class Members(nn.Module):
    r"""Networks of the same shape, and perhaps a linear function, whose outputs are averaged.

    .. math:: \hat y(x) = \sum_m w_m \, \Phi_m(x, C) + w_{\text{linear}} (A \operatorname{vec}(x) + b)

    Parameters
    ----------
    members : sequence of SVNN
    weights : sequence of float, optional
        Weight of each member, and then of the linear function; they add up to 1. By default all members count alike.
    linear : tuple of tensors (A, b), optional
        Of shapes (out_features, N * in_features) and (out_features,). It does not depend on the covariance.

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import SVNN, Members
    >>> network = Members([SVNN(1, 2, hidden=(8,)) for _ in range(3)])
    >>> x, shift = torch.randn(5, 4, 1), torch.eye(4)
    >>> network(x, shift).shape, network.outputs(x, shift).shape, network.embed(x, shift).shape
    (torch.Size([5, 2]), torch.Size([3, 5, 2]), torch.Size([5, 4, 24]))

    A linear function takes part with a weight of its own:

    >>> linear = (torch.ones(2, 4), torch.zeros(2))
    >>> mixed = Members(network.networks, weights=[0.1, 0.2, 0.3, 0.4], linear=linear)
    >>> mixed.outputs(x, shift).shape, mixed.weights.tolist()
    (torch.Size([4, 5, 2]), [0.1, 0.2, 0.3, 0.4])
    """

    weights: Tensor
    linear_weight: Tensor | None
    linear_bias: Tensor | None

    def __init__(
        self,
        members: Sequence[SVNN],
        weights: Sequence[float] | None = None,
        linear: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__()
        if not members:
            raise ValueError("members must hold at least one network.")
        if weights is None:
            if linear is not None:
                raise ValueError("a linear function needs weights: one for each member, then its own.")
            weights = [1 / len(members)] * len(members)
        n_parts = len(members) + (linear is not None)
        if len(weights) != n_parts:
            raise ValueError(f"weights holds {len(weights)} numbers for {n_parts} parts.")
        self.members = nn.ModuleList(members)
        self.widest = max(member.widest for member in members)
        self.register_buffer("weights", torch.tensor(list(weights), dtype=torch.float64))
        A, b = (None, None) if linear is None else linear
        self.register_buffer("linear_weight", A)
        self.register_buffer("linear_bias", b)

    @property
    def networks(self) -> list[SVNN]:
        """The members as a list."""
        return [cast(SVNN, member) for member in self.members]

    def forward(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the weighted mean of the outputs, as :meth:`SVNN.forward` returns one of them."""
        outputs = self.outputs(x, shift)
        return torch.tensordot(self.weights.to(outputs), outputs, 1)

    def outputs(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the outputs of all members, and of the linear function, of shape (parts, …, out_features)."""
        shifted, operator = self._shifted(x, shift)
        found = [member(shifted, operator) for member in self.networks]
        if self.linear_weight is not None and self.linear_bias is not None:
            if not isinstance(x, Tensor):
                raise ValueError("x are shifted signals, but the linear function takes plain ones; give a tensor.")
            rows = x.flatten(-2)
            for graphs in packed_graphs(shift):
                if graphs.same_size is None:
                    raise ValueError("the linear function takes graphs of one size; leave it out for packed graphs.")
                rows = rows.unflatten(-1, (graphs.n_samples, -1))
            found.append(rows @ self.linear_weight.to(rows).T + self.linear_bias.to(rows))
        return torch.stack(found)

    def embed(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the node embeddings of all members side by side, of shape (…, N, members * hidden[-1])."""
        x, shift = self._shifted(x, shift)
        return torch.cat([member.embed(x, shift) for member in self.networks], -1)

    def _shifted(self, x: Tensor | ShiftedSignals, shift: ShiftLike) -> tuple[Tensor | ShiftedSignals, ShiftLike]:
        """Shift signals once for all members, where it is the same shift every time."""
        order = self.networks[0].order
        plain = isinstance(x, Tensor) and x.ndim == 3 and not isinstance(shift, (list, tuple)) and order > 0
        if not plain or torch.is_grad_enabled() or shift is None or traced() or packed_graphs(shift):
            return x, shift
        operator = as_operator(shift)
        if self.networks[0].normalize and operator.scale is None:
            operator = operator.normalized()
        return ShiftedSignals.of(cast(Tensor, x), operator, order), operator
