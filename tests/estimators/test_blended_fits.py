"""Fits whose members with edges, members without, and linear model predict together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import RidgeCV

from svnn import SVNNClassifier, SVNNRegressor, load
from svnn.estimators._blend import discriminants, sharpness, strongest

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


@pytest.fixture(scope="module")
def regressor(data):
    return SVNNRegressor(**QUICK | {"max_epochs": 40}).fit(*data)


@pytest.fixture(scope="module")
def classifier(data):
    return SVNNClassifier(**QUICK | {"max_epochs": 40}).fit(data[0], labels(data[1]))


def outputs(model, X):
    return model.predict(X) if isinstance(model, SVNNRegressor) else model.predict_proba(X)


# -- what is blended, and when -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_weights_of_a_team_are_shared_by_its_members(name, request):
    model = request.getfixturevalue(name)
    assert list(model.blend_) == PARTS
    found = np.array(list(model.blend_.values()))
    assert (found >= 0).all() and found.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.module_.weights, [*[found[0] / 4] * 4, *[found[1] / 4] * 4, found[2]])


@pytest.mark.parametrize("members", [2, 3, 5, 8])
def test_half_of_the_members_have_no_edges(members, data):
    X, y = data
    model = SVNNRegressor(members=members, validation_fraction=0.2, **QUICK).fit(X, y)
    assert list(model.blend_) == PARTS and len(model.module_.networks) == members
    moved = [abs(a - b).max() for a, b in zip(model._output(X), model.on(np.eye(5))._output(X), strict=True)]
    edges = members - members // 2
    assert min(moved[:edges]) > 1e-4
    assert max(moved[edges:]) < 1e-12  # nor does the linear model
    orders = {network.order for network in model.module_.networks}
    assert orders == {5}
    for network in model.module_.networks[edges:]:
        assert not network.filters[0].weight[1:].any() and network.filters[0].weight[0].any()


@pytest.mark.parametrize(
    "options", [{"members": 1}, {"readout": "mean"}, {"blend": False}, {"validation_fraction": 0}], ids=str
)
def test_there_is_no_blend(options, data):
    """Of a single member, of the mean of all nodes, or where no rows are held out."""
    X, y = data
    model = SVNNRegressor(**QUICK | options).fit(X, y)
    assert model.blend_ == {"with edges": 1.0}
    if options.get("members") == 1:
        return
    assert model.module_.linear_weight is None
    np.testing.assert_allclose(model.module_.weights, 1 / len(model.module_.networks))
    moved = [abs(a - b).max() for a, b in zip(model._output(X), model.on(np.eye(5))._output(X), strict=True)]
    assert min(moved) > 1e-4


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_with_too_few_rows_to_hold_out_only_the_linear_model_counts(kind, data):
    X, y = data[0][:7], data[1][:7]
    y = y if kind is SVNNRegressor else (y > np.median(y)).astype(int)
    model = kind(**QUICK).fit(X, y)
    assert model.blend_ == {"with edges": 0.0, "without edges": 0.0, "linear": 1.0}
    rng = np.random.default_rng(2)
    alone = kind(**QUICK | {"members": 1}).fit(X, y)
    assert len(np.unique(alone.predict(100 * rng.standard_normal((20, 5))))) == 1  # the best constant
    if kind is SVNNRegressor:
        np.testing.assert_allclose(alone.predict(X), y.mean())


def test_a_few_held_out_rows_do_not_outvote_the_linear_model(data):
    """With n of them, what they say counts n² / (n² + 10²)."""
    X, y = data
    options = QUICK | {"members": 2, "max_epochs": 30}
    blends = []
    for rows in (slice(0, 10), np.tile(np.arange(10), 30)):  # the same rows, but three hundred of them
        nearly = SVNNRegressor(**options | {"blend": False}).fit(X, y).predict(X[:10])
        blends.append(SVNNRegressor(**options).fit(X, y, validation_data=(X[:10][rows], nearly[rows])).blend_)
        assert sum(blends[-1].values()) == pytest.approx(1)
    assert blends[0]["linear"] == pytest.approx(0.5 + 0.5 * blends[1]["linear"], abs=0.02)


def test_members_of_order_0_are_blended_with_the_linear_model(data):
    X, y = data
    model = SVNNRegressor(order=0, **QUICK).fit(X, y)
    assert list(model.blend_) == ["without edges", "linear"] and len(model.module_.networks) == 8
    np.testing.assert_array_equal(model.on(np.eye(5)).predict(X), model.predict(X))


def test_held_out_rows_of_the_caller_say_what_counts(data):
    """They are all from a part of the data in which the target is linear."""
    X, y = data
    rng = np.random.default_rng(1)
    seen = rng.standard_normal((40, 5))
    target = SVNNRegressor(**QUICK).fit(X, y)._output(seen)[-1]  # the linear model of all rows, standardised
    target = target[:, 0] * y.std() + y.mean()
    model = SVNNRegressor(**QUICK).fit(X, y, validation_data=(seen, target))
    assert model.blend_["linear"] > 0.99
    few = SVNNRegressor(**QUICK).fit(X, y, validation_data=(seen[:3], target[:3]))
    assert few.blend_ == {"with edges": 1.0}


def test_where_the_target_is_linear_the_linear_model_counts():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1)) + rng.standard_normal((200, 8))
    y = X @ rng.standard_normal(8) + 0.5 * rng.standard_normal(200)
    model = SVNNRegressor(**QUICK | {"max_epochs": 20}).fit(X, y)
    assert model.blend_["linear"] > 0.7
    expected = RidgeCV(np.logspace(-3, 3, 13)).fit(X, y).predict(X)
    assert np.abs(model.predict(X) - expected).mean() < 0.1 * y.std()
    classes = SVNNClassifier(**QUICK).fit(X, (y > 0).astype(int))
    assert classes.blend_["linear"] > 0.5 and classes.score(X, y > 0) > 0.85


def test_where_nothing_is_linear_the_linear_model_does_not_count():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = X[:, 0] ** 2 + np.abs(X[:, 1]) + 0.1 * rng.standard_normal(300)
    model = SVNNRegressor(**QUICK | {"max_epochs": 60}).fit(X, y)
    assert model.blend_["linear"] < 0.1 and model.score(X, y) > 0.7
    classes = SVNNClassifier(**QUICK | {"max_epochs": 60}).fit(X, (y > np.median(y)).astype(int))
    assert classes.blend_["linear"] < 0.2


@pytest.mark.parametrize(
    "options",
    [{"covariance": "acv", "resample": "epoch"}, {"covariance": "rcv", "resample": "shift"}, {"cache_bytes": 0},
     {"hidden": (4, 4), "batch_norm": True, "dropout": 0.2}, {"readout": "flatten"}, {"activation": "gelu"},
     {"standardize": False}, {"basis": "powers"}, {"use": "covariance", "order": 2}],
    ids=str,
)  # fmt: skip
def test_blends_of_all_networks(options, data, tmp_path):
    X, y = data
    model = SVNNRegressor(**QUICK | {"members": 4, "validation_fraction": 0.2} | options).fit(X, y)
    assert list(model.blend_) == PARTS
    moved = [abs(a - b).max() for a, b in zip(model._output(X), model.on(np.eye(5))._output(X), strict=True)]
    assert min(moved[:2]) > 1e-5 and max(moved[2:]) < 1e-12
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", device="cpu")
    np.testing.assert_array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))


class Notes:
    """Notes what the weights of the parts come from, and leaves members as they were with their own training rows."""

    def _part_weights(self, held):
        self.held = held
        return super()._part_weights(held)

    def _finish(self, networks, trainer, data, folds, draws):
        self.folds = folds
        super()._finish(networks, trainer, data, folds, draws)

    def _trusted_shares(self, held, data):
        return np.ones(len(self._teams(data)))

    def _refined(self, members, shares, data, draws):
        return members


class Seen(Notes, SVNNRegressor):
    pass


class Trusted(SVNNRegressor):
    _trusted_shares = Notes._trusted_shares


class SeenClassifier(Notes, SVNNClassifier):
    pass


@pytest.mark.parametrize("basis", ["orthonormal", "powers"])
@pytest.mark.parametrize(
    "options",
    [{}, {"activation": "gelu"}, {"hidden": (4, 4)}, {"batch_norm": True}, {"readout": "flatten"}, {"cache_bytes": 0}],
    ids=str,
)
def test_held_out_rows_see_the_network_that_predicts(options, basis, data):
    X, y = data
    options = QUICK | {"members": 4, "basis": basis, "validation_fraction": 0.2} | options
    seen = Seen(**options).fit(X[:80], y[:80], validation_data=(X[80:], y[80:]))
    outputs = seen._output(X[80:])
    expected = [outputs[:2].mean(0), outputs[2:4].mean(0), outputs[4]]
    np.testing.assert_allclose(seen.held.outputs, expected, rtol=1e-3, atol=1e-3)
    dealt = Seen(**options).fit(X, y)
    rows = np.concatenate([fold.data.folds[0] for fold in dealt.folds])
    for team in range(2):
        expected = []
        for network, fold in zip(dealt.module_.networks[2 * team : 2 * team + 2], dealt.folds, strict=True):
            x = torch.from_numpy(fold.data.training.signals[fold.data.folds[0]]).float()
            with torch.no_grad():
                expected.append(network(x, fold.shift.operator).numpy())
        np.testing.assert_allclose(dealt.held.outputs[team], np.concatenate(expected), rtol=1e-3, atol=1e-3)
    assert abs(dealt.held.outputs[2] - dealt._output(X)[4, rows]).max() > 1e-2  # models of the other rows


def test_members_go_on_with_all_rows(data):
    X, y = data
    options = QUICK | {"members": 4, "max_epochs": 30}
    first, refined = Seen(**options).fit(X, y), Trusted(**options).fit(X, y)
    errors = [
        np.square(model._output(X)[:2].mean(0)[:, 0] * y.std() + y.mean() - y).mean() for model in (first, refined)
    ]
    assert errors[1] < errors[0]
    assert first.blend_ == refined.blend_  # which is that of members that did not see the rows


def test_groups_stay_together_in_the_linear_models_of_held_out_rows(data):
    """A feature that names the group helps with rows of other folds only where groups are split."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 5)
    X = np.hstack([np.eye(24)[groups] * 3, rng.standard_normal((120, 2))])
    y = rng.standard_normal(24)[groups]
    blends = [SVNNRegressor(**QUICK).fit(X, y, groups=each).blend_["linear"] for each in (groups, None)]
    assert blends[1] > blends[0] + 0.1


def test_huge_targets_without_standardisation(data):
    X, _ = data
    model = SVNNRegressor(standardize=False, loss="squared", **QUICK).fit(X, 1e8 * X[:, 0])
    assert model.blend_["linear"] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(model.predict(X), 1e8 * X[:, 0], rtol=1e-2, atol=1e6)


def test_a_failed_fit_leaves_the_old_blend(data):
    X, y = data
    model = SVNNRegressor(**QUICK).fit(X, y)
    before, blend = model.predict(X, return_std=True), dict(model.blend_)
    model.set_params(lr=1e30, members=4)
    with pytest.raises(FloatingPointError):
        model.fit(X[:50], y[:50])
    assert model.blend_ == blend
    np.testing.assert_array_equal(model.predict(X, return_std=True), before)


def test_a_refit_forgets_the_blend_of_the_fit_before(data):
    X, y = data
    model = SVNNRegressor(**QUICK).fit(X, y).set_params(blend=False).fit(X, y)
    assert model.blend_ == {"with edges": 1.0} and model.module_.linear_weight is None


def test_without_numba_the_blend_is_nearly_the_same(data, monkeypatch):
    X, y = data
    expected = SVNNRegressor(**QUICK).fit(X, y)
    monkeypatch.setenv("SVNN_NUMBA", "0")
    found = clone(expected).fit(X, y)
    assert list(found.blend_.values()) == pytest.approx(list(expected.blend_.values()), abs=1e-3)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=0, atol=1e-3 * y.std())
    np.testing.assert_allclose(*(m.predict(X, return_std=True)[1] for m in (found, expected)), rtol=1e-3)


def test_the_linear_discriminant_is_as_sure_as_it_should_be(data):
    X, y = data
    model = SeenClassifier(**QUICK).fit(X, labels(y))
    held = model.held
    assert sharpness(held.outputs[-1], held.targets, held.weight)[0] == pytest.approx(1, rel=1e-3)
    Z = model._standardizer(X[..., None])[..., 0]
    rows = np.concatenate([fold.data.folds[0] for fold in model.folds])
    found, surprises = [], []
    for number, linear in enumerate(discriminants(Z, labels(y), 3, np.ones(120))):
        own = []
        for fold in model.folds:
            (left_out,) = fold.data.folds
            others, units = np.setdiff1d(np.arange(120), left_out), fold.data.training.signals[..., 0]
            fitted = discriminants(units[others], labels(y)[others], 3, np.ones(len(others)))[number]
            own.append(fitted(units[left_out]))
        factor, surprise = sharpness(np.concatenate(own), labels(y)[rows], np.ones(len(rows)))
        found.append(factor * linear(Z))
        surprises.append(surprise)
    # The discriminant of all rows, of the strength and the sharpness that suit held-out rows best.
    np.testing.assert_allclose(model._output(X)[-1], found[strongest(surprises)], rtol=1e-3, atol=1e-4)
