"""The shift in factored form, for far fewer samples than features, and sums of shifts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn.functional._matrix import LowRankPlusSparse
from svnn.operators._csr import CSROperator
from svnn.operators._operator import CovarianceOperator

if TYPE_CHECKING:
    from svnn._types import DataLike


class LowRankOperator(CovarianceOperator):
    r"""``C = U diag(s) Uᵀ`` with U of shape (N, r): a shift costs ``2 N r``; N×N is never formed."""

    backend = "lowrank"

    def __init__(self, factor: Tensor, weight: Tensor) -> None:
        self.factor, self.weight = factor, weight
        self.shape = (len(factor), len(factor))

    @classmethod
    def from_matrix(cls, C: Tensor) -> LowRankOperator:
        """Factor a symmetric matrix by its eigenvectors, without the null space."""
        values, vectors = torch.linalg.eigh(C)
        size = values.abs().max() if len(values) else values.sum()
        kept = values.abs() > len(C) * torch.finfo(C.dtype).eps * size
        if not kept.any():
            kept[-1] = True
        return cls(vectors[:, kept], values[kept])

    def _matmul(self, x: Tensor) -> Tensor:
        return self.factor @ (self.weight[:, None] * (self.factor.T @ x))

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.factor, self.weight

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        self.factor, self.weight = map(function, self._tensors())
        if isinstance(factor, Tensor) or factor != 1.0:
            self.weight = self.weight * factor

    def to_dense(self) -> Tensor:
        return (self.factor * self.weight) @ self.factor.T


class SumOperator(CovarianceOperator):
    r"""The sum of operators on the same nodes: :math:`C x = \sum_p C_p x`.

    A covariance of r factors and a sparse rest is the sum of a low-rank operator and one in CSR form. A shift costs
    ``2 N r + nnz`` multiply-adds per column then, and the N×N matrix is never formed.

    Parameters
    ----------
    parts : sequence of CovarianceOperator
        All of one size, dtype and device. A normalised part stays divided by its scale. Gradients reach the parts
        that require them.

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
        for name in ("shape", "dtype", "device"):
            values = {getattr(part, name) for part in parts}
            if len(values) > 1:
                raise ValueError(f"parts must have one {name}, got {' and '.join(sorted(map(str, values)))}.")
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


def from_data(X: DataLike, ddof: float = 0, dtype: torch.dtype | None = None) -> LowRankOperator:
    r"""Return the sample covariance of ``X`` as an operator, without forming it.

    .. math:: \hat C x = Z^T (Z x) / (t - \text{ddof}), \qquad Z = X - \hat\mu

    Parameters
    ----------
    X : ndarray or Tensor of shape (t, N) or (t, N, F)
    ddof : float, default=0
    dtype : torch.dtype, optional
        Of the operator; by default that of ``X``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> X = np.random.default_rng(0).standard_normal((5, 1000))
    >>> op = from_data(X)
    >>> op.backend, tuple((op @ torch.ones(1000, 1)).shape)
    ('lowrank', (1000, 1))
    """
    Z = X if isinstance(X, Tensor) else torch.as_tensor(np.require(X, requirements="W"))
    Z = Z if Z.is_floating_point() else Z.double()
    if Z.ndim not in (2, 3):
        raise ValueError(f"X must have shape (t, N) or (t, N, F), got {tuple(Z.shape)}.")
    if not torch.isfinite(Z).all():
        raise ValueError("X contains NaN or infinite values; impute or remove them first.")
    t = len(Z)
    if t <= ddof:
        raise ValueError(f"ddof={ddof} needs more than {ddof} samples, got {t}.")
    if Z.ndim == 3:
        Z = Z.movedim(1, 2).reshape(-1, Z.shape[1])
    Z = Z - Z.mean(0)
    weight = torch.full((len(Z),), 1 / (len(Z) * (1 - ddof / t)), dtype=Z.dtype, device=Z.device)
    operator = LowRankOperator(Z.T.contiguous(), weight)
    if dtype is not None:
        operator._map(lambda v: v.to(dtype))
    return operator
