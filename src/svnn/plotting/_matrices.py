"""The matrices that displays and reports show: correlations of data and of models, their edges and eigenvalues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.spatial.distance import squareform
from sklearn.utils.validation import check_is_fitted

from svnn.estimators._base import BaseSVNN
from svnn.functional import sample_moments
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import graph_matrix, network_of

if TYPE_CHECKING:
    from svnn._types import DataLike, Matrix


def correlation(C: Matrix) -> Matrix:
    """Return a covariance divided by the standard deviations; where a variance is not positive, by one.

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


def shown_matrix(model: object, covariance: bool = False) -> Matrix:
    """Return the matrix that a fitted model or covariance estimator works on, before it is scaled.

    That is ``covariance_``, or ``precision_`` of its covariance estimator where the filters are polynomials of that
    and ``covariance`` is false. Of a blend it is the matrix of its S-VNN with edges.
    """
    if hasattr(model, "get_params"):
        check_is_fitted(model)
    network = network_of(model)
    if isinstance(network, BaseSVNN) and not covariance:
        return numpy_matrix(graph_matrix(network))
    if not hasattr(network, "covariance_"):
        raise TypeError(f"{type(model).__name__} has no covariance_; give a fitted S-VNN or a covariance estimator.")
    return numpy_matrix(network.covariance_)


def edges_of(C: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges of a matrix, strongest first: both ends of each, and its weight."""
    upper = sp.coo_array(sp.triu(sp.csr_array(C), 1))
    kept = np.flatnonzero(upper.data)
    kept = kept[np.argsort(-abs(upper.data[kept]), kind="stable")]
    return upper.row[kept], upper.col[kept], upper.data[kept]


def eigenvalues(C: Matrix, all_up_to: int, largest: int, tol: float = 0.0) -> np.ndarray:
    """Return the eigenvalues of a symmetric matrix in descending order: all, or the largest of a large one.

    Examples
    --------
    >>> eigenvalues(np.diag([1.0, 3.0, 2.0]), all_up_to=10, largest=1)
    array([3., 2., 1.])
    """
    if C.shape[0] <= all_up_to:
        return np.linalg.eigvalsh(dense(C).astype(np.float64))[::-1]
    start = np.ones(C.shape[0])  # a fixed start gives the same result every time
    try:
        values = eigsh(C.astype(np.float64), largest, which="LA", v0=start, tol=tol, return_eigenvectors=False)
    except ArpackNoConvergence as stopped:
        values = stopped.eigenvalues
    return np.sort(values)[::-1]


def similar_side_by_side(R: np.ndarray) -> np.ndarray:
    """Return the order of the leaves of a hierarchical clustering of correlations (average linkage on 1 - r).

    Examples
    --------
    >>> R = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
    >>> similar_side_by_side(R).tolist() in ([1, 2, 0], [0, 2, 1])
    True
    """
    if len(R) < 3:
        return np.arange(len(R))
    distances = squareform(np.clip(1 - R, 0, 2), checks=False)
    order: np.ndarray = leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances))
    return order


def dense(C: Matrix) -> np.ndarray:
    """Return a matrix as an ndarray."""
    return C if isinstance(C, np.ndarray) else C.toarray()
