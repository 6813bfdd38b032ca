"""The shift as a sum of shifts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn.functional.low_rank import LowRankPlusSparse
from svnn.operators._csr import CSROperator
from svnn.operators._lowrank import LowRankOperator
from svnn.operators._operator import CovarianceOperator


class SumOperator(CovarianceOperator):
    r"""The sum of operators on the same nodes: :math:`C x = \sum_p C_p x`.

    A covariance of r factors and a sparse rest is the sum of a low-rank operator and one in CSR form. A shift costs
    ``2 N r + nnz`` multiply-adds per column then, and the N×N matrix is never formed.

    Parameters
    ----------
    parts : sequence of CovarianceOperator
        All of one size, dtype and device. What counts is the matrix that each of them shifts by: a part that was
        normalised stays divided by its scale. Gradients reach the parts that ask for them.

    Examples
    --------
    >>> import torch
    >>> from svnn.operators import CSROperator, LowRankOperator, SumOperator
    >>> factor = LowRankOperator(torch.ones(3, 1), torch.tensor([2.0]))
    >>> rest = CSROperator.from_dense(torch.eye(3))
    >>> op = SumOperator([factor, rest])
    >>> op.to_dense()
    tensor([[3., 2., 2.],
            [2., 3., 2.],
            [2., 2., 3.]])
    >>> op @ torch.ones(3, 1)
    tensor([[7.],
            [7.],
            [7.]])
    """

    backend = "sum"

    def __init__(self, parts: Sequence[CovarianceOperator]) -> None:
        for part in parts:
            if not isinstance(part, CovarianceOperator):
                raise TypeError(f"parts must be operators, got {type(part).__name__}; svnn.as_operator makes one.")
        if not parts:
            raise ValueError("parts must hold at least one operator.")
        for what in ("shape", "dtype", "device"):
            found = {getattr(part, what) for part in parts}
            if len(found) > 1:
                raise ValueError(f"parts must have one {what}, got {' and '.join(sorted(map(str, found)))}.")
        self._keep(parts)
        self.shape = parts[0].shape

    def _keep(self, parts: Sequence[CovarianceOperator]) -> None:
        self.held = nn.ModuleList(parts)  # so that a module that holds the sum moves and saves its parts

    @property
    def parts(self) -> tuple[CovarianceOperator, ...]:
        """The operators that are added."""
        return tuple(cast(CovarianceOperator, part) for part in self.held)

    @classmethod
    def from_matrix(cls, C: LowRankPlusSparse) -> SumOperator:
        """Store copies of the two parts of a matrix in the precision of their sum."""
        loadings = torch.from_numpy(np.array(C.loadings, dtype=C.dtype, order="C"))
        low_rank = LowRankOperator(loadings, loadings.new_ones(loadings.shape[1]))
        return cls([low_rank, CSROperator.from_scipy(C.residual.astype(C.dtype))])

    def _matmul(self, x: Tensor) -> Tensor:
        shifted = self.parts[0]._matmul(x)
        for part in self.parts[1:]:
            shifted = shifted + part._matmul(x)
        return shifted

    @property
    def nnz(self) -> int:
        return sum(part.nnz for part in self.parts)

    def _tensors(self) -> tuple[Tensor, ...]:
        tensors = [tensor for part in self.parts for tensor in part._tensors()]
        return tuple(sorted(tensors, key=lambda tensor: not tensor.is_floating_point()))

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        parts = tuple(copy.copy(part) for part in self.parts)
        for part in parts:
            part._map(function, factor)
        self._keep(parts)

    def _mapped(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> Self:
        other = type(self)([part._mapped(function, factor) for part in self.parts])
        other.scale, other.adaptive, other.fleeting = self.scale, self.adaptive, self.fleeting
        return other

    def to_dense(self) -> Tensor:
        dense = self.parts[0].to_dense()
        for part in self.parts[1:]:
            dense = dense + part.to_dense()
        return dense
