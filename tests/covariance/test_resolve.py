from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import OAS, GraphicalLasso, LedoitWolf

from svnn import SVNNRegressor
from svnn.covariance import HardThreshold, resolve
from svnn.covariance._resolve import NAMES, fit_covariance


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(60, 5), (20, 5, 3)])
def test_every_name_fits(name, shape, rng):
    fitted = fit_covariance(resolve(name), rng.standard_normal(shape))
    assert fitted.covariance_.shape == (5, 5)


def test_estimators_are_cloned():
    mine = HardThreshold(tau=3.0)
    assert resolve(mine) is not mine
    assert resolve(mine).tau == 3.0


def test_any_object_with_fit_and_covariance_will_do(rng):
    class Mine:
        def fit(self, X, y=None):
            self.covariance_ = np.eye(X.shape[1])
            return self

    X = rng.standard_normal((30, 4))
    model = SVNNRegressor(covariance=Mine(), max_epochs=2, random_state=0).fit(X, X[:, 0])
    np.testing.assert_array_equal(model.covariance_, np.eye(4))


def test_foreign_estimators_see_node_values_as_rows(rng):
    X = rng.standard_normal((20, 5, 3))
    rows = X.transpose(0, 2, 1).reshape(-1, 5)
    for estimator in (LedoitWolf(), OAS()):
        expected = estimator.fit(rows).covariance_
        np.testing.assert_allclose(fit_covariance(estimator, X).covariance_, expected)


@pytest.mark.parametrize("covariance", ["banded", 3, HardThreshold, None])
def test_unknown_covariances_are_named(covariance):
    with pytest.raises(ValueError, match="covariance"):
        resolve(covariance)


def test_an_estimator_without_covariance_is_an_error(rng):
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(ValueError, match="StandardScaler has no covariance_"):
        fit_covariance(StandardScaler(), rng.standard_normal((10, 3)))


def test_a_solver_that_breaks_down_says_what_to_do(rng):
    class Broken(GraphicalLasso):
        def fit(self, X, y=None):
            raise FloatingPointError("the system is too ill-conditioned")

    with pytest.raises(ValueError, match=r"did not converge.*larger penalty"):
        fit_covariance(Broken(), rng.standard_normal((10, 3)))
