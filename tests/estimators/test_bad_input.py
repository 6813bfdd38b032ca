"""What is wrong with the input is said by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import HardThreshold, SVNNClassifier, SVNNRegressor, as_operator

QUICK = {"max_epochs": 3, "members": 2, "hidden": (4,), "random_state": 0}


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
        for ask in (model.predict, model.embed, lambda X: model.score(X, data[1])):
            with pytest.raises(ValueError, match="X has 5 features, but SVNNRegressor is expecting 6"):
                ask(X)


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
        ({"covariance": HardThreshold(tau=-1.0)}, "tau must be .* a number >= 0"),
        ({"covariance": 3}, "covariance must be a name or an estimator"),
        ({"covariance": np.triu(np.ones((6, 6)))}, "not symmetric"),
        ({"covariance": np.ones((6, 5))}, "square"),
        ({"covariance": np.ones((6, 6, 6))}, "one matrix for all rows; give a matrix for each .* as shift="),
        ({"covariance": np.full((6, 6), np.nan)}, "NaN"),
        ({"covariance": np.eye(5)}, "covariance is a matrix of 5x5, but X has 6 features"),
        ({"covariance": as_operator(np.eye(7))}, "covariance is a matrix of 7x7, but X has 6 features"),
        ({"covariance": np.eye(6), "covariance_per": "sample"}, "but covariance= is a matrix; use an estimator"),
        ({"covariance": np.eye(6), "resample": "epoch"}, "needs a stochastic covariance"),
        ({"covariance_per": "row"}, "covariance_per must be one of"),
        ({"shrink": "yes"}, "shrink must be True or False"),
        ({"schedule": "cosine"}, "schedule must be one of"),
        ({"order": -1}, 'order must be "auto" or an integer >= 0'),
        ({"members": 0}, "members must be a positive integer"),
        ({"use": "both"}, "use must be"),
        ({"resample": "epoch"}, "needs a stochastic covariance"),
        ({"resample": "often"}, "resample must be one of"),
        ({"lr": 0}, "lr must be a positive number"),
        ({"patience": -1}, "patience must be None or a positive integer"),
        ({"max_epochs": 3.5}, 'max_epochs must be "auto" or a positive integer'),
        ({"hidden": 32}, "hidden must be a sequence"),
        ({"mlp": (8.0,)}, "mlp must be a sequence"),
        ({"callbacks": None}, "callbacks must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must be"),
        ({"weight_decay": -1}, "weight_decay must be a number >= 0"),
        ({"device": "tpu9"}, "device must be"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"heads": 0}, "heads must be"),
        ({"node_dropout": 1.0}, "node_dropout must be in"),
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


def test_the_memory_layout_of_a_table_does_not_matter(data):
    X, y = data
    expected = SVNNRegressor(**QUICK).fit(X, y).predict(X)
    for layout in (np.asfortranarray(X), X[::-1][::-1], np.repeat(X, 2, 1)[:, ::2]):
        np.testing.assert_array_equal(SVNNRegressor(**QUICK).fit(layout, y).predict(layout), expected)


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


NOT_DATA = [
    (lambda X: X + 1j, ValueError, "Complex data not supported"),
    (lambda X: (X + 1j).tolist(), ValueError, "Complex data not supported"),
    (lambda X: torch.tensor(X + 1j), ValueError, "X .*Complex data not supported"),
    (lambda X: torch.tensor(X).to_sparse(), (TypeError, ValueError), r"X is a sparse tensor.*X.to_dense\(\)"),
    (lambda X: torch.tensor(X).to_sparse_csr(), (TypeError, ValueError), r"X is a sparse tensor.*X.to_dense\(\)"),
    (sp.csr_array, TypeError, r"(?s)Sparse data was passed.*toarray\(\)"),
    (lambda X: np.zeros((120, 6, 0)), ValueError, r"X has .*\b0\b"),
    (lambda X: torch.zeros(120, 6, 0), ValueError, r"X has .*\b0\b"),
    (lambda X: torch.zeros(120, 0), ValueError, r"X has .*\b0\b"),
    (lambda X: torch.where(torch.tensor(X) > 1, torch.nan, torch.tensor(X)), ValueError, "X contains NaN"),
    (lambda X: X[:, 0], ValueError, "(?i)2D"),
    (lambda X: X[..., None, None], ValueError, r"shape \(t, N\) or \(t, N, F\)"),
]


@pytest.mark.parametrize("model", each(REGRESSORS) + each(CLASSIFIERS))
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_data_that_no_network_takes_are_named(model, data):
    X, y = data[0], (data[1] > 100 if "Classifier" in type(model).__name__ else data[1])
    fitted = clone(model).fit(X, y)
    for spoil, error, message in NOT_DATA:
        with pytest.raises(error, match=message):
            clone(model).fit(spoil(X), y)
        with pytest.raises((ValueError, TypeError)):
            fitted.predict(spoil(X))


@pytest.mark.parametrize("model", each(REGRESSORS))
@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.full(120, 1j), ValueError, "y must be real"),
        (torch.full((120,), 1j), ValueError, "y must be real"),
        (torch.ones(120).to_sparse(), TypeError, r"y is a sparse tensor; pass y.to_dense\(\)"),
        (np.array(["a", "b"] * 60), ValueError, "y must hold numbers"),
        (np.array(["a", None] * 60, dtype=object), ValueError, "y must hold numbers"),
        (np.array([1.0, np.nan] * 60), ValueError, "y contains NaN"),
        (np.array([1.0, np.inf] * 60), ValueError, "y contains infinity"),
        (np.array([1, None] * 60, dtype=object), ValueError, "y contains NaN"),
        (None, ValueError, "requires y"),
    ],
    ids=["complex", "complex tensor", "sparse", "text", "objects", "NaN", "inf", "None", "missing"],
)
def test_targets_that_are_no_numbers_are_named(model, y, error, message, data):
    with pytest.raises(error, match=message):
        clone(model).fit(data[0], y)


@pytest.mark.parametrize("model", each(CLASSIFIERS))
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([1j, 1.0] * 60), "y must be real"),
        (np.array([1.0, np.nan] * 60), "NaN"),
        (np.zeros(120), "y holds only one class"),
        (np.random.default_rng(0).random(120), "Unknown label type"),
        (None, "requires y"),
    ],
    ids=["complex", "NaN", "one class", "numbers", "missing"],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_labels_that_are_none_are_named(model, y, message, data):
    with pytest.raises(ValueError, match=message):
        clone(model).fit(data[0], y)


def test_numbers_of_16_bits_are_targets(data):
    X, y = data
    y = np.round(y)  # below 256: exact in all of them
    expected = SVNNRegressor(**QUICK).fit(X, y).predict(X)
    for dtype in (torch.float16, torch.bfloat16, torch.int32):
        np.testing.assert_array_equal(SVNNRegressor(**QUICK).fit(X, torch.tensor(y, dtype=dtype)).predict(X), expected)


@pytest.mark.parametrize("stop", [True, np.True_, np.bool_(True)])
def test_truth_of_any_kind_stops_the_training(stop, data):
    assert SVNNRegressor(**QUICK, callbacks=[lambda record: stop]).fit(*data).n_iter_ == 1


@pytest.mark.parametrize("go_on", [None, False, np.False_, 1, "stop", np.ones(3)])
def test_nothing_else_does(go_on, data):
    model = SVNNRegressor(**QUICK, callbacks=[lambda record: go_on])
    assert model.fit(*data).n_iter_ == 3


@pytest.mark.parametrize("callbacks", [[1], "abc", iter([print]), print, [print, None]])
def test_callbacks_that_cannot_be_called_are_named(callbacks, data):
    with pytest.raises(ValueError, match="callbacks must be a sequence of callables"):
        SVNNRegressor(**QUICK, callbacks=callbacks).fit(*data)
