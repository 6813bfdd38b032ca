"""Data that the tests of the estimators share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 1)) + rng.standard_normal((120, 6))
    return X, X @ np.arange(6.0) + 100


@pytest.fixture(scope="module")
def wave():
    """A nonlinear function of three features with noise of 0.3."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(300)
