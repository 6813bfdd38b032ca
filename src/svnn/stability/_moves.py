"""The points of a stability curve: draw, run the same network on two covariances, compare."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing

from svnn.functional._array import to_numpy
from svnn.operators import as_operator
from svnn.stability._inputs import matrix
from svnn.stability._norms import frobenius


class Point(NamedTuple):
    """A point of the axis: the estimator, how many rows it sees and, where not all, how many features."""

    estimator: Any
    n_samples: int
    n_features: int | None = None
    level: float = np.nan


class Outputs(NamedTuple):
    """A network on a covariance, its shift matrix, and what it makes of the test rows."""

    network: Any
    shift: Any
    embeddings: np.ndarray
    predictions: np.ndarray

    @classmethod
    def of(cls, network: Any, X: Any) -> Outputs:
        """Run ``network`` on ``X``."""
        return cls(network, matrix(network.operator_), network.embed(X), network.predict(X))


class Curve:
    """What all points share: model, data, and the outputs on the reference, a matrix or an estimator."""

    def __init__(self, model: Any, X_test: Any, X_pool: Any, y_test: Any, reference: Any) -> None:
        self.model, self.reference = model, reference
        self.X_test, self.X_pool = X_test, X_pool
        self.y_test = None if y_test is None else to_numpy(y_test)
        if self.y_test is not None and len(self.y_test) != np.shape(X_test)[0]:
            raise ValueError(f"y_test has {len(self.y_test)} rows, X_test has {np.shape(X_test)[0]}; they must agree.")
        self._base: Outputs | None = None

    def record(self, point: Point, repeat: int, seed: int) -> dict[str, Any]:
        """Draw rows, and features where the point asks for that, and compare with the reference."""
        rng = np.random.default_rng(seed)
        X_test, X_pool = self.X_test, self.X_pool
        order = rng.permutation(np.shape(X_pool)[0])
        if point.n_features is None:
            if self._base is None:
                self._base = self._run(self.model, self.reference, seed, X_pool, X_test)
            base = self._base
        else:
            chosen = np.sort(rng.choice(X_pool.shape[1], point.n_features, replace=False))
            X_test, X_pool = X_test[:, chosen], X_pool[:, chosen]
            base = self._run(self.model, _restricted(self.reference, chosen), seed, X_pool, X_test)
        # The samples of a seed are nested: the first n of one order.
        drawn = _safe_indexing(X_pool, order[: point.n_samples])
        # From the reference on, not from the model: both matrices are then divided by the same number.
        moved = self._run(base.network, point.estimator, seed, drawn, X_test)
        labels = {
            "n_samples": point.n_samples,
            "n_features": moved.shift.shape[0],
            "level": point.level,
            "repeat": repeat,
            "seed": seed,
        }
        return labels | self._changes(base, moved)

    def _run(self, network: Any, covariance: Any, seed: int, X: Any, X_test: Any) -> Outputs:
        return Outputs.of(network.on(_seeded(covariance, seed), X=X), X_test)

    def _changes(self, base: Outputs, moved: Outputs) -> dict[str, float]:
        change = moved.embeddings - base.embeddings
        difference = moved.shift - base.shift
        changes = {
            "embedding_error": _ratio(np.linalg.norm(change), np.linalg.norm(base.embeddings)),
            "embedding_distance": float(np.linalg.norm(change, axis=(1, 2)).mean()),
            "prediction_change": self._difference(moved.predictions, base.predictions),
            "covariance_error": _ratio(_spectral_norm(difference), _spectral_norm(base.shift)),
            "covariance_error_fro": _ratio(frobenius(difference), frobenius(base.shift)),
            "density": _density(moved.shift),
        }
        if self.y_test is not None:
            before, after = (self._difference(o.predictions, self.y_test) for o in (base, moved))
            changes |= {"task_error": after, "task_change": after - before}
        return changes

    def _difference(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the mean absolute difference of numbers, the share of different labels."""
        return float(np.mean(a != b) if is_classifier(self.model) else np.mean(abs(a - b.reshape(a.shape))))


def _seeded(covariance: Any, seed: int) -> Any:
    """Return an estimator with its own seed; a matrix as it is."""
    if not hasattr(covariance, "fit"):
        return covariance
    covariance = clone(covariance, safe=False)
    if "random_state" in (covariance.get_params() if hasattr(covariance, "get_params") else {}):
        covariance.set_params(random_state=seed)
    return covariance


def _restricted(reference: Any, features: np.ndarray) -> Any:
    """Return the part of a matrix for some of the features; an estimator as it is."""
    return reference if hasattr(reference, "fit") else reference[features][:, features]


def _spectral_norm(C: Any) -> float:
    return as_operator(C).norm()


def _ratio(a: Any, b: Any) -> float:
    return float(a / b) if b > 0 else (0.0 if a == 0 else float("inf"))


def _density(C: Any) -> float:
    n = C.shape[0]
    kept = C.count_nonzero() if sp.issparse(C) else np.count_nonzero(C)
    return float(kept - np.count_nonzero(C.diagonal())) / max(n * (n - 1), 1)
