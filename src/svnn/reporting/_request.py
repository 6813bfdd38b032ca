"""A model and the rows to look at, checked before anything is computed or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length

from svnn._types import ColumnLike, DataLike
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.functional._array import is_torch, to_numpy
from svnn.inspection._fitted import check_model, feature_names, standardised


@dataclass(frozen=True)
class ReportedModel:
    """A fitted model with the rows to look at, or without; ``Z`` holds the rows as the model standardises them.

    ``n_rows`` is 0 where no rows are given; ``classifies``: whether the model predicts labels.
    """

    model: CovarianceNetwork
    names: list[str]
    classifies: bool
    n_rows: int = 0
    X: Any = None
    y: np.ndarray | None = None
    Z: np.ndarray | None = None

    def sample(self, most: int) -> np.ndarray:
        """Return the numbers of at most ``most`` rows, drawn with a fixed seed."""
        if self.n_rows <= most:
            return np.arange(self.n_rows)
        return np.sort(np.random.default_rng(0).choice(self.n_rows, most, replace=False))

    def rows(self, index: np.ndarray) -> Any:
        """Return some rows of ``X``, an array or a data frame."""
        if hasattr(self.X, "iloc"):
            return self.X.iloc[index]
        return self.X[index] if hasattr(self.X, "__array__") else np.asarray(self.X)[index]


def check_request(
    model: CovarianceNetwork, X: DataLike | None, y: ColumnLike | None, names: Sequence[str] | None
) -> ReportedModel:
    """Return what a report needs of a model and its rows, or raise an error that says what is wrong with them."""
    check_model(model, "a report")
    n = int(model.n_features_in_)
    called: Sequence[Any] = feature_names(model).tolist() if names is None else names
    if isinstance(called, str) or len(called) != n:
        given = f"the text {called!r}" if isinstance(called, str) else f"{len(called)} names"
        raise ValueError(f"names must hold one name for each of the {n} features of the model, got {given}.")
    fitted = ReportedModel(model, [str(name) for name in called], bool(is_classifier(model)))
    if X is None:
        if y is not None:
            raise ValueError("y was given without X; pass the rows that the targets belong to as X=.")
        return fitted
    X = to_numpy(X) if is_torch(X) else X
    Z = standardised(model, X)
    request = replace(fitted, n_rows=len(Z), X=X, Z=Z)
    if y is None:
        return request
    targets = np.asarray(to_numpy(y) if is_torch(y) else y)
    check_consistent_length(Z, targets)
    targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    predicted: Any = model.predict(request.rows(np.arange(1)))
    if targets.shape[1:] != predicted.shape[1:]:
        raise ValueError(f"y has shape {targets.shape}, but the model predicts {predicted.shape[1:] or 'one value'}.")
    return replace(request, y=targets)
