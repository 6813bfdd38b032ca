"""What a report is asked for, checked before anything is computed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from svnn._types import ColumnLike, DataLike
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.functional._array import is_torch, to_numpy


class PairedTest(Protocol):
    """How much higher the score of one model is than that of another one."""

    @property
    def difference(self) -> float:
        """The mean difference."""

    @property
    def low(self) -> float:
        """The lower end of its 95 % interval."""

    @property
    def high(self) -> float:
        """The upper end."""

    @property
    def p(self) -> float:
        """How probable such a difference is where there is none."""


class ComparisonLike(Protocol):
    """Scores of several models on the same splits, such as :class:`svnn.comparison.Comparison`; lower is better."""

    @property
    def name(self) -> str:
        """What the table is called."""

    @property
    def metric(self) -> str:
        """What the scores are."""

    @property
    def scores(self) -> Mapping[str, np.ndarray]:
        """The scores of every model, one for each split."""

    @property
    def seconds(self) -> Mapping[str, Any]:
        """The time of every fit, where it is known."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of features."""

    @property
    def n_groups(self) -> int | None:
        """Number of groups of rows, where there are groups."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """How the comparison was made."""

    @property
    def notes(self) -> Sequence[str]:
        """What a reader should know."""

    def interval(self, model: str) -> tuple[float, float, float]:
        """Return the mean score of a model and the ends of its interval."""
        ...

    def paired_test(self, a: str, b: str) -> PairedTest:
        """Compare two models split by split."""
        ...

    def best(self) -> str:
        """Return the model with the lowest mean score."""
        ...

    def sentences(self) -> Sequence[str]:
        """Return the result in plain words."""
        ...


@dataclass(frozen=True)
class Request:
    """A fitted model with the rows to look at, or without; ``Z`` holds the rows as the model standardises them."""

    model: CovarianceNetwork
    names: list[str]
    X: Any = None
    y: np.ndarray | None = None
    Z: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, 0 where none were given."""
        return 0 if self.Z is None else len(self.Z)

    @property
    def classifies(self) -> bool:
        """Whether the model predicts labels."""
        return bool(is_classifier(self.model))

    def some_rows(self, most: int) -> tuple[np.ndarray, Any]:
        """Return the numbers of at most ``most`` rows, drawn with a fixed seed, and these rows of ``X``."""
        rows = np.arange(self.n_rows)
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
        return rows, rows_of(self.X, rows)


def check_request(
    model: CovarianceNetwork, X: DataLike | None, y: ColumnLike | None, names: Sequence[str] | None
) -> Request:
    """Return what the report needs of a model and its rows, or say what is wrong with them."""
    if not isinstance(model, CovarianceNetwork):
        raise TypeError(f"model must be a fitted SVNNRegressor or SVNNClassifier, got {type(model).__name__}.")
    check_is_fitted(model)
    n = int(model.n_features_in_)
    if names is None:
        names = getattr(model, "feature_names_in_", [f"x{i}" for i in range(n)])
    if isinstance(names, str) or len(names) != n:
        raise ValueError(f"names must hold one name for each of the {n} features of the model, got {_size(names)}.")
    named = [str(name) for name in names]
    if X is None:
        if y is not None:
            raise ValueError("y was given without X; pass the rows that the targets belong to as X=.")
        return Request(model, named)
    X = cast(Any, to_numpy(X) if is_torch(X) else X)
    Z = model._standardizer(model._signals(X))
    if y is None:
        return Request(model, named, X, None, Z)
    targets = np.asarray(to_numpy(y) if is_torch(y) else y)
    check_consistent_length(Z, targets)
    targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    predicted = model.predict(rows_of(X, np.arange(1)))
    if targets.shape[1:] != predicted.shape[1:]:
        raise ValueError(f"y has shape {targets.shape}, but the model predicts {predicted.shape[1:] or 'one value'}.")
    return Request(model, named, X, targets, Z)


def check_path(path: str | Path) -> Path:
    """Return where the report goes, or say why it cannot go there."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder; name a file in it, such as report.html.")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r} is in a folder that does not exist; make {file.parent} first.")
    return file


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array or a data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "__array__") else np.asarray(X)[rows]


def _size(names: object) -> str:
    return f"the text {names!r}" if isinstance(names, str) else f"{len(cast(Sequence[str], names))} names"
