"""Input checks shared by the covariance estimators and the networks' estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from svnn.functional._array import is_torch, namespace


def check_data(
    estimator: Any,
    X: Any,
    *,
    reset: bool = True,
    allow_nan: bool = False,
    nan_remedy: str = "impute them first, e.g. with sklearn.impute.SimpleImputer",
    min_samples: int = 1,
    lazy: bool = False,
) -> Any:
    """Return ``X`` as a floating (t, N) or (t, N, F) array or tensor, or raise a clear error.

    Sets (``reset=True``) or compares ``n_features_in_`` and ``feature_names_in_``. With ``lazy`` an
    array or tensor is not read: the caller, who reads it in pieces, converts the numbers and
    looks for NaN.
    """
    name = type(estimator).__name__
    if is_torch(X):
        if X.layout != namespace(X).strided:
            raise TypeError(f"{name}: X is a sparse tensor, but dense data is required; pass X.to_dense().")
        if X.is_complex():
            raise ValueError(f"{name}: X must be real: Complex data not supported.")
        X = X.detach() if lazy or X.dtype in (namespace(X).float32, namespace(X).float64) else X.detach().double()
        _check_tensor_shape(estimator, X, reset, min_samples)
    else:
        _reject_text_columns(X)
        # scikit-learn says by name what is wrong with an array, but not with a list of complex numbers.
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        X = validate_data(
            estimator,
            X,
            reset=reset,
            allow_nd=True,
            dtype="numeric" if lazy else [np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=min_samples,
        )
    if X.ndim not in (2, 3):
        raise ValueError(f"{name}: X must have shape (t, N) or (t, N, F), got {tuple(X.shape)}.")
    if 0 in X.shape[1:]:
        raise ValueError(
            f"{name}: X has 0 feature(s) or 0 values per node (shape={tuple(X.shape)}), a minimum of 1 is required."
        )
    if lazy:
        return X
    xp = namespace(X)
    if not bool(xp.isfinite(X).all()):
        if bool(xp.isinf(X).any()):
            raise ValueError(f"{name}: X contains inf; remove infinite values before fitting.")
        if not allow_nan:
            raise ValueError(f"{name}: X contains NaN; {nan_remedy}.")
    return X


def _check_tensor_shape(estimator: Any, X: Any, reset: bool, min_samples: int) -> None:
    name = type(estimator).__name__
    if X.ndim < 2:
        raise ValueError(f"{name}: expected a 2D or 3D tensor, got {X.ndim}D.")
    if X.shape[0] < min_samples:
        raise ValueError(
            f"{name}: found {X.shape[0]} sample(s) (shape={tuple(X.shape)}), a minimum of {min_samples} is required."
        )
    if reset:
        estimator.n_features_in_ = X.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {estimator.n_features_in_} features as input."
        )


def _reject_text_columns(X: Any) -> None:
    """Name the columns of a data frame that hold text; scikit-learn names only the first value."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return
    dtypes = list(X.dtypes)
    text = [str(c) for c, d in zip(X.columns, dtypes, strict=True) if _is_text(d)]
    if text:
        shown = ", ".join(repr(c) for c in text[:5]) + (" …" if len(text) > 5 else "")
        raise ValueError(
            f"X has columns that are not numbers: {shown}. Drop them or encode them first, "
            "e.g. with sklearn.preprocessing.OneHotEncoder; could not convert string to float."
        )


def _is_text(dtype: Any) -> bool:
    return (
        str(dtype).lower() in ("str", "string", "category", "categorical", "utf8") or "datetime" in str(dtype).lower()
    )
