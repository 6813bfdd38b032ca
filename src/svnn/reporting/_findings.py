"""What several sections of a report need, computed once; and three sentences about it in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import r2_score

from svnn._types import Matrix
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.inspection import feature_contributions
from svnn.inspection._fitted import graph_matrix, predicts_std
from svnn.reporting._request import ReportedModel
from svnn.reporting._words import listed, number, percent

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
    """Number of pairs of features that a covariance keeps, and of edges of every feature."""

    kept: int
    degrees: np.ndarray

    @property
    def n_features(self) -> int:
        """N."""
        return len(self.degrees)

    @property
    def pairs(self) -> int:
        """Number of pairs of features."""
        return self.n_features * (self.n_features - 1) // 2

    @property
    def share(self) -> float:
        """Share of the pairs that are kept."""
        return self.kept / max(self.pairs, 1)

    @property
    def alone(self) -> int:
        """Number of features without an edge."""
        return int((self.degrees == 0).sum())

    @property
    def verdict(self) -> str:
        """ "nearly everything", "nearly nothing", or "" between the two."""
        if self.n_features < 2:
            return ""
        if self.alone >= MOSTLY_ALONE * self.n_features:
            return "nearly nothing"
        return "nearly everything" if self.share >= NEARLY_ALL else ""


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

    ``direction`` holds the means with their signs, and ``towards`` their name; None for several classes or targets.
    """

    size: np.ndarray
    direction: np.ndarray | None
    towards: str
    unit: str
    n_rows: int

    @property
    def order(self) -> np.ndarray:
        """The features, the most important first."""
        return np.argsort(-self.size, kind="stable")


@dataclass(frozen=True)
class Findings:
    """The matrix of the graph, its density and threshold; predictions and importance where there are rows for them."""

    matrix: Matrix
    density: Density
    threshold: float | None
    predictions: Predictions | None
    importance: Importance | None


def find(request: ReportedModel) -> Findings:
    """Compute what several sections need."""
    matrix = graph_matrix(request.model)
    threshold = getattr(request.model.covariance_estimator_, "threshold_", None)
    return Findings(
        matrix,
        density_of(matrix),
        float(threshold) if isinstance(threshold, (float, np.floating)) else None,
        None if request.y is None else _predictions(request, request.y),
        None if request.Z is None else _importance(request),
    )


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
    return Density(int(degrees.sum()) // 2, degrees)


def _predictions(request: ReportedModel, y: np.ndarray) -> Predictions:
    model: Any = request.model
    if request.classifies:
        predicted = model.predict(request.X)
        accuracy = float((predicted == y).mean())
        low, high = wilson(accuracy, len(y))
        counts = np.unique(y, return_counts=True)[1]
        return Predictions(predicted, None, accuracy, low, high, float(counts.max() / len(y)))
    if predicts_std(model):
        predicted, std = model.predict(request.X, return_std=True)
    else:
        predicted, std = model.predict(request.X), None
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


def _importance(request: ReportedModel) -> Importance:
    """Return how much every feature contributes to the predictions of the rows, or of some of them."""
    rows = request.sample(min(max(_EXPLAINED // len(request.names), 20), 200))
    contributions = np.asarray(feature_contributions(request.model, request.rows(rows)).contributions)
    size = np.abs(contributions).mean(0)
    direction: np.ndarray | None = contributions.mean(0)
    towards, unit = "Mean with sign", "units of the target"
    if contributions.ndim == 3:
        binary = request.classifies and contributions.shape[2] == 2
        size, direction = size.mean(1), contributions[..., 1].mean(0) if binary else None
    if request.classifies:
        towards, unit = f"Mean, towards {request.model.classes_[-1]}", "probability"
    return Importance(size, direction, towards, unit, len(rows))


def covariance_name(model: CovarianceNetwork) -> str:
    """Return the name of the estimator of the covariance."""
    estimator = model.covariance_estimator_
    return "a matrix of your own" if estimator is None else type(estimator).__name__


def sentences(request: ReportedModel, findings: Findings) -> list[str]:
    """Return how well the model predicts, how dense its covariance is, and which features matter most."""
    return [
        _on_predictions(request, findings.predictions),
        _on_density(request, findings.density),
        _on_features(request, findings.importance),
    ]


def _on_predictions(request: ReportedModel, predictions: Predictions | None) -> str:
    if predictions is None:
        return "No rows with targets were given, so this report does not say how well the model predicts."
    rows, unknown = (
        f"On the {number(request.n_rows)} rows given",
        "whether it was trained on these rows is not known here.",
    )
    if request.classifies:
        return (
            f"{rows} the model gives the right label to {percent(predictions.score)}, where always giving the most "
            f"frequent label would be right for {percent(predictions.other)}; {unknown}"
        )
    explained = ""
    if predictions.other < 0:
        explained = ", which is worse than always predicting the mean of their targets"
    elif math.isfinite(predictions.other):
        explained = f", and explain {percent(predictions.other)} of its variance"
    error = f"the predictions are off by {number(predictions.score)} on average, in the units of the target"
    return f"{rows} {error}{explained}; {unknown}"


def _on_density(request: ReportedModel, density: Density) -> str:
    kept = f"{number(density.kept)} of {number(density.pairs)} pairs of features ({percent(density.share)})"
    text = f"Its covariance ({covariance_name(request.model)}) keeps {kept}"
    return f"{text}, which is {density.verdict}: see the warning below." if density.verdict else f"{text}."


def _on_features(request: ReportedModel, importance: Importance | None) -> str:
    if importance is None:
        return "No rows were given, so this report does not say which features matter most."
    names = [request.names[i] for i in importance.order[:3]]
    if len(names) == 1:
        return f"There is one feature, {names[0]}."
    return f"The predictions depend most on {listed(names)}."
