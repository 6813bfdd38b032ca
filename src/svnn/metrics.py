"""Scores that compare an estimated covariance with the true one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svnn._types import MatrixLike
from svnn.functional._matrix import numpy_matrix


class SupportRecovery(NamedTuple):
    """Precision and recall of the off-diagonal pairs of an estimate, and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def support_recovery(C_true: MatrixLike, C_hat: MatrixLike, tol: float = 0.0) -> SupportRecovery:
    r"""Score the support of an estimated covariance against that of the true one.

    Parameters
    ----------
    C_true, C_hat : matrix of shape (N, N)
        Symmetric: arrays, lists, frames, scipy sparse arrays, dense or sparse tensors, operators, in any combination.
        A fitted covariance estimator stands for its ``covariance_``. A sparse matrix is never made dense.
    tol : float, default=0.0
        A pair is in the support of a matrix where :math:`|c_{ij}| > \text{tol}`.

    Returns
    -------
    SupportRecovery
        ``precision``, the share of the estimated pairs that are true; ``recall``, the share of the true
        pairs that are estimated; ``f1``, :math:`2\,TP / (2\,TP + FP + FN)`.

    Notes
    -----
    Each pair :math:`i < j` is counted once, and the diagonal does not count. Where both supports are empty, nothing is
    wrong, and all three scores are 1. Where only one of them is empty, all three are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import HardThreshold
    >>> from svnn.datasets import make_sparse_covariance
    >>> C = make_sparse_covariance(30, density=0.1, kind="block", random_state=0)
    >>> X = np.random.default_rng(0).multivariate_normal(np.zeros(30), C, 500)
    >>> support_recovery(C, HardThreshold().fit(X))
    SupportRecovery(precision=1.0, recall=1.0, f1=1.0)
    >>> support_recovery(C, np.cov(X.T)).recall
    1.0
    >>> round(support_recovery(C, np.cov(X.T)).precision, 3)
    0.069
    """
    if not tol >= 0:
        raise ValueError(f"tol must be a number >= 0, got {tol!r}.")
    (true, n), (kept, m) = _support(C_true, tol, "C_true"), _support(C_hat, tol, "C_hat")
    if n != m:
        raise ValueError(f"C_true has {n} features, C_hat has {m}; they must agree.")
    if len(true) == len(kept) == 0:
        return SupportRecovery(1.0, 1.0, 1.0)
    hits = len(np.intersect1d(true, kept, assume_unique=True))
    return SupportRecovery(
        precision=hits / len(kept) if len(kept) else 0.0,
        recall=hits / len(true) if len(true) else 0.0,
        f1=2 * hits / (len(true) + len(kept)),
    )


def _support(C: MatrixLike, tol: float, name: str) -> tuple[np.ndarray, int]:
    """Return the pairs i < j of the support, each as the number i N + j, and N."""
    if getattr(C, "shape", None) == (0, 0):
        return np.zeros(0, dtype=np.int64), 0
    matrix = numpy_matrix(C, name)
    n = matrix.shape[0]
    if isinstance(matrix, np.ndarray):
        return np.flatnonzero(np.triu(abs(matrix) > tol, 1)), n
    entries = matrix.tocoo()
    kept = (entries.row < entries.col) & (abs(entries.data) > tol)
    return entries.row[kept].astype(np.int64) * n + entries.col[kept], n
