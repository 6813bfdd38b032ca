"""What dropping entries at random does to a covariance: the error Q, and the moments of a realisation.

A realisation is one random draw of the sparsified matrix: every pair of features is kept with its own probability.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from svnn._types import DataLike, Matrix, MatrixLike
from svnn.functional._array import to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.functional.masks import floor_probabilities
from svnn.stability._inputs import FilterLike, ProbabilityLike, coefficients, dense, numbers_in, same_shape

if TYPE_CHECKING:
    from torch import Tensor


class SparsificationError(NamedTuple):
    """The expected squared error of a realisation, ``Q = bias + variance``."""

    Q: float
    bias: float
    variance: float


class RealisationMoments(NamedTuple):
    """Mean and variance of every entry of a realisation: ndarrays, or csr_arrays where the covariance is sparse."""

    mean: Matrix
    variance: Matrix


def sparsification_error(C: MatrixLike, P: ProbabilityLike) -> SparsificationError:
    r"""Return Q of the paper's Thm. 5, the expected squared error of one realisation, and its two parts.

    .. math:: Q = \sum_{i \ne j} \hat c_{ij}^2 (1 - p_{ij})
              = \underbrace{\sum_{i \ne j} \hat c_{ij}^2 (1 - p_{ij})^2}_\text{bias}
              + \underbrace{\sum_{i \ne j} \hat c_{ij}^2 p_{ij} (1 - p_{ij})}_\text{variance}

    Parameters
    ----------
    C : matrix of shape (N, N)
        The covariance :math:`\hat C`: an array, a tensor, a sparse matrix, an operator or a fitted estimator.
    P : float or matrix of shape (N, N)
        Probabilities that entries are kept; the diagonal is always kept. What a sparse matrix does not store is 0.

    Returns
    -------
    SparsificationError
        ``Q``, ``bias``, ``variance``.

    Notes
    -----
    With :math:`E_r = \tilde C_r - \hat C`, Q is :math:`\operatorname{tr} \mathbb E[E_r^2] = \mathbb E\|E_r\|_F^2`,
    and the bias is :math:`\operatorname{tr} \mathbb E[E_r E_s] = \|\mathbb E[E_r]\|_F^2` of two independent
    realisations; Lemmas 3 and 5 of the paper prove both traces. The bias does not average out over the shifts, which
    is why :math:`P_{gi}^2 Q` alone is no bound on the error of a filter.

    Examples
    --------
    >>> import numpy as np
    >>> sparsification_error(np.array([[1.0, 0.5], [0.5, 1.0]]), 0.75)
    SparsificationError(Q=0.125, bias=0.03125, variance=0.09375)
    """
    _, c, p = entries(numpy_matrix(C), P)
    lost = c**2 * (1 - p)
    bias, variance = float((lost * (1 - p)).sum()), float((lost * p).sum())
    return SparsificationError(bias + variance, bias, variance)


def realisation_moments(C: MatrixLike, P: ProbabilityLike, unbiased: bool = False) -> RealisationMoments:
    r"""Return the mean :math:`C_m` and the variance V of every entry of a realisation :math:`\tilde C`.

    Parameters
    ----------
    C : matrix of shape (N, N)
    P : float or matrix of shape (N, N)
        Probabilities that entries are kept.
    unbiased : bool, default=False
        Kept entries are divided by their probability, or by 0.001 where that is larger, as in
        :func:`svnn.functional.sparsify`.

    Returns
    -------
    RealisationMoments
        ``mean``, ``variance``. A sparse ``C`` gives sparse moments.

    Notes
    -----
    .. math:: C_m = P \odot \hat C, \quad v_{ij} = \hat c_{ij}^2\, p_{ij} (1 - p_{ij}); \qquad
              \text{unbiased: } C_m = \hat C, \quad v_{ij} = \hat c_{ij}^2\, (1 - p_{ij}) / p_{ij}

    The diagonal is always kept, so V is zero there.

    Examples
    --------
    >>> import numpy as np
    >>> mean, variance = realisation_moments(np.array([[1.0, 0.5], [0.5, 1.0]]), 0.5)
    >>> float(mean[0, 1]), float(variance[0, 1]), float(variance[0, 0])
    (0.25, 0.0625, 0.0)
    """
    matrix, c, p = entries(numpy_matrix(C), P)
    mean, variance = entry_moments(c, p, unbiased)
    mean = mean.copy() if unbiased else mean  # which may be the caller's own matrix
    if isinstance(matrix, np.ndarray):
        return RealisationMoments(mean, variance)
    return RealisationMoments(
        *(sp.csr_array((v, matrix.indices, matrix.indptr), shape=matrix.shape) for v in (mean, variance))
    )


def entry_moments(c: np.ndarray, p: np.ndarray, unbiased: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and the variances of entries ``c`` that are kept with probabilities ``p``."""
    if unbiased:
        p = floor_probabilities(p)
        return c, c**2 * ((1 - p) / p)
    mean = c * p
    return mean, mean * (c - mean)


def entries(C: Matrix, P: ProbabilityLike) -> tuple[Matrix, np.ndarray, np.ndarray]:
    """Return the matrix, its entries, and the probabilities that they are kept, 1 on the diagonal.

    The entries of a dense matrix are the matrix itself; those of a csr_array are the stored ones, in the order of rows
    and columns, so that nothing has to be made dense.
    """
    if isinstance(C, np.ndarray):
        c, diagonal = C, np.diag_indices(len(C))
    else:
        C.sum_duplicates()
        rows = np.repeat(np.arange(C.shape[0]), np.diff(C.indptr))
        c, diagonal = C.data, np.nonzero(rows == C.indices)
    if isinstance(P, Real) or getattr(P, "ndim", None) == 0:
        value = to_numpy(cast("float | Tensor", P)).item()
        if isinstance(value, bool) or not 0 <= float(value) <= 1:
            raise ValueError(f"P must be a number between 0 and 1, or a matrix of such probabilities, got {P!r}.")
        p = np.full(c.shape, float(value))
    else:
        kept = (dense if isinstance(C, np.ndarray) else numpy_matrix)(P, "P")
        same_shape(P=kept, C=C)
        p = np.array(kept if isinstance(C, np.ndarray) else kept[rows, C.indices]).reshape(c.shape)
        if p.size and (p.min() < 0 or p.max() > 1):
            raise ValueError("P must hold probabilities between 0 and 1.")
    p[diagonal] = 1.0
    return C, c, p


# -- the signals that a filter is applied to -------------------------------------------------------


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
    h, n = coefficients(h), C.shape[0]
    W = h[:, None, None] if h.ndim == 1 else h
    if x is not None:
        if moment is not None:
            raise ValueError("x and moment were both given; pass the signals or their second moment.")
        return Signals(W, _given(h, x, n), None)
    if moment is not None:
        moment = dense(moment, "moment")
        same_shape(moment=moment, C=C)
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
    x = numbers_in(x)
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
