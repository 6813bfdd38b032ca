"""Data of blends and of their linear parts, and fits in which every part counts, also that of a few epochs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from svnn.estimators import _blend_parts, _members

#: What becomes of the data of ``partly_linear`` in tests of all kinds of data.
DATA = {
    "single precision": lambda X, y: (X.astype(np.float32), y),
    "constant features": lambda X, y: (np.hstack([X, np.full((120, 2), 7.0)]), y),
    "one feature": lambda X, y: (X[:, :1], y),
    "several values per node": lambda X, y: (np.stack([X, X**2, np.cos(X)], 2), y),
    "more features than rows": lambda X, y: (np.hstack([X, np.random.default_rng(0).standard_normal((120, 200))]), y),
    "a copied feature": lambda X, y: (np.hstack([X, X[:, :1]]), y),
    "a constant target": lambda X, y: (X, np.full(120, 3.0)),
    "several targets": lambda X, y: (X, np.stack([y, 1000 * X[:, 0], np.ones(120)], 1)),
}


@contextmanager
def every_part_counts() -> Iterator[None]:
    """Give all parts the same weight, and a network four fifths of its outputs, whatever held-out rows say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_members, "_share", lambda model, data, held: 0.8)
        patch.setattr(_blend_parts, "with_doubt", lambda weights, *rest: np.full(len(weights), 1 / len(weights)))
        yield


def partly_linear() -> tuple[np.ndarray, np.ndarray]:
    """Return features, and a target that is partly linear and partly not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 1)) + rng.standard_normal((120, 5))
    return X, X[:, 0] + 2 * np.sin(2 * X[:, 1]) * X[:, 2] + 0.3 * rng.standard_normal(120)


def labels(y: np.ndarray) -> np.ndarray:
    """Return three classes of a target."""
    return np.digitize(y, np.quantile(y, [0.3, 0.7]))


def outputs(model: Any, X: np.ndarray) -> np.ndarray:
    """Return the probabilities of a classifier, or the predictions of a regressor."""
    found: np.ndarray = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return found


def without_some_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of which a quarter are zero, and the data with other values in these rows."""
    weight = np.random.default_rng(0).uniform(0.5, 1, len(X))
    weight[::4] = 0
    return weight, np.where(weight[:, None] > 0, X, -3 * X)
