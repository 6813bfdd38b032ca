"""Fitting and predicting as scikit-learn users do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import ACV, RCV, HardThreshold, SVNNClassifier, SVNNRegressor, as_operator
from svnn.covariance import SampleCovariance, WithinClass
from svnn.covariance._resolve import NAMES
from svnn.estimators import _shift, _trainers
from svnn.estimators._data import split_rows
from svnn.functional import LowRankPlusSparse, log_covariance
from svnn.operators import SumOperator
from svnn.paper.baselines import PCASVMRegressor

QUICK = {"members": 2, "max_epochs": 5, "hidden": (8,), "random_state": 0}
LONGER = QUICK | {"max_epochs": 40}


def test_regression_learns(data):
    X, y = data
    model = SVNNRegressor(random_state=0).fit(X[:90], y[:90])
    assert model.score(X[90:], y[90:]) > 0.95
    assert model.predict(X).shape == (120,)
    assert model.embed(X[:5]).shape == (5, 6, 8 * 8)  # members side by side
    assert len(model.history_["train_loss"]) == len(model.history_["valid_loss"]) == model.n_iter_


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_multi_output_regression(data, rng, n_outputs):
    X, _ = data
    Y = X @ rng.standard_normal((6, n_outputs)) * [[1, 1000, 1e-3][:n_outputs]]
    model = SVNNRegressor(**LONGER).fit(X[:90], Y[:90])
    assert model.predict(X).shape == Y.shape and model.out_of_fold_.shape == (90, n_outputs)
    assert model.score(X[90:], Y[90:]) > 0.9


@pytest.mark.parametrize(
    "label",
    [lambda y: y, lambda y: np.array(["a", "b", "c"])[y], lambda y: y > 0, lambda y: y * 0.5 - 1 + (y == 1) * 1.5],
    ids=["int", "str", "bool", "float"],
)
def test_classification_of_any_label(iris, label):
    X, y = iris[0], label(iris[1])
    if y.dtype.kind == "f":
        y = np.round(y)
    model = SVNNClassifier(random_state=0, members=2).fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > 0.85
    assert set(model.predict(X)) <= set(y)
    P = model.predict_proba(X)
    assert P.shape == (150, len(model.classes_))
    np.testing.assert_allclose(P.sum(1), 1)
    np.testing.assert_array_equal(model.classes_[P.argmax(1)], model.predict(X))


def test_object_labels(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    model = SVNNClassifier(**QUICK).fit(X, names)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]


def test_three_dimensional_input(rng):
    X = rng.standard_normal((150, 5, 4))
    y = X[:, 0].mean(1)
    model = SVNNRegressor(members=2, random_state=0).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) > 0.7
    assert model.covariance_.shape == (5, 5)
    labels = (y > 0).astype(int)
    assert SVNNClassifier(**QUICK).fit(X, labels).predict_proba(X).shape == (150, 2)


@pytest.mark.parametrize("covariance", [*NAMES, HardThreshold(density=0.5), ACV(density=0.5), LedoitWolf()], ids=str)
def test_every_covariance(data, covariance):
    X, y = data
    model = SVNNRegressor(covariance=covariance, **QUICK)
    assert np.isfinite(model.fit(X, y).predict(X)).all()
    assert model.covariance_.shape == (6, 6)


def test_the_fitted_covariance_estimator_is_kept(data, iris):
    X, y = data
    given = HardThreshold(density=0.5)
    model = SVNNRegressor(covariance=given, **QUICK).fit(X, y)
    assert isinstance(model.covariance_estimator_, HardThreshold) and model.covariance_estimator_ is not given
    assert not hasattr(given, "covariance_") and model.covariance_estimator_.threshold_ > 0
    assert abs(model.covariance_estimator_.covariance_ - model.covariance_).max() == 0
    assert isinstance(SVNNRegressor(covariance="ledoit_wolf", **QUICK).fit(X, y).covariance_estimator_, LedoitWolf)
    assert model.set_params(covariance=np.eye(6)).fit(X, y).covariance_estimator_ is None
    names = np.array(["a", "b", "c"])[iris[1]]
    within = SVNNClassifier(covariance=WithinClass(), **QUICK).fit(iris[0], names)
    assert within.covariance_estimator_.classes_.tolist() == ["a", "b", "c"]
    assert isinstance(PCASVMRegressor(n_components=2).fit(X, y).covariance_estimator_, SampleCovariance)


def test_the_precision_is_a_shift(data):
    X, y = data
    model = SVNNRegressor(covariance="graphical_lasso", use="precision", **QUICK).fit(X, y)
    precision = np.linalg.inv(model.covariance_)
    shift = model.operator_.to_dense().numpy() * model.operator_.scale
    np.testing.assert_allclose(shift, precision, rtol=1e-2, atol=1e-3)
    with pytest.raises(ValueError, match="HardThreshold has none"):
        SVNNRegressor(use="precision", **QUICK).fit(X, y)


# -- a matrix in place of an estimator ------------------------------------------------------------------------


class Given:
    """Anything that has a covariance and cannot be fitted."""

    def __init__(self, covariance):
        self.covariance_ = covariance


GIVEN = {
    "list": np.ndarray.tolist,
    "frame": pd.DataFrame,
    "tensor": torch.tensor,
    "sparse": sp.csr_array,
    "sparse in columns": sp.csc_array,
    "operator": as_operator,
    "sparse operator": lambda C: as_operator(sp.csr_array(C), backend="csr"),
    "object": Given,
}


@pytest.fixture(scope="module")
def matrix():
    C = np.where(np.abs(np.subtract.outer(range(6), range(6))) < 2, 0.5, 0.0) + 0.5 * np.eye(6)
    C[0, 0] = 3.0
    return C


@pytest.fixture(scope="module")
def on_a_matrix(data, matrix):
    return SVNNRegressor(covariance=matrix, **QUICK).fit(*data)


def test_a_matrix_is_the_shift_as_it_is(on_a_matrix, matrix, data):
    shift = on_a_matrix.shift_
    assert shift.use == "covariance" and shift.is_given and on_a_matrix.covariance_estimator_ is None
    np.testing.assert_array_equal(on_a_matrix.covariance_, matrix)
    assert shift.scale == pytest.approx(np.linalg.norm(matrix, 2))
    np.testing.assert_allclose(shift.operator.to_dense() * shift.scale, matrix, atol=1e-6)
    other = SVNNRegressor(covariance=3 * matrix, **QUICK).fit(*data)  # its unit does not matter
    np.testing.assert_allclose(other.predict(data[0]), on_a_matrix.predict(data[0]), rtol=1e-4)


@pytest.mark.parametrize("kind", GIVEN)
def test_matrices_of_every_type_are_the_same(kind, on_a_matrix, matrix, data):
    X, y = data
    model = SVNNRegressor(covariance=GIVEN[kind](matrix), **QUICK).fit(X, y)
    np.testing.assert_allclose(model.predict(X), on_a_matrix.predict(X), rtol=1e-4)
    found = model.covariance_
    assert sp.issparse(found) == ("sparse" in kind)
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, matrix)


def test_the_logarithm_of_a_matrix_is_taken_where_it_is_asked_for(matrix, data):
    model = SVNNRegressor(covariance=matrix, use="log", **QUICK).fit(*data)
    expected = log_covariance(matrix / np.linalg.norm(matrix, 2))
    assert model.shift_.use == "log" and model.operator_.scale == 1
    np.testing.assert_allclose(model.operator_.to_dense(), expected, atol=1e-6)
    np.testing.assert_array_equal(model.covariance_, matrix)


def test_a_matrix_that_changes_later_changes_nothing(matrix, data):
    X, y = data
    given = matrix.copy()
    model = SVNNRegressor(covariance=given, **QUICK).fit(X, y)
    before = model.predict(X)
    given[:] = np.eye(6)
    np.testing.assert_array_equal(model.covariance_, matrix)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_matrix_is_a_parameter_like_any_other(matrix, data):
    X, y = data
    model = clone(SVNNRegressor(covariance=matrix, **QUICK))
    np.testing.assert_array_equal(model.get_params()["covariance"], matrix)
    assert repr(model).startswith("SVNNRegressor(covariance=array(")
    search = GridSearchCV(model, {"covariance": ["hard", matrix, np.eye(6)]}, cv=2).fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 3


def test_factors_and_a_sparse_rest_are_kept_apart(data):
    X, y = data
    C = LowRankPlusSparse(np.ones((6, 1)), sp.eye_array(6, format="csr"))
    model = SVNNRegressor(covariance=C, **QUICK).fit(X, y)
    assert isinstance(model.covariance_, LowRankPlusSparse) and isinstance(model.operator_, SumOperator)
    dense = SVNNRegressor(covariance=C.toarray(), **QUICK).fit(X, y)
    np.testing.assert_allclose(model.predict(X), dense.predict(X), rtol=1e-4)


def test_an_indefinite_matrix_is_used_as_it_is(data):
    X, y = data
    C = np.full((6, 6), -0.9) + 1.9 * np.eye(6)
    assert np.linalg.eigvalsh(C)[0] < -1
    model = SVNNRegressor(covariance=C, **QUICK).fit(X, y)
    np.testing.assert_allclose(model.operator_.to_dense() * model.operator_.scale, C, atol=1e-5)


# -- training ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resample", ["fixed", "epoch", "forward", "shift"])
@pytest.mark.parametrize("covariance", ["acv", RCV(p=0.3)], ids=str)
def test_stochastic_training(data, resample, covariance):
    X, y = data
    models = [
        SVNNRegressor(
            covariance=covariance, resample=resample, members=2, hidden=(4, 4), max_epochs=4, random_state=1
        ).fit(X, y)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    np.testing.assert_array_equal(models[0].covariance_, models[1].covariance_)


def test_resampling_changes_the_training(data):
    X, y = data
    losses = [
        SVNNRegressor(covariance=RCV(p=0.5), resample=r, **QUICK).fit(X, y).history_["train_loss"][-1]
        for r in ("fixed", "epoch", "forward", "shift")
    ]
    assert len(set(losses)) == 4


def test_seeds_fix_everything_and_leave_the_global_generators_alone(data):
    X, y = data
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    a = SVNNRegressor(dropout=0.2, shrink=False, **QUICK).fit(X, y).predict(X)
    assert torch.rand(1) == expected
    b = SVNNRegressor(dropout=0.2, shrink=False, **QUICK).fit(X, y).predict(X)
    np.testing.assert_array_equal(a, b)
    c = SVNNRegressor(dropout=0.2, shrink=False, **{**QUICK, "random_state": 1}).fit(X, y).predict(X)
    assert not np.array_equal(a, c)


def test_standardisation_and_covariance_see_training_rows_only(data):
    X, y = data
    spoiled_X, spoiled_y = 1e6 * X[90:], 1e6 * y[90:]
    model = SVNNRegressor(**QUICK)
    model.fit(X[:90], y[:90], validation_data=(spoiled_X, spoiled_y))
    np.testing.assert_allclose(model.fitted_.standardizer.mean[:, 0], X[:90].mean(0))
    np.testing.assert_allclose(model.fitted_.targets.standardizer.mean, y[:90].mean(0))
    np.testing.assert_allclose(model.covariance_.diagonal(), 1)


def test_units_do_not_matter(data):
    X, y = data
    a = SVNNRegressor(**QUICK).fit(X, y).predict(X)
    units = 10.0 ** np.arange(-3, 3)
    b = SVNNRegressor(**QUICK).fit(X * units + 5, 100 * y).predict(X * units + 5)
    np.testing.assert_allclose(b, 100 * a, rtol=1e-2)


@pytest.mark.parametrize("members", [1, 2])
def test_missing_groups_are_named(data, members):
    X, y = data[:2]
    for groups in (np.where(np.arange(len(y)) < 3, np.nan, np.arange(len(y)) % 5), ["a", "b", None] * (len(y) // 3)):
        with pytest.raises(ValueError, match=r"groups holds (3|40) missing values; leave these rows out"):
            SVNNRegressor(members=members, max_epochs=1).fit(X, y, groups=groups)


def test_groups_stay_together(data):
    X, y = data
    groups = np.repeat(np.arange(12), 10)
    model = SVNNRegressor(validation_fraction=0.3, **QUICK)
    train, held_out = split_rows(y, groups, 0.3, seed=0, stratify=False)
    assert len(held_out) > 0
    assert not set(groups[train]) & set(groups[held_out])
    model.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="single group"):
        model.fit(X, y, groups=np.zeros(120))


def test_classes_are_split_evenly(iris):
    labels = np.array(["a", "b", "c"])[iris[1]]
    for y in (iris[1], labels):
        _, held_out = split_rows(y, None, 0.1, seed=0, stratify=True)
        assert np.bincount(iris[1][held_out]).tolist() == [5, 5, 5]


def test_class_weight_moves_the_decision(rng):
    X = rng.standard_normal((300, 4))
    y = (X[:, 0] + rng.standard_normal(300) > 1.5).astype(int)
    weights = (None, "balanced", {0: 1, 1: 50})
    models = [SVNNClassifier(class_weight=weight, **QUICK | {"max_epochs": 20}).fit(X, y) for weight in weights]
    plain, balanced, given = (model.predict(X).mean() for model in models)
    assert plain < balanced <= given


def test_sample_weight_counts(rng):
    X = rng.standard_normal((200, 4))
    y = np.where(np.arange(200) < 100, X[:, 0], -X[:, 0])
    weight = np.where(np.arange(200) < 100, 1.0, 1e-6)
    model = SVNNRegressor(members=2, max_epochs=60, random_state=0).fit(X, y, sample_weight=weight)
    assert model.score(X[:100], y[:100]) > 0.9


def test_zero_weights_are_left_out(data):
    X, y = data
    weight = np.where(np.arange(120) < 60, 1.0, 0.0)
    spoiled = np.where(weight == 0, 1e6, y)
    model = SVNNRegressor(**{**QUICK, "batch_size": 4}).fit(X, spoiled, sample_weight=weight)
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        model.fit(X, y, sample_weight=np.zeros(120))


@pytest.mark.parametrize("schedule", ["constant", "one_cycle"])
def test_early_stopping_restores_the_best_weights(data, schedule):
    X, y = data
    Xv, yv = X[90:], y[90:]
    model = SVNNRegressor(members=1, schedule=schedule, random_state=0, patience=5, loss="squared")
    model.fit(X[:90], y[:90], validation_data=(Xv, yv))
    best = min(model.history_["valid_loss"])
    sd = model.fitted_.targets.standardizer.scale
    assert np.mean(((model.predict(Xv) - yv) / sd) ** 2) == pytest.approx(best, rel=1e-3)
    assert model.history_["best_epoch"] == [int(np.argmin(model.history_["valid_loss"])) + 1]
    assert model.n_iter_ - model.history_["best_epoch"][0] == (5 if model.n_iter_ < 120 else 0)


def test_without_validation_the_training_loss_is_watched(data):
    model = SVNNRegressor(validation_fraction=0.0, **QUICK).fit(*data)
    assert model.history_["valid_loss"] == []


def test_callbacks(data):
    seen = []
    model = SVNNRegressor(
        callbacks=[lambda record: seen.append(record) or record["epoch"] == 7], members=2, random_state=0
    )
    model.fit(*data)
    assert model.n_iter_ == 7 == len(seen)
    assert set(seen[0]) == {"epoch", "train_loss", "valid_loss", "best_loss"}


def test_frames_keep_names_and_are_compared(data):
    X, y = data
    names = list("abcdef")
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = SVNNRegressor(**QUICK).fit(frame, y)
        assert model.feature_names_in_.tolist() == names
        model.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X, columns=names[::-1]))


def test_tensors_are_taken(data):
    X, y = data
    model = SVNNRegressor(**QUICK).fit(torch.tensor(X), y)
    np.testing.assert_allclose(model.predict(torch.tensor(X)), model.predict(X))


def test_scikit_learn_tools(data, iris):
    X, y = data
    search = GridSearchCV(SVNNRegressor(**QUICK), {"order": [1, 2], "covariance": ["hard", "sample"]}, cv=2).fit(X, y)
    assert search.best_params_["order"] in (1, 2)
    nested = GridSearchCV(
        SVNNRegressor(covariance=HardThreshold(), **QUICK), {"covariance__scale": [1.0, 2.0]}, cv=2
    ).fit(X, y)
    assert "covariance__scale" in nested.best_params_
    pipeline = make_pipeline(StandardScaler(), SVNNClassifier(**LONGER)).set_output(transform="pandas")
    assert cross_val_score(pipeline, *iris, cv=3).mean() > 0.7
    fitted = pipeline.fit(pd.DataFrame(iris[0], columns=list("abcd")), iris[1])
    assert fitted[-1].feature_names_in_.tolist() == list("abcd")
    model = SVNNClassifier(hidden=(4, 4), class_weight="balanced")
    assert clone(model).get_params() == model.get_params()


def test_progress_in_a_script_is_a_line_now_and_then(data, capfd):
    SVNNRegressor(**{**QUICK, "verbose": 1, "max_epochs": 20}).fit(*data)
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("SVNNRegressor: epoch")]
    assert out == "" and 10 <= len(lines) <= 20
    assert all("training loss" in line and "held-out loss" in line for line in lines)
    assert " left" in lines[0] and "epoch 20 of 20" in lines[-1] and "done in" in lines[-1]
    SVNNRegressor(**{**QUICK, "verbose": 0}).fit(*data)
    assert "epoch" not in "".join(capfd.readouterr())


def test_progress_says_where_a_training_stops_early(data, capfd):
    stop = {"callbacks": [lambda record: record["epoch"] == 3], "max_epochs": 50}
    SVNNRegressor(**{**QUICK, **stop, "verbose": 1, "validation_fraction": 0.0}).fit(*data)
    (line,) = (line for line in capfd.readouterr().err.splitlines() if line.startswith("SVNNRegressor:"))
    assert "stopped after epoch 3" in line and "held-out" not in line


def test_a_constant_feature_and_a_single_feature(data):
    X, y = data
    X = X.copy()
    X[:, 2] = 3.0
    for part in (X, X[:, :1], X[:, 2:3]):
        assert np.isfinite(SVNNRegressor(**QUICK).fit(part, y).predict(part)).all()


def test_a_table_and_signals_of_one_value_are_the_same(data):
    X, y = data
    a, b = SVNNRegressor(**QUICK).fit(X, y), SVNNRegressor(**QUICK).fit(X[..., None], y)
    for model in (a, b):
        for rows in (X[:1], X[:5], X[..., None]):
            np.testing.assert_allclose(model.predict(rows), a.predict(X)[: len(rows)], rtol=1e-9)


def test_units_that_overflow_single_precision(data):
    for unit in (1e20, 1e-24):
        model = SVNNRegressor(standardize=False, use="covariance", **QUICK)
        shift = _shift._learned(model, unit * data[0][..., None], None, data[1], 0, torch.device("cpu"))
        assert shift.operator.norm() == pytest.approx(1, rel=1e-5)


def test_divergence_is_named(data):
    X, y = data
    with pytest.raises(FloatingPointError, match="smaller lr"):
        SVNNRegressor(lr=1e30, batch_norm=False, random_state=0).fit(X, y)


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute"])
def test_every_loss_learns(data, loss):
    X, y = data
    assert SVNNRegressor(**LONGER, loss=loss).fit(X[:90], y[:90]).score(X[90:], y[90:]) > 0.8


def test_outliers_move_the_huber_loss_less_than_the_squared_one(data):
    X, y = data
    spoiled = np.where(np.arange(len(y)) % 10 == 0, y + 300, y)
    errors = {
        loss: np.abs(SVNNRegressor(**LONGER, loss=loss).fit(X, spoiled).predict(X) - y).mean()
        for loss in ("huber", "squared")
    }
    assert errors["huber"] < errors["squared"]


def test_keeping_the_shifts_changes_nothing(data, monkeypatch):
    X, y = data
    fits = []
    for size in (2**30, 0):
        monkeypatch.setattr(_trainers, "_CACHE_BYTES", size)
        fits.append(SVNNRegressor(schedule="constant", **QUICK | {"max_epochs": 20}).fit(X, y).history_["train_loss"])
    np.testing.assert_allclose(*fits, rtol=2e-2)
    np.testing.assert_allclose(fits[0][:3], fits[1][:3], rtol=1e-4)
