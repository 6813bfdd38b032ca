"""Results that several sections of a report need, computed once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import r2_score

from svnn._types import Matrix
from svnn.inspection import feature_contributions
from svnn.inspection._fitted import graph_matrix, predicts_std
from svnn.reporting._request import ReportedModel

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
    """How dense a covariance is.

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
class Findings:
    """The matrix of the graph, the name of its estimator, its density and its threshold.

    Predictions and importance are there where the rows for them are.
    """

    matrix: Matrix
    estimator: str
    density: Density
    threshold: float | None
    predictions: Predictions | None
    importance: Importance | None


def find(request: ReportedModel) -> Findings:
    """Compute the results about a model and its rows."""
    matrix, estimator = graph_matrix(request.model), request.model.covariance_estimator_
    threshold = getattr(estimator, "threshold_", None)
    return Findings(
        matrix,
        "a matrix of your own" if estimator is None else type(estimator).__name__,
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
    n = len(degrees)
    pairs, kept, alone = n * (n - 1) // 2, int(degrees.sum()) // 2, int((degrees == 0).sum())
    verdict, share = "", kept / max(pairs, 1)
    if n > 1 and alone >= MOSTLY_ALONE * n:
        verdict = "nearly nothing"
    elif n > 1 and share >= NEARLY_ALL:
        verdict = "nearly everything"
    return Density(n, pairs, kept, share, degrees, alone, verdict)


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
    order = np.argsort(-size, kind="stable")
    return Importance(size, order, [request.names[i] for i in order[:3]], direction, towards, unit, len(rows))
