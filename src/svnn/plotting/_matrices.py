"""The matrices that displays show: correlations of data and of fitted models, and who is connected to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from svnn.functional import sample_moments
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._matrix import numpy_matrix

if TYPE_CHECKING:
    from svnn._types import DataLike, Matrix


def correlation(C: Matrix) -> Matrix:
    """Return a covariance divided by the standard deviations; what is no variance, zero or less, divides nothing.

    Examples
    --------
    >>> correlation(np.array([[4.0, 1.0], [1.0, 1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    variances = C.diagonal()
    scale = 1 / np.sqrt(np.where(variances > 0, variances, 1.0))
    if sp.issparse(C):
        D = sp.dia_array((scale[None], [0]), shape=C.shape)
        return sp.csr_array(D @ C @ D)
    scaled: np.ndarray = C * scale * scale[:, None]
    return scaled


def sample_correlation(X: DataLike) -> np.ndarray:
    """Return the sample correlations of data (t, N) or (t, N, F); each over the rows where both values are known."""
    rows = to_numpy(X) if is_torch(X) else np.asarray(X, dtype=np.float64)
    if rows.ndim not in (2, 3):
        raise ValueError(f"X must have shape (t, N) or (t, N, F), got {rows.shape}.")
    missing = "pairwise" if np.isnan(rows).any() else "raise"
    return correlation(np.asarray(sample_moments(rows, 0, None, missing).covariance))


def shown_matrix(model: object) -> Matrix:
    """Return the matrix that a fitted model or covariance estimator works on, before it is scaled.

    That is ``covariance_``, or ``precision_`` of its covariance estimator where the filters are polynomials of that.
    """
    fitted: Any = model
    if hasattr(fitted, "get_params"):
        check_is_fitted(fitted)
    if getattr(fitted, "_trained_with", {}).get("use") == "precision":
        return numpy_matrix(fitted.covariance_estimator_.precision_)
    if not hasattr(fitted, "covariance_"):
        raise TypeError(f"{type(model).__name__} has no covariance_; give a fitted S-VNN or a covariance estimator.")
    return numpy_matrix(fitted.covariance_)


def edges_of(C: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges of a matrix, strongest first: both ends of each, and its weight."""
    upper = sp.coo_array(sp.triu(sp.csr_array(C), 1))
    kept = np.flatnonzero(upper.data)
    kept = kept[np.argsort(-abs(upper.data[kept]), kind="stable")]
    return upper.row[kept], upper.col[kept], upper.data[kept]
