"""Several networks that are trained at once and predict together."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from filters_by_hand import symmetric
from model_files import forge, read
from strategies import seeds
from svnn import SVNNClassifier, SVNNRegressor, load
from svnn.estimators._model_file import ModelFileError
from svnn.estimators._training_data import member_folds
from svnn.nn import SVNN, Members
from svnn.stability import certificate, network_response

QUICK = {"max_epochs": 4, "members": 3, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 1)) + rng.standard_normal((90, 6))
    return X, X @ np.arange(6.0) + 100


def targets(kind, y):
    return y if kind is SVNNRegressor else np.digitize(y, [85.0, 115.0])


@pytest.fixture(scope="module")
def regressor(data):
    return SVNNRegressor(**QUICK | {"max_epochs": 20}).fit(*data)


@pytest.fixture(scope="module")
def classifier(data):
    X, y = data
    return SVNNClassifier(**QUICK | {"max_epochs": 20}).fit(X, targets(SVNNClassifier, y))


def alone(model, member):
    """The same estimator with one of its members only."""
    other = copy.copy(model)
    other.module_ = model.module_.networks[member]
    return other


# -- the module -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_a_single_member_is_a_plain_network(kind, data):
    X, y = data
    assert type(kind(**QUICK | {"members": 1}).fit(X, targets(kind, y)).module_) is SVNN
    several = kind(**QUICK).fit(X, targets(kind, y)).module_
    assert type(several) is Members and len(several.networks) == 3
    assert all(type(member) is SVNN for member in several.networks) and not several.training


def test_the_default_is_eight_members(data):
    assert len(SVNNRegressor(max_epochs=1).fit(*data).module_.networks) == 8


@pytest.mark.parametrize("members", [0, -1, 1.5, None, "auto"])
def test_other_numbers_of_members_are_errors(members, data):
    with pytest.raises(ValueError, match="members must be"):
        SVNNRegressor(members=members).fit(*data)


def test_no_members_are_an_error():
    with pytest.raises(ValueError, match="at least one network"):
        Members([])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("order", [0, 2])
def test_a_module_of_members_is_their_mean(normalize, order):
    networks = [SVNN(2, 3, hidden=(4, 5), order=order, normalize=normalize).eval() for _ in range(3)]
    both, x, C = Members(networks), torch.randn(6, 7, 2), torch.randn(7, 7)
    C = C @ C.T
    for grad in (True, False):  # without gradients, signals are shifted once for all
        with torch.set_grad_enabled(grad):
            outputs = torch.stack([network(x, C) for network in networks])
            torch.testing.assert_close(both(x, C), outputs.mean(0), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(both.outputs(x, C), outputs, rtol=1e-4, atol=1e-4)
            embedded = torch.cat([network.embed(x, C) for network in networks], -1)
            torch.testing.assert_close(both.embed(x, C), embedded, rtol=1e-4, atol=1e-4)
    both.train()(x, C).sum().backward()
    assert all(p.grad is not None for network in networks for p in network.parameters())


def test_signals_of_other_shapes_pass_the_members_too():
    networks = [SVNN(1, 2, hidden=(4,), order=2).eval() for _ in range(2)]
    both, C = Members(networks), torch.eye(5)
    with torch.no_grad():
        for x in (torch.randn(5, 1), torch.randn(3, 4, 5, 1)):
            expected = torch.stack([network(x, C) for network in networks]).mean(0)
            torch.testing.assert_close(both(x, C), expected)
        x = torch.randn(4, 5, 1)
        realisations = [torch.eye(5), torch.diag(torch.arange(5.0))]
        expected = torch.stack([network(x, realisations) for network in networks]).mean(0)
        torch.testing.assert_close(both(x, realisations), expected)


# -- predictions --------------------------------------------------------------------------------------------


def test_predictions_are_the_mean_of_the_members(regressor, data):
    X, _ = data
    single = np.stack([alone(regressor, i).predict(X) for i in range(3)])
    np.testing.assert_allclose(regressor.predict(X), single.mean(0), rtol=1e-10)
    assert (single.std(0) > 1e-3).all()  # they are not the same


def test_probabilities_are_the_mean_of_the_members(classifier, data):
    X, _ = data
    single = np.stack([alone(classifier, i).predict_proba(X) for i in range(3)])
    np.testing.assert_allclose(classifier.predict_proba(X), single.mean(0), rtol=1e-8)
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1)
    logits = np.stack([alone(classifier, i)._output(X)[0] for i in range(3)])
    odds = np.exp(logits)
    np.testing.assert_allclose(single, odds / odds.sum(-1, keepdims=True), rtol=1e-8)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[single.mean(0).argmax(1)])


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_embeddings_lie_side_by_side(name, data, request):
    X, model = data[0], request.getfixturevalue(name)
    found = model.embed(X)
    assert found.shape == (90, 6, 3 * 8)
    expected = np.concatenate([alone(model, i).embed(X) for i in range(3)], -1)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_rows_do_not_depend_on_the_rows_beside_them(regressor, data, monkeypatch):
    X, _ = data
    expected = regressor.predict(X, return_std=True)
    monkeypatch.setattr("svnn.estimators._network_estimator._PREDICT_VALUES", 6 * 8 * 7)
    for found, whole in zip(regressor.predict(X, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-10)
    np.testing.assert_allclose(regressor.predict(X[5:6]), expected[0][5:6], rtol=1e-10)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_the_same_seed_gives_the_same_numbers(kind, data):
    X, y = data
    models = [kind(**QUICK | {"random_state": seed}).fit(X, targets(kind, y)) for seed in (0, 0, 1)]
    for a, b, c in zip(*(model.module_.state_dict().values() for model in models), strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)
    assert models[0].history_ == models[1].history_


@pytest.mark.parametrize(
    "options", [{}, {"batch_norm": True}, {"hidden": (4, 4)}, {"activation": "gelu"}, {"validation_fraction": 0.0}]
)
def test_members_differ_in_all_ways_to_train(options, data):
    model = SVNNRegressor(**QUICK | options).fit(*data)
    for name, *values in zip(
        model.module_.networks[0].state_dict(), *(m.state_dict().values() for m in model.module_.networks), strict=True
    ):
        if values[0].is_floating_point():
            assert not torch.equal(values[0], values[1]) and not torch.equal(values[1], values[2]), name


def test_losses_are_means_over_members(data):
    seen = []
    model = SVNNRegressor(callbacks=[seen.append], **QUICK).fit(*data)
    assert [record["train_loss"] for record in seen] == model.history_["train_loss"]
    assert len(model.history_["valid_loss"]) == model.n_iter_ == 4


# -- copies of a model --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_a_stored_model_is_the_same_to_the_last_bit(name, data, tmp_path, request):
    X, model = data[0], request.getfixturevalue(name)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", device="cpu")
    assert type(again.module_) is Members and len(again.module_.networks) == 3 and not again.module_.training
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.embed(X), model.embed(X))
    if name == "classifier":
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    else:
        for found, expected in zip(again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
            np.testing.assert_array_equal(found, expected)
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("members", [0, 2, 4, 10**12, -1, 1.5, "3", None])
def test_a_file_with_another_number_of_members_is_damaged(members, regressor, tmp_path):
    path = tmp_path / "model.safetensors"
    regressor.save(path)
    tensors, header = read(path)
    forge(path, tensors, header | {"members": members})
    with pytest.raises(ModelFileError, match="damaged"):
        load(path, device="cpu")


@pytest.mark.parametrize("noise", [[-1.0], [np.nan], [np.inf], [1.0, 1.0], 1.0, [1]])
def test_a_file_with_other_deviations_is_damaged(noise, regressor, tmp_path):
    path = tmp_path / "model.safetensors"
    regressor.save(path)
    tensors, header = read(path)
    forge(path, tensors | {"noise": torch.tensor(noise)}, header)
    with pytest.raises(ModelFileError, match="damaged"):
        load(path, device="cpu")


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_a_pickled_model_is_the_same(name, data, request):
    X, model = data[0], request.getfixturevalue(name)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if name == "regressor":
        np.testing.assert_array_equal(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])


def test_a_clone_is_not_fitted(regressor, data):
    again = clone(regressor)
    assert again.get_params() == regressor.get_params() and not hasattr(again, "module_")
    np.testing.assert_array_equal(again.fit(*data).predict(data[0]), regressor.predict(data[0]))


def test_on_another_covariance_the_members_stay(regressor, data):
    X, _ = data
    other = regressor.on(np.eye(6))
    assert other.module_ is regressor.module_
    single = [alone(regressor, i).on(np.eye(6)).predict(X) for i in range(3)]
    np.testing.assert_allclose(other.predict(X), np.mean(single, axis=0), rtol=1e-10)
    assert abs(other.predict(X) - regressor.predict(X)).max() > 1e-3
    mean, std = other.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, other.predict(X))
    assert (std > 0).all()


def test_members_with_the_mean_readout_run_on_more_features(data, rng):
    model = SVNNRegressor(readout="mean", **QUICK).fit(*data)
    Y = rng.standard_normal((40, 9)) * 3 + 1
    other = model.on("sample", X=Y)
    assert other.embed(Y).shape == (40, 9, 24)
    single = [alone(model, i).on("sample", X=Y).predict(Y) for i in range(3)]
    np.testing.assert_allclose(other.predict(Y), np.mean(single, axis=0), rtol=1e-10)
    assert other.predict(Y, return_std=True)[1].shape == (40,)


def test_members_with_other_readouts_do_not_transfer(regressor):
    with pytest.raises(ValueError, match='Train with readout="mean" to transfer'):
        regressor.on(np.eye(9))


# -- bounds and responses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("use", ["log", "covariance"])
@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_the_certificate_of_members_is_above_the_truth_and_the_mean_of_theirs(use, kind, data, rng):
    X, y = data
    model = kind(use=use, covariance="sample", **QUICK | {"max_epochs": 20}).fit(X, targets(kind, y))
    X, C = X[:15], model.covariance_

    def outputs(each):
        return each.predict(X)[:, None] if kind is SVNNRegressor else each._output(X).mean(0)

    for trial in range(8):
        C_hat = np.where(abs(C) > rng.uniform(0.1, 0.6), C, 0.0) if trial % 2 else C + 0.1 * symmetric(rng, 6)
        bound = certificate(model, C, C_hat, X)
        other = model.on(C_hat)
        assert (np.linalg.norm(outputs(other) - outputs(model), axis=1) <= bound.per_sample).all()
        assert np.linalg.norm(other.embed(X) - model.embed(X), axis=(1, 2)).max() <= bound.embedding
        single = [certificate(alone(model, i), C, C_hat, X) for i in range(3)]
        np.testing.assert_allclose(bound.per_sample, np.mean([s.per_sample for s in single], axis=0), rtol=1e-6)
        assert bound.output == float(bound) == bound.per_sample.max()
        assert [member.output for member in bound.members] == pytest.approx([s.output for s in single])
        assert bound.embedding == pytest.approx(np.linalg.norm([s.embedding for s in single]))
        assert not single[0].members and "the mean over members" in str(bound)


def test_the_certificate_of_members_for_all_signals_of_a_norm(regressor, rng):
    C = np.array(regressor.covariance_)
    C_hat = C + 0.05 * symmetric(rng, 6)
    bound = certificate(regressor, C, C_hat, norm=2.0)
    single = [float(certificate(alone(regressor, i), C, C_hat, norm=2.0)) for i in range(3)]
    assert bound.output == pytest.approx(np.mean(single), rel=1e-6) and bound.per_sample is None
    Z = rng.standard_normal((100, 6))
    Z *= 2 / np.linalg.norm(Z, axis=1, keepdims=True)
    X = regressor._standardizer.inverse(Z[..., None])[..., 0]
    assert abs(regressor.on(C_hat).predict(X) - regressor.predict(X)).max() <= bound.output
    assert bound.failure_probability <= 3e-10


@pytest.mark.parametrize("hidden", [(4,), (4, 5)])
def test_responses_of_members_lie_side_by_side(hidden, data):
    model = SVNNRegressor(**QUICK | {"hidden": hidden, "max_epochs": 2}).fit(*data)
    lam = np.linspace(0, 2, 7)
    found = network_response(model, lam)
    single = [network_response(alone(model, i), lam) for i in range(3)]
    assert len(found) == len(hidden)
    for number, layer in enumerate(found):
        np.testing.assert_array_equal(layer, np.concatenate([s[number] for s in single], -1))
        assert layer.shape[-1] == 3 * hidden[number]


# -- the rows that members hold out ---------------------------------------------------------------------------


class Watched(SVNNRegressor):
    """Notes the rows and weights that its members are trained with."""

    def _batches(self, data, device):
        self.batch, self.validation = super()._batches(data, device)
        return self.batch, self.validation


def held_and_trained(model):
    """Of every member, the rows that it holds out and those that it is trained on."""
    weights = model.batch.weight.numpy()
    held = [rows.numpy() for rows in model.validation.rows]
    return list(zip(held, [np.flatnonzero(w) for w in weights], strict=True))


def test_every_member_trains_on_all_rows_but_its_own_held_out_ones(data):
    X, y = data
    weight = np.ones(90)
    weight[::9] = 0
    model = Watched(**QUICK | {"members": 12, "max_epochs": 1}).fit(X, y, weight)
    parts = held_and_trained(model)
    assert len(parts) == 12
    for held, trained in parts:
        np.testing.assert_array_equal(np.sort(np.r_[held, trained]), np.flatnonzero(weight))
    np.testing.assert_array_equal(parts[0][0], parts[10][0])  # ten folds for twelve members
    assert len(set(np.concatenate([held for held, _ in parts[:10]]))) == 80


def test_groups_are_never_split_between_held_out_and_trained_rows(data):
    X, y = data
    groups = np.random.default_rng(0).integers(0, 7, 90)
    model = Watched(**QUICK | {"members": 9, "max_epochs": 1, "validation_fraction": 0.3}).fit(X, y, groups=groups)
    for held, trained in held_and_trained(model):
        assert len(held) and len(trained) and len(held) + len(trained) == 90
        assert not set(groups[held]) & set(groups[trained])


def test_a_single_group_cannot_be_split(data):
    with pytest.raises(ValueError, match="groups holds a single group"):
        SVNNRegressor(**QUICK).fit(*data, groups=np.zeros(90))


def test_a_member_does_not_learn_from_the_rows_it_holds_out(data):
    """Where these exchange their targets, which keeps the scale, the member's weights after an epoch are the same."""
    X, y = data
    options = QUICK | {"members": 2, "max_epochs": 1}
    first = Watched(**options).fit(X, y)
    held = held_and_trained(first)[0][0]
    exchanged = y.copy()
    exchanged[held] = y[held][::-1]
    second = Watched(**options).fit(X, exchanged)
    pairs = [zip(*(m.module_.networks[i].parameters() for m in (first, second)), strict=True) for i in range(2)]
    assert all(torch.allclose(a, b, rtol=1e-5) for a, b in pairs[0])
    assert not any(torch.allclose(a, b, rtol=1e-5) for a, b in pairs[1])


weights = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=60)


@given(weights, st.floats(0.02, 0.5), st.integers(2, 12), seeds, st.booleans())
def test_folds_are_disjoint_parts_of_the_rows_with_weight(weight, fraction, n_members, seed, stratify):
    weight = np.array(weight)
    y = np.random.default_rng(seed).integers(0, 3, len(weight))
    folds = member_folds(y, None, weight, fraction, n_members, seed, stratify)
    rows = np.flatnonzero(weight)
    size = round(fraction * len(rows))
    if size < 1 or len(rows) - size < 2:
        assert folds is None
        return
    assert len(folds) == n_members
    distinct = {tuple(fold) for fold in folds}
    together = np.concatenate([list(fold) for fold in distinct])
    assert len(set(together)) == len(together) and set(together) <= set(rows)
    n_folds = max(round(len(rows) / size), 2)
    assert len(distinct) == min(n_folds, n_members)
    for member, fold in enumerate(folds):  # more members than folds begin again
        np.testing.assert_array_equal(fold, folds[member % n_folds])
        assert len(fold) and abs(len(fold) - len(rows) / n_folds) < 1
        assert 0.6 * fraction * len(rows) - 1 <= len(fold) <= 1.5 * fraction * len(rows) + 1
    if n_members >= n_folds:
        assert set(together) == set(rows)
    again = member_folds(y, None, weight, fraction, n_members, seed, stratify)
    for fold, same in zip(folds, again, strict=True):
        np.testing.assert_array_equal(fold, same)


@given(st.lists(st.sampled_from("abc"), min_size=10, max_size=60), st.floats(0.1, 0.5), seeds)
def test_classes_are_dealt_out_evenly(labels, fraction, seed):
    y = np.array(labels)
    folds = member_folds(y, None, np.ones(len(y)), fraction, 40, seed, stratify=True)
    for label in np.unique(y):
        counts = [np.count_nonzero(y[fold] == label) for fold in folds]
        assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(0, 5), min_size=6, max_size=60), st.floats(0.1, 0.5), seeds)
def test_groups_stay_together(groups, fraction, seed):
    groups = np.array([*groups, 0, 1])
    folds = member_folds(np.zeros(len(groups)), groups, np.ones(len(groups)), fraction, 8, seed, stratify=False)
    for fold in folds:
        outside = np.setdiff1d(np.arange(len(groups)), fold)
        assert len(fold) and len(outside) and not set(groups[fold]) & set(groups[outside])


def test_another_seed_deals_out_other_rows():
    y, ones = np.zeros(40), np.ones(40)
    first, second = (member_folds(y, None, ones, 0.1, 3, seed, stratify=False) for seed in (0, 1))
    assert any(set(a) != set(b) for a, b in zip(first, second, strict=True))


# -- how far off a prediction may be --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wave():
    """A nonlinear function of three features with noise of 0.3."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(300)
    return X, y


@pytest.fixture(scope="module")
def waves(wave):
    return SVNNRegressor(members=8, max_epochs=60, device="cpu", random_state=0).fit(*wave)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_deviations_have_the_shape_of_the_targets(columns, data):
    X, y = data
    if columns is not None:
        y = np.stack([y * 10.0**k for k in range(columns)], 1)
    model = SVNNRegressor(**QUICK).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape and (std > 0).all() and np.isfinite(std).all()
    np.testing.assert_array_equal(mean, model.predict(X))
    if columns == 3:  # each in the units of its own target
        np.testing.assert_allclose(std[:, 2] / std[:, 0], 100, rtol=0.5)


def test_deviations_are_larger_far_from_the_data(waves, wave):
    X, _ = wave
    near, far = (waves.predict(factor * X, return_std=True)[1] for factor in (1, 6))
    assert np.median(far) > 1.3 * np.median(near)
    assert (far[abs(6 * X).max(1) > 4] > np.median(near)).mean() > 0.9


def test_deviations_say_how_far_targets_lie_from_predictions(waves):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (2000, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(2000)
    mean, std = waves.predict(X, return_std=True)
    score = (y - mean) / std
    assert 0.75 < np.sqrt(np.mean(score**2)) < 1.3
    assert 0.55 < np.mean(abs(score) < 1) < 0.85


def test_deviations_follow_the_units_of_the_target(wave):
    X, y = wave
    options = QUICK | {"max_epochs": 10}
    plain, other = (SVNNRegressor(**options).fit(X, target) for target in (y, 1000 * y - 5))
    np.testing.assert_allclose(
        other.predict(X, return_std=True)[1], 1000 * plain.predict(X, return_std=True)[1], rtol=1e-2
    )


def test_the_disagreement_of_the_members_is_in_the_deviation(waves, wave):
    X, _ = wave
    single = np.stack([alone(waves, i).predict(4 * X) for i in range(8)])
    std = waves.predict(4 * X, return_std=True)[1]
    own = np.sqrt(std**2 - single.var(0, ddof=1))  # what is left is the same for all rows
    np.testing.assert_allclose(own, own[0], rtol=1e-5)
    assert 0.15 < own[0] < 0.6


def test_a_single_member_with_held_out_rows_gives_a_constant(data):
    X, y = data
    model = SVNNRegressor(**QUICK | {"members": 1}).fit(X, y)
    std = model.predict(X, return_std=True)[1]
    assert std[0] > 0 and (std == std[0]).all()
    given = SVNNRegressor(**QUICK | {"members": 1, "loss": "squared"}).fit(X, y, validation_data=(X[:40], y[:40]))
    errors = given.predict(X[:40]) - y[:40]
    assert given.predict(X, return_std=True)[1][0] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-3)


def test_members_without_held_out_rows_give_their_disagreement(data):
    X, y = data
    model = SVNNRegressor(**QUICK | {"validation_fraction": 0.0}).fit(X, y)
    assert "valid_loss" in model.history_ and not model.history_["valid_loss"]
    single = np.stack([alone(model, i).predict(X) for i in range(3)])
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], single.std(0, ddof=1), rtol=1e-8)


def test_where_nothing_is_known_a_deviation_is_an_error(data, tmp_path):
    X, y = data
    model = SVNNRegressor(**QUICK | {"members": 1, "validation_fraction": 0.0}).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    for each in (model, load(tmp_path / "model.safetensors", device="cpu")):
        assert each.predict(X).shape == (90,)
        with pytest.raises(ValueError, match="return_std=True needs several members, or a validation_fraction above 0"):
            each.predict(X, return_std=True)


def test_a_refit_forgets_the_deviation_of_the_fit_before(data):
    X, y = data
    model = SVNNRegressor(**QUICK | {"members": 1}).fit(X, y)
    model.predict(X, return_std=True)
    model.set_params(validation_fraction=0.0).fit(X, y)
    with pytest.raises(ValueError, match="return_std"):
        model.predict(X, return_std=True)


@pytest.mark.parametrize("columns", [1, 2])
def test_deviations_of_a_stored_model(columns, data, tmp_path):
    X, y = data
    y = y if columns == 1 else np.stack([y, -y], 1)
    for members in (1, 3):
        model = SVNNRegressor(**QUICK | {"members": members, "max_epochs": 1}).fit(X, y)
        model.save(tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors", device="cpu")
        np.testing.assert_array_equal(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
