"""A covariance stored as the sum of a low-rank and a sparse matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from svnn._types import FloatArray
from svnn.functional._sparse import check_sparse


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
