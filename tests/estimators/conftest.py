"""Data that the tests of the estimators share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 1)) + rng.standard_normal((120, 6))
    return X, X @ np.arange(6.0) + 100


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]
