"""Scores of an estimated covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from svnn.functional._array import as_matrix, is_torch, to_numpy


class SupportRecovery(NamedTuple):
    """Precision, recall and their harmonic mean, of the off-diagonal pairs found."""

    precision: float
    recall: float
    f1: float


def support_recovery(C_true: Any, C_hat: Any, tol: float = 0.0) -> SupportRecovery:
    r"""Score which off-diagonal pairs an estimate says are related.

    Parameters
    ----------
    C_true, C_hat : matrix of shape (N, N)
        Symmetric: arrays, scipy sparse arrays, dense or sparse tensors, in any combination. Fitted
        covariance estimators stand for their ``covariance_``. Sparse matrices are never densified.
    tol : float, default=0.0
        A pair is in the support of a matrix where :math:`|c_{ij}| > \text{tol}`.

    Returns
    -------
    SupportRecovery
        ``precision``, the share of the found pairs that are true; ``recall``, the share of the true
        pairs that are found; ``f1``, :math:`2\,TP / (2\,TP + FP + FN)`.

    Notes
    -----
    Pairs :math:`i < j` are counted once; the diagonal does not count. Where there is neither a true nor
    a found pair nothing is wrong and all three are 1. Where only one of the supports is empty all three
    are 0.

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
    (true, n), (found, m) = _support(C_true, tol, "C_true"), _support(C_hat, tol, "C_hat")
    if n != m:
        raise ValueError(f"C_true has {n} features, C_hat has {m}; they must agree.")
    if len(true) == len(found) == 0:
        return SupportRecovery(1.0, 1.0, 1.0)
    hits = len(np.intersect1d(true, found, assume_unique=True))
    return SupportRecovery(
        precision=hits / len(found) if len(found) else 0.0,
        recall=hits / len(true) if len(true) else 0.0,
        f1=2 * hits / (len(true) + len(found)),
    )


def _support(C: Any, tol: float, name: str) -> tuple[np.ndarray, int]:
    """Return the pairs i < j of the support, each as the number i N + j, and N."""
    C = _as_scipy(getattr(C, "covariance_", C))
    if not sp.issparse(C):
        C = as_matrix(to_numpy(C), name)
        _check_symmetric(C, name)
        return np.flatnonzero(np.triu(abs(C) > tol, 1)), len(C)
    C = sp.csr_array(C).astype(np.float64)
    n = C.shape[0]
    if n != C.shape[1]:
        raise ValueError(f"{name} must be a square matrix, got shape {C.shape}.")
    if not np.isfinite(C.data).all():
        raise ValueError(f"{name} holds NaN or infinite values; remove or impute them first.")
    _check_symmetric(C, name)
    C = C.tocoo()
    rows, columns = (index.astype(np.int64) for index in (C.row, C.col))
    kept = (rows < columns) & (abs(C.data) > tol)
    return rows[kept] * n + columns[kept], n


def _as_scipy(C: Any) -> Any:
    """Return a sparse tensor as a scipy sparse array, anything else as it is."""
    if not is_torch(C) or not str(C.layout).startswith("torch.sparse"):
        return C
    C = C.detach().to_sparse_coo().coalesce().cpu()
    return sp.coo_array((C.values().numpy(), tuple(C.indices().numpy())), shape=tuple(C.shape))


def _check_symmetric(C: Any, name: str) -> None:
    if C.shape[0] == 0:
        return
    gap = abs(C - C.T).max()
    if gap > 1e-5 * abs(C).max():
        raise ValueError(f"{name} is not symmetric: entries differ from their mirror by up to {gap:.3g}.")
