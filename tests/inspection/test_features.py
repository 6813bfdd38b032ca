"""Contributions of features: they add up, follow the features around, and are weights times values where that is so."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.tree import DecisionTreeRegressor

from inspected_models import QUICK, N, blend, network_in, numbers, signals
from svnn import BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.estimators._linear import LinearRegressor
from svnn.inspection import _features, feature_contributions
from svnn.inspection._fitted import units_of

EXACT = {"rtol": 1e-9, "atol": 1e-9}


def test_contributions_add_up_to_the_prediction(regression):
    model, X = regression.model, regression.X
    found = feature_contributions(model, X)
    assert found.contributions.shape == (len(X), N) and found.outputs is None
    np.testing.assert_allclose(found.prediction, model.predict(X), **EXACT)
    error = found.baseline + found.contributions.sum(1) - model.predict(X)
    assert abs(error).max() < 1e-4 * regression.y.std()
    assert abs(found.contributions).max() > 0.01 * regression.y.std()


def test_the_baseline_is_the_mean_of_the_training_data(default):
    model, X = default.model, default.X
    mean = units_of(model).mean[:, 0]
    found = feature_contributions(model, X)
    np.testing.assert_allclose(found.baseline, model.predict(mean[None])[0], **EXACT)
    again = feature_contributions(model, X, baseline=mean)
    np.testing.assert_allclose(again.contributions, found.contributions, **EXACT)


def test_against_another_sample(default):
    model, X = default.model, default.X
    found = feature_contributions(model, X[1:], baseline=X[0])
    assert found.baseline == pytest.approx(model.predict(X[:1])[0])
    assert abs(found.baseline + found.contributions.sum(1) - model.predict(X[1:])).max() < 1e-4 * default.y.std()
    same = feature_contributions(model, X[:1], baseline=X[0])
    assert not same.contributions.any() and same.n_points == 1


def test_a_smaller_tolerance_changes_little(regression):
    kinks = regression.kind == "relu"
    fine = feature_contributions(regression.model, regression.X, tol=1e-5 if kinks else 1e-9)
    coarse = feature_contributions(regression.model, regression.X, tol=1e-4)
    change = abs(fine.contributions - coarse.contributions) / regression.y.std()
    assert change.max() < (2e-2 if kinks else 5e-4) and np.quantile(change, 0.99) < (3e-3 if kinks else 5e-4)
    assert fine.n_points > coarse.n_points > 1


@pytest.mark.parametrize(
    ("activation", "members"),
    [("silu", 1), ("tanh", 2), ("relu", 1), ("leaky_relu", 2), ("elu", 1), ("gelu", 2), ("identity", 1), ("silu", 2)],
)
def test_one_layer_with_a_linear_head_has_a_closed_form(activation, members, monkeypatch):
    X = signals()
    options = QUICK | {"mlp": (), "activation": activation, "members": members, "shrink": False}
    model = SVNNRegressor(**options).fit(X, numbers(X))
    exact = feature_contributions(model, X)
    assert exact.n_points == 1
    assert abs(exact.baseline + exact.contributions.sum(1) - model.predict(X)).max() < 1e-7
    monkeypatch.setattr(_features, "closed_form", lambda outputs, baseline: None)
    by_rule = feature_contributions(model, X, tol=1e-9 if "relu" not in activation else 1e-5)
    assert by_rule.n_points > 1 or activation == "identity"
    bound = 1e-3 if "relu" in activation else 1e-6  # kinks
    assert abs(by_rule.contributions - exact.contributions).max() < bound * numbers(X).std()


@pytest.mark.parametrize("options", [{"mlp": (3,)}, {"mlp": (), "hidden": (4, 3)}])
def test_two_nonlinear_layers_have_no_closed_form(options):
    X = signals()
    model = blend(**options).fit(X, numbers(X))
    assert feature_contributions(model, X, baseline=X[0]).n_points > 1


def test_logits_have_a_closed_form_and_probabilities_do_not(classification, monkeypatch):
    model, X = classification.model, classification.X
    exact = feature_contributions(model, X, logit=True)
    assert exact.n_points == 1 and feature_contributions(model, X).n_points > 1
    monkeypatch.setattr(_features, "closed_form", lambda outputs, baseline: None)
    by_rule = feature_contributions(model, X, logit=True, tol=1e-9)
    np.testing.assert_allclose(by_rule.contributions, exact.contributions, atol=1e-7)


@pytest.mark.parametrize("use", ["log", "covariance"])
def test_a_linear_network_has_weights_times_values(use):
    X = signals()
    model = blend(activation="identity", use=use, mlp=(3,)).fit(X, numbers(X))
    found = feature_contributions(model, X)
    assert found.n_points == 1
    mean = units_of(model).mean[:, 0]
    weights = model.predict(mean + np.eye(N)) - model.predict(mean[None])
    np.testing.assert_allclose(found.contributions, weights * (X - mean), rtol=1e-6, atol=1e-8)


def test_contributions_move_with_the_features(rng):
    X = signals()
    options = QUICK | {"readout": "mean", "standardize": False, "covariance": "sample"}
    model = SVNNRegressor(**options).fit(X - 5, numbers(X))
    order = rng.permutation(N)
    moved = model.on(model.covariance_[order][:, order])
    expected = feature_contributions(model, X - 5).contributions[:, order]
    np.testing.assert_allclose(feature_contributions(moved, (X - 5)[:, order]).contributions, expected, rtol=1e-5)


def test_a_row_does_not_depend_on_the_others(default):
    found = feature_contributions(default.model, default.X)
    alone = feature_contributions(default.model, default.X[7:8])
    np.testing.assert_allclose(alone.contributions[0], found.contributions[7], **EXACT)


def test_batches_do_not_change_anything(default, monkeypatch):
    whole = feature_contributions(default.model, default.X)
    monkeypatch.setattr("svnn.inspection._fitted._VALUES", 200)
    np.testing.assert_allclose(
        feature_contributions(default.model, default.X).contributions, whole.contributions, **EXACT
    )


def test_contributions_of_a_blend_are_the_weighted_sum_of_those_of_its_parts(default):
    model, X = default.model, default.X
    found = feature_contributions(model, X)
    parts = {
        each: feature_contributions(model.parts_[each], X).contributions for each in ("with edges", "without edges")
    }
    parts["linear"] = model.parts_["linear"].coef_ * (X - units_of(model).mean[:, 0])
    expected = sum(model.blend_[name] * part for name, part in parts.items())
    np.testing.assert_allclose(found.contributions, expected, atol=1e-4 * default.y.std())


def test_a_blend_of_linear_models_and_of_other_units():
    X = signals()
    parts = [("network", SVNNRegressor(**QUICK, standardize=False)), ("linear", LinearRegressor())]
    model = BlendRegressor(parts, random_state=0).fit(X / 10, numbers(X))
    for baseline in (None, X[0] / 10):
        found = feature_contributions(model, X / 10, baseline=baseline)
        np.testing.assert_allclose(found.prediction, model.predict(X / 10), **EXACT)
        assert abs(found.baseline + found.contributions.sum(1) - found.prediction).max() < 1e-4 * numbers(X).std()
    alone = BlendRegressor([("linear", LinearRegressor())]).fit(X, numbers(X))
    found, linear = feature_contributions(alone, X), alone.parts_["linear"]
    assert found.n_points == 1
    np.testing.assert_allclose(found.contributions, linear.coef_ * (X - X.mean(0)), **EXACT)


def test_other_parts_are_named():
    X = signals()
    parts = [("network", SVNNRegressor(**QUICK)), ("trees", DecisionTreeRegressor(max_depth=2))]
    model = BlendRegressor(parts, random_state=0).fit(X, numbers(X))
    with pytest.raises(ValueError, match=r"part 'trees' \(DecisionTreeRegressor\) cannot be split.*permutation"):
        feature_contributions(model, X)


def test_several_targets():
    X = signals()
    Y = np.stack([numbers(X), 1000 * X[:, 1]], 1)
    model = blend().fit(X, Y)
    found = feature_contributions(model, X)
    assert found.contributions.shape == (len(X), N, 2) and found.outputs.tolist() == [0, 1]
    error = found.baseline + found.contributions.sum(1) - model.predict(X)
    assert (abs(error).max(0) < 1e-4 * Y.std(0)).all()


def test_several_values_per_node():
    X = signals(n_values=3)
    model = blend().fit(X, numbers(X))
    found = feature_contributions(model, X, baseline=X[0])
    assert found.contributions.shape == (len(X), N)
    assert abs(found.baseline + found.contributions.sum(1) - model.predict(X)).max() < 1e-4 * numbers(X).std()


def test_probabilities_of_all_classes_and_of_one(classification):
    model, X = classification.model, classification.X
    found = feature_contributions(model, X)
    assert found.outputs.tolist() == ["high", "low", "middle"] and found.contributions.shape == (len(X), N, 3)
    assert abs(found.baseline + found.contributions.sum(1) - model.predict_proba(X)).max() < 1e-4
    assert abs(found.contributions.sum(2)).max() < 1e-12  # what one class gains, others lose
    one = feature_contributions(model, X, class_="middle")
    assert one.contributions.shape == (len(X), N) and one.outputs is None
    assert abs(one.contributions - found.contributions[..., 2]).max() < 1e-3


def test_logits_are_those_of_the_probabilities():
    X = signals()
    model = SVNNClassifier(**QUICK | {"members": 1}).fit(X, X[:, 0] > 5)
    found = feature_contributions(model, X, logit=True, class_=True)
    odds = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    np.testing.assert_allclose(2 * found.prediction, odds, rtol=1e-9)
    assert abs(found.baseline + found.contributions.sum(1) - found.prediction).max() < 1e-4


def test_a_sparse_operator_gives_the_same(sparse):
    stored = sparse.model.on(sp.csr_array(network_in(sparse.model).covariance_))
    expected = feature_contributions(sparse.model, sparse.X)
    found = feature_contributions(stored, sparse.X)
    np.testing.assert_allclose(found.contributions, expected.contributions, rtol=1e-6, atol=1e-8)


def test_a_network_without_effect_contributes_nothing():
    X = signals()
    model = SVNNRegressor(**QUICK | {"shrink": False}).fit(X, numbers(X))
    with torch.no_grad():
        for parameter in model.module_.parameters():
            parameter.zero_()
    found = feature_contributions(model, X)
    assert not found.contributions.any() and found.n_points == 1


def test_a_tolerance_that_cannot_be_met_ends(default, monkeypatch):
    monkeypatch.setattr(_features, "_PIECES", 20)
    with pytest.warns(ConvergenceWarning, match=r"more than tol=1e-18; give a larger tol"):
        found = feature_contributions(default.model, default.X, tol=1e-18)
    assert found.n_points <= 4 * 2 * 20 * _features._HALVINGS
    assert abs(found.baseline + found.contributions.sum(1) - default.model.predict(default.X)).max() < 1e-9


def test_a_warning_says_where_contributions_do_not_add_up(monkeypatch, default):
    monkeypatch.setattr(_features, "_HALVINGS", 0)
    with pytest.warns(ConvergenceWarning, match=r"of \d+ samples do not add up: they are off by up to"):
        feature_contributions(default.model, default.X, tol=1e-12)


def test_torch_modes_of_the_caller_do_not_matter(default):
    expected = feature_contributions(default.model, default.X[:3])
    with torch.inference_mode():
        found = feature_contributions(default.model, default.X[:3])
    np.testing.assert_array_equal(found.contributions, expected.contributions)
    assert all(parameter.grad is None for parameter in network_in(default.model).module_.parameters())
