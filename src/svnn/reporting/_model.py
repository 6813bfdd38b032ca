"""The model of a report: checked with its rows, and the results that several sections need, computed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length

from svnn._types import ColumnLike, DataLike, Matrix
from svnn.estimators._base import BaseSVNN
from svnn.functional._array import is_torch, to_numpy
from svnn.inspection import feature_contributions
from svnn.inspection._fitted import (
    Model,
    check_model,
    feature_names,
    graph_matrix,
    network_of,
    predicts_std,
    standardised,
)

#: A covariance that keeps this share of the pairs keeps nearly everything.
NEARLY_ALL = 0.9
#: Where this share of the features has no edge, nearly nothing was kept.
MOSTLY_ALONE = 0.5
#: Of a normal distribution, 95 % lie within this many standard deviations.
Z95 = 1.96
#: Numbers in the rows whose contributions are computed.
_EXPLAINED = 300_000


@dataclass(frozen=True)
class Density:
    """The density of a covariance.

    Number of features, of their pairs, and of the pairs that are kept, also as a share; number of edges of every
    feature, and of features without any. ``verdict`` is "nearly everything", "nearly nothing", or "" between the two.
    """

    n_features: int
    pairs: int
    kept: int
    share: float
    degrees: np.ndarray
    alone: int
    verdict: str


@dataclass(frozen=True)
class Predictions:
    """Predictions of the rows, with the score that is quoted and its 95 % interval.

    The score is the accuracy for labels and the mean absolute error for numbers; ``other`` is the share of the most
    frequent label, or R². ``std`` is None where the model has no standard deviations.
    """

    predicted: np.ndarray
    std: np.ndarray | None
    score: float
    low: float
    high: float
    other: float


@dataclass(frozen=True)
class Importance:
    """Mean absolute contribution of every feature (N,), and their unit.

    ``order`` holds the features, the most important first, and ``top`` the names of the first three.
    ``direction`` holds the means with their signs, and ``towards`` their name; None for several classes or targets.
    """

    size: np.ndarray
    order: np.ndarray
    top: list[str]
    direction: np.ndarray | None
    towards: str
    unit: str
    n_rows: int


@dataclass(frozen=True)
class ReportedModel:
    """A fitted model with the rows to look at, or without, and what was found about them.

    Attributes
    ----------
    model : fitted S-VNN or blend
    network : S-VNN
        The model itself, or the part of the blend whose covariance is shown.
    names : list of str
    classifies : bool
        Whether the model predicts labels.
    matrix, estimator, threshold : matrix, str, float or None
        The edges of the model, the name of their estimator, and its threshold.
    density : Density
    n_rows : int
        0 where no rows are given.
    X, y : the rows, and their targets
    Z : ndarray of shape (t, N, F)
        The rows as the network standardises them.
    predictions, importance : Predictions, Importance or None
        None without the rows for them; importance also where parts of a blend cannot be split into contributions.
    """

    model: Model
    network: BaseSVNN
    names: list[str]
    classifies: bool
    matrix: Matrix
    estimator: str
    threshold: float | None
    density: Density
    n_rows: int = 0
    X: Any = None
    y: np.ndarray | None = None
    Z: np.ndarray | None = None
    predictions: Predictions | None = None
    importance: Importance | None = None

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


def look_at(model: Model, X: DataLike | None, y: ColumnLike | None, names: Sequence[str] | None) -> ReportedModel:
    """Return a model and its rows with what is found about them, or raise an error that says what is wrong."""
    check_model(model, "a report")
    n = int(model.n_features_in_)
    called: Sequence[Any] = feature_names(model).tolist() if names is None else names
    if isinstance(called, str) or len(called) != n:
        given = f"the text {called!r}" if isinstance(called, str) else f"{len(called)} names"
        raise ValueError(f"names must hold one name for each of the {n} features of the model, got {given}.")
    if X is None and y is not None:
        raise ValueError("y was given without X; pass the rows that the targets belong to as X=.")
    network = network_of(model)
    estimator, matrix = network.covariance_estimator_, graph_matrix(model)
    threshold = getattr(estimator, "threshold_", None)
    found = ReportedModel(
        model,
        network,
        [str(name) for name in called],
        bool(is_classifier(model)),
        matrix,
        "a matrix of your own" if estimator is None else type(estimator).__name__,
        float(threshold) if isinstance(threshold, (float, np.floating)) else None,
        density_of(matrix),
    )
    if X is None:
        return found
    X = to_numpy(X) if is_torch(X) else X
    Z = standardised(model, X)
    found = replace(found, n_rows=len(Z), X=X, Z=Z)
    if y is not None:
        targets = np.asarray(to_numpy(y) if is_torch(y) else y)
        check_consistent_length(Z, targets)
        targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
        predicted: Any = model.predict(found.rows(np.arange(1)))
        if targets.shape[1:] != predicted.shape[1:]:
            shape = predicted.shape[1:] or "one value"
            raise ValueError(f"y has shape {targets.shape}, but the model predicts {shape}.")
        found = replace(found, y=targets, predictions=_predictions(found, targets))
    return replace(found, importance=_importance(found))


def density_of(matrix: Matrix) -> Density:
    """Count the edges of a covariance: its entries beside the diagonal that are not zero.

    Examples
    --------
    >>> density = density_of(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> density.kept, density.share.__round__(2), density.alone
    (1, 0.33, 1)
    """
    edges = sp.csr_array(matrix != 0)
    edges.eliminate_zeros()
    degrees = np.diff(edges.indptr) - (edges.diagonal() != 0)
    n = len(degrees)
    pairs, kept, alone = n * (n - 1) // 2, int(degrees.sum()) // 2, int((degrees == 0).sum())
    verdict, share = "", kept / max(pairs, 1)
    if n > 1 and alone >= MOSTLY_ALONE * n:
        verdict = "nearly nothing"
    elif n > 1 and share >= NEARLY_ALL:
        verdict = "nearly everything"
    return Density(n, pairs, kept, share, degrees, alone, verdict)


def _predictions(of: ReportedModel, y: np.ndarray) -> Predictions:
    model: Any = of.model
    if of.classifies:
        predicted = model.predict(of.X)
        accuracy = float((predicted == y).mean())
        low, high = wilson(accuracy, len(y))
        counts = np.unique(y, return_counts=True)[1]
        return Predictions(predicted, None, accuracy, low, high, float(counts.max() / len(y)))
    if predicts_std(model):
        predicted, std = model.predict(of.X, return_std=True)
    else:
        predicted, std = model.predict(of.X), None
    errors = np.abs(predicted - y).reshape(len(y), -1).mean(1)
    mean, room, r2 = float(errors.mean()), math.nan, math.nan
    if len(y) > 1:
        room = Z95 * float(errors.std(ddof=1)) / math.sqrt(len(y))
        r2 = float(r2_score(y, predicted))
    return Predictions(predicted, std, mean, mean - room, mean + room, r2)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``n`` rows (Wilson 1927).

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    middle, below = (share + Z95**2 / (2 * n)), 1 + Z95**2 / n
    room = Z95 * math.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return max((middle - room) / below, 0.0), min((middle + room) / below, 1.0)


def _importance(of: ReportedModel) -> Importance | None:
    """Return how much every feature contributes to the predictions of the rows, or of some of them."""
    rows = of.sample(min(max(_EXPLAINED // len(of.names), 20), 200))
    try:
        contributions = np.asarray(feature_contributions(of.model, of.rows(rows)).contributions)
    except ValueError:  # the rows are checked: a part of the blend is neither an S-VNN nor linear
        return None
    size = np.abs(contributions).mean(0)
    direction: np.ndarray | None = contributions.mean(0)
    towards, unit = "Mean with sign", "units of the target"
    if contributions.ndim == 3:
        binary = of.classifies and contributions.shape[2] == 2
        size, direction = size.mean(1), contributions[..., 1].mean(0) if binary else None
    if of.classifies:
        towards, unit = f"Mean, towards {of.model.classes_[-1]}", "probability"
    order = np.argsort(-size, kind="stable")
    return Importance(size, order, [of.names[i] for i in order[:3]], direction, towards, unit, len(rows))
