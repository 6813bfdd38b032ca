"""What a fit leaves behind: two frozen values, which parameters set later do not change."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from svnn import HardThreshold, SVNNClassifier, SVNNRegressor
from svnn.nn import SVNN, Members

QUICK = {"max_epochs": 3, "members": 2, "hidden": (4,), "shrink": False, "random_state": 0}
#: Parameters as different from those of the fit as they can be.
OTHERS = {
    "covariance": "sample",
    "use": "covariance",
    "order": 0,
    "members": 5,
    "hidden": (3, 3),
    "activation": "relu",
    "readout": "mean",
    "heads": 1,
    "mlp": (2,),
    "batch_norm": True,
    "dropout": 0.5,
    "node_dropout": 0.9,
    "resample": "epoch",
    "covariance_per": "sample",
    "shrink": True,
    "standardize": False,
    "validation_fraction": 0.0,
    "random_state": 7,
}
PROPERTIES = ("module_", "history_", "n_iter_", "out_of_fold_", "covariance_estimator_", "covariance_", "operator_")


@pytest.fixture(scope="module", params=[SVNNRegressor, SVNNClassifier], ids=["regressor", "classifier"])
def fitted(request, data):
    X, y = data
    kind = request.param
    return kind(covariance=HardThreshold(density=0.5), **QUICK).fit(X, y if kind is SVNNRegressor else y > 100)


@pytest.fixture
def model(fitted):
    return copy.deepcopy(fitted)


def answers(model, X):
    """Return all that a model says about rows."""
    proba = model.predict_proba(X) if hasattr(model, "predict_proba") else np.stack(model.predict(X, return_std=True))
    with torch.no_grad():
        plain = model.to_torch(torch.float64)(torch.from_numpy(X)).numpy()
    return [model.predict(X), proba, model.embed(X), model.on(np.eye(6)).embed(X), plain]


def test_the_fitted_values_are_frozen(model):
    for value in (model.fitted_, model.shift_):
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
    for name in PROPERTIES:
        with pytest.raises(AttributeError):
            setattr(model, name, None)
    kept = {name for name in vars(model) if name.endswith("_")}
    assert kept == {"fitted_", "shift_", "n_features_in_"}


def test_public_attributes_are_those_of_the_fitted_values(model):
    fitted, shift = model.fitted_, model.shift_
    assert model.module_ is fitted.module and isinstance(fitted.module, Members)
    assert model.history_ is fitted.history and model.out_of_fold_ is fitted.out_of_fold
    assert model.covariance_ is shift.covariance and model.operator_ is shift.operator
    assert model.covariance_estimator_ is shift.estimator and type(shift.estimator) is HardThreshold
    assert len(fitted.networks) == 2 and all(type(network) is SVNN for network in fitted.networks)
    assert shift.use == "log" and shift.per_sample is None and not shift.is_given and shift.scale > 1
    assert fitted.n_values == 1 and fitted.standardize is True and fitted.unseen == ()


def test_parameters_set_later_change_nothing(model, data):
    X = data[0][:20]
    before = answers(model, X)
    model.set_params(**OTHERS)
    for found, expected in zip(answers(model, X), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert repr(model).startswith(f"{type(model).__name__}(activation='relu', batch_norm=True, covariance='sample'")


def test_parameters_of_the_covariance_set_later_change_nothing(model, data):
    X = data[0][:20]
    before = answers(model, X)
    model.set_params(covariance__density=0.1)
    assert model.covariance_estimator_.density == 0.5
    for found, expected in zip(answers(model, X), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_fit_that_fails_leaves_the_model_as_it_was(model, data):
    X, y = data
    before, kept = answers(model, X[:5]), (model.fitted_, model.shift_)
    for spoiled, message in ((X * np.nan, "NaN"), (X[:, :3] * 1e400, "inf")):
        with pytest.raises(ValueError, match=message):
            model.fit(spoiled, y > 100)
    model.set_params(callbacks=[lambda record: 1 / 0])
    with pytest.raises(ZeroDivisionError):
        model.fit(X[:, :4], y > 100)
    assert (model.fitted_, model.shift_) == kept and model.n_features_in_ == 6
    for found, expected in zip(answers(model, X[:5]), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_another_fit_starts_anew(model, data):
    X, y = data
    first = model.fitted_
    model.fit(X[:, :4], y > 100)
    assert model.fitted_ is not first and model.n_features_in_ == 4 and model.covariance_.shape == (4, 4)
    assert len(first.standardizer.mean) == 6


def test_before_a_fit_there_is_nothing(data):
    for model in (SVNNRegressor(**QUICK), SVNNClassifier(**QUICK)):
        for name in PROPERTIES:
            with pytest.raises(AttributeError, match="is not fitted yet; call fit first"):
                getattr(model, name)
        for ask in (model.predict, model.embed, model.row_covariances):
            with pytest.raises(NotFittedError):
                ask(data[0])
        with pytest.raises(NotFittedError):
            model.on(np.eye(6))
        with pytest.raises(NotFittedError):
            check_is_fitted(model)


def test_the_covariance_of_a_fit_is_not_that_of_the_parameter(data):
    """The caller's estimator stays unfitted, and may be used for other models."""
    given = HardThreshold(density=0.5)
    first, second = (
        SVNNRegressor(covariance=given, **QUICK).fit(data[0][:, columns], data[1]) for columns in (slice(6), slice(3))
    )
    assert not hasattr(given, "covariance_")
    assert first.covariance_.shape == (6, 6) and second.covariance_.shape == (3, 3)
