"""Contributions rank planted features first."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score

from inspection import planted
from svnn import SVNNRegressor
from svnn.inspection import edge_contributions, eigenvector_contributions, feature_contributions

QUICK = {"max_epochs": 40, "members": 4, "device": "cpu", "random_state": 0}


@pytest.mark.parametrize("kind", ["linear", "nonlinear", "correlated"])
def test_planted_features_come_first(kind):
    X, y, truth = planted(kind, seed=1)
    model = SVNNRegressor(**QUICK).fit(X[:100], y[:100])
    ours = roc_auc_score(truth, feature_contributions(model, X[100:]).importance)
    theirs = permutation_importance(model, X[100:], y[100:], n_repeats=5, random_state=0).importances_mean
    assert ours > 0.85
    assert ours > roc_auc_score(truth, theirs) - 0.05


def test_a_planted_direction_comes_first():
    """The target is the third principal component."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    scores = rng.standard_normal((300, 10)) * np.sqrt(2.0 ** -np.arange(10))
    X = scores @ vectors.T
    model = SVNNRegressor(**QUICK | {"covariance": "sample", "standardize": False}).fit(X, scores[:, 2])
    found = eigenvector_contributions(model, X)
    (first, size), (_, second) = found.top(2)
    assert first == "direction 3" and size > 3 * second


def test_a_planted_edge_comes_first():
    """A product of two features takes a node that sees both before its activation."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    shift = np.zeros((6, 6))
    for i, j in [(0, 1), (2, 3), (4, 5), (2, 4)]:
        shift[i, j] = shift[j, i] = 1.0
    options = QUICK | {"covariance": shift, "order": 1, "max_epochs": 100}
    model = SVNNRegressor(**options).fit(X, X[:, 2] * X[:, 3])
    found = edge_contributions(model, X)
    (first, size), (_, second) = found.top(2)
    assert first == "x2 - x3" and size > 2 * second
