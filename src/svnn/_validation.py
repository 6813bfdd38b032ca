"""Input checks shared by the covariance estimators and the networks' estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from svnn.functional._array import check_dense_real, is_torch, namespace


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
    if not sp.issparse(X):  # scikit-learn has its own words for those
        check_dense_real(X)
    if is_torch(X):
        X = X.detach() if lazy or X.dtype in (namespace(X).float32, namespace(X).float64) else X.detach().double()
        _check_tensor_shape(estimator, X, reset, min_samples)
    else:
        _reject_text_columns(X)
        # scikit-learn says by name what is wrong with an array, but not with a list of complex numbers.
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        try:
            X = validate_data(
                estimator,
                X,
                reset=reset,
                allow_nd=True,
                dtype="numeric" if lazy else [np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=min_samples,
            )
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(f"{name}: X holds text where numbers are needed: {error}.") from error
    if X.ndim not in (2, 3):
        raise ValueError(f"{name}: X must have shape (t, N) or (t, N, F), got {tuple(X.shape)}.")
    if 0 in X.shape:
        raise ValueError(f"{name}: X has shape {tuple(X.shape)}, which holds no values; none of its sizes may be 0.")
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
    text = [str(c) for i, (c, d) in enumerate(zip(X.columns, list(X.dtypes), strict=True)) if _is_text(X, i, d)]
    if text:
        shown = ", ".join(repr(c) for c in text[:5]) + (" …" if len(text) > 5 else "")
        raise ValueError(
            f"X has columns that are not numbers: {shown}. Drop them or encode them first, "
            "e.g. with sklearn.preprocessing.OneHotEncoder; could not convert string to float."
        )


def _is_text(X: Any, column: int, dtype: Any) -> bool:
    name = str(dtype).lower()
    if name == "object" and hasattr(X, "iloc"):  # how pandas stores text before its version 3; may hold numbers too
        return any(isinstance(value, str) for value in X.iloc[:, column])
    return name in ("str", "string", "category", "categorical", "utf8") or "datetime" in name
