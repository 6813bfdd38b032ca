"""Weights of samples and classes: only their ratios count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import SVNNClassifier
from svnn.estimators._data import relative, with_class_weight
from svnn.estimators.training._loop import weighted

POSITIVE = st.floats(1e-3, 1e3)


@given(weight=arrays(np.float64, st.integers(1, 20), elements=POSITIVE), power=st.integers(-1000, 1000))
def test_powers_of_two_change_no_digit(weight, power):
    np.testing.assert_array_equal(relative(np.ldexp(weight, power)), relative(weight))


@given(weight=arrays(np.float64, st.integers(1, 20), elements=st.integers(0, 1000)), unit=st.floats(1e-290, 1e290))
def test_whole_weights_in_any_unit(weight, unit):
    np.testing.assert_array_equal(relative(weight * unit), relative(weight))


@given(weight=arrays(np.float64, st.integers(1, 20), elements=st.one_of(st.just(0.0), POSITIVE)))
def test_ratios_stay(weight):
    found = relative(weight)
    np.testing.assert_array_equal(found == 0, weight == 0)
    if weight.any():
        assert found.max() == 1
        np.testing.assert_allclose(found, weight / weight.max(), rtol=2**-32)
        np.testing.assert_array_equal(relative(found), found)


def test_equal_weights_are_ones():
    for unit in (5e-324, 1e-300, 0.1, 1e300):
        np.testing.assert_array_equal(relative(np.full(3, unit)), 1)


@pytest.mark.parametrize("model", each(REGRESSORS) + each(CLASSIFIERS))
def test_the_unit_of_the_weights_does_not_matter(model, data, rng):
    X, y = data
    y = (y > 100).astype(int) if "Classifier" in type(model).__name__ else y
    weight = rng.integers(0, 4, len(X)) + rng.random(len(X))
    expected = clone(model).fit(X, y, sample_weight=weight).predict(X)
    ones = clone(model).fit(X, y, sample_weight=np.ones(len(X))).predict(X)
    for unit in (1e-13, 1e-300, 1e40, 1e300) if model is REGRESSORS["svnn"] else (1e-300, 1e40):
        np.testing.assert_array_equal(clone(model).fit(X, y, sample_weight=weight * unit).predict(X), expected)
        found = clone(model).fit(X, y, sample_weight=np.full(len(X), unit)).predict(X)
        np.testing.assert_array_equal(found, ones)


def test_small_weights_of_a_batch_are_weights_all_the_same():
    values, weight = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 3.0])
    for unit in (1.0, 1e-13, 1e-30):
        assert weighted(values, unit * weight).item() == pytest.approx(2.5)
    assert weighted(values, 0 * weight).item() == 0


@pytest.mark.parametrize("model", each(REGRESSORS))
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(120), "(?i)sample.weight"),
        (-np.ones(120), "Negative values in data passed to `sample_weight`"),
        (np.full(120, np.nan), "sample_weight contains NaN"),
        (np.full(120, np.inf), "sample_weight contains infinity"),
        (np.ones(119), r"sample_weight.shape == \(119,\), expected \(120,\)"),
        (np.ones((120, 2)), "Sample weights must be 1D"),
        (torch.ones(120, 2), "Sample weights must be 1D"),
    ],
    ids=["zero", "negative", "nan", "inf", "short", "table", "tensor"],
)
def test_bad_weights_are_named(model, weight, message, data):
    with pytest.raises(ValueError, match=message):
        clone(model).fit(*data, sample_weight=weight)


def test_tensors_of_any_precision_are_weights(data):
    X, y = data
    weight = np.arange(1.0, 121) % 4 + 1
    expected = clone(REGRESSORS["svnn"]).fit(X, y, sample_weight=weight).predict(X)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64):
        given_weight = torch.tensor(weight, dtype=dtype)
        found = clone(REGRESSORS["svnn"]).fit(X, torch.tensor(y), sample_weight=given_weight).predict(X)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("unit", [1e-300, 1e-13, 1e40])
def test_the_unit_of_class_weights_does_not_matter(unit, iris):
    X, y = iris
    found = [
        SVNNClassifier(max_epochs=4, random_state=0, class_weight={0: 1 * u, 1: 2 * u, 2: 5 * u})
        .fit(X, y)
        .predict_proba(X)
        for u in (1, unit)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("model", each(CLASSIFIERS))
@pytest.mark.parametrize(
    "class_weight",
    [
        {0: -1, 1: 1, 2: 1},
        {0: 0, 1: 0, 2: 0},
        {0: np.nan, 1: 1, 2: 1},
        {0: np.inf, 1: 1, 2: 1},
        {0: "a", 1: 1, 2: 1},
        {},
        "heavy",
        [1, 2, 3],
        np.ones(3),
        2.0,
    ],
    ids=str,
)
def test_bad_class_weights_are_named(model, class_weight, iris):
    with pytest.raises(ValueError, match="class_weight"):
        clone(model).set_params(class_weight=class_weight).fit(*iris)


def test_weights_that_leave_nothing_are_an_error():
    with pytest.raises(ValueError, match="class_weight and sample_weight leave no training row"):
        with_class_weight(np.array([1.0, 0.0]), {"a": 0, "b": 1}, np.array(["a", "b"]))
