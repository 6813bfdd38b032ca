"""The shift in factored form, for far fewer samples than features."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

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
