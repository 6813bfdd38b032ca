"""Principal components, the rival of covariance filters: as a filter, and how far they move (Lemma 1)."""

from __future__ import annotations

import numpy as np

from svnn._types import DataLike, MatrixLike
from svnn.functional._matrix import numpy_matrix
from svnn.functional.eigenvectors import align_signs, leading_eigenvectors
from svnn.stability._inputs import check_integer, numbers_in, same_shape, samples


def pca_response(lam: DataLike, k: int) -> np.ndarray:
    r"""Return PCA as a filter: :math:`1[\lambda \ge \lambda_k]`, which lets the k largest eigenvalues pass.

    Parameters
    ----------
    lam : array of shape (N,)
        The eigenvalues of the covariance, in any order.
    k : int
        Number of principal components.

    Returns
    -------
    ndarray of shape (N,)
        1 for the k largest eigenvalues (for more than k where :math:`\lambda_k` is repeated), 0 for the others. This
        filter has no Lipschitz constant: the response jumps at :math:`\lambda_k`, however close the next eigenvalue
        is.

    Examples
    --------
    >>> pca_response([3.0, 0.5, 2.0, 0.1], k=2)
    array([1., 0., 1., 0.])
    """
    lam = numbers_in(lam)
    if lam.ndim != 1:
        raise ValueError(f"lam must hold the N eigenvalues in one dimension, got shape {lam.shape}.")
    wanted = f"k must be an integer from 1 to the number of eigenvalues, {len(lam)}"
    k = check_integer(int(k) if int(k) == k else k, wanted, 1, len(lam))
    return (lam >= np.sort(lam)[-k]).astype(np.float64)


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
    same_shape(A=A, B=B)
    n = A.shape[0]
    k = check_integer(k, f"k must be an integer from 1 to the number of features, {n}", 1, n)
    V = leading_eigenvectors(A, k)
    moved = V - align_signs(leading_eigenvectors(B, k), V)
    return float(np.linalg.norm(moved if X is None else samples(X, n) @ moved))
