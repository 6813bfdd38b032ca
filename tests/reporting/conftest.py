from __future__ import annotations

import numpy as np
import pytest

from reporting.chromium import NAMES, Chromium, find
from svnn import BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.comparison import Comparison
from svnn.covariance import HardThreshold

#: Names that would break a page that believes them.
HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b < c", "\u2028line", "naïve'x"]


def table(n_features: int = 12, n_rows: int = 80):
    """Features in groups of three that share a factor; the target is the first factor."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((n_rows, -(-n_features // 3)))
    X = np.repeat(factors, 3, axis=1)[:, :n_features] + 0.6 * rng.standard_normal((n_rows, n_features))
    return X, factors[:, 0] + 0.1 * rng.standard_normal(n_rows)


def made_up(n_splits: int = 10) -> Comparison:
    """A comparison of models with made-up scores."""
    rng = np.random.default_rng(0)
    centres = {"S-VNN hard": 1.05, "S-VNN soft": 1.1, "no edges": 1.9, "ridge": 1.96, "PLS": 1.84, "boosting": 5.0}
    scores = {name: centre + 0.15 * rng.standard_normal(n_splits) for name, centre in centres.items()}
    seconds = {name: np.full(n_splits, 0.5) for name in scores if name != "PLS"}
    settings = {"folds": 5, "repeats": 2, "random_state": 0}
    notes = ("Rows without a target were left out.",)
    return Comparison("a table", "regression", "MAE", scores, seconds, 215, 100, None, settings, notes)


@pytest.fixture(scope="session")
def regression():
    X, y = table()
    network = SVNNRegressor(covariance=HardThreshold(tau=3.0), members=2, max_epochs=5)
    return BlendRegressor(network, random_state=0).fit(X[:50], y[:50]), X[50:], y[50:]


@pytest.fixture(scope="session")
def classification():
    X, y = table()
    labels = np.array(["<b>low</b>", "middle", "high"])[np.digitize(y, [-0.4, 0.4])]
    return SVNNClassifier(members=2, max_epochs=5, random_state=0).fit(X[:50], labels[:50]), X[50:], labels[50:]


@pytest.fixture(scope="session")
def browser():
    program = find()
    if program is None:
        pytest.skip(f"no browser to open the report with: none of {', '.join(NAMES)} is installed")
    with Chromium(program) as found:
        yield found
