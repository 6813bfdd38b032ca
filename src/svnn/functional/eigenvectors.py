"""Leading eigenvectors of a covariance (its principal components), and how to compare those of two matrices."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from svnn._types import Matrix

#: Above these numbers of features Lanczos iterations are faster than a dense solver where few eigenvectors are wanted:
#: for dense and for sparse matrices.
_DENSE_LIMIT, _SPARSE_LIMIT = 1000, 256


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
