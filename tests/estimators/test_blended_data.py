"""Blends of data of all kinds: weights of rows, single precision, constants, rare classes, few rows."""

from __future__ import annotations

import numpy as np
import pytest

from svnn import SVNNClassifier, SVNNRegressor, load

QUICK = {"max_epochs": 3, "device": "cpu", "random_state": 0}
PARTS = ["with edges", "without edges", "linear"]


@pytest.fixture(scope="module")
def data():
    """A target that is partly linear and partly not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 1)) + rng.standard_normal((120, 5))
    return X, X[:, 0] + 2 * np.sin(2 * X[:, 1]) * X[:, 2] + 0.3 * rng.standard_normal(120)


def labels(y):
    return np.digitize(y, np.quantile(y, [0.3, 0.7]))


def outputs(model, X):
    return model.predict(X) if isinstance(model, SVNNRegressor) else model.predict_proba(X)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_rows_without_weight_do_not_change_the_linear_model_nor_its_weight(kind, data):
    X, y = data
    y = y if kind is SVNNRegressor else labels(y)
    weight = np.random.default_rng(0).uniform(0.5, 1, 120)
    weight[::4] = 0
    other = np.where(weight[:, None] > 0, X, -3 * X)
    models = [kind(**QUICK).fit(each, y, w) for each, w in ((X, weight), (other, weight), (X, 1e-3 * weight))]
    assert list(models[0].blend_) == PARTS
    for model in models[1:]:
        assert list(model.blend_.values()) == pytest.approx(list(models[0].blend_.values()), abs=1e-4)
        np.testing.assert_allclose(outputs(model, X), outputs(models[0], X), rtol=1e-3, atol=1e-3)


def test_without_weight_is_as_if_left_out(data):
    """The linear model of a fit is the same; the networks draw other numbers where there are fewer rows."""
    X, y = data
    weight = np.ones(120)
    weight[100:] = 0
    whole, part = SVNNRegressor(**QUICK).fit(X, y, weight), SVNNRegressor(**QUICK).fit(X[:100], y[:100])
    np.testing.assert_allclose(whole._output(X)[-1], part._output(X)[-1], rtol=1e-6, atol=1e-6)


def wide(data):
    X, y = data
    return np.stack([X, X**2, np.cos(X)], 2), y


DATA = {
    "single precision": lambda X, y: (X.astype(np.float32), y),
    "constant features": lambda X, y: (np.hstack([X, np.full((120, 2), 7.0)]), y),
    "one feature": lambda X, y: (X[:, :1], y),
    "several values per node": lambda X, y: wide((X, y)),
    "more features than rows": lambda X, y: (np.hstack([X, np.random.default_rng(0).standard_normal((120, 200))]), y),
    "a copied feature": lambda X, y: (np.hstack([X, X[:, :1]]), y),
    "a constant target": lambda X, y: (X, np.full(120, 3.0)),
    "several targets": lambda X, y: (X, np.stack([y, 1000 * X[:, 0], np.ones(120)], 1)),
}


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute"])
@pytest.mark.parametrize("name", DATA)
def test_blends_of_all_data(name, loss, data):
    X, y = DATA[name](*data)
    model = SVNNRegressor(loss=loss, **QUICK).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape and np.isfinite(mean).all() and np.isfinite(std).all()
    assert list(model.blend_) == PARTS and sum(model.blend_.values()) == pytest.approx(1)
    if name == "constant features":
        assert not model.module_.linear_weight[:, 5:].any()
    if name == "a constant target":
        np.testing.assert_allclose(mean, 3, atol=0.3)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_the_order_of_the_features_does_not_matter(kind, data):
    X, y = data
    y, order = (y if kind is SVNNRegressor else labels(y)), np.array([3, 0, 4, 2, 1])
    options = QUICK | {"node_dropout": 0.0}  # which draws for the nodes in their order
    one, other = kind(**options).fit(X, y), kind(**options).fit(X[:, order], y)
    assert list(other.blend_.values()) == pytest.approx(list(one.blend_.values()), abs=1e-3)
    np.testing.assert_allclose(outputs(other, X[:, order]), outputs(one, X), atol=1e-3)


def test_single_precision_is_nearly_double_precision(data):
    X, y = data
    one, other = (SVNNRegressor(**QUICK).fit(each, y) for each in (X, X.astype(np.float32)))
    assert list(other.blend_.values()) == pytest.approx(list(one.blend_.values()), abs=1e-3)
    np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-3)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_a_table_that_is_too_large_for_a_linear_model(kind, data, monkeypatch, tmp_path):
    X, y = data
    monkeypatch.setattr("svnn.estimators._member_training._MOST_LINEAR", 4)
    model = kind(**QUICK).fit(X, y if kind is SVNNRegressor else labels(y))
    assert list(model.blend_) == PARTS[:2] and sum(model.blend_.values()) == pytest.approx(1)
    assert model.module_.linear_weight is None and len(model._output(X)) == 8
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(outputs(load(tmp_path / "model.safetensors", device="cpu"), X), outputs(model, X))


@pytest.mark.parametrize("rows", [2, 3, 5, 9, 21])
def test_few_rows(rows, data):
    X, y = data
    model = SVNNRegressor(**QUICK).fit(X[:rows], y[:rows])
    assert np.isfinite(model.predict(X)).all()
    classes = SVNNClassifier(**QUICK).fit(X[:rows], np.arange(rows) % 2)
    assert np.isfinite(classes.predict_proba(X)).all()


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"class_weight": {0: 1, 1: 5, 2: 1}}, {}])
def test_a_class_that_is_missing_in_a_fold(options, data):
    X, y = data
    rare = np.where(np.arange(120) < 117, (y > 0).astype(int), 2)  # three rows for four folds
    model = SVNNClassifier(**QUICK | options).fit(X, rare)
    probabilities = model.predict_proba(50 * X)
    assert list(model.blend_) == PARTS and np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(1), 1)


def test_a_class_without_weight_is_not_predicted_by_the_linear_model(data):
    X, y = data
    codes = labels(y)
    model = SVNNClassifier(**QUICK).fit(X, codes, (codes != 1).astype(float))
    assert list(model.blend_) == PARTS
    for factor in (1, 10, 100):
        assert 1 not in model._output(factor * X)[-1].argmax(1)
