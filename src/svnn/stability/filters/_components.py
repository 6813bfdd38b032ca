"""How far the principal components move: the rival that covariance filters are compared with (Lemma 1)."""

from __future__ import annotations

import numpy as np

from svnn._types import DataLike, MatrixLike
from svnn.functional._matrix import numpy_matrix
from svnn.functional.eigenvectors import align_signs, leading_eigenvectors
from svnn.stability import _inputs


def pca_distance(A: MatrixLike, B: MatrixLike, k: int, X: DataLike | None = None) -> float:
    r"""Return how far apart the leading principal components of two covariances are.

    .. math:: \|V_k - W_k D\|_F, \qquad \text{with data:}\quad \|X V_k - X W_k D\|_F

    Parameters
    ----------
    A, B : matrix of shape (N, N)
        Symmetric: arrays, lists, frames, tensors, sparse matrices, operators or fitted covariance estimators. Large
        sparse ones go through Lanczos iterations (``eigsh``) and are not made dense.
    k : int from 1 to N
        Number of components.
    X : array of shape (t, N), optional
        Data to project, as it is: subtract its mean first where you want that.

    Returns
    -------
    float

    Notes
    -----
    The columns of :math:`V_k` and :math:`W_k` are the eigenvectors of the k largest eigenvalues of A and B, in
    that order, each of length one. An eigenvector is defined up to its sign, so the signs of those of B are chosen
    first: D is diagonal with :math:`d_j = \operatorname{sign}(v_j^\top w_j)`, the choice that makes the distance of
    every column smallest. Without data the result lies between 0 and :math:`\sqrt{2k}`.

    Components are compared one by one. Where two eigenvalues are close, a small change of the matrix can turn
    or swap their eigenvectors and the distance is large; where they are equal, the matrices do not define it at all.
    This is a property of PCA, not a fault of the estimate, and covariance filters do not share it.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> pca_distance(A, 5 * A, k=2)
    0.0
    >>> pca_distance(A, np.diag([2.0, 3.0, 1.0]), k=2)  # the same plane, its axes swapped
    2.0
    """
    A, B = numpy_matrix(A, "A"), numpy_matrix(B, "B")
    _inputs.same_shape(A=A, B=B)
    n = A.shape[0]
    k = _inputs.check_integer(k, f"k must be an integer from 1 to the number of features, {n}", 1, n)
    V = leading_eigenvectors(A, k)
    moved = V - align_signs(leading_eigenvectors(B, k), V)
    return float(np.linalg.norm(moved if X is None else _inputs.samples(X, n) @ moved))
