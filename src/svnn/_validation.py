"""Checks of ``X`` and of groups, and a decorator for a ``fit`` that succeeds or changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import update_wrapper, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, validate_data

from svnn._types import ColumnLike, DataLike
from svnn.functional._array import check_dense_real, is_torch, namespace, to_numpy

if TYPE_CHECKING:
    from torch import Tensor


Fit = TypeVar("Fit", bound=Callable[..., Any])


class Frame(Protocol):
    """A data frame of pandas, polars or another library."""

    columns: Iterable[object]
    dtypes: Iterable[object]


def is_dask(X: object) -> bool:
    """Return whether ``X`` is an array or a data frame of Dask, without importing Dask.

    Examples
    --------
    >>> is_dask([[1.0, 2.0]])
    False
    """
    return hasattr(X, "__dask_graph__") and hasattr(X, "shape")


def check_data(
    estimator: BaseEstimator,
    X: DataLike,
    *,
    reset: bool = True,
    allow_nan: bool = False,
    nan_remedy: str = "impute them first, e.g. with sklearn.impute.SimpleImputer",
    min_samples: int = 1,
    lazy: bool = False,
) -> Any:
    """Return ``X`` as a floating-point array or tensor of shape (t, N) or (t, N, F), or raise a clear error.

    Parameters
    ----------
    estimator : BaseEstimator
        Error messages name it. Its ``n_features_in_`` and ``feature_names_in_`` are set, or compared with ``X``.
    X : array, tensor or data frame
        One of Dask is computed.
    reset : bool
        True sets these two attributes, as ``fit`` does; False compares them, as ``predict`` does.
    allow_nan : bool
        Whether values may be missing.
    nan_remedy : str
        The advice in the message about missing values.
    min_samples : int
        Smallest number of rows.
    lazy : bool
        Leave the numbers of an array or tensor to the caller, who reads it in pieces, converts them to floating point
        and checks for NaN.
    """
    name = type(estimator).__name__
    data: Any = X
    if is_dask(data):
        data = data.compute()
    if hasattr(data, "var_names") and hasattr(data, "to_df"):
        raise TypeError(f"{name}: X is an AnnData; pass its numbers as a dense table, for instance X.to_df().")
    if not sp.issparse(data):  # for which scikit-learn has a message
        check_dense_real(data)
    if is_torch(data):
        ready = lazy or data.dtype in (namespace(data).float32, namespace(data).float64)
        data = data.detach() if ready else data.detach().double()
        _check_tensor_shape(estimator, data, reset, min_samples)
    else:
        if hasattr(data, "columns") and hasattr(data, "dtypes"):
            reject_text_columns(data)
            twice = [column for column, count in Counter(data.columns).items() if count > 1]
            if twice:
                raise ValueError(f"{name}: X has several columns named {twice[0]!r}; rename them.")
        try:
            data = validate_data(
                estimator,
                # scikit-learn has a clear error for an array of complex numbers, but not for a list of them.
                np.asarray(data) if isinstance(data, (list, tuple)) else data,
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
    if data.ndim not in (2, 3):
        raise ValueError(f"{name}: X must have shape (t, N) or (t, N, F), got {tuple(data.shape)}.")
    if 0 in data.shape:
        raise ValueError(f"{name}: X has shape {tuple(data.shape)}, which holds no values; none of its sizes may be 0.")
    if lazy:
        return data
    xp = namespace(data)
    if not bool(xp.isfinite(data).all()):
        if bool(xp.isinf(data).any()):
            raise ValueError(f"{name}: X contains inf; remove infinite values before fitting.")
        if not allow_nan:
            raise ValueError(f"{name}: X contains NaN; {nan_remedy}.")
    return data


def _check_tensor_shape(estimator: BaseEstimator, X: Tensor, reset: bool, min_samples: int) -> None:
    """Check the shape of a tensor and the attributes of the estimator, as scikit-learn does for arrays."""
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


def reject_text_columns(X: Frame) -> None:
    """Raise an error that names the columns that hold text; scikit-learn's error shows only the first value."""
    dtypes = zip(X.columns, list(X.dtypes), strict=True)
    text = [str(column) for i, (column, dtype) in enumerate(dtypes) if _is_text(X, i, str(dtype).lower())]
    if text:
        shown = ", ".join(repr(column) for column in text[:5]) + (" …" if len(text) > 5 else "")
        raise ValueError(
            f"X has columns that are not numbers: {shown}. Drop them or encode them first, "
            "e.g. with sklearn.preprocessing.OneHotEncoder; could not convert string to float."
        )


def _is_text(X: Frame, column: int, dtype: str) -> bool:
    if dtype == "object" and hasattr(X, "iloc"):  # pandas before version 3 stores text so, but also numbers
        return any(isinstance(value, str) for value in X.iloc[:, column])
    return dtype in ("str", "string", "category", "categorical", "utf8") or "datetime" in dtype


def at_once(fit: Fit) -> Fit:
    """Run an estimator's ``fit`` on a copy, and take over its attributes only at the end.

    A fit that fails or is interrupted leaves the fitted model unchanged. ``fit`` starts without the attributes of an
    earlier fit, which end in ``_``, except for those that the estimator names in ``_kept_by_fit``; ``partial_fit``
    starts with all of them.
    """
    incremental = fit.__name__ == "partial_fit"

    @wraps(fit)
    def fitted_at_once(self: Any, *args: object, **kwargs: object) -> object:
        trial = object.__new__(type(self))
        kept = getattr(self, "_kept_by_fit", ())
        trial.__dict__.update(
            {k: v for k, v in self.__dict__.items() if incremental or not k.endswith("_") or k in kept}
        )
        fit(trial, *args, **kwargs)
        # One assignment cannot be interrupted; parameters that a callback has set meanwhile are kept.
        self.__dict__ = {**trial.__dict__, **self.get_params(deep=False)}
        return self

    return cast(Fit, fitted_at_once)


def missing_labels(labels: ColumnLike) -> np.ndarray:
    """Return where labels of rows, such as classes or groups, are missing: NaN, None, or NA of pandas.

    In an array of text a missing label is "nan", to which numpy converts NaN.

    Examples
    --------
    >>> missing_labels(["a", None, float("nan")]).tolist(), missing_labels(np.array([1, 2])).tolist()
    ([False, True, True], [False, False])
    >>> missing_labels(np.array(["a", float("nan")])).tolist()
    [False, True]
    """
    # numpy converts a list of text and numbers, NaN included, to text.
    values: Any = to_numpy(labels) if hasattr(labels, "dtype") else np.array(labels, dtype=object)
    if values.dtype.kind in "fcmM":
        return np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    if values.dtype.kind == "U":
        return np.asarray(values == "nan")
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.array([_is_missing(each) for each in values.ravel()], dtype=bool).reshape(values.shape)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
        return type(value).__name__ == "NAType"


def check_groups(groups: ColumnLike, n_rows: int) -> np.ndarray:
    """Return the groups of the rows as an array, or raise an error where some are missing."""
    array = to_numpy(groups)
    check_consistent_length(range(n_rows), array)
    if count := int(missing_labels(groups).sum()):
        raise ValueError(f"groups holds {count} missing values; leave these rows out, or give them a group.")
    return array


def unless(why_not: Callable[[Any], str]) -> Callable[[Fit], Fit]:
    """Make a method available only where ``why_not(self)`` is empty; otherwise it is the text of the AttributeError.

    This is scikit-learn's ``available_if`` with a message that names the remedy.
    """

    def decorate(method: Fit) -> Fit:
        return cast(Fit, _Sometimes(method, why_not))

    return decorate


class _Sometimes:
    """Descriptor of a method that only some instances of a class have."""

    def __init__(self, method: Callable[..., Any], why_not: Callable[[Any], str]) -> None:
        self.method, self.why_not = method, why_not
        update_wrapper(cast("Callable[..., Any]", self), method)

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self.method
        why = self.why_not(instance)
        if why:
            raise AttributeError(f"{owner.__name__} has no {self.method.__name__} here: {why}.")
        return MethodType(self.method, instance)
