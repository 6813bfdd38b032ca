"""What is wrong with the input is said by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from svnn import HardThreshold, SVNNClassifier, SVNNRegressor

QUICK = {"max_epochs": 30, "hidden": (8,), "random_state": 0}


@pytest.mark.parametrize("estimator", [SVNNRegressor, SVNNClassifier])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: np.where(X[0, 0] == X, np.nan, X), "X contains NaN; impute"),
        (lambda X: np.where(X[0, 0] == X, np.inf, X), "X contains inf"),
        (lambda X: X[:, :0], "0 feature"),
        (lambda X: X[:-1], "inconsistent numbers of samples"),
        (lambda X: pd.DataFrame(X).assign(sex="f"), "not numbers: 'sex'"),
        (lambda X: pd.DataFrame(X).assign(sex=pd.Series(["f"] * len(X), dtype=object)), "not numbers: 'sex'"),
    ],
)
def test_bad_data_is_named(estimator, spoil, message, data):
    X, y = data
    with pytest.raises(ValueError, match=message):
        estimator(**QUICK).fit(spoil(X), (y > 100).astype(int))


def test_one_sample_is_an_error(data):
    with pytest.raises(ValueError, match="minimum of 2"):
        SVNNRegressor(**QUICK).fit(data[0][:1], data[1][:1])


def test_one_class_is_an_error(data):
    with pytest.raises(ValueError, match="only one class"):
        SVNNClassifier(**QUICK).fit(data[0], np.zeros(120))


def test_a_wrong_number_of_features_at_predict_is_an_error(data):
    model = SVNNRegressor(**QUICK).fit(*data)
    for X in (data[0][:, :5], torch.tensor(data[0][:, :5])):
        with pytest.raises(ValueError, match="X has 5 features, but SVNNRegressor is expecting 6"):
            model.predict(X)


def test_a_wrong_number_of_values_per_node_is_an_error(rng):
    X = rng.standard_normal((20, 5, 4))
    model = SVNNRegressor(**QUICK).fit(X, X[:, 0, 0])
    with pytest.raises(ValueError, match=r"X has shape \(20, 5, 3\).*4 values per node"):
        model.predict(X[:, :, :3])
    with pytest.raises(ValueError, match=r"X has shape \(20, 5\).*4 values per node"):
        model.predict(X[:, :, 0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"covariance": "banded"}, "covariance='banded' is not known"),
        ({"covariance": HardThreshold(tau=-1.0)}, "tau must be a number >= 0"),
        ({"covariance": "precomputed"}, "needs the matrix as shift="),
        ({"shift": np.eye(6)}, 'covariance="precomputed" only'),
        ({"covariance": "precomputed", "shift": np.triu(np.ones((6, 6)))}, "not symmetric"),
        ({"covariance": "precomputed", "shift": np.eye(5)}, "shift is 5x5, but X has 6 features"),
        ({"use": "both"}, "use must be"),
        ({"resample": "epoch"}, "needs a stochastic covariance"),
        ({"resample": "often"}, "resample must be one of"),
        ({"lr": 0}, "lr must be a positive number"),
        ({"patience": -1}, "patience must be a positive integer"),
        ({"max_epochs": 3.5}, "max_epochs must be a positive integer"),
        ({"hidden": 32}, "hidden must be a sequence"),
        ({"mlp": (8.0,)}, "mlp must be a sequence"),
        ({"callbacks": None}, "callbacks must be"),
        ({"averaging": None}, "averaging must be in"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must be"),
        ({"weight_decay": -1}, "weight_decay must not be negative"),
        ({"tol": -1}, "tol must not be negative"),
        ({"device": "tpu9"}, "device must be"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"heads": 0}, "heads must be"),
        ({"node_dropout": 1.0}, "node_dropout must be in"),
        ({"averaging": 1.0}, "averaging must be in"),
        ({"cache_bytes": -1}, "cache_bytes must not be negative"),
        ({"loss": "hinge"}, "loss must be one of"),
    ],
)
def test_bad_parameters_are_named(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        SVNNRegressor(**{**QUICK, **parameters}).fit(*data)


def test_numbers_in_columns_of_objects_are_taken(data):
    X, y = data
    frame = pd.DataFrame(X).astype({0: object})
    expected = SVNNRegressor(**QUICK).fit(pd.DataFrame(X), y).predict(X)
    np.testing.assert_array_equal(SVNNRegressor(**QUICK).fit(frame, y).predict(frame), expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_missing_gpu_is_named(data):
    with pytest.raises(ValueError, match='device="cuda" is not available'):
        SVNNRegressor(device="cuda", **QUICK).fit(*data)


def test_bad_validation_data_is_named(data, iris):
    X, y = data
    model = SVNNRegressor(**QUICK)
    with pytest.raises(ValueError, match="pair"):
        model.fit(X, y, validation_data=X)
    with pytest.raises(ValueError, match="5 features"):
        model.fit(X, y, validation_data=(X[:, :5], y))
    with pytest.raises(ValueError, match="fitted with 2 values per node"):
        model.fit(np.stack([X, X], 2), y, validation_data=(X, y))
    with pytest.raises(FloatingPointError, match="validation loss"):
        model.fit(X, y, validation_data=(X * 1e300, y))
    with pytest.raises(ValueError, match="validation targets"):
        model.fit(X, y, validation_data=(X, np.c_[y, y]))
    with pytest.raises(ValueError, match=r"labels \[7\] do not occur"):
        SVNNClassifier(**QUICK).fit(*iris, validation_data=(iris[0], iris[1] * 0 + 7))
