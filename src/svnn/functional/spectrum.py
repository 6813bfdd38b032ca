"""Eigenvalues of a covariance: leading eigenvectors, factors, the logarithm; bounds and repair of negative ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.sparse.csgraph import connected_components

from svnn.functional._array import is_torch, like, namespace
from svnn.functional._centring import power_of_two
from svnn.functional._lanczos import lowest_bound
from svnn.functional._matrix import is_sparse_tensor, like_tensor, plain_values, stored_matrix

if TYPE_CHECKING:
    from torch import Tensor

    from svnn._types import AnyArray, Matrix, MatrixLike

#: Above these numbers of features Lanczos iterations are faster than a dense solver where few eigenvectors are wanted:
#: for dense and for sparse matrices.
_DENSE_LIMIT, _SPARSE_LIMIT = 1000, 256
#: The largest number of factors.
MOST_FACTORS = 20
#: Features of which factors leave at most this share of the variance have no residual but rounding.
NO_RESIDUAL = 1e-10
#: The eigenvalue, relative to the largest, above which the logarithm is positive.
_SMALLEST = 1e-8
#: Up to this size a dense solver is faster than Lanczos.
_DENSE_EIGEN_LIMIT = 256


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


# -- positive semidefiniteness (Remark 2 of the paper) ----------------------------------------------


def psd_repair(C: MatrixLike, method: str) -> Matrix | Tensor:
    r"""Return the positive semidefinite matrix that ``method`` makes of ``C``.

    Parameters
    ----------
    C : array, scipy sparse array, Tensor (dense, COO or CSR), fitted estimator or operator, of shape (N, N)
    method : {"load", "shrink", "clip"}
        - "load" adds :math:`-\lambda_{\min}(C)` to the diagonal where that is positive.
        - "shrink" multiplies the off-diagonal part :math:`O` by
          :math:`\min(1, -1/\lambda_{\min}(D^{-1/2} O D^{-1/2}))`: support and variances stay.
        - "clip" sets negative eigenvalues to zero: the closest matrix in Frobenius norm, but dense.

        Sparse matrices are loaded and shrunk with Lanczos iterations, never through a dense
        eigendecomposition; only "clip" needs one.

    Returns
    -------
    A matrix of the same type as ``C``: an array, a ``csr_array``, or a tensor of the same layout and on the same
    device. For an estimator or an operator, the result for its matrix. A matrix that needs no repair is
    returned itself. Gradients pass through dense tensors; the smallest eigenvalue counts as a constant.

    Examples
    --------
    >>> import numpy as np
    >>> psd_repair(np.array([[1.0, 2.0], [2.0, 1.0]]), "shrink")
    array([[1., 1.],
           [1., 1.]])
    """
    if method not in ("load", "shrink", "clip"):
        raise ValueError(f'method must be "load", "shrink" or "clip", got {method!r}.')
    given: Any = getattr(C, "covariance_", C)
    stored: Any = stored_matrix(C)
    repair = {"load": _load, "shrink": _shrink, "clip": _clip}[method]
    if is_sparse_tensor(stored):
        if stored.requires_grad:
            raise ValueError(
                "C is a sparse tensor that requires gradients, which a repair cannot give; use C.to_dense()."
            )
        values = plain_values(stored)
        repaired = repair(values)
        return given if repaired is values and is_torch(given) else like_tensor(repaired, given)
    if stored.dtype.itemsize > 2:
        return repair(stored)
    # No library finds eigenvalues in half precision.
    single = stored.float() if is_torch(stored) else stored.astype(np.float32)
    repaired = repair(single)
    return stored if repaired is single else like(repaired, stored)


def smallest_eigenvalue(C: MatrixLike) -> float:
    """Return a lower bound of the smallest eigenvalue of a symmetric matrix, tight to rounding where possible.

    Large sparse matrices fall into the connected components of their graph. The eigenvalues of small
    components are computed as such; for large ones Lanczos iterations from several random starts bound
    the smallest eigenvalue from below, except with probability 1e-12, mostly up to 1e-9 of the norm
    and never worse than Gershgorin's discs.

    Examples
    --------
    >>> import numpy as np
    >>> round(smallest_eigenvalue(np.array([[1.0, 2.0], [2.0, 1.0]])), 12)
    -1.0
    """
    stored = stored_matrix(C)
    return _lowest(plain_values(stored) if is_sparse_tensor(stored) else stored)


def _lowest(C: Matrix | Tensor) -> float:
    """Return the smallest eigenvalue, or a lower bound of it, of a checked matrix."""
    if is_torch(C):
        C = C.detach()
        return float(namespace(C).linalg.eigvalsh(C if C.dtype.itemsize > 2 else C.float())[0])
    if isinstance(C, np.ndarray):
        C = C if C.dtype.itemsize > 2 else C.astype(np.float32)
        return float(scipy.linalg.eigh(C, eigvals_only=True, subset_by_index=[0, 0])[0])
    C = sp.csr_array(C).astype(np.float64)
    C.sum_duplicates()
    C.eliminate_zeros()
    if C.nnz == 0:
        return 0.0
    unit = float(power_of_two(np.abs(C.data).max()))
    C = C / unit if unit != 1 else C
    lowest = math.inf
    for nodes in connected_parts(C):
        size = nodes.shape[1]
        if size <= _DENSE_EIGEN_LIMIT:
            split = np.array_split(nodes, -(-nodes.size * size // 2**22))
            values = [float(np.linalg.eigvalsh(blocks(C, part))[:, 0].min()) for part in split]
        else:
            values = [lowest_bound(C[block][:, block]) for block in nodes]
        lowest = min(lowest, *values)
    return lowest * unit


def connected_parts(C: Matrix) -> list[np.ndarray]:
    """Return the connected parts of the graph of a matrix: arrays (parts, size) of nodes, by ascending size."""
    _, labels = connected_components(sp.csr_array(C), directed=False)
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    return [order[sizes[labels[order]] == size].reshape(-1, size) for size in np.unique(sizes)]


def blocks(C: Matrix, nodes: np.ndarray) -> np.ndarray:
    """Return the square blocks of a matrix (parts, size, size) for each row of nodes."""
    if isinstance(C, np.ndarray):
        return C[nodes[:, :, None], nodes[:, None, :]]
    size = nodes.shape[1]
    entries = C[nodes.ravel()][:, nodes.ravel()].tocoo()
    found = np.zeros((len(nodes), size, size))
    found[entries.row // size, entries.row % size, entries.col % size] = entries.data
    return found


# -- repairs of a checked matrix: an ndarray, a dense tensor or a csr_array --------------------------


def _load(C: Any) -> Any:
    deficit = -_lowest(C)
    return C if deficit <= 0 else C + _diag(0 * C.diagonal() + deficit, C)


def _shrink(C: Any) -> Any:
    variances = C.diagonal()
    if bool((variances < 0).any()):
        raise ValueError('C has negative variances, which method "shrink" keeps; use "load" or "clip".')
    off = C - _diag(variances, C)
    empty = variances == 0
    if bool((abs(off) @ (empty * (1 + variances)) != 0).any()):
        raise ValueError(
            'C has covariances with a feature of zero variance, and method "shrink" keeps both; use "load" or "clip".'
        )
    scaling = _diag((variances + 1 * empty) ** -0.5, C)
    lowest = _lowest(scaling @ off @ scaling)
    return C if lowest >= -1 else off * (-1 / lowest) + _diag(variances, C)


def _clip(C: Any) -> Any:
    if sp.issparse(C):
        dense = C.toarray()
        clipped = _clip(dense)
        return C if clipped is dense else sp.csr_array(clipped)
    xp = namespace(C)
    values, vectors = xp.linalg.eigh(C)
    if bool(values[0] >= 0):
        return C
    clipped = (vectors * xp.clip(values, 0, None)) @ vectors.T
    return (clipped + clipped.T) / 2


def _diag(values: Any, C: Any) -> Any:
    """Return the diagonal matrix of ``values``, of the same type as ``C``."""
    return sp.csr_array(sp.diags_array(values)) if sp.issparse(C) else namespace(C).diag(values)
