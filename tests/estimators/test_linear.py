"""Ridge regression and the shrunk linear discriminant as scikit-learn estimators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import RidgeCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from blended import DATA, labels, outputs, partly_linear, without_some_rows
from strategies import seeds
from svnn import SVNNRegressor
from svnn.estimators import _linear
from svnn.estimators._blend_weights import sharpness
from svnn.estimators._closed_form import discriminants, ridge, strongest
from svnn.estimators._data import member_folds
from svnn.estimators._linear import LinearClassifier, LinearRegressor, is_small_enough


@pytest.fixture(scope="module")
def data():
    return partly_linear()


def problem(kind, data):
    return data if kind is LinearRegressor else (data[0], labels(data[1]))


KINDS = pytest.mark.parametrize("kind", [LinearRegressor, LinearClassifier])


@parametrize_with_checks(
    [LinearRegressor(random_state=0), LinearClassifier(random_state=0)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "a repeated row is left out, or held out, only once at a time"
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- predictions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("columns", [None, 1, 2])
def test_it_is_ridge_regression_of_standardised_data(columns, standardize, data):
    X, y = data
    y = y if columns is None else np.stack([100 * y, X[:, 1] - 3], 1)[:, :columns]
    model = LinearRegressor(standardize=standardize, random_state=0).fit(10 * X + 3, y)
    Z, Y = (10 * X + 3, y.reshape(120, -1)) if not standardize else ((X - X.mean(0)) / X.std(0), None)
    if Y is None:
        Y = (y.reshape(120, -1) - y.reshape(120, -1).mean(0)) / y.reshape(120, -1).std(0)
    expected = ridge(Z, Y, np.ones(120))(Z)
    if standardize:
        expected = expected * y.reshape(120, -1).std(0) + y.reshape(120, -1).mean(0)
    np.testing.assert_allclose(model.predict(10 * X + 3), expected.reshape(y.shape), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize("n_values", [1, 3])
def test_coefficients_are_in_the_units_of_the_caller(n_values, columns, standardize, data):
    X, y = data
    signals = 5 * X + 2 if n_values == 1 else np.stack([X, 7 * X**2, np.cos(X)], 2)
    y = 30 * y - 8 if columns is None else np.stack([30 * y - 8, y], 1)
    model = LinearRegressor(standardize=standardize, random_state=0).fit(signals, y)
    table = signals.reshape(120, -1)
    assert model.coef_.shape == (*y.shape[1:], table.shape[1]) and np.shape(model.intercept_) == y.shape[1:]
    np.testing.assert_allclose(table @ model.coef_.T + model.intercept_, model.predict(signals), rtol=1e-6, atol=1e-8)
    codes = labels(data[1])
    classes = LinearClassifier(standardize=standardize, random_state=0).fit(signals, codes)
    logits = table @ classes.coef_.T + classes.intercept_
    np.testing.assert_array_equal(classes.classes_[logits.argmax(1)], classes.predict(signals))
    np.testing.assert_allclose(
        np.exp(logits - logits.max(1, keepdims=True)).sum(1), 1 / classes.predict_proba(signals).max(1)
    )


def test_it_is_as_good_as_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1)) + rng.standard_normal((200, 8))
    y = X @ rng.standard_normal(8) + 0.5 * rng.standard_normal(200)
    expected = RidgeCV(np.logspace(-3, 3, 13)).fit(X, y).predict(X)
    assert np.abs(LinearRegressor(random_state=0).fit(X, y).predict(X) - expected).mean() < 0.02 * y.std()
    assert LinearClassifier(random_state=0).fit(X, y > 0).score(X, y > 0) > 0.85


def test_huge_targets_without_standardisation(data):
    X, _ = data
    model = LinearRegressor(standardize=False, random_state=0).fit(X, 1e8 * X[:, 0])
    np.testing.assert_allclose(model.predict(X), 1e8 * X[:, 0], rtol=1e-2, atol=1e6)


# -- data of all kinds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_data_of_all_kinds(name, data):
    X, y = DATA[name](*data)
    model = LinearRegressor(random_state=0).fit(X, y)
    predicted = model.predict(X)
    assert predicted.shape == y.shape == model.out_of_fold_.shape and np.isfinite(predicted).all()
    assert np.isfinite(model.out_of_fold_).any() and np.isnan(model.out_of_fold_).any()
    if name == "constant features":
        assert not model.coef_[5:].any()
    if name == "a constant target":
        np.testing.assert_allclose(predicted, 3)
    classes = LinearClassifier(random_state=0).fit(X, labels(data[1]))
    np.testing.assert_allclose(classes.predict_proba(X).sum(1), 1)


@KINDS
def test_single_precision_is_nearly_double_precision(kind, data):
    X, y = problem(kind, data)
    one, other = (kind(random_state=0).fit(each, y) for each in (X, X.astype(np.float32)))
    np.testing.assert_allclose(outputs(other, X), outputs(one, X), atol=1e-3)


@KINDS
@given(seeds, st.integers(12, 40))
def test_neither_the_order_of_the_features_nor_their_units_matter(kind, seed, t):
    rng = np.random.default_rng(seed)
    X, order, units = rng.standard_normal((t, 4)), rng.permutation(4), rng.uniform(0.01, 100, 4)
    y = X[:, 0] + rng.standard_normal(t) if kind is LinearRegressor else np.arange(t) % 2
    one, other = kind(random_state=0).fit(X, y), kind(random_state=0).fit((units * X)[:, order] + 5, y)
    np.testing.assert_allclose(outputs(other, (units * X)[:, order] + 5), outputs(one, X), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows", [2, 3, 5, 9, 21])
def test_few_rows(rows, data):
    X, y = data
    model = LinearRegressor(random_state=0).fit(X[:rows], y[:rows])
    assert np.isfinite(model.predict(X)).all() and (model.out_of_fold_ is None) == (rows < 8)
    classes = LinearClassifier(random_state=0).fit(X[:rows], np.arange(rows) % 2)
    assert np.isfinite(classes.predict_proba(X)).all() and (classes.out_of_fold_ is None) == (rows < 8)


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"class_weight": {0: 1, 1: 5, 2: 1}}, {}])
def test_a_class_that_is_missing_in_a_fold(options, data):
    X, y = data
    rare = np.where(np.arange(120) < 117, (y > 0).astype(int), 2)  # three rows for four folds
    model = LinearClassifier(random_state=0, **options).fit(X, rare)
    probabilities = model.predict_proba(50 * X)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(1), 1)


def test_class_weights_are_weights_of_rows(data):
    X, codes = data[0], labels(data[1])
    weight = np.where(codes == 1, 3.0, 1.0)
    options = {"validation_fraction": 0, "random_state": 0}
    one = LinearClassifier(class_weight={0: 1, 1: 3, 2: 1}, **options).fit(X, codes).predict_proba(X)
    other = LinearClassifier(**options).fit(X, codes, weight).predict_proba(X)
    np.testing.assert_allclose(one.mean(0), other.mean(0), atol=0.02)  # units are those of rows without class weights
    assert one[:, 1].mean() > LinearClassifier(**options).fit(X, codes).predict_proba(X)[:, 1].mean() + 0.05


def test_a_class_without_weight_is_not_predicted(data):
    X, y = data
    codes = labels(y)
    model = LinearClassifier(random_state=0).fit(X, codes, (codes != 1).astype(float))
    for factor in (1, 10, 100):
        assert 1 not in model.predict(factor * X)


@KINDS
def test_rows_without_weight_do_not_count(kind, data):
    X, y = problem(kind, data)
    weight, other = without_some_rows(X)
    models = [kind(random_state=0).fit(each, y, w) for each, w in ((X, weight), (other, weight), (X, 1e-3 * weight))]
    for model in models[1:]:
        np.testing.assert_allclose(outputs(model, X), outputs(models[0], X), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(model.out_of_fold_, models[0].out_of_fold_, rtol=1e-6, atol=1e-6)
    assert np.isnan(models[0].out_of_fold_[::4]).all()


def test_without_weight_is_as_if_left_out(data):
    X, y = data
    weight = np.ones(120)
    weight[100:] = 0
    whole, part = LinearRegressor().fit(X, y, weight), LinearRegressor().fit(X[:100], y[:100])
    np.testing.assert_allclose(whole.predict(X), part.predict(X), rtol=1e-6, atol=1e-6)


# -- rows that are held out ------------------------------------------------------------------------------------


def dealt(kind, data, folds=4):
    y = problem(kind, data)[1]
    seed = int(np.random.default_rng(0).integers(2**31))
    return member_folds(y, None, np.ones(len(y)), 0.1, folds, seed, kind is LinearClassifier)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("folds", [1, 3])
def test_out_of_fold_predictions_are_those_of_models_of_the_other_rows(folds, standardize, data):
    X, y = data
    y = np.stack([50 * y + 3, X[:, 0]], 1)
    model = LinearRegressor(folds=folds, standardize=standardize, random_state=0).fit(X, y)
    sets = dealt(LinearRegressor, (X, y), folds)
    assert len(sets) == folds
    for rows in sets:
        others = np.setdiff1d(np.arange(120), rows)
        alone = LinearRegressor(validation_fraction=0, standardize=standardize).fit(X[others], y[others])
        assert alone.out_of_fold_ is None
        np.testing.assert_allclose(model.out_of_fold_[rows], alone.predict(X[rows]), rtol=1e-6, atol=1e-6)
    rest = np.setdiff1d(np.arange(120), np.concatenate(sets))
    assert np.isnan(model.out_of_fold_[rest]).all()


def test_the_discriminant_is_shrunk_and_as_sure_as_suits_held_out_rows(data):
    X, codes = data[0], labels(data[1])
    model, sets = LinearClassifier(random_state=0).fit(X, codes), dealt(LinearClassifier, data)
    rows = np.concatenate(sets)
    np.testing.assert_allclose(model.out_of_fold_[rows].sum(1), 1)
    logits = np.log(model.out_of_fold_[rows])
    assert sharpness(logits, codes[rows], np.ones(len(rows)))[0] == pytest.approx(1, rel=1e-3)
    found, losses = [], []
    for number, linear in enumerate(discriminants((X - X.mean(0)) / X.std(0), codes, np.ones(120), 3)):
        own = []
        for left_out in sets:
            others = np.setdiff1d(np.arange(120), left_out)
            Z = (X - X[others].mean(0)) / X[others].std(0)
            fitted = discriminants(Z[others], codes[others], np.ones(len(others)), 3)[number]
            own.append(fitted(Z[left_out]))
        factor, loss = sharpness(np.concatenate(own), codes[rows], np.ones(len(rows)))
        found.append(factor * linear((X - X.mean(0)) / X.std(0)))
        losses.append(loss)
    expected = np.exp(found[strongest(losses)])
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(1, keepdims=True), rtol=1e-3, atol=1e-6)


def test_without_held_out_rows_a_discriminant_is_shrunk_to_the_end(data):
    X, codes = data[0], labels(data[1])
    model = LinearClassifier(validation_fraction=0).fit(X, codes)
    last = discriminants((X - X.mean(0)) / X.std(0), codes, np.ones(120), 3)[-1]
    np.testing.assert_allclose(model.fitted_.weight, last.weight, rtol=1e-6, atol=1e-9)
    assert model.out_of_fold_ is None


def test_the_rows_of_the_caller_choose(data):
    X, codes = data[0], labels(data[1])
    options = {"random_state": 0}
    sure = LinearClassifier(**options).fit(X, codes, validation_data=(X, codes))
    noise = np.random.default_rng(0).permutation(codes)
    unsure = LinearClassifier(**options).fit(X, codes, validation_data=(X, noise))
    assert sure.out_of_fold_ is None and unsure.out_of_fold_ is None
    assert sure.predict_proba(X).max(1).mean() > unsure.predict_proba(X).max(1).mean() + 0.1
    regressor = LinearRegressor(**options).fit(X, data[1], validation_data=(X[:5], data[1][:5]))
    assert regressor.out_of_fold_ is None
    np.testing.assert_array_equal(regressor.predict(X), LinearRegressor(**options).fit(X, data[1]).predict(X))


@KINDS
def test_rows_of_a_group_are_held_out_together(kind, data):
    X, y = problem(kind, data)
    groups = np.arange(120) % 24
    held = np.isfinite(kind(random_state=0).fit(X, y, groups=groups).out_of_fold_.reshape(120, -1)[:, 0])
    assert held.any() and not held.all()
    for group in range(24):
        assert len(set(held[groups == group])) == 1


def test_networks_of_the_same_seed_hold_out_the_same_rows(data):
    X, y = data
    linear = LinearRegressor(random_state=3).fit(X, y).out_of_fold_
    network = SVNNRegressor(members=4, max_epochs=1, random_state=3, device="cpu").fit(X, y).out_of_fold_
    np.testing.assert_array_equal(np.isfinite(linear), np.isfinite(network))
    few = SVNNRegressor(members=2, max_epochs=1, random_state=3, device="cpu").fit(X, y).out_of_fold_
    assert np.isfinite(linear[np.isfinite(few)]).all() and np.isfinite(few).sum() > 10


# -- new rows --------------------------------------------------------------------------------------------------


def test_updated_with_many_rows_it_is_the_regression_of_all(data):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 5))
    y = X @ np.arange(5.0) + 3 + 0.1 * rng.standard_normal(3000)
    model = LinearRegressor(random_state=0).partial_fit(X[:100], y[:100])
    for start in range(100, 3000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    np.testing.assert_allclose(model.coef_, np.arange(5.0), atol=0.03)
    assert model.intercept_ == pytest.approx(3, abs=0.03)
    assert model.fitted_.gram[-1, -1] == 3000


@KINDS
def test_the_first_update_is_a_fit(kind, data):
    X, y = problem(kind, data)
    one, other = kind(random_state=0).fit(X, y), kind(random_state=0).partial_fit(X, y)
    np.testing.assert_array_equal(outputs(one, X), outputs(other, X))


@KINDS
def test_updates_follow_a_change_and_leave_units_alone(kind, data):
    X, y = problem(kind, data)
    model = kind(random_state=0).fit(X, y)
    units = model.fitted_.standardizer
    other = y + 20 if kind is LinearRegressor else 2 - y
    before = model.score(X, other)
    for _ in range(20):
        model.partial_fit(X, other)
    assert model.score(X, other) > before + 0.2
    assert model.fitted_.standardizer is units
    one_row = outputs(model.partial_fit(X[:1], other[:1]), X)
    assert np.isfinite(one_row).all()


def test_weights_of_new_rows_count(data):
    X, y = data
    none, some = (LinearRegressor(random_state=0).fit(X, y) for _ in range(2))
    weight = np.ones(50)
    weight[25:] = 0
    none.partial_fit(X[:25] + 1, y[:25])
    some.partial_fit(X[:50] + 1, y[:50], sample_weight=weight)
    np.testing.assert_allclose(some.predict(X), none.predict(X))


def test_a_class_that_comes_later(data):
    X, codes = data[0], labels(data[1])
    two = codes != 1
    model = LinearClassifier(random_state=0).partial_fit(X[two], codes[two], classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2] and model.fitted_.unseen == (1,)
    assert model.predict_proba(X)[:, 1].max() < 1e-6
    for _ in range(5):
        model.partial_fit(X, codes)
    assert model.fitted_.unseen == () and model.score(X, codes) > 0.5
    assert model.predict_proba(X)[:, 1].mean() > 0.2
    with pytest.raises(ValueError, match=r"labels \[7\]"):
        model.partial_fit(X, np.full(120, 7))


def test_a_failed_update_changes_nothing(data):
    X, y = data
    model = LinearRegressor(random_state=0).fit(X, y)
    before = model.predict(X)
    for rows, words in (((X[:, :3], y), "3 features"), ((X, y[:5]), "inconsistent"), ((X * np.nan, y), "NaN")):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(*rows)
    np.testing.assert_array_equal(model.predict(X), before)


def test_tables_that_are_too_large(data, monkeypatch):
    assert is_small_enough(3000, 10_000) and is_small_enough(10_000, 3000)
    assert not is_small_enough(3001, 3001) and not is_small_enough(3000, 12_000)
    X, y = data
    monkeypatch.setattr(_linear, "_MOST_LINEAR", 4)
    model = LinearRegressor(random_state=0).fit(X, y)
    assert model.fitted_.gram is None
    with pytest.raises(ValueError, match="at most 4 values per row, got 5"):
        model.partial_fit(X, y)
