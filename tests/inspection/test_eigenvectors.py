"""Contributions of directions: they add up, with a rest where only some are looked at."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from inspected_models import N, blend, network_in, numbers, signals
from svnn.inspection import eigenvector_contributions, feature_contributions


def test_they_add_up_to_the_prediction(regression):
    model, X = regression.model, regression.X
    found = eigenvector_contributions(model, X)
    assert found.contributions.shape == (len(X), N)
    assert abs(found.rest).max() < 1e-9 * abs(found.contributions).max()
    assert abs(found.baseline + found.contributions.sum(1) - model.predict(X)).max() < 1e-4 * regression.y.std()


def test_the_directions_are_those_of_the_covariance(default):
    found = eigenvector_contributions(default.model, default.X)
    V, C = found.eigenvectors, network_in(default.model).covariance_
    np.testing.assert_allclose(V * found.eigenvalues @ V.T, C, atol=1e-9)
    assert (np.diff(found.eigenvalues) <= 0).all()
    assert found.explained_variance_ratio.sum() == pytest.approx(1)
    assert (V[abs(V).argmax(0), np.arange(N)] > 0).all()


def test_a_prediction_of_one_direction_passes_through_it():
    """The features themselves are the directions where the covariance is diagonal."""
    X = signals()
    shift = np.diag(np.arange(N, 0, -1.0))
    model = blend(covariance=shift).fit(X, numbers(X))
    by_feature, by_direction = feature_contributions(model, X), eigenvector_contributions(model, X)
    np.testing.assert_allclose(by_direction.contributions, by_feature.contributions, atol=1e-9)


def test_the_rest_is_what_the_others_add(default):
    whole = eigenvector_contributions(default.model, default.X)
    some = eigenvector_contributions(default.model, default.X, n_components=3)
    np.testing.assert_allclose(some.contributions, whole.contributions[:, :3], atol=1e-8)
    np.testing.assert_allclose(some.rest, whole.contributions[:, 3:].sum(1), atol=1e-8)
    np.testing.assert_allclose(some.eigenvalues, whole.eigenvalues[:3])


def test_a_sparse_covariance_of_many_features(monkeypatch, rng):
    n = 300
    X = rng.standard_normal((20, n))
    shift = sp.csr_array(
        sp.diags_array([np.linspace(1, 2, n), np.full(n - 1, 0.3), np.full(n - 1, 0.3)], offsets=[0, 1, -1])
    )
    model = blend(covariance=shift, max_epochs=2).fit(X, X[:, 0])
    monkeypatch.setattr("svnn.inspection._features._MOST_FEATURES", 100)
    found = eigenvector_contributions(model, X)
    assert found.contributions.shape == (20, 50) and sp.issparse(network_in(model).covariance_)
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(shift.toarray())[:-51:-1], rtol=1e-9)
    total = found.baseline + found.contributions.sum(1) + found.rest
    assert abs(total - model.predict(X)).max() < 1e-4 * X[:, 0].std()


def test_several_classes_and_values(classification):
    found = eigenvector_contributions(classification.model, classification.X, n_components=2)
    assert found.contributions.shape == (60, 2, 3) and found.rest.shape == (60, 3)
    X = signals(n_values=2)
    model = blend().fit(X, numbers(X))
    found = eigenvector_contributions(model, X)
    assert abs(found.baseline + found.contributions.sum(1) - model.predict(X)).max() < 1e-4 * numbers(X).std()
