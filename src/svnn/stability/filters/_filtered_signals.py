"""What a filter is applied to: given signals, or random ones of which the second moment is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svnn._types import DataLike, Matrix, MatrixLike
from svnn.stability import _inputs
from svnn.stability._inputs import FilterLike


class Signals(NamedTuple):
    r"""Filter coefficients and signals in one layout, :math:`Y = \sum_k C^k X W_k`.

    ``W`` has shape (K + 1, in, out). ``X`` has shape (N, t, in) where signals are given. Where it is None they are
    random with ``in = 1``, and ``moment`` is :math:`\mathbb E[xx^\top]`, or None for white ones.
    """

    W: np.ndarray
    X: np.ndarray | None
    moment: np.ndarray | None

    @property
    def order(self) -> int:
        """The number of shifts K."""
        return len(self.W) - 1

    def gram(self, M: np.ndarray, n: int) -> np.ndarray:
        r"""Return :math:`\mathbb E[X M X^\top]`, of shape (N, N), for M of shape (in, in)."""
        if self.X is None:
            return M.item() * (np.eye(n) if self.moment is None else self.moment)
        return (self.X.reshape(-1, len(M)) @ M).reshape(n, -1) @ self.X.reshape(n, -1).T


def signals_for(C: Matrix, h: FilterLike, x: DataLike | None, moment: MatrixLike | None) -> Signals:
    """Check ``h``, ``x`` and ``moment`` against each other and against the matrix."""
    h, n = _inputs.coefficients(h), C.shape[0]
    W = h[:, None, None] if h.ndim == 1 else h
    if x is not None:
        if moment is not None:
            raise ValueError("x and moment were both given; pass the signals or their second moment.")
        return Signals(W, _given(h, x, n), None)
    if moment is not None:
        moment = _inputs.dense(moment, "moment")
        _inputs.same_shape(moment=moment, C=C)
        if moment.diagonal().min() < 0:
            raise ValueError("moment has a negative diagonal, so it is no E[xxᵀ].")
    # The errors of uncorrelated inputs add up, so a bank counts as as many filters as the matrix of its coefficients
    # has rank: W Wᵀ stays the same.
    flat = W.reshape(len(W), -1)
    if flat.shape[1] > 1:
        U, s, _ = np.linalg.svd(flat, full_matrices=False)
        flat = U * s
    return Signals(flat[:, None, :], None, moment)


def _given(h: np.ndarray, x: DataLike, n: int) -> np.ndarray:
    x = _inputs.numbers_in(x)
    if not np.isfinite(x).all():
        raise ValueError("x holds NaN or infinite values; remove or impute them first.")
    if h.ndim == 1:
        if x.ndim not in (1, 2) or len(x) != n:
            raise ValueError(f"x must have shape ({n},) or ({n}, F) for one filter, got {x.shape}.")
        return x.reshape(n, -1, 1)
    if x.ndim not in (2, 3) or x.shape[-2:] != (n, h.shape[1]):
        raise ValueError(
            f"x must have shape ({n}, {h.shape[1]}) or (t, {n}, {h.shape[1]}) for this bank, got {x.shape}."
        )
    return np.ascontiguousarray(x.reshape(-1, n, h.shape[1]).swapaxes(0, 1))
