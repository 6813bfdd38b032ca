"""Units near the ends of what a number can hold: the same model, or a clear error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import SVNNRegressor
from svnn.estimators._units import Standardizer
from svnn.paper.baselines import PCASVMRegressor

#: Powers of two, by which nothing is rounded: about 1e160, 1e-170, 1e300, 1e-300, 1e30 and 1e-30.
POWERS = (532, -565, 996, -996, 100, -100)


@given(
    X=arrays(np.float64, (7, 2), elements=st.floats(-100, 100).filter(lambda v: v == 0 or abs(v) > 1e-3)),
    weight=arrays(np.float64, 7, elements=st.integers(1, 3)),
    power=st.sampled_from(POWERS),
)
def test_z_scores_have_no_unit(X, weight, power):
    X = X + np.arange(14.0).reshape(7, 2)  # no constants
    standardizer, other = Standardizer.fit(X, weight), Standardizer.fit(np.ldexp(X, power), weight)
    np.testing.assert_array_equal(other(np.ldexp(X, power)), standardizer(X))
    np.testing.assert_array_equal(np.ldexp(other.mean, -power), standardizer.mean)
    mean = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(standardizer.mean, mean)
    np.testing.assert_allclose(standardizer.scale, np.average((X - mean) ** 2, axis=0, weights=weight) ** 0.5)


def test_rows_without_weight_have_no_say_in_the_unit(rng):
    X = rng.standard_normal((20, 3))
    spoiled = np.r_[X, np.full((2, 3), 1e300)]
    a, b = Standardizer.fit(X, np.ones(20)), Standardizer.fit(spoiled, np.r_[np.ones(20), 0, 0])
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
    np.testing.assert_allclose(a.scale, b.scale, rtol=1e-12)


@pytest.mark.parametrize("model", each(REGRESSORS))
def test_regression_in_any_unit(model, data):
    X, y = data
    expected = clone(model).fit(X, y).predict(X)
    for power in POWERS if model is REGRESSORS["svnn"] else POWERS[:2]:
        found = clone(model).fit(np.ldexp(X, power), np.ldexp(y, power)).predict(np.ldexp(X, power))
        np.testing.assert_array_equal(np.ldexp(found, -power), expected)


@pytest.mark.parametrize("model", each(CLASSIFIERS))
def test_classification_in_any_unit(model, data):
    X, y = data[0], data[1] > 100
    expected = clone(model).fit(X, y)
    for unit in (1e160, 1e-170):
        found = clone(model).fit(unit * X, y)
        if hasattr(found, "embed"):
            np.testing.assert_allclose(found.embed(unit * X), expected.embed(X), rtol=1e-2, atol=1e-3)
        assert np.mean(found.predict(unit * X) != expected.predict(X)) < 0.05


@pytest.mark.parametrize("unit", [1e30, 1e-30])
def test_single_precision_data_in_any_unit(unit, data):
    X, y = (a.astype(np.float32) for a in data)
    expected = clone(REGRESSORS["svnn"]).fit(X, y).predict(X)
    scaled = X * np.float32(unit), y * np.float32(unit)
    found = clone(REGRESSORS["svnn"]).fit(*scaled).predict(scaled[0])
    np.testing.assert_allclose(found / unit, expected, rtol=1e-2)


@pytest.mark.parametrize("unit", [1e160, 1e-170])
@pytest.mark.parametrize(
    "model", [SVNNRegressor(members=2, max_epochs=3, random_state=0), PCASVMRegressor(n_components=3)]
)
def test_units_that_cannot_be_computed_in_are_named_where_nothing_is_standardised(model, unit, data):
    X, y = data
    model = clone(model).set_params(standardize=False)
    with pytest.raises(ValueError, match=r"X holds values of up to .* use standardize=True"):
        model.fit(unit * X, y)
    with pytest.raises(ValueError, match=r"y holds values of up to .* use standardize=True"):
        model.fit(X, unit * y)


@pytest.mark.filterwarnings("ignore:overflow")
def test_values_at_the_very_end_are_named(data):
    X, y = data
    wide = X.copy()
    wide[:, 0] = -1.7e308
    wide[::2, 0] = 1.7e308
    wide[::4, 0] = -1.7e308
    with pytest.raises(ValueError, match="X holds values of up to inf, too large"):
        clone(REGRESSORS["svnn"]).fit(wide, y)
    wide[:, 0] /= 4
    assert np.isfinite(clone(REGRESSORS["svnn"]).fit(wide, y).predict(wide)).all()


@pytest.mark.filterwarnings("ignore:overflow")
def test_rows_too_far_from_the_training_data_are_an_error(data):
    X, y = data
    model = clone(REGRESSORS["svnn"]).fit(1e-200 * X, y)
    with pytest.raises(ValueError, match="X holds values too far"):
        model.predict(1e200 * X)
