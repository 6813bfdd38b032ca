"""What the stability functions take, checked once: coefficients, symmetric matrices, probabilities, intervals."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.functional._array import as_matrix, is_torch, to_numpy
from svnn.operators import CovarianceOperator


def coefficients(h: Any) -> np.ndarray:
    """Return ``h`` in float64: (K + 1,) for a filter, (K + 1, in, out) for a bank as ``CovarianceFilter.weight``."""
    h = np.asarray(to_numpy(h), dtype=np.float64)
    if h.ndim not in (1, 3) or len(h) == 0:
        raise ValueError(f"h must have shape (K + 1,) or (K + 1, in, out), got {h.shape}.")
    if not np.isfinite(h).all():
        raise ValueError("h holds NaN or infinite coefficients.")
    return h


def filter_coefficients(h: Any) -> np.ndarray:
    """Return the coefficients (K + 1,) of a single filter."""
    h = coefficients(h)
    if h.ndim != 1:
        raise ValueError(f"h must be the coefficients (K + 1,) of one filter, got shape {h.shape}.")
    return h


def matrix(C: Any, name: str = "C") -> Any:
    """Return a symmetric matrix in float64: a ``csr_array`` where it came sparse, else an ndarray.

    Takes arrays, tensors, scipy sparse arrays, operators (in their own scale: an operator of C / s stands
    for C) and fitted covariance estimators. The result may be the caller's own array: it is not to be changed.
    """
    C = getattr(C, "covariance_", C)
    if isinstance(C, CovarianceOperator):
        scale = 1.0 if C.scale is None else C.scale
        C = (C.to_scipy() if C.backend == "csr" else to_numpy(C.to_dense())).astype(np.float64) * scale
    elif is_torch(C) and C.layout is not C.new_empty(0).layout:
        raise ValueError(f"{name} is a sparse tensor; pass svnn.as_operator({name}) or a scipy sparse array.")
    if sp.issparse(C):
        C = sp.csr_array(C).astype(np.float64)
        if C.shape[0] != C.shape[1]:
            raise ValueError(f"{name} must be a square matrix, got shape {C.shape}.")
        if not np.isfinite(C.data).all():
            raise ValueError(f"{name} holds NaN or infinite values; remove or impute them first.")
    else:
        C = np.asarray(as_matrix(to_numpy(C), name), dtype=np.float64)
        if C.shape[0] and (C == C.T).all():
            return C
    if not C.shape[0]:
        raise ValueError(f"{name} is empty; pass a covariance of at least one feature.")
    gap = abs(C - C.T).max()
    if gap > 1e-5 * abs(C).max():
        raise ValueError(f"{name} is not symmetric: entries differ from their mirror by up to {gap:.3g}.")
    return (C + C.T) / 2


def dense(C: Any, name: str = "C") -> np.ndarray:
    """Return a symmetric matrix as an ndarray in float64."""
    C = matrix(C, name)
    return C.toarray() if sp.issparse(C) else C


def probabilities(P: Any, n: int) -> np.ndarray:
    """Return symmetric keep-probabilities with a diagonal of 1; a number stands for every pair alike."""
    if np.ndim(P) == 0:
        P = np.full((n, n), float(P))
    P = np.array(dense(P, "P"))
    if P.shape != (n, n):
        raise ValueError(f"P has shape {P.shape}, C has ({n}, {n}); they must agree.")
    if P.min() < 0 or P.max() > 1:
        raise ValueError("P must hold probabilities between 0 and 1.")
    np.fill_diagonal(P, 1.0)
    return P


def interval(value: Any) -> tuple[float, float]:
    """Return a finite interval (a, b), a <= b, of eigenvalues."""
    try:
        a, b = (float(v) for v in value)
    except (TypeError, ValueError):
        raise ValueError(f"interval must be a pair (a, b), got {value!r}.") from None
    if not (np.isfinite([a, b]).all() and a <= b):
        raise ValueError(f"interval must be finite with a <= b, got ({a}, {b}).")
    return a, b


def numbers(least: float, **values: Any) -> None:
    """Check that all values are finite numbers of at least ``least``."""
    for name, value in values.items():
        if not (isinstance(value, Real) and np.isfinite(float(value)) and float(value) >= least):
            raise ValueError(f"{name} must be a finite number >= {least}, got {value!r}.")
