from __future__ import annotations

import numpy as np
import pytest

from svnn.estimators._units import Standardizer


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(50, 4), (50, 4, 3)])
def test_constants_become_exact_zeros(dtype, shape, rng):
    X = rng.standard_normal(shape).astype(dtype)
    X[:, 1], X[:, 2] = 3.3, 1e8
    X[::3, 1] = np.nextafter(dtype(3.3), dtype(4))  # by rounding
    scaler = Standardizer.fit(X, np.ones(50))
    Z = scaler(X)
    assert Z.dtype == dtype and (Z[:, 1:3] == 0).all() and (scaler.scale[1:3] == 1).all()
    np.testing.assert_allclose(Z[:, [0, 3]].std(0), 1, rtol=1e-5)
    moved = X + dtype(1e3)
    np.testing.assert_allclose(scaler(moved)[:, 1], 1e3, rtol=1e-4)  # new values of it are seen
    np.testing.assert_allclose(scaler.inverse(Z), X, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [1e160, 1e-170, 1e300, 1e-300])
def test_units_do_not_matter(factor, rng):
    X = rng.standard_normal((50, 4)) + 3
    scaler = Standardizer.fit(factor * X, np.ones(50))
    np.testing.assert_allclose(scaler(factor * X), Standardizer.fit(X, np.ones(50))(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scaler.inverse(scaler(factor * X)) / factor, X, rtol=1e-9)


@pytest.mark.parametrize("factor", [1e-13, 1e-300, 1e40, 1e300])
def test_the_scale_of_the_weights_does_not_matter(factor, rng):
    X, weight = rng.standard_normal((50, 4)), rng.uniform(0, 2, 50)
    weight[3] = 0
    expected = np.average(X, axis=0, weights=weight), np.sqrt(np.cov(X.T, aweights=weight, ddof=0).diagonal())
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-4)):
        scaler = Standardizer.fit(X.astype(dtype), factor * weight)
        np.testing.assert_allclose(scaler.mean, expected[0], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(scaler.scale, expected[1], rtol=tolerance)


def test_rows_of_weight_zero_do_not_count(rng):
    X = rng.standard_normal((50, 4))
    X[:, 1] = 0.1
    X[7] = [1e300, -1e300, 5, 7]
    weight = np.ones(50)
    weight[7] = 0
    scaler = Standardizer.fit(X, weight)
    kept = np.delete(X, 7, 0)
    assert scaler.mean[1] == 0.1 and scaler.scale[1] == 1
    np.testing.assert_allclose(scaler.scale[[0, 2, 3]], kept.std(0)[[0, 2, 3]])


def test_a_little_variation_is_kept(rng):
    X = 1 + 1e-9 * rng.standard_normal((50, 4))
    np.testing.assert_allclose(Standardizer.fit(X, np.ones(50))(X).std(0), 1)
