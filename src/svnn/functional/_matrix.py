"""Conversion and checks of symmetric matrices in every form.

These are arrays, lists and frames; dense, COO and CSR tensors; scipy's sparse matrices of any format; operators; fitted
covariance estimators.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from svnn.functional._array import is_torch
from svnn.functional._sparse import check_sparse, check_sparse_tensor

if TYPE_CHECKING:
    from torch import Tensor

    from svnn._types import FloatArray, Matrix, MatrixLike

#: Entries that differ from their mirror image by less than this, relative to the largest entry, differ by rounding;
#: numbers of 16 bits have three digits.
_ROUNDING, _HALF_ROUNDING = 1e-5, 1e-2
#: Features up to which a low-rank plus sparse matrix is made dense where all of it is needed: 8.6 GB.
_MOST_WRITTEN_OUT = 2**15


class LowRankPlusSparse(LinearOperator):
    r"""The symmetric N×N matrix :math:`B B^T + R`, stored as :math:`B` and :math:`R`.

    It is a ``scipy.sparse.linalg.LinearOperator``: ``C @ x`` costs ``2 N r + nnz`` per column, and scipy's solvers for
    eigenvalues and linear systems take it.

    Parameters
    ----------
    loadings : ndarray of shape (N, r)
        The matrix B.
    residual : scipy sparse matrix of shape (N, N)
        The symmetric matrix R.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> C = LowRankPlusSparse(np.array([[1.0], [2.0]]), sp.eye_array(2))
    >>> C.toarray()
    array([[2., 2.],
           [2., 5.]])
    >>> C @ np.ones(2)
    array([4., 7.])
    """

    def __init__(self, loadings: FloatArray, residual: sp.sparray | sp.spmatrix) -> None:
        self.loadings, self.residual = np.asarray(loadings), sp.csr_array(check_sparse(residual, "residual"))
        n = self.residual.shape[0]
        if self.residual.shape != (n, n) or self.loadings.ndim != 2 or len(self.loadings) != n:
            raise ValueError(
                f"loadings must have shape (N, r) and residual (N, N), got {self.loadings.shape} and "
                f"{self.residual.shape}."
            )
        super().__init__(np.result_type(self.loadings, self.residual), (n, n))

    def _matmat(self, x: FloatArray) -> FloatArray:
        product: FloatArray = self.loadings @ (self.loadings.T @ x) + self.residual @ x
        return product

    def _adjoint(self) -> LowRankPlusSparse:
        return self

    _transpose = _adjoint

    def toarray(self) -> FloatArray:
        """Return the N×N matrix."""
        low_rank = self.loadings @ self.loadings.T
        dense: FloatArray = 0.5 * low_rank + 0.5 * low_rank.T + self.residual.toarray()
        return dense

    def diagonal(self) -> FloatArray:
        """Return the variances."""
        variances: FloatArray = (self.loadings**2).sum(1) + self.residual.diagonal()
        return variances

    def trace(self) -> float:
        """Return the sum of the variances."""
        return float(self.diagonal().sum())

    def copy(self) -> LowRankPlusSparse:
        """Return a matrix of copies."""
        return LowRankPlusSparse(self.loadings.copy(), self.residual.copy())

    def density(self) -> float:
        """Return the share of off-diagonal entries that are not zero; entries in both parts count as not zero."""
        n = self.shape[0]
        loaded = (self.loadings != 0).sum(1) > 0
        entries = self.residual.tocoo()
        apart = (entries.row != entries.col) & (entries.data != 0) & ~(loaded[entries.row] & loaded[entries.col])
        m = int(loaded.sum())
        pairs = m * (m - 1) if self.loadings.shape[1] else 0
        return (pairs + int(apart.sum())) / (n * (n - 1)) if n > 1 else 0.0


def stored_matrix(C: MatrixLike, name: str = "C") -> Matrix | Tensor:
    """Return ``C`` as an ndarray, a ``csr_array``, a dense tensor or a CSR tensor of real numbers.

    An operator of C / s stands for C, a fitted estimator for its covariance. Numbers keep their precision (integers
    become float64). Tensors stay on their device and in their graph of gradients. Where entries differ from their
    mirror image by rounding the matrix is made exactly symmetric, except for a tensor that requires gradients, which
    is returned unchanged. Data are copied only where needed: the result may share memory with the argument and must
    not be modified.

    Parameters
    ----------
    C : matrix of shape (N, N)
    name : str
        The argument that error messages name.

    Raises
    ------
    ValueError
        Where ``C`` is not square, empty, not finite, not symmetric, or no matrix of real numbers.

    Examples
    --------
    >>> stored_matrix([[1, 0], [0, 2]])
    array([[1., 0.],
           [0., 2.]])
    """
    matrix: Any = unchecked_matrix(C, name)
    if is_torch(matrix):
        matrix = matrix if matrix.is_floating_point() else matrix.double()
    elif matrix.dtype.kind != "f" or matrix.dtype.itemsize > 8 or not matrix.dtype.isnative:
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be a matrix of real numbers, got {type(C).__name__}: {error}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"{name} must be a square matrix with at least one row, got shape {tuple(matrix.shape)}.")
    # Sparse tensors are checked, and where needed made symmetric, as matrices of scipy.
    values: Any = _scipy_matrix(matrix) if is_sparse_tensor(matrix) else matrix
    rounding = _HALF_ROUNDING if matrix.dtype.itemsize == 2 else _ROUNDING
    difference = _asymmetry(values.detach() if is_torch(values) else values, rounding, name)
    if difference == 0 or (is_torch(matrix) and matrix.requires_grad):
        return matrix
    symmetric = 0.5 * values + 0.5 * values.T
    return like_tensor(symmetric, matrix) if is_sparse_tensor(matrix) else symmetric


def numpy_matrix(C: MatrixLike, name: str = "C") -> Matrix:
    """Return ``C`` in float64, exactly symmetric: a ``csr_array`` where it came sparse, an ndarray otherwise.

    It takes the same matrices as :func:`stored_matrix`. The result may share memory with the argument and must not be
    modified.

    Examples
    --------
    >>> numpy_matrix(sp.eye_array(3, dtype=int)).dtype
    dtype('float64')
    """
    given: Any = C
    if hasattr(C, "to_dense") and not is_torch(C):
        given = given.to(dtype=sys.modules["torch"].float64)  # so that C / s times s is not rounded to single precision
    stored: Any = stored_matrix(given, name)
    learned = is_torch(stored) and stored.requires_grad
    matrix: Any = plain_values(stored).astype(np.float64, copy=False)
    return 0.5 * matrix + 0.5 * matrix.T if learned else matrix


def unchecked_matrix(C: MatrixLike, name: str = "C") -> Matrix | Tensor:
    """Return the matrix that ``C`` stands for, stored as by :func:`stored_matrix`, unchecked and of any real type."""
    matrix: Any = getattr(C, "covariance_", C)
    if hasattr(matrix, "to_dense") and not is_torch(matrix):  # an operator
        if is_torch(matrix.scale):  # one for each sample
            matrix = matrix.normalized(1.0)
        scale = 1.0 if matrix.scale is None or is_torch(matrix.scale) else matrix.scale
        matrix = matrix.to_scipy() if matrix.backend == "csr" and not matrix.requires_grad else matrix.to_dense()
        matrix = matrix if scale == 1.0 else matrix * scale
    elif isinstance(matrix, LowRankPlusSparse):
        if matrix.shape[0] > _MOST_WRITTEN_OUT:
            raise ValueError(
                f"{name} is a low-rank plus sparse matrix of {matrix.shape[0]} features, of which the dense form takes "
                f"{matrix.shape[0] ** 2 * 8 / 1e9:.3g} GB; use svnn.as_operator, or pass {name}.toarray() if there is "
                "memory for several copies."
            )
        matrix = matrix.toarray()
    if is_torch(matrix):
        if matrix.is_complex():
            raise ValueError(f"{name} must be real, got complex numbers.")
        if not is_sparse_tensor(matrix):
            return matrix
        check_sparse_tensor(matrix, name)
        return _csr_tensor(matrix)
    if sp.issparse(matrix):
        if matrix.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be a matrix of real numbers, got dtype {matrix.dtype}.")
        rows = sp.csr_array(check_sparse(matrix, name))
        if not rows.has_canonical_format:  # entries given twice are added up, in a copy
            rows = rows.copy()
            rows.sum_duplicates()
        return rows
    if hasattr(matrix, "get_params"):
        raise ValueError(f"{name} is a {type(matrix).__name__} without a covariance; fit it first.")
    if isinstance(matrix, np.ma.MaskedArray):
        matrix = np.ma.filled(matrix.astype(np.float64), np.nan)
    try:
        array = np.asarray(matrix)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix of real numbers, got {type(C).__name__}: {error}") from error
    if array.dtype.kind == "c":
        raise ValueError(f"{name} must be real, got complex numbers.")
    if array.dtype.kind not in "fiubO" or (array.dtype.kind == "O" and not array.ndim):
        raise ValueError(f"{name} must be a matrix of real numbers, got {type(C).__name__} of dtype {array.dtype}.")
    return array


def factored_matrix(C: MatrixLike) -> LowRankPlusSparse | None:
    """Return the low-rank plus sparse form of a matrix or of a fitted estimator, None where it has none."""
    parts = getattr(C, "parts_", C)
    return parts if isinstance(parts, LowRankPlusSparse) else None


def plain_values(matrix: Matrix | Tensor) -> Matrix:
    """Return an ndarray for an array or a dense tensor, a ``csr_array`` for a sparse matrix or tensor."""
    if not is_torch(matrix):
        return matrix
    return _scipy_matrix(matrix) if is_sparse_tensor(matrix) else numpy_values(matrix)


def numpy_values(tensor: Tensor) -> np.ndarray:
    """Return a dense tensor as an array; numpy and scipy do not compute with numbers of 16 bits."""
    tensor = tensor.detach().cpu()
    values: np.ndarray = (
        tensor.float() if tensor.dtype.itemsize < 4 and tensor.is_floating_point() else tensor
    ).numpy()
    return values


def is_sparse(matrix: Matrix | Tensor) -> bool:
    """Return whether a matrix stores only the entries that are not zero."""
    return sp.issparse(matrix) or is_sparse_tensor(matrix)


def stored_as(matrix: Matrix | Tensor, sparse: bool) -> Matrix | Tensor:
    """Return an array or ``csr_array``, a dense or CSR tensor, of a matrix or tensor."""
    if not is_torch(matrix):
        return sp.csr_array(matrix) if sparse else matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    if not sparse:
        return matrix.to_dense()
    return matrix if is_sparse_tensor(matrix) else _csr_tensor(matrix)


def stored_like(matrix: Matrix, like: Matrix | Tensor, sparse: bool) -> Matrix | Tensor:
    """Return a matrix of numpy or scipy, dense or in CSR form, as a tensor where ``like`` is one; in its dtype."""
    if not is_torch(like):
        return stored_as(matrix.astype(like.dtype, copy=False), sparse)
    if sparse:
        return like_tensor(sp.csr_array(matrix), like)
    return sys.modules["torch"].as_tensor(stored_as(matrix, False), dtype=like.dtype, device=like.device)


def is_sparse_tensor(matrix: object) -> bool:
    """Return whether ``matrix`` is a sparse tensor."""
    return is_torch(matrix) and matrix.layout != sys.modules["torch"].strided


def like_tensor(matrix: sp.csr_array, like: Tensor) -> Tensor:
    """Return a sparse matrix as a tensor of the layout, precision and device of ``like``."""
    torch = sys.modules["torch"]
    coo = matrix.tocoo()
    indices = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    values = torch.from_numpy(coo.data).to(like.dtype)
    tensor = torch.sparse_coo_tensor(indices, values, matrix.shape, check_invariants=False).to(like.device).coalesce()
    return tensor if like.layout == torch.sparse_coo else _csr_tensor(tensor)


def _csr_tensor(matrix: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return matrix.to_sparse_coo().coalesce().to_sparse_csr()


def _scipy_matrix(matrix: Tensor) -> sp.csr_array:
    coo = matrix.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sp.csr_array((numpy_values(coo.values()), (rows, columns)), shape=tuple(matrix.shape))


def _asymmetry(matrix: Any, rounding: float, name: str) -> float:
    """Return the largest difference of an entry from its mirror image; raise where that is more than rounding."""
    entries = matrix.data if sp.issparse(matrix) else matrix
    xp: Any = sys.modules["torch"] if is_torch(entries) else np
    if not bool(xp.isfinite(entries).all()):
        raise ValueError(f"{name} holds NaN or infinite values; remove or impute them, or estimate it without them.")
    if not sp.issparse(matrix) and bool((matrix == matrix.T).all()):
        return 0.0  # the usual case, checked quickly
    size = float(abs(entries).max()) if len(entries) else 0.0
    with np.errstate(over="ignore"):
        difference = float(abs(matrix - matrix.T).max())
    if difference > rounding * size:
        raise ValueError(
            f"{name} is not symmetric: entries differ by up to {difference:.3g} from their mirror images (the largest "
            f"entry is {size:.3g}). If that is rounding, pass ({name} + {name}.T) / 2."
        )
    return difference
