"""The points of a stability curve: draw rows, run the same network on two covariances, compare."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from svnn._types import ColumnLike, DataLike, Matrix
from svnn.functional._array import to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.operators import CovarianceOperator
from svnn.stability._norms import frobenius, spectral_norm


class Movable(Protocol):
    """A fitted model that can be moved to another covariance, such as SVNNRegressor and SVNNClassifier."""

    operator_: CovarianceOperator

    def on(self, covariance: Any, X: DataLike | None = None) -> Movable:
        """Return the model on another covariance, which is fitted on ``X`` where it is not fitted yet."""
        ...

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the node embeddings."""
        ...

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predictions."""
        ...


class Point(NamedTuple):
    """A point of the axis: the estimator, how many rows it sees and, where not all, how many features."""

    estimator: BaseEstimator
    n_samples: int
    n_features: int | None = None
    level: float = np.nan


class Outputs(NamedTuple):
    """A network on a covariance, that covariance, and what the network makes of the test rows."""

    network: Movable
    shift: Matrix
    embeddings: np.ndarray
    predictions: np.ndarray


class Curve:
    """What all points share: the model, the data, and the reference, which is a matrix or an estimator."""

    def __init__(
        self,
        model: Movable,
        X_test: DataLike,
        X_pool: np.ndarray,
        y_test: ColumnLike | None,
        reference: Matrix | BaseEstimator,
    ) -> None:
        self.model, self.reference = model, reference
        self.X_test, self.X_pool = X_test, X_pool
        self.y_test = None if y_test is None else to_numpy(y_test)
        if self.y_test is not None and len(self.y_test) != np.shape(X_test)[0]:
            raise ValueError(f"y_test has {len(self.y_test)} rows, X_test has {np.shape(X_test)[0]}; they must agree.")
        self._base: Outputs | None = None

    def record(self, point: Point, repeat: int, seed: int) -> dict[str, float]:
        """Draw rows, and features where the point asks for that, and compare with the reference."""
        rng = np.random.default_rng(seed)
        X_test, X_pool, reference = self.X_test, self.X_pool, self.reference
        order = rng.permutation(len(X_pool))
        if point.n_features is None:
            if self._base is None:
                self._base = _run(self.model, reference, seed, X_pool, X_test)
            base = self._base
        else:
            chosen = np.sort(rng.choice(X_pool.shape[1], point.n_features, replace=False))
            X_test, X_pool = np.asarray(X_test)[:, chosen], X_pool[:, chosen]
            reference = reference if hasattr(reference, "fit") else reference[chosen][:, chosen]
            base = _run(self.model, reference, seed, X_pool, X_test)
        # The samples of one seed are nested: each is the first n rows of the same order.
        drawn = X_pool[order[: point.n_samples]]
        # The network moves from the reference, not from the model: both matrices are then divided by the same number.
        moved = _run(base.network, point.estimator, seed, drawn, X_test)
        labels = {
            "n_samples": point.n_samples,
            "n_features": moved.shift.shape[0],
            "level": point.level,
            "repeat": repeat,
            "seed": seed,
        }
        return labels | self._changes(base, moved)

    def _changes(self, base: Outputs, moved: Outputs) -> dict[str, float]:
        change = moved.embeddings - base.embeddings
        difference = moved.shift - base.shift
        changes = {
            "embedding_error": _ratio(frobenius(change), frobenius(base.embeddings)),
            "embedding_distance": float(np.linalg.norm(change, axis=(1, 2)).mean()),
            "prediction_change": self._difference(moved.predictions, base.predictions),
            "covariance_error": _ratio(spectral_norm(difference), spectral_norm(base.shift)),
            "covariance_error_fro": _ratio(frobenius(difference), frobenius(base.shift)),
            "density": _density(moved.shift),
        }
        if self.y_test is not None:
            before, after = (self._difference(o.predictions, self.y_test) for o in (base, moved))
            changes |= {"task_error": after, "task_change": after - before}
        return changes

    def _difference(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the mean absolute difference of numbers, or the share of labels that differ."""
        return float(np.mean(a != b) if is_classifier(self.model) else np.mean(abs(a - b.reshape(a.shape))))


def _run(network: Movable, covariance: Matrix | BaseEstimator, seed: int, X: np.ndarray, X_test: DataLike) -> Outputs:
    """Run a network on a covariance; an estimator gets the seed, and is fitted on ``X``."""
    if hasattr(covariance, "fit"):
        covariance = clone(covariance, safe=False)
        if "random_state" in (covariance.get_params() if hasattr(covariance, "get_params") else {}):
            covariance.set_params(random_state=seed)
    network = network.on(covariance, X=X)
    # The logarithm of a covariance has no zeros; what is compared is the covariance itself.
    logarithm = getattr(network, "_trained_with", {}).get("use") == "log"
    shift = getattr(network, "covariance_" if logarithm else "operator_")
    return Outputs(network, numpy_matrix(shift), network.embed(X_test), network.predict(X_test))


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b > 0 else (0.0 if a == 0 else float("inf"))


def _density(C: Matrix) -> float:
    """Return the share of the off-diagonal entries that are not zero."""
    n = C.shape[0]
    kept = np.count_nonzero(C if isinstance(C, np.ndarray) else C.data)
    return float(kept - np.count_nonzero(C.diagonal())) / max(n * (n - 1), 1)
