"""The same trained network on another covariance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import RCV, HardThreshold, SampleCovariance, SVNNRegressor, as_operator

#: Networks of a few epochs predict no better than a constant, and would be shrunk to it.
QUICK = {"members": 2, "max_epochs": 5, "hidden": (8, 8), "shrink": False, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((100, 1)) + rng.standard_normal((100, 68))


@pytest.fixture(scope="module")
def model(X):
    return SVNNRegressor(readout="mean", use="covariance", **QUICK).fit(X, X.mean(1))


def test_the_training_covariance_changes_nothing(model, X):
    for same in (model.covariance_, sp.csr_array(model.covariance_), as_operator(model.covariance_)):
        np.testing.assert_allclose(model.on(same).predict(X), model.predict(X), rtol=1e-5)


def test_the_filters_stay_the_same_on_another_matrix(model, X):
    """H(C') with the trained coefficients, not with ones rescaled to the norm of C'."""
    C = model.covariance_
    other = model.on(2 * C)
    scale = model.operator_.scale
    x = torch.tensor(model.fitted_.standardizer(X[..., None]), dtype=torch.float32)
    with torch.no_grad():
        expected = model.module_.embed(x, as_operator(2 * C).normalized(scale)).numpy()
    np.testing.assert_allclose(other.embed(X), expected, rtol=1e-4, atol=1e-5)
    assert abs(other.embed(X) - model.embed(X)).max() > 1e-3
    assert other.covariance_ is not model.covariance_


def test_the_original_is_untouched(model, X):
    before = model.predict(X)
    model.on(np.eye(68))
    np.testing.assert_array_equal(model.predict(X), before)


def test_transfer_to_another_number_of_features(model, rng):
    Y = rng.standard_normal((50, 30)) * 5 + 3
    other = model.on("sample", X=Y)
    assert other.n_features_in_ == 30
    assert other.predict(Y).shape == (50,)
    assert other.operator_.norm() == pytest.approx(1, rel=1e-4)
    np.testing.assert_allclose(other.fitted_.standardizer.mean[:, 0], Y.mean(0))
    Z = (Y - Y.mean(0)) / Y.std(0)
    with pytest.warns(UserWarning, match=r"68 features do not apply to 30: features have to come standardised.*X="):
        given = model.on(np.cov(Z.T, ddof=0))  # a matrix alone
    np.testing.assert_allclose(given.predict(Z), other.predict(Y), rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="X has 68 features, but SVNNRegressor is expecting 30"):
        other.predict(np.zeros((2, 68)))


@pytest.mark.parametrize("readout", ["weighted", "flatten"])
def test_other_readouts_do_not_transfer(X, readout):
    model = SVNNRegressor(readout=readout, **QUICK).fit(X, X.mean(1))
    assert np.isfinite(model.on(np.eye(68)).predict(X)).all()
    with pytest.raises(ValueError, match='Train with readout="mean" to transfer'):
        model.on(np.eye(30))


def test_estimators_fitted_or_not(model, X):
    Z = model.fitted_.standardizer(X[..., None])[..., 0]
    fitted = SampleCovariance().fit(Z)
    a = model.on(fitted).predict(X)
    np.testing.assert_allclose(model.on(SampleCovariance(), X=X).predict(X), a, rtol=1e-3, atol=1e-4)
    assert model.on(RCV(random_state=0).fit(Z)).predict(X).shape == (100,)
    assert model.on(fitted).covariance_estimator_ is fitted
    assert isinstance(model.on("rcv", X=X).covariance_estimator_, RCV)
    assert model.on(np.eye(68)).covariance_estimator_ is None


def test_errors_are_named(model, X):
    with pytest.raises(ValueError, match="pass X="):
        model.on(HardThreshold())
    with pytest.raises(ValueError, match="the covariance has 5 features, X has 68"):
        model.on(np.eye(5), X=X)
    with pytest.raises(ValueError, match="not symmetric"):
        model.on(np.triu(np.ones((68, 68))))
