"""The covariance filter bank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn

from svnn.nn._shifted import ShiftedSignals
from svnn.operators import CovarianceOperator, as_operator

if TYPE_CHECKING:
    from svnn._types import MatrixLike

    #: The shift of a filter: an operator or a matrix, or a sequence of them; None where the order is 0.
    ShiftLike: TypeAlias = MatrixLike | Sequence[MatrixLike] | None


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
    The parameters do not depend on N.

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import CovarianceFilter
    >>> layer = CovarianceFilter(1, 8, order=2)
    >>> layer(torch.ones(5, 3, 1), shift=torch.eye(3)).shape
    torch.Size([5, 3, 8])
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

    def forward(self, x: Tensor | ShiftedSignals, shift: ShiftLike = None) -> Tensor:
        r"""Filter ``x``.

        Parameters
        ----------
        x : Tensor of shape (…, N, in_features), or ShiftedSignals
        shift : CovarianceOperator, matrix, or sequence of ``order`` of them
            A sequence :math:`\tilde C_1, …, \tilde C_K` makes the stochastic filter of Def. 5,
            :math:`\sum_k \tilde C_k \cdots \tilde C_1 x W_k`. Signals that are shifted already need none.

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
        shifts = as_shifts(shift, self.order)
        if shifts and all(s is shifts[0] for s in shifts):
            return shifts[0].filter(x, self.weight, self.bias)
        powers = [x]
        for operator in shifts:
            powers.append(operator.forward(powers[-1]))  # torch.compile does not see op @ x
        return nn.functional.linear(torch.cat(powers, -1), self.weight.flatten(0, 1).T, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, order={self.order}, bias={self.bias is not None}"


def as_shifts(shift: ShiftLike, order: int) -> list[CovarianceOperator]:
    """Return the ``order`` operators that ``shift`` stands for: one repeated, or as many as given."""
    if order == 0:
        return []
    if shift is None:
        raise ValueError(f"a filter of order {order} needs a shift; pass an operator or a matrix.")
    if isinstance(shift, (list, tuple)):
        if len(shift) != order:
            raise ValueError(f"got a sequence of {len(shift)} shifts for a filter of order {order}; pass {order}.")
        return [as_operator(s) for s in shift]
    return [as_operator(shift)] * order
