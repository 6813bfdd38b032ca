"""What the functions of this package take, checked in one place: filters, matrices, tables, intervals, numbers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from svnn._types import DataLike, Matrix, MatrixLike
from svnn._validation import check_data
from svnn.functional._array import to_numpy
from svnn.functional._matrix import numpy_matrix

#: The coefficients of a filter, of shape (K + 1,), or of a bank of filters, of shape (K + 1, in, out).
FilterLike: TypeAlias = DataLike
#: An interval (a, b) of eigenvalues.
Interval: TypeAlias = tuple[float, float]
#: The probability that an entry is kept: one number for all pairs of features, or a matrix.
if TYPE_CHECKING:
    ProbabilityLike: TypeAlias = float | MatrixLike
else:
    ProbabilityLike = object


def coefficients(h: FilterLike) -> np.ndarray:
    """Return ``h`` in float64: (K + 1,) for a filter, (K + 1, in, out) for a bank as ``CovarianceFilter.weight``."""
    h = np.asarray(to_numpy(h), dtype=np.float64)
    if h.ndim not in (1, 3) or len(h) == 0:
        raise ValueError(f"h must have shape (K + 1,) or (K + 1, in, out), got {h.shape}.")
    if not np.isfinite(h).all():
        raise ValueError("h holds NaN or infinite coefficients.")
    return h


def numbers_in(values: DataLike) -> np.ndarray:
    """Return an array, a tensor or a list of numbers in float64."""
    return np.asarray(to_numpy(values), dtype=np.float64)


def dense(C: MatrixLike, name: str = "C") -> np.ndarray:
    """Return a symmetric matrix as an ndarray in float64, which may be the caller's own."""
    matrix = numpy_matrix(C, name)
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def same_shape(**matrices: Matrix) -> None:
    """Check that two matrices, given by their names, have the same shape."""
    (first, A), (second, B) = matrices.items()
    if A.shape != B.shape:
        raise ValueError(f"{first} has shape {A.shape}, {second} has {B.shape}; they must agree.")


def samples(X: DataLike, n: int) -> np.ndarray:
    """Return a table of shape (t, n) in float64."""
    X = numbers_in(X)
    if X.ndim != 2 or X.shape[1] != n or not len(X):
        raise ValueError(f"X must have shape (t, {n}) for matrices of {n} features, got {X.shape}.")
    if not np.isfinite(X).all():
        raise ValueError("X holds NaN or infinite values; remove or impute them first.")
    return X


def data(X: DataLike, caller: str) -> np.ndarray:
    """Return data of shape (t, N) or (t, N, F) as an array; what is wrong with it is said in the name of ``caller``."""
    return to_numpy(check_data(type(caller, (BaseEstimator,), {})(), X))


def as_interval(value: Interval) -> Interval:
    """Return a finite interval (a, b) with a <= b."""
    try:
        a, b = (float(v) for v in value)
    except (TypeError, ValueError):
        raise ValueError(f"interval must be a pair (a, b), got {value!r}.") from None
    if not (np.isfinite([a, b]).all() and a <= b):
        raise ValueError(f"interval must be finite with a <= b, got ({a}, {b}).")
    return a, b


def check_numbers(least: float, **values: float) -> None:
    """Check that all values are finite numbers of at least ``least``."""
    for name, value in values.items():
        if not (isinstance(value, Real) and np.isfinite(float(value)) and float(value) >= least):
            raise ValueError(f"{name} must be a finite number >= {least}, got {value!r}.")


def check_integer(value: object, wanted: str, least: int, most: float = np.inf) -> int:
    """Return an integer from ``least`` to ``most``; ``wanted`` is what an error says, before "got …"."""
    if isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most:
        return int(value)
    raise ValueError(f"{wanted}, got {value!r}.")
