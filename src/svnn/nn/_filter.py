"""The covariance filter bank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import torch
from torch import Tensor, nn

from svnn.nn._shifted import ShiftedSignals
from svnn.operators import CovarianceOperator, as_operator, from_edges
from svnn.operators._edges import are_integers

if TYPE_CHECKING:
    from svnn._types import MatrixLike

    #: The shift of a filter: an operator or a matrix, or a sequence of them; None where the order is 0.
    ShiftLike: TypeAlias = MatrixLike | Sequence[MatrixLike] | None


_PER_SAMPLE = "For a matrix for each sample, pass svnn.operators.pack(list), or a tensor of shape (B, N, N)."


class CovarianceFilter(nn.Module):
    r"""A bank of polynomial filters of the covariance (Eq. 1).

    .. math:: Y = \sum_{k=0}^{K} C^k X W_k + b

    Parameters
    ----------
    in_features, out_features : int
        Values per node before and after.
    order : int
        :math:`K`, the number of shifts; 0 ignores the covariance.
    bias : bool, default=True

    Attributes
    ----------
    weight : Parameter of shape (order + 1, in_features, out_features)
    bias : Parameter of shape (out_features,) or None

    Shapes
    ------
    x : (…, N, in_features); shift : (N, N); result : (…, N, out_features).
    With a matrix for each sample, x : (…, B, N, in_features); shift : (B, N, N). The parameters do not depend on N.

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import CovarianceFilter
    >>> layer = CovarianceFilter(1, 8, order=2)
    >>> layer(torch.ones(5, 3, 1), shift=torch.eye(3)).shape
    torch.Size([5, 3, 8])

    It also takes a graph as the layers of PyTorch Geometric do, and may stand in its ``Sequential``:

    >>> edge_index, edge_weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4)
    >>> layer(torch.ones(3, 1), edge_index, edge_weight).shape
    torch.Size([3, 8])
    """

    def __init__(self, in_features: int, out_features: int, order: int, bias: bool = True) -> None:
        super().__init__()
        for name, value, least in (
            ("in_features", in_features, 1),
            ("out_features", out_features, 1),
            ("order", order, 0),
        ):
            if int(value) != value or value < least:
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")
        self.in_features, self.out_features, self.order = int(in_features), int(out_features), int(order)
        self.weight = nn.Parameter(torch.empty(self.order + 1, self.in_features, self.out_features))
        self.bias = nn.Parameter(torch.empty(self.out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights as ``nn.Linear`` does for its ``(order + 1) * in_features`` inputs."""
        bound = 1 / math.sqrt((self.order + 1) * self.in_features)
        nn.init.uniform_(self.weight, -bound, bound, generator)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound, generator)

    def forward(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None, edge_weight: Tensor | None = None) -> Tensor:
        r"""Filter ``x``.

        Parameters
        ----------
        x : Tensor of shape (…, N, in_features), or ShiftedSignals
        shift : CovarianceOperator, matrix, or sequence of ``order`` of them
            A sequence :math:`\tilde C_1, …, \tilde C_K` makes the stochastic filter of Def. 5,
            :math:`\sum_k \tilde C_k \cdots \tilde C_1 x W_k`. Signals that are shifted already need none.
            Integers of shape (2, E) are the edges of a graph, see :func:`svnn.operators.from_edges`, also where there
            are two nodes and two edges; the numbers of a matrix are floating-point then. It is checked and sorted in
            every call: where it stays the same, make the operator once.
        edge_weight : Tensor of shape (E,), optional
            The weights of those edges.

        Returns
        -------
        Tensor of shape (…, N, out_features)
        """
        if x.shape[-1] != self.in_features:
            raise ValueError(f"x has {x.shape[-1]} values per node, the filter takes {self.in_features}.")
        if isinstance(x, ShiftedSignals):
            if x.order != self.order:
                raise ValueError(f"x was shifted {x.order} times, but the filter has order {self.order}.")
            return x.filtered(self.weight, self.bias)
        if self.order and _is_edges(shift, edge_weight):
            shift = from_edges(cast(Tensor, shift), edge_weight, x.shape[-2])
        shifts = as_shifts(shift, self.order)
        if shifts and all(s is shifts[0] for s in shifts):
            return shifts[0].filter(x, self.weight, self.bias)
        powers = [x]
        for operator in shifts:
            powers.append(operator.forward(powers[-1]))  # torch.compile does not see op @ x
        return nn.functional.linear(torch.cat(powers, -1), self.weight.flatten(0, 1).T, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, order={self.order}, bias={self.bias is not None}"


def _is_edges(shift: object, edge_weight: Tensor | None) -> bool:
    """Return whether a shift is the edges of a graph: integers of shape (2, E). A matrix has other numbers."""
    found = are_integers(shift) and shift.ndim == 2 and len(shift) == 2
    if edge_weight is not None and not found:
        raise ValueError("edge_weight belongs to edges; give an edge_index of shape (2, E) as the shift.")
    return found


def as_shifts(shift: ShiftLike, order: int) -> list[CovarianceOperator]:
    """Return the ``order`` operators that ``shift`` stands for: one repeated, or as many as given."""
    if order == 0:
        return []
    if shift is None:
        raise ValueError(f"a filter of order {order} needs a shift; pass an operator or a matrix.")
    if isinstance(shift, (list, tuple)):
        if len(shift) != order:
            raise ValueError(
                f"got a sequence of {len(shift)} shifts for a filter of order {order}; pass {order}. {_PER_SAMPLE}"
            )
        operators = [as_operator(s) for s in shift]
        if len(sizes := {operator.shape for operator in operators}) > 1:
            raise ValueError(
                f"a sequence of shifts has one for each power, all of one shape; got {sorted(sizes)}. {_PER_SAMPLE}"
            )
        return operators
    return [as_operator(shift)] * order
