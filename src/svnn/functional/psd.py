"""Repairs that make a sparsified covariance positive semidefinite again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from svnn.functional._array import is_torch, like, namespace
from svnn.functional._centring import power_of_two
from svnn.functional._lanczos import lowest_bound
from svnn.functional._matrix import is_sparse_tensor, like_tensor, plain_values, stored_matrix

if TYPE_CHECKING:
    from torch import Tensor

    from svnn._types import Matrix, MatrixLike

#: Up to this size a dense solver is faster than Lanczos.
_DENSE_EIGEN_LIMIT = 256


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
    _, labels = connected_components(C, directed=False)
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    lowest = math.inf
    for size in np.unique(sizes):
        nodes = order[sizes[labels[order]] == size].reshape(-1, size)
        if size <= _DENSE_EIGEN_LIMIT:
            values = (_lowest_of_blocks(C, part) for part in np.array_split(nodes, -(-nodes.size * size // 2**22)))
        else:
            values = (lowest_bound(C[block][:, block]) for block in nodes)
        lowest = min(lowest, *values)
    return lowest * unit


def _lowest_of_blocks(C: sp.csr_array, nodes: np.ndarray) -> float:
    """Return the smallest eigenvalue of components of the same size, one in each row of ``nodes``."""
    size = nodes.shape[1]
    entries = C[nodes.ravel()][:, nodes.ravel()].tocoo()
    rows, columns = entries.row, entries.col
    blocks = np.zeros((len(nodes), size, size))
    blocks[rows // size, rows % size, columns % size] = entries.data
    return float(np.linalg.eigvalsh(blocks)[:, 0].min())


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
