"""Figures are drawn without a screen and closed after every test."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from svnn import HardThreshold, SVNNClassifier, SVNNRegressor

mpl.use("Agg")
QUICK = {"max_epochs": 6, "device": "cpu", "random_state": 0}
N = 12


@pytest.fixture(autouse=True)
def _tidy():
    """Close all figures afterwards, and see that no setting of matplotlib was changed."""
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture(scope="session")
def blocks():
    """Data of two groups of six features, in mixed order, and a target."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((120, 2))
    X = np.repeat(factors, 6, axis=1) + 0.7 * rng.standard_normal((120, N))
    order = rng.permutation(N)
    return X[:, order], factors[:, 0] + 0.1 * rng.standard_normal(120), order // 6


@pytest.fixture(scope="session")
def model(blocks):
    X, y, _ = blocks
    return SVNNRegressor(covariance=HardThreshold(tau=0.3), members=3, **QUICK).fit(X, y)


@pytest.fixture(scope="session")
def classifier(blocks):
    X, y, _ = blocks
    return SVNNClassifier(members=2, **QUICK).fit(X, np.where(y > 0, "high", "low"))


@pytest.fixture
def axis():
    import matplotlib.pyplot as plt

    return plt.subplots()[1]
