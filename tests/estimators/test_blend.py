"""Blends: members with edges, members without, a linear model, or models of the caller, that predict together."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from blended import DATA, labels, outputs, partly_linear, without_some_rows
from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.estimators import _blend_parts, _linear
from svnn.estimators._blend_weights import number_weights, with_doubt
from svnn.estimators._data import member_folds
from svnn.estimators._linear import LinearClassifier, LinearRegressor

QUICK = {"max_epochs": 3, "device": "cpu"}
PARTS = ["with edges", "without edges", "linear"]
NETWORKS = {BlendRegressor: SVNNRegressor, BlendClassifier: SVNNClassifier}
KINDS = pytest.mark.parametrize("kind", NETWORKS)


def blend(kind=BlendRegressor, **options):
    """A quick default blend."""
    return kind(NETWORKS[kind](**QUICK | options), random_state=0)


@pytest.fixture(scope="module")
def data():
    return partly_linear()


def problem(kind, data):
    return data if kind is BlendRegressor else (data[0], labels(data[1]))


@pytest.fixture(scope="module")
def regressor(data):
    return blend(max_epochs=40).fit(*data)


@pytest.fixture(scope="module")
def classifier(data):
    return blend(BlendClassifier, max_epochs=40).fit(data[0], labels(data[1]))


@parametrize_with_checks(
    [
        BlendRegressor(SVNNRegressor(members=2, hidden=(4,), **QUICK), random_state=0),
        BlendClassifier(SVNNClassifier(members=2, hidden=(4,), **QUICK), random_state=0),
        BlendRegressor([("ridge", Ridge()), ("svnn", SVNNRegressor(members=2, **QUICK))], random_state=0),
        BlendClassifier([("a", LogisticRegression()), ("b", LinearClassifier())], random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "repeating a row changes the rows that are held out"
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- the default parts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_the_prediction_is_the_weighted_mean_of_the_parts(name, data, request):
    model, X = request.getfixturevalue(name), data[0]
    assert list(model.blend_) == list(model.parts_) == PARTS
    weights = np.array(list(model.blend_.values()))
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1)
    expected = np.tensordot(weights, [outputs(part, X) for part in model.parts_.values()], 1)
    np.testing.assert_allclose(outputs(model, X), expected, rtol=1e-10)


@pytest.mark.parametrize(("members", "sizes"), [(2, (2, 2)), (3, (2, 2)), (5, (3, 2)), (8, (4, 4))])
def test_half_of_the_members_have_no_edges(members, sizes, data):
    X, y = data
    model = blend(members=members, validation_fraction=0.2).fit(X, y)
    assert list(model.blend_) == PARTS
    first, second = model.parts_["with edges"], model.parts_["without edges"]
    assert (len(first.fitted_.networks), len(second.fitted_.networks)) == sizes
    assert {network.order for network in first.fitted_.networks} == {5}
    assert {network.order for network in second.fitted_.networks} == {0}
    moved = model.on(np.eye(5))
    assert moved.parts_["without edges"] is second and moved.parts_["linear"] is model.parts_["linear"]
    assert abs(moved.parts_["with edges"].predict(X) - first.predict(X)).max() > 1e-5
    np.testing.assert_array_equal(second.on(np.eye(5)).predict(X), second.predict(X))
    seen = [np.isfinite(part.out_of_fold_) for part in model.parts_.values()]
    n_folds = min(*sizes, 4)
    assert sum(seen[0] & seen[1] & seen[2]) == n_folds * 24  # all hold out the same rows
    np.testing.assert_array_equal(np.isfinite(model.out_of_fold_), seen[0] & seen[1] & seen[2])


@KINDS
@pytest.mark.parametrize("options", [{"members": 1}, {"readout": "mean"}], ids=str)
def test_a_network_that_stays_alone(kind, options, data):
    """A single member, or the mean of all nodes."""
    X, y = problem(kind, data)
    model = blend(kind, **options).fit(X, y)
    assert model.blend_ == {"with edges": 1.0} and model.network_part == "with edges"
    part = model.parts_["with edges"]
    np.testing.assert_array_equal(outputs(model, X), outputs(part, X))
    np.testing.assert_allclose(model.out_of_fold_, part.out_of_fold_)


def test_members_of_order_0_are_blended_with_the_linear_model(data):
    X, y = data
    model = blend(order=0).fit(X, y)
    assert list(model.blend_) == PARTS[1:] and len(model.parts_["without edges"].fitted_.networks) == 8
    assert model.network_part is None
    np.testing.assert_array_equal(model.on(np.eye(5)).predict(X), model.predict(X))


@KINDS
def test_the_default_is_a_default_network(kind, data):
    X, y = problem(kind, data)
    model = kind(random_state=0).fit(X[:30], y[:30])
    assert list(model.blend_) == PARTS
    parts = model.parts_
    expected = NETWORKS[kind](members=4, random_state=parts["linear"].random_state).get_params()
    assert parts["with edges"].get_params() == expected
    assert len({part.random_state for part in parts.values()}) == 1


def test_parameters_of_the_network_are_those_of_its_parts(data):
    X, y = data
    options = {"standardize": False, "validation_fraction": 0.25, "hidden": (3,), "callbacks": (lambda state: None,)}
    parts = blend(**options).fit(X, y).parts_
    for part in parts.values():
        assert part.standardize is False and part.validation_fraction == 0.25
    assert parts["without edges"].hidden == (3,) and not parts["without edges"].callbacks
    assert len(parts["with edges"].callbacks) == 1
    classes = blend(BlendClassifier, class_weight={0: 1, 1: 5, 2: 1}).fit(X, labels(y)).parts_
    assert all(part.class_weight == {0: 1, 1: 5, 2: 1} for part in classes.values())


@KINDS
def test_a_table_that_is_too_large_for_a_linear_model(kind, data, monkeypatch):
    X, y = problem(kind, data)
    monkeypatch.setattr(_linear, "_MOST_LINEAR", 4)
    model = blend(kind).fit(X, y)
    assert list(model.blend_) == PARTS[:2] and sum(model.blend_.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "options",
    [{"covariance": "acv", "resample": "epoch"}, {"covariance": "rcv", "resample": "shift"},
     {"hidden": (4, 4), "batch_norm": True, "dropout": 0.2}, {"readout": "flatten"}, {"activation": "gelu"},
     {"standardize": False}, {"use": "covariance", "order": 2}],
    ids=str,
)  # fmt: skip
def test_blends_of_all_networks(options, data):
    X, y = data
    model = blend(members=4, validation_fraction=0.2, **options).fit(X, y)
    assert list(model.blend_) == PARTS
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    moved = model.on(np.eye(5)).parts_
    changes = {name: abs(moved[name].predict(X) - part.predict(X)).max() for name, part in model.parts_.items()}
    assert changes["with edges"] > 1e-6 and changes["without edges"] == changes["linear"] == 0


# -- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute"])
def test_weights_have_the_least_loss_on_held_out_rows(loss, data):
    X, y = data
    model = blend(loss=loss, max_epochs=20).fit(X, y)
    parts = np.array([part.out_of_fold_ for part in model.parts_.values()])
    known = np.isfinite(parts).all(0)
    assert known.sum() == 48
    standardised = ((parts[:, known] - y.mean()) / y.std())[..., None]
    weights = number_weights(standardised, ((y - y.mean()) / y.std())[known, None], np.ones(48), loss)
    expected = with_doubt(weights, np.array([0.0, 0.0, 1.0]), 48)
    np.testing.assert_allclose(list(model.blend_.values()), expected, atol=1e-6)
    np.testing.assert_allclose(model.out_of_fold_[known], expected @ parts[:, known])


@KINDS
def test_with_too_few_rows_to_hold_out_only_the_linear_model_counts(kind, data):
    X, y = data[0][:7], data[1][:7]
    y = y if kind is BlendRegressor else (y > np.median(y)).astype(int)
    model = blend(kind).fit(X, y)
    assert model.blend_ == {"with edges": 0.0, "without edges": 0.0, "linear": 1.0}
    assert model.out_of_fold_ is None
    np.testing.assert_array_equal(model.predict(X), model.parts_["linear"].predict(X))


def test_a_few_held_out_rows_do_not_outvote_the_linear_model(data):
    """With n of them, what they say counts n² / (n² + 10²)."""
    X, y = data
    options = {"members": 4, "max_epochs": 30}
    blends = []
    for rows in (slice(0, 10), np.tile(np.arange(10), 30)):  # the same rows, but three hundred of them
        nearly = SVNNRegressor(random_state=0, **QUICK | options).fit(X, y).predict(X[:10])
        blends.append(blend(**options).fit(X, y, validation_data=(X[:10][rows], nearly[rows])).blend_)
        assert sum(blends[-1].values()) == pytest.approx(1)
    assert blends[0]["linear"] == pytest.approx(0.5 + 0.5 * blends[1]["linear"], abs=0.02)


def test_held_out_rows_of_the_caller_say_what_counts(data):
    """They are all from a part of the data in which the target is linear."""
    X, y = data
    seen = np.random.default_rng(1).standard_normal((120, 5))
    target = LinearRegressor(random_state=0).fit(X, y).predict(seen)
    model = blend().fit(X, y, validation_data=(seen, target))
    assert model.blend_["linear"] > 0.99 and model.out_of_fold_ is None
    few = blend().fit(X, y, validation_data=(seen[:3], 9 + target[:3]))
    assert few.blend_ == {"with edges": 0.0, "without edges": 0.0, "linear": 1.0}
    with pytest.raises(ValueError, match=r"validation_data must be a pair \(X, y\)"):
        BlendRegressor([("ridge", Ridge())]).fit(X, y, validation_data=(X,))


def test_where_the_target_is_linear_the_linear_model_counts():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1)) + rng.standard_normal((200, 8))
    y = X @ rng.standard_normal(8) + 0.5 * rng.standard_normal(200)
    model = blend(max_epochs=20).fit(X, y)
    assert model.blend_["linear"] > 0.7
    expected = RidgeCV(np.logspace(-3, 3, 13)).fit(X, y).predict(X)
    assert np.abs(model.predict(X) - expected).mean() < 0.1 * y.std()
    classes = blend(BlendClassifier).fit(X, (y > 0).astype(int))
    assert classes.blend_["linear"] > 0.5 and classes.score(X, y > 0) > 0.85


def test_where_nothing_is_linear_the_linear_model_does_not_count():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = X[:, 0] ** 2 + np.abs(X[:, 1]) + 0.1 * rng.standard_normal(300)
    model = blend(max_epochs=60).fit(X, y)
    assert model.blend_["linear"] < 0.1 and model.score(X, y) > 0.7
    classes = blend(BlendClassifier, max_epochs=60).fit(X, (y > np.median(y)).astype(int))
    assert classes.blend_["linear"] < 0.2


def test_groups_stay_together_in_the_models_of_held_out_rows(data):
    """A feature that names the group helps with rows of other folds only where groups are split."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 5)
    X = np.hstack([np.eye(24)[groups] * 3, rng.standard_normal((120, 2))])
    y = rng.standard_normal(24)[groups]
    models = [blend().fit(X, y, groups=each) for each in (groups, None)]
    errors = [np.nanmean(np.square(model.out_of_fold_ - y)) for model in models]
    assert errors[0] > 2 * errors[1]
    held = np.isfinite(models[0].out_of_fold_)
    assert all(len(set(held[groups == group])) == 1 for group in range(24))


def test_class_weights_count_in_the_weights_of_the_parts(data, monkeypatch):
    X, y = data
    seen = []
    monkeypatch.setattr(
        _blend_parts, "class_weights", lambda P, codes, weight: seen.append((codes, weight)) or np.ones(len(P)) / len(P)
    )
    blend(BlendClassifier, class_weight={0: 1, 1: 4, 2: 1}).fit(X, labels(y))
    codes, weight = seen[0]
    np.testing.assert_allclose(weight, np.where(codes == 1, 1, 0.25))


# -- data of all kinds -----------------------------------------------------------------------------------------------


@KINDS
def test_rows_without_weight_do_not_count(kind, data):
    X, y = problem(kind, data)
    weight, other = without_some_rows(X)
    models = [blend(kind).fit(each, y, w) for each, w in ((X, weight), (other, weight), (X, 1e-3 * weight))]
    for model in models[1:]:
        assert list(model.blend_.values()) == pytest.approx(list(models[0].blend_.values()), abs=1e-4)
        np.testing.assert_allclose(outputs(model, X), outputs(models[0], X), rtol=1e-3, atol=1e-3)
    if kind is BlendRegressor:
        np.testing.assert_allclose(*(model.predict(X, return_std=True)[1] for model in models[:2]), rtol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute"])
@pytest.mark.parametrize("name", DATA)
def test_blends_of_all_data(name, loss, data):
    X, y = DATA[name](*data)
    model = blend(loss=loss).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape and np.isfinite(mean).all() and np.isfinite(std).all()
    assert list(model.blend_) == PARTS and sum(model.blend_.values()) == pytest.approx(1)
    if name == "a constant target":
        np.testing.assert_allclose(mean, 3, atol=0.3)


@KINDS
def test_the_order_of_the_features_does_not_matter(kind, data):
    X, y = problem(kind, data)
    order = np.array([3, 0, 4, 2, 1])
    options = {"node_dropout": 0.0}  # which draws for the nodes in their order
    one, other = blend(kind, **options).fit(X, y), blend(kind, **options).fit(X[:, order], y)
    assert list(other.blend_.values()) == pytest.approx(list(one.blend_.values()), abs=1e-3)
    np.testing.assert_allclose(outputs(other, X[:, order]), outputs(one, X), atol=1e-3)


def test_single_precision_is_nearly_double_precision(data):
    X, y = data
    one, other = (blend().fit(each, y) for each in (X, X.astype(np.float32)))
    assert list(other.blend_.values()) == pytest.approx(list(one.blend_.values()), abs=1e-3)
    np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-3)


@pytest.mark.parametrize("rows", [2, 3, 5, 9, 21])
def test_few_rows(rows, data):
    X, y = data
    model = blend().fit(X[:rows], y[:rows])
    assert np.isfinite(model.predict(X)).all()
    classes = blend(BlendClassifier).fit(X[:rows], np.arange(rows) % 2)
    assert np.isfinite(classes.predict_proba(X)).all()


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"class_weight": {0: 1, 1: 5, 2: 1}}, {}])
def test_a_class_that_is_missing_in_a_fold(options, data):
    X, y = data
    rare = np.where(np.arange(120) < 117, (y > 0).astype(int), 2)  # three rows for four folds
    model = blend(BlendClassifier, **options).fit(X, rare)
    probabilities = model.predict_proba(50 * X)
    assert list(model.blend_) == PARTS and np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(1), 1)


def test_huge_targets_without_standardisation(data):
    X, _ = data
    model = blend(standardize=False, loss="squared").fit(X, 1e8 * X[:, 0])
    assert model.blend_["linear"] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(model.predict(X), 1e8 * X[:, 0], rtol=1e-2, atol=1e6)


def test_without_numba_the_blend_is_nearly_the_same(data, monkeypatch):
    X, y = data
    expected = blend().fit(X, y)
    monkeypatch.setenv("SVNN_NUMBA", "0")
    found = clone(expected).fit(X, y)
    assert list(found.blend_.values()) == pytest.approx(list(expected.blend_.values()), abs=1e-3)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=0, atol=1e-3 * y.std())
    np.testing.assert_allclose(*(m.predict(X, return_std=True)[1] for m in (found, expected)), rtol=1e-2)


def test_matrices_of_the_rows_are_for_the_members_with_edges(data):
    X, y = data
    shift = np.array([np.eye(5) + np.outer(x, x) for x in X])
    model = blend(members=4).fit(X, y, shift=shift)
    assert list(model.blend_) == PARTS
    assert model.parts_["with edges"].shift_.per_sample is not None
    mean, std = model.predict(X, return_std=True, shift=shift)
    assert mean.shape == std.shape == (120,)
    own = model.parts_["with edges"].predict(X, shift=shift)
    expected = [own, *(model.parts_[name].predict(X) for name in PARTS[1:])]
    np.testing.assert_allclose(mean, np.tensordot(list(model.blend_.values()), expected, 1), rtol=1e-8)
    with pytest.raises(ValueError, match="shift= is for models"):
        blend().fit(X, y).predict(X, shift=shift)
    with pytest.raises(ValueError, match="shift= is for models"):
        BlendRegressor([("ridge", Ridge())]).fit(X, y, shift=shift)


@KINDS
def test_groups_that_have_covariances(kind, data):
    X, y = problem(kind, data)
    groups = np.repeat(np.arange(12), 10)
    model = blend(kind, members=4, covariance_per="group").fit(X, y, groups=groups)
    method = model.predict if kind is BlendRegressor else model.predict_proba
    assert np.isfinite(method(X, groups=groups)).all()
    assert model.parts_["without edges"].covariance_per == "table"
    given = blend(kind, members=4, covariance_per="group")
    given.fit(X, y, groups=groups, validation_data=(X[:40], y[:40], groups[:40]))
    assert sum(given.blend_.values()) == pytest.approx(1)


# -- parts of the caller ---------------------------------------------------------------------------------------------


def test_models_of_other_packages(data):
    X, y = data
    forest = RandomForestRegressor(20, random_state=0)
    model = BlendRegressor([("svnn", SVNNRegressor(members=4, **QUICK)), ("forest", forest)], random_state=0).fit(X, y)
    assert list(model.blend_) == ["svnn", "forest"] and model.network_part == "svnn"
    assert not hasattr(forest, "estimators_") and model.parts_["forest"].random_state == 0
    expected = np.tensordot(list(model.blend_.values()), [part.predict(X) for part in model.parts_.values()], 1)
    np.testing.assert_allclose(model.predict(X), expected)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (120,) and (std > 0).all()


def test_parts_without_out_of_fold_predictions_are_fitted_again(data):
    X, y = data
    ridge = Ridge(alpha=3.0)
    model = BlendRegressor([("ridge", ridge), ("linear", LinearRegressor())], folds=4, random_state=0).fit(X, y)
    seed = model.parts_["linear"].random_state
    expected = np.empty(120)
    for rows in member_folds(y, None, np.ones(120), 1 / 4, 4, seed, False):
        others = np.setdiff1d(np.arange(120), rows)
        expected[rows] = clone(ridge).fit(X[others], y[others]).predict(X[rows])
    own = model.parts_["linear"].out_of_fold_
    mixed = model.blend_["ridge"] * expected + model.blend_["linear"] * own
    np.testing.assert_allclose(model.out_of_fold_, mixed)  # NaN where one of them has none
    network = blend(validation_fraction=0.0, members=2).fit(X, y)
    assert network.parts_["with edges"].out_of_fold_ is None
    assert np.isfinite(network.out_of_fold_).all() and network.blend_["linear"] > 0


def test_classifiers_of_other_packages(data):
    X, y = data
    names = np.array(["low", "mid", "high"])[labels(y)]
    parts = [
        ("pipeline", make_pipeline(StandardScaler(), LogisticRegression())),
        ("boosting", HistGradientBoostingClassifier(max_iter=5)),
        ("search", GridSearchCV(RandomForestClassifier(5, random_state=0), {"max_depth": [2, 3]}, cv=2)),
        ("svnn", SVNNClassifier(members=2, **QUICK)),
    ]
    model = BlendClassifier(parts, random_state=0).fit(X, names, sample_weight=np.ones(120))
    assert model.classes_.tolist() == ["high", "low", "mid"] and model.score(X, names) > 0.5
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert sum(model.blend_.values()) == pytest.approx(1)
    assert model.parts_["boosting"].random_state is not None  # that of the blend


def test_a_class_that_a_copy_of_a_part_has_not_seen():
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = np.where(np.arange(40) == 0, 9, np.arange(40) % 2)
    model = BlendClassifier([("a", LogisticRegression()), ("b", RandomForestClassifier(5))], random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (40, 3) and np.isfinite(model.out_of_fold_).all()


def test_a_few_rows_of_the_callers_parts_leave_equal_weights(data):
    X, y = data
    parts = [("linear", LinearRegressor()), ("ridge", Ridge())]
    assert BlendRegressor(parts).fit(X[:6], y[:6]).blend_ == {"linear": 0.5, "ridge": 0.5}


class Weighted(RegressorMixin, BaseEstimator):
    """Notes what it was fitted with."""

    def fit(self, X, y, sample_weight=None, *, groups=None):
        self.given_ = len(X), sample_weight, groups
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_parts_get_what_their_fit_takes(data):
    X, y = data
    weight, groups = np.random.default_rng(0).uniform(0.5, 1, 120), np.arange(120) % 10
    parts = [("noting", Weighted()), ("ridge", Ridge()), ("pipeline", make_pipeline(Ridge()))]
    model = BlendRegressor(parts, random_state=0).fit(X, y, weight, groups=groups)
    n, own, named = model.parts_["noting"].given_
    assert n == 120 and own is weight and named is groups
    np.testing.assert_allclose(model.parts_["ridge"].coef_, Ridge().fit(X, y, weight).coef_)
    np.testing.assert_allclose(model.parts_["pipeline"][0].coef_, Ridge().fit(X, y).coef_)


def test_names_and_parameters_of_the_parts():
    network = BlendRegressor(SVNNRegressor())
    assert network.get_params()["parts__members"] == 8
    network.set_params(parts__members=4, folds=3)
    assert network.parts.members == 4 and network.folds == 3
    listed = BlendRegressor([("ridge", Ridge()), ("svnn", SVNNRegressor())])
    assert listed.get_params()["ridge__alpha"] == 1.0
    listed.set_params(ridge__alpha=5.0, svnn=SVNNRegressor(members=2))
    assert listed.parts[0][1].alpha == 5.0 and listed.parts[1][1].members == 2
    assert clone(listed).get_params()["ridge__alpha"] == 5.0
    assert "parts" in BlendRegressor().get_params() and "parts='auto'" not in repr(BlendRegressor())


def test_grid_search_over_a_part(data):
    X, y = data
    search = GridSearchCV(BlendRegressor([("ridge", Ridge()), ("b", LinearRegressor())]), {"ridge__alpha": [0.1, 1e6]})
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (BlendRegressor([]), "empty list"),
        (BlendRegressor([("a", Ridge()), ("a", Ridge())]), "not unique"),
        (BlendRegressor([("folds", Ridge())]), "conflict with constructor"),
        (BlendRegressor("all"), 'must be "auto", an SVNNRegressor or a list'),
        (BlendRegressor(SVNNClassifier()), 'must be "auto", an SVNNRegressor or a list'),
        (BlendRegressor(Ridge()), 'must be "auto", an SVNNRegressor or a list'),
        (BlendRegressor([("b", LogisticRegression())]), r"part 'b' \(LogisticRegression\) is a classifier"),
        (BlendClassifier([("machine", SVC())]), r"part 'machine' \(SVC\) has no predict_proba"),
        (BlendClassifier([("p", make_pipeline(SVC()))]), r"part 'p' \(Pipeline\) has no predict_proba"),
        (BlendRegressor(SVNNRegressor(members=0)), "members must be"),
        (BlendRegressor(folds=1), "folds must be"),
    ],
    ids=str,
)
def test_errors_name_what_is_wrong(model, words, data):
    X, y = problem(type(model), data)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)
    assert not hasattr(model, "blend_") and not hasattr(model, "out_of_fold_")


# -- how far off a prediction may be ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waves(wave):
    return blend(max_epochs=60).fit(*wave)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_deviations_have_the_shape_of_the_targets(columns, data):
    X, y = data
    if columns is not None:
        y = np.stack([y * 10.0**k for k in range(columns)], 1)
    model = blend(members=4).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape and (std > 0).all() and np.isfinite(std).all()
    np.testing.assert_array_equal(mean, model.predict(X))
    if columns == 3:  # each in the units of its own target
        assert np.median(std[:, 2] / std[:, 0]) == pytest.approx(100, rel=0.3)


def test_deviations_follow_the_units_of_the_target(wave):
    X, y = wave
    plain, other = (blend(max_epochs=10).fit(X, target) for target in (y, 1000 * y - 5))
    np.testing.assert_allclose(
        other.predict(X, return_std=True)[1], 1000 * plain.predict(X, return_std=True)[1], rtol=1e-2
    )


def test_deviations_add_up_the_disagreement_of_members_and_the_noise(waves, wave):
    X, y = wave
    far, scale = 4 * X, y.std()
    within = sum(waves.blend_[name] * waves.parts_[name]._outputs(far).var(0, ddof=1)[:, 0] for name in PARTS[:2])
    assert (within > 0).all()
    weights = list(waves.blend_.values())
    means = (np.array([part.predict(far) for part in waves.parts_.values()]) - y.mean()) / scale
    mean = np.tensordot(weights, means, 1)
    between = np.tensordot(weights, (means - mean) ** 2, 1)
    expected = np.sqrt(within + waves.fitted_.noise.variance(mean[:, None], between[:, None])[:, 0]) * scale
    np.testing.assert_allclose(waves.predict(far, return_std=True)[1], expected, rtol=1e-8)


def test_deviations_are_as_large_as_the_errors_of_held_out_rows(wave):
    X, y = wave
    model = blend(members=6, loss="squared", max_epochs=15)
    model.fit(X[:200], y[:200], validation_data=(X[200:], y[200:]))
    mean, std = model.predict(X[200:], return_std=True)
    assert np.mean(std**2) == pytest.approx(np.mean((mean - y[200:]) ** 2), rel=0.05)
    assert len(np.unique(std)) > 50  # and not the same for all of them


def test_where_nothing_is_known_a_deviation_is_an_error(data):
    X, y = data
    model = BlendRegressor([("ridge", Ridge())]).fit(X, y)
    with pytest.raises(ValueError, match="return_std=True needs held-out rows"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="return_std=True needs held-out rows"):
        blend().fit(X[:6], y[:6]).predict(X, return_std=True)  # the linear model alone


# -- new rows, other covariances, refits -----------------------------------------------------------------------------


@KINDS
def test_new_rows_update_the_parts_and_leave_their_weights(kind, data):
    X, y = problem(kind, data)
    model = blend(kind, members=4).partial_fit(X[:80], y[:80])
    first, before = model.fitted_, outputs(model, X)
    np.testing.assert_array_equal(before, outputs(blend(kind, members=4).fit(X[:80], y[:80]), X))
    model.partial_fit(X[80:], y[80:])
    assert model.blend_ == first.blend and model.fitted_ is not first
    assert abs(outputs(model, X) - before).max() > 1e-4
    again = clone(first.parts["linear"])
    again.partial_fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
    np.testing.assert_allclose(outputs(model.parts_["linear"], X), outputs(again, X))


def test_parts_that_cannot_be_updated_stay_as_they_are(data):
    X, y = data
    parts = [("ridge", Ridge()), ("steps", make_pipeline(StandardScaler(), Ridge())), ("descent", SGDRegressor())]
    model = BlendRegressor(parts, random_state=0).partial_fit(X, y)
    before = {name: part.predict(X) for name, part in model.parts_.items()}
    old = model.parts_
    model.partial_fit(X[:20] + 1, y[:20])
    np.testing.assert_array_equal(model.parts_["ridge"].predict(X), before["ridge"])
    assert abs(model.parts_["descent"].predict(X) - before["descent"]).max() > 1e-6
    np.testing.assert_array_equal(old["descent"].predict(X), before["descent"])  # a copy was updated


def test_a_class_that_comes_later(data):
    X, codes = data[0], labels(data[1])
    two = codes != 1
    model = blend(BlendClassifier, members=4).partial_fit(X[two], codes[two], classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2] and model.predict_proba(X)[:, 1].max() < 0.05
    for _ in range(5):
        model.partial_fit(X, codes)
    assert model.predict_proba(X)[:, 1].mean() > 0.1


@KINDS
def test_a_failed_fit_leaves_the_old_blend(kind, data):
    X, y = problem(kind, data)
    model = blend(kind, members=4).fit(X, y)
    fitted, before = model.fitted_, outputs(model, X)
    model.set_params(parts__lr=1e30)
    with pytest.raises(FloatingPointError):
        model.fit(X[:50], y[:50])
    assert model.fitted_ is fitted
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X * np.nan, y)
    np.testing.assert_array_equal(outputs(model, X), before)


def test_a_refit_forgets_the_blend_of_the_fit_before(data):
    X, y = data
    model = blend().fit(X, y).set_params(parts__members=1).fit(X, y)
    assert model.blend_ == {"with edges": 1.0} and list(model.parts_) == ["with edges"]


def test_another_covariance_of_another_size(data):
    X, y = data
    model = blend(readout="mean").fit(X, y)
    Y = np.random.default_rng(0).standard_normal((50, 9))
    other = model.on("sample", X=Y)
    assert other.n_features_in_ == 9 and other.predict(Y).shape == (50,) and model.n_features_in_ == 5
    with pytest.raises(ValueError, match='Train with readout="mean" to transfer'):
        blend().fit(X, y).on(np.eye(9))


def test_a_blend_says_what_it_is(regressor, classifier, data):
    for model in (regressor, classifier):
        text = repr(model)
        share = f"{model.blend_['with edges']:.0%}".replace("%", " %")
        assert "N = 5" in text and "4 members" in text and f"blend: {share} with edges" in " ".join(text.split())
    plain = BlendRegressor([("ridge", Ridge()), ("b", LinearRegressor())], random_state=0).fit(*data)
    assert plain.network_part is None and "blend: " in repr(plain) and "fitted" not in repr(BlendRegressor())


def test_the_same_seed_gives_the_same_blend(data):
    X, y = data
    one, other = blend(members=4).fit(X, y), blend(members=4).fit(X, y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    third = BlendRegressor(SVNNRegressor(members=4, random_state=5, **QUICK)).fit(X, y)  # the seed of the network
    fourth = BlendRegressor(SVNNRegressor(members=4, **QUICK), random_state=5).fit(X, y)
    np.testing.assert_array_equal(third.predict(X), fourth.predict(X))
    assert abs(third.predict(X) - one.predict(X)).max() > 1e-6
