"""What may be compared: the arrays, the models, and the sizes up to which a model is tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svnn._types import ColumnLike, DataLike
from svnn._validation import missing_labels
from svnn.comparison._names import CLASSIFICATION, MODELS
from svnn.comparison._splits import Plan

#: The most features or training rows with which a model is still tried, and what it would do beyond.
LIMITS = {
    "LDA": ("features", 3000, "it solves with a full covariance matrix"),
    "VNN": ("features", 15000, "its covariance matrix would be full"),
    "GP": ("rows", 2500, "its time grows with the third power of the rows"),
    "SVM": ("rows", 6000, "its time grows with the square of the rows, and a grid is searched"),
}


def checked(
    X: DataLike, y: ColumnLike, groups: ColumnLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list[str]]:
    """Return the arrays, the groups as numbers, and what was left out, or say what is wrong with them.

    Rows without a group are left out, as :func:`svnn.comparison.read_table` does.
    """
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers ({error}); svnn.comparison.read_table encodes text columns.") from None
    target: Any = np.asarray(y)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"X must have shape (rows, features), got {values.shape}.")
    if target.shape != (len(values),):
        raise ValueError(f"y must have shape ({len(values)},), as many as X has rows; got {target.shape}.")
    if np.isinf(values).any():
        raise ValueError("X holds infinite values; remove them, or make them NaN, which counts as missing.")
    if missing_labels(y).any() or (target.dtype.kind == "f" and np.isinf(target).any()):
        raise ValueError("y holds values that are missing or infinite; leave these rows out.")
    if groups is None:
        return values, target, None, []
    labels = np.asarray(groups)
    if labels.shape != target.shape:
        raise ValueError(f"groups must have shape {target.shape}, as y has; got {labels.shape}.")
    known = ~missing_labels(groups)
    if not known.any():
        raise ValueError("groups holds nothing but missing values; leave groups out to compare without them.")
    codes: np.ndarray = np.unique(labels[known].astype(str), return_inverse=True)[1]
    said = [] if known.all() else [f"{int((~known).sum())} rows without groups left out."]
    return values[known], target[known], codes, said


def targets(y: np.ndarray, task: str) -> tuple[np.ndarray, list[Any] | None]:
    """Return numbers and None, or codes of classes and the classes; a target with one value is an error."""
    classes, codes = np.unique(y.astype(str) if y.dtype == object else y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has only one value, {classes[0]!s}; there is nothing to predict.")
    if task == CLASSIFICATION:
        return codes, classes.tolist()
    try:
        return y.astype(np.float64), None
    except ValueError:
        raise ValueError("y holds text, which task='regression' cannot use; give numbers.") from None


def chosen(models: Sequence[str] | None, task: str) -> Sequence[str]:
    known = MODELS[task]
    if models is None:
        return known
    if not models or not set(models) <= set(known):
        raise ValueError(f"models must be some of {', '.join(known)}; got {', '.join(models) or 'none'}.")
    return [model for model in known if model in models]


def within_limits(models: Sequence[str], shape: tuple[int, int], how: Plan) -> tuple[list[str], list[str]]:
    """Return the models that can be tried on a table of this shape, and a note for each of the others."""
    size = {"features": shape[1], "rows": shape[0] - shape[0] // how.folds}
    over = [model for model in models if model in LIMITS and size[LIMITS[model][0]] > LIMITS[model][1]]
    if len(over) == len(models):
        over = []
    notes = [f"{model} is left out beyond {LIMITS[model][1]} {LIMITS[model][0]}: {LIMITS[model][2]}." for model in over]
    return [model for model in models if model not in over], notes


def check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ValueError(f"random_state must be an integer from 0 to {2**32 - 1}, got {seed!r}.")
