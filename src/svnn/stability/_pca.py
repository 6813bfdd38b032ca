"""How far the principal components move: what covariance filters are compared with (Lemma 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn.functional._array import to_numpy
from svnn.functional.eigenvectors import align_signs, leading_eigenvectors
from svnn.stability._inputs import matrix


def pca_distance(A: Any, B: Any, k: int, X: Any = None) -> float:
    r"""Return how far apart the leading principal components of two covariances are.

    .. math:: \|V_k - W_k D\|_F, \qquad \text{with data:}\quad \|X V_k - X W_k D\|_F

    Parameters
    ----------
    A, B : matrix of shape (N, N)
        Symmetric: arrays, tensors, scipy sparse arrays, operators or fitted covariance estimators. Large
        sparse ones go through Lanczos iterations (``eigsh``) and are not densified.
    k : int from 1 to N
        Number of components.
    X : array of shape (t, N), optional
        Data to project, as it is: centre it first where that is meant.

    Returns
    -------
    float

    Notes
    -----
    The columns of :math:`V_k` and :math:`W_k` are the eigenvectors of the k largest eigenvalues of A and B, in
    that order, each of length one. An eigenvector is defined up to its sign, so the signs of B's are aligned
    first: D is diagonal with :math:`d_j = \operatorname{sign}(v_j^\top w_j)`, the choice that makes every column's
    distance smallest. Without data the result lies between 0 and :math:`\sqrt{2k}`.

    Components are compared one by one. Where two eigenvalues are close, a small change of the matrix can turn
    or swap their eigenvectors: the distance is then large, and where they are equal it is not defined by the
    matrices at all. That is no fault of the estimate, and covariance filters do not share it.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> pca_distance(A, 5 * A, k=2)
    0.0
    >>> pca_distance(A, np.diag([2.0, 3.0, 1.0]), k=2)  # the same plane, its axes swapped
    2.0
    """
    A, B = matrix(A, "A"), matrix(B, "B")
    n = A.shape[0]
    if B.shape != A.shape:
        raise ValueError(f"A has shape {A.shape}, B has {B.shape}; they must agree.")
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n:
        raise ValueError(f"k must be an integer from 1 to the number of features, {n}, got {k!r}.")
    V = leading_eigenvectors(A, int(k))
    moved = V - align_signs(leading_eigenvectors(B, int(k)), V)
    if X is not None:
        X = np.asarray(to_numpy(X), dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != n:
            raise ValueError(f"X must have shape (t, {n}) for matrices of {n} features, got {X.shape}.")
        if not np.isfinite(X).all():
            raise ValueError("X holds NaN or infinite values; remove or impute them first.")
        moved = X @ moved
    return float(np.linalg.norm(moved))
