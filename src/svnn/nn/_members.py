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
    r"""Networks of the same shape whose outputs are averaged.

    .. math:: \hat y(x) = \frac1M \sum_m \Phi_m(x, C)

    Parameters
    ----------
    members : sequence of SVNN

    Attributes
    ----------
    widest : int
        Values per node of a network, at most.

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import SVNN, Members
    >>> network = Members([SVNN(1, 2, hidden=(8,)) for _ in range(3)])
    >>> x, shift = torch.randn(5, 4, 1), torch.eye(4)
    >>> network(x, shift).shape, network.outputs(x, shift).shape, network.embed(x, shift).shape
    (torch.Size([5, 2]), torch.Size([3, 5, 2]), torch.Size([5, 4, 24]))
    """

    def __init__(self, members: Sequence[SVNN]) -> None:
        super().__init__()
        if not members:
            raise ValueError("members must hold at least one network.")
        self.members = nn.ModuleList(members)
        self.widest = max(member.widest for member in members)

    @property
    def networks(self) -> list[SVNN]:
        """The members as a list."""
        return [cast(SVNN, member) for member in self.members]

    def forward(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the mean of the outputs, as :meth:`SVNN.forward` returns one of them."""
        return self.outputs(x, shift).mean(0)

    def outputs(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        """Return the outputs of all members, of shape (members, …, out_features)."""
        x, shift = self._shifted(x, shift)
        return torch.stack([member(x, shift) for member in self.networks])

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
