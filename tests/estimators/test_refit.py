"""A fit that fails or is interrupted leaves the earlier model as it was, and so does set_params."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import SVNNClassifier, SVNNRegressor, load

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


def interrupt(record):
    raise KeyboardInterrupt


def targets(model, y):
    return np.where(y > 100, "b", "a") if "Classifier" in type(model).__name__ else y


def outputs(model, X):
    kinds = [name for name in ("predict", "predict_proba", "decision_function", "embed") if hasattr(model, name)]
    return [getattr(model, name)(X) for name in kinds]


FAILURES = {
    "missing targets": (lambda model, X, y: model.fit(X, y[:-1]), ValueError),
    "one target": (lambda model, X, y: model.fit(X[:, :3], np.full(len(X), np.nan)), ValueError),
    "NaN": (lambda model, X, y: model.fit(np.where(X > 1, np.nan, X), y), ValueError),
    "other rows": (lambda model, X, y: model.fit(X[:1, :2], y[:1]), ValueError),
    "bad weights": (lambda model, X, y: model.fit(X[:, :3], y, sample_weight=-np.ones(len(X))), ValueError),
    "no weights": (lambda model, X, y: model.fit(X[:, :3], y, sample_weight=np.zeros(len(X))), ValueError),
}


@pytest.mark.parametrize("model", each(REGRESSORS) + each(CLASSIFIERS))
def test_a_failed_fit_leaves_the_old_model(model, data):
    X, y = data[0], targets(model, data[1])
    model = clone(model).fit(X, y)
    expected, attributes = outputs(model, X), set(vars(model))
    for failure, (spoil, error) in FAILURES.items():
        with pytest.raises(error):
            spoil(model, X, y)
        for found, before in zip(outputs(model, X), expected, strict=True):
            np.testing.assert_array_equal(found, before, err_msg=failure)
        assert set(vars(model)) == attributes and model.n_features_in_ == 6, failure


BREAKS = [
    ({"callbacks": [interrupt]}, KeyboardInterrupt),
    ({"lr": 1e30, "batch_norm": False}, FloatingPointError),
    ({"lr": -1}, ValueError),
    ({"hidden": ()}, ValueError),
    ({"device": "nowhere"}, ValueError),
]


@pytest.mark.parametrize("name", ["svnn", "mlp", "pca"])
@pytest.mark.parametrize("kind", [REGRESSORS, CLASSIFIERS], ids=["regressor", "classifier"])
def test_an_interrupted_fit_leaves_the_old_model(kind, name, data):
    X = data[0]
    model = clone(kind[name])
    y = targets(model, data[1])
    model.fit(X, y)
    expected, good = outputs(model, X), model.get_params(deep=False)
    other = np.where(X[:, 0] > 0, "d", np.where(X[:, 1] > 0, "c", "e")) if y.dtype.kind == "U" else np.c_[y, y, y]
    for parameters, error in BREAKS:
        model.set_params(**good | parameters)
        with pytest.raises(error):
            model.fit(X[:, ::2] * 50, other)
        for found, before in zip(outputs(model, X), expected, strict=True):
            np.testing.assert_array_equal(found, before)


def test_a_first_fit_that_fails_leaves_an_estimator_that_is_not_fitted(data):
    model = SVNNClassifier(max_epochs=2, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(data[0], data[1] > 100)
    with pytest.raises(NotFittedError):
        model.predict(data[0])
    assert set(vars(model)) == set(model.get_params())


def test_a_second_fit_forgets_the_first(data):
    X, y = data
    twice = clone(REGRESSORS["svnn"]).fit(X[:, :3] * 7, np.c_[y, y]).fit(X, y)
    np.testing.assert_array_equal(twice.predict(X), clone(REGRESSORS["svnn"]).fit(X, y).predict(X))


def test_parameters_that_a_callback_sets_stay(data):
    model = clone(REGRESSORS["svnn"])
    model.set_params(callbacks=[lambda record: model.set_params(lr=0.5) is None])
    assert model.fit(*data).lr == 0.5


OTHERS = {
    "hidden": (64, 64, 64),
    "order": 5,
    "activation": "tanh",
    "dropout": 0.9,
    "batch_norm": False,
    "readout": "flatten",
    "heads": 3,
    "mlp": (5, 5),
    "node_dropout": 0.9,
    "standardize": False,
    "resample": "epoch",
    "device": "nowhere",
    "random_state": 9,
    "loss": "squared",
    "covariance": "acv",
    "use": "precision",
    "shift": np.eye(2),
    "reduction": "kernel",
    "n_components": 1,
    "n_neighbors": 1,
    "gamma": 5.0,
    "C": 9.0,
    "class_weight": {"a": 1, "b": 2},
    "cache_bytes": 0,
}


@pytest.mark.parametrize("model", each(REGRESSORS) + each(CLASSIFIERS))
def test_parameters_set_later_do_not_change_a_fitted_model(model, data):
    X, y = data[0], targets(model, data[1])
    model = clone(model).fit(X, y)
    expected = outputs(model, X)
    for name, other in [*OTHERS.items(), ("hidden", ()), ("order", None), ("callbacks", None)]:
        if name not in model.get_params():
            continue
        before = model.get_params(deep=False)[name]
        model.set_params(**{name: other})
        for found, values in zip(outputs(model, X), expected, strict=True):
            np.testing.assert_array_equal(found, values)
        model.set_params(**{name: before})


def test_neither_on_nor_save_ask_for_what_was_set_later(data, tmp_path):
    X, y = data
    model = SVNNRegressor(readout="mean", max_epochs=3, random_state=0).fit(X, y)
    C = np.eye(6) + 0.1
    same, fewer = model.on(C).predict(X), model.on("sample", X[:, :4]).predict(X[:, :4])
    path = tmp_path / "model.safetensors"
    model.set_params(**{k: v for k, v in OTHERS.items() if k in model.get_params() and k not in ("shift", "device")})
    np.testing.assert_array_equal(model.on(C).predict(X), same)
    np.testing.assert_array_equal(model.on("sample", X[:, :4]).predict(X[:, :4]), fewer)
    model.save(path)
    again = load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.on("sample", X[:, :4]).predict(X[:, :4]), fewer)
    assert again.hidden == (64, 64, 64) and again.use == "precision"
    torch.testing.assert_close(again.module_.state_dict(), model.module_.state_dict(), rtol=0, atol=0)
