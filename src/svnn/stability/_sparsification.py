"""What stochastic sparsification does to a covariance: the error Q and the moments of a realisation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from svnn.functional._array import unit_interval
from svnn.functional.masks import floor_probabilities
from svnn.stability._inputs import dense, matrix, probabilities


class SparsificationError(NamedTuple):
    """The expected squared error of a realisation, ``Q = bias + variance``."""

    Q: float
    bias: float
    variance: float


class RealisationMoments(NamedTuple):
    """Mean and entrywise variance of a realisation: ndarrays, or csr_arrays where the covariance is one."""

    mean: Any
    variance: Any


def sparsification_error(C: Any, P: Any) -> SparsificationError:
    r"""Return the paper's Q, the expected squared error of one realisation, and its two parts (Thm. 5).

    .. math:: Q = \sum_{i \ne j} \hat c_{ij}^2 (1 - p_{ij})
              = \underbrace{\sum_{i \ne j} \hat c_{ij}^2 (1 - p_{ij})^2}_\text{bias}
              + \underbrace{\sum_{i \ne j} \hat c_{ij}^2 p_{ij} (1 - p_{ij})}_\text{variance}

    Parameters
    ----------
    C : matrix of shape (N, N)
        The covariance :math:`\hat C`: array, tensor, scipy sparse array, operator or fitted estimator.
    P : float or matrix of shape (N, N)
        Keep-probabilities; the diagonal is always kept. What a sparse matrix does not store is 0.

    Returns
    -------
    SparsificationError
        ``Q``, ``bias``, ``variance``.

    Notes
    -----
    With :math:`E_r = \tilde C_r - \hat C`, Q is :math:`\operatorname{tr} \mathbb E[E_r^2] = \mathbb E\|E_r\|_F^2`,
    and the bias is :math:`\operatorname{tr} \mathbb E[E_r E_s] = \|\mathbb E[E_r]\|_F^2` of two independent
    realisations. The paper's appendix proves both traces; that the bias does not average out over the shifts
    is why :math:`P_{gi}^2 Q` alone is no bound on a filter's error.

    Examples
    --------
    >>> import numpy as np
    >>> sparsification_error(np.array([[1.0, 0.5], [0.5, 1.0]]), 0.75)
    SparsificationError(Q=0.125, bias=0.03125, variance=0.09375)
    """
    _, c, p = entries(C, P)
    lost = c**2 * (1 - p)
    bias, variance = float((lost * (1 - p)).sum()), float((lost * p).sum())
    return SparsificationError(bias + variance, bias, variance)


def realisation_moments(C: Any, P: Any, unbiased: bool = False) -> RealisationMoments:
    r"""Return the mean :math:`C_m` and the entrywise variance V of a realisation :math:`\tilde C`.

    Parameters
    ----------
    C : matrix of shape (N, N)
    P : float or matrix of shape (N, N)
    unbiased : bool, default=False
        Kept entries are divided by their probability, floored as in :func:`svnn.functional.sparsify`.

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
    C, c, p = entries(C, P)
    mean, variance = entry_moments(c, p, unbiased)
    return RealisationMoments(like(C, mean.copy() if unbiased else mean), like(C, variance))


def entry_moments(c: np.ndarray, p: np.ndarray, unbiased: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and the variances of single entries."""
    if unbiased:
        p = floor_probabilities(p)
        return c, c**2 * ((1 - p) / p)
    mean = c * p
    return mean, mean * (c - mean)


def entries(C: Any, P: Any, densify: bool = False) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the checked covariance, its entries, and their keep-probabilities, 1 on the diagonal.

    The entries of a dense matrix are the matrix; those of a csr_array the stored ones, so that nothing
    has to be dense unless asked for.
    """
    C = dense(C) if densify else matrix(C)
    n = C.shape[0]
    if np.ndim(P) == 0 and not sp.issparse(P):
        P = unit_interval(P.item() if hasattr(P, "item") else P, "P")
    if not sp.issparse(C):
        if isinstance(P, float):
            p = np.full((n, n), P)
            np.fill_diagonal(p, 1.0)
            return C, C, p
        return C, C, probabilities(P, n)
    C.sum_duplicates()  # in the order of rows and columns
    rows, columns = np.repeat(np.arange(n), np.diff(C.indptr)), C.indices
    if isinstance(P, float):
        p = np.full(C.nnz, P)
    else:
        P = matrix(P, "P")
        if P.shape != C.shape:
            raise ValueError(f"P has shape {P.shape}, C has {C.shape}; they must agree.")
        p = np.asarray(P[rows, columns]).ravel()
        if len(p) and (p.min() < 0 or p.max() > 1):
            raise ValueError("P must hold probabilities between 0 and 1.")
    p[rows == columns] = 1.0
    return C, C.data, p


def like(C: Any, values: np.ndarray) -> Any:
    """Return new values of the entries of ``C`` as a matrix of its kind."""
    return sp.csr_array((values, C.indices, C.indptr), shape=C.shape) if sp.issparse(C) else values
