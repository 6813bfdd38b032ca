"""Eigenvalues and eigenvectors of a covariance: leading eigenvectors, the number of factors, the logarithm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from svnn._types import AnyArray, Matrix

#: Above these numbers of features Lanczos iterations are faster than a dense solver where few eigenvectors are wanted:
#: for dense and for sparse matrices.
_DENSE_LIMIT, _SPARSE_LIMIT = 1000, 256
#: The largest number of factors.
MOST_FACTORS = 20
#: Features of which factors leave at most this share of the variance have no residual but rounding.
NO_RESIDUAL = 1e-10
#: The eigenvalue, relative to the largest, above which the logarithm is positive.
_SMALLEST = 1e-8


def leading_eigenvectors(C: Matrix, k: int) -> np.ndarray:
    """Return the eigenvectors of the k largest eigenvalues, that of the largest first.

    Parameters
    ----------
    C : ndarray or scipy sparse array of shape (N, N)
        Symmetric; it need not be positive semidefinite.
    k : int from 1 to N

    Returns
    -------
    ndarray of shape (N, k)
        Columns of length one. An eigenvector is defined only up to its sign, which is left as the solver gives it.

    Examples
    --------
    >>> import numpy as np
    >>> abs(leading_eigenvectors(np.diag([1.0, 3.0, 2.0]), 2))
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    """
    n = C.shape[0]
    if n > (_SPARSE_LIMIT if sp.issparse(C) else _DENSE_LIMIT) and k <= n // 10:
        # A fixed start vector makes the result the same every time.
        start = np.random.default_rng(0).standard_normal((n,)).astype(C.dtype)
        values, vectors = scipy.sparse.linalg.eigsh(C, k=k, which="LA", v0=start)
        return np.ascontiguousarray(vectors[:, np.argsort(-values, kind="stable")])
    dense = C if isinstance(C, np.ndarray) else C.toarray()
    return np.ascontiguousarray(scipy.linalg.eigh(dense, subset_by_index=[n - k, n - 1])[1][:, ::-1])


def align_signs(vectors: np.ndarray, reference: np.ndarray) -> np.ndarray:
    r"""Return ``vectors`` with the signs that bring every column closest to the same column of ``reference``.

    Both have shape (N, k). Column :math:`w_j` of ``vectors`` is multiplied by the sign of :math:`w_j^\top v_j`, where
    :math:`v_j` is column j of ``reference``.

    Examples
    --------
    >>> import numpy as np
    >>> align_signs(np.array([[-1.0], [0.0]]), np.array([[0.8], [0.6]]))
    array([[ 1.],
           [-0.]])
    """
    return vectors * np.where((vectors * reference).sum(0) < 0, -1.0, 1.0)


def candidate_factors(n_features: int, n_samples: float) -> int:
    """Return the largest number of factors to consider: a quarter of N or t, at most 20."""
    return int(min(MOST_FACTORS, min(n_features, n_samples) // 4))


def growth_ratio_factors(eigenvalues: npt.ArrayLike, total: float, size: float) -> int:
    r"""Return the number of factors by the growth ratio of Ahn & Horenstein (2013).

    .. math::
        \hat r = \arg\max_{0 \le k < K} \frac{\log(1 + \mu_k^*)}{\log(1 + \mu_{k+1}^*)},
        \qquad \mu_k^* = \mu_k / \sum_{j > k} \mu_j

    with :math:`\mu_1 \ge \mu_2 \ge \dots` the eigenvalues of the correlations. A :math:`\mu_0` that is the sum of all
    eigenvalues divided by the logarithm of ``size`` lets the answer be zero. Only eigenvalues above the average of
    ``size`` equal ones can be factors. In the draws of ``benchmarks/factors.py`` it is right in 0.90 of the cases, the
    criteria IC_p1 and IC_p2 of Bai & Ng (2002) in 0.89.

    Parameters
    ----------
    eigenvalues : array of shape (K + 1,)
        The largest eigenvalues, descending.
    total : float
        The sum of all eigenvalues.
    size : float
        The smaller one of N and t.

    References
    ----------
    S. Ahn and A. Horenstein, Eigenvalue ratio test for the number of factors, Econometrica 2013.

    Examples
    --------
    >>> growth_ratio_factors([30.0, 20.0, 1.2, 1.1, 1.1], total=100.0, size=60)
    2
    >>> growth_ratio_factors([1.3, 1.25, 1.2, 1.1, 1.1], total=100.0, size=60)
    0
    """
    mu = np.clip(np.asarray(eigenvalues, dtype=np.float64), 0, None)
    most = min(int((mu > total / max(size, 1)).sum()), len(mu) - 1)
    if most < 1 or size <= 2:
        return 0
    # Because of rounding the remaining sum may be zero or negative.
    least = total * np.finfo(np.float64).eps
    rest = np.clip(total - np.concatenate([[0.0], np.cumsum(mu)]), least, None)
    growth = np.log1p(np.clip(np.concatenate([[total / np.log(size)], mu]), least, None) / rest)[: most + 2]
    return int(np.argmax(growth[:-1] / growth[1:]))


def log_eigenvalues(values: AnyArray) -> np.ndarray:
    r"""Return eigenvalues on a logarithmic scale: :math:`1 + \log(\lambda) / \log(10^8)`, and 0 below :math:`10^{-8}`.

    The largest eigenvalue of a covariance of unit norm keeps its value 1. Directions of small variance are as far
    apart as those of large variance, so that a polynomial of low order can separate them.

    Examples
    --------
    >>> log_eigenvalues([1.0, 1e-4, 1e-8, 0.0, -0.5]).round(6).tolist()
    [1.0, 0.5, 0.0, 0.0, 0.0]
    """
    return np.asarray(1 - np.log(np.maximum(np.asarray(values, dtype=np.float64), _SMALLEST)) / np.log(_SMALLEST))


def log_covariance(C: AnyArray) -> np.ndarray:
    r"""Return the matrix with the eigenvectors of C and with :func:`log_eigenvalues` of its eigenvalues.

    Parameters
    ----------
    C : array of shape (N, N)
        Symmetric, of unit spectral norm; negative eigenvalues, which sparsified covariances can have, become 0.

    Returns
    -------
    ndarray of shape (N, N)

    Examples
    --------
    >>> log_covariance(np.diag([1.0, 1e-4])).round(6).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """
    values, vectors = np.linalg.eigh(np.asarray(C, dtype=np.float64))
    logarithm = (vectors * log_eigenvalues(values)) @ vectors.T
    return np.asarray((logarithm + logarithm.T) / 2)
