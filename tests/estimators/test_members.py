"""Several networks that are trained at once and predict together."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from blended import every_part_counts
from filters_by_hand import symmetric
from model_files import forge, read
from svnn import BlendRegressor, SVNNClassifier, SVNNRegressor, load
from svnn.estimators._model_file import ModelFileError
from svnn.nn import SVNN, Members
from svnn.stability import certificate, network_response

#: Networks of a few epochs predict no better than a constant, and would be shrunk to it.
QUICK = {"max_epochs": 4, "members": 3, "shrink": False, "device": "cpu", "random_state": 0}


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
    other.fitted_ = replace(model.fitted_, module=model.fitted_.networks[member])
    return other


# -- the module -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_a_single_member_is_a_plain_network(kind, data):
    X, y = data
    assert type(kind(**QUICK | {"members": 1}).fit(X, targets(kind, y)).module_) is SVNN
    several = kind(**QUICK).fit(X, targets(kind, y))
    assert type(several.module_) is Members and len(several.fitted_.networks) == 3
    assert all(type(member) is SVNN for member in several.fitted_.networks) and not several.module_.training


def test_the_default_is_eight_members(data):
    assert len(SVNNRegressor(max_epochs=1).fit(*data).fitted_.networks) == 8


@pytest.mark.parametrize("members", [0, -1, 1.5, None, "auto"])
def test_other_numbers_of_members_are_errors(members, data):
    with pytest.raises(ValueError, match="members must be"):
        SVNNRegressor(members=members).fit(*data)


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
    logits = np.stack([alone(classifier, i)._outputs(X)[0] for i in range(3)])
    odds = np.exp(logits)
    np.testing.assert_allclose(single, odds / odds.sum(-1, keepdims=True), rtol=1e-8)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[single.mean(0).argmax(1)])


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_embeddings_lie_side_by_side(name, data, request):
    X, model = data[0], request.getfixturevalue(name)
    found = model.embed(X)
    assert found.shape == (90, 6, 3 * model.hidden[-1])
    expected = np.concatenate([alone(model, i).embed(X) for i in range(3)], -1)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_rows_do_not_depend_on_the_rows_beside_them(regressor, data, monkeypatch):
    X, expected = data[0], regressor.predict(data[0], return_std=True)
    monkeypatch.setattr("svnn.estimators._evaluate._PREDICT_VALUES", 6 * 8 * 7)
    for found, whole in zip(regressor.predict(X, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-10)
    np.testing.assert_allclose(regressor.predict(X[5:6]), expected[0][5:6], rtol=1e-10)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_the_same_seed_gives_the_same_numbers(kind, data):
    X, y = data
    models = [kind(**QUICK | {"random_state": seed}).fit(X, targets(kind, y)) for seed in (0, 0, 1)]
    for a, b, c in zip(*(model.module_.parameters() for model in models), strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)
    for a, b in zip(*(model.module_.state_dict().values() for model in models[:2]), strict=True):
        assert torch.equal(a, b)
    assert models[0].history_ == models[1].history_
    np.testing.assert_array_equal(models[0].out_of_fold_, models[1].out_of_fold_)


@pytest.mark.parametrize(
    "options", [{}, {"batch_norm": True}, {"hidden": (4, 4)}, {"activation": "gelu"}, {"validation_fraction": 0.0}]
)
def test_members_differ_in_all_ways_to_train(options, data):
    model = SVNNRegressor(**QUICK | {"max_epochs": 30} | options).fit(*data)
    for name, *values in zip(
        model.fitted_.networks[0].state_dict(), *(m.state_dict().values() for m in model.fitted_.networks), strict=True
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
    assert type(again.module_) is Members and len(again.fitted_.networks) == 3 and not again.module_.training
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


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_a_pickled_model_is_the_same(name, data, request):
    X, model = data[0], request.getfixturevalue(name)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if name != "classifier":
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
        return each.predict(X)[:, None] if kind is SVNNRegressor else each._outputs(X).mean(0)

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
        assert not single[0].members and "mean over members" in str(bound)


def test_the_certificate_of_a_blend_is_that_of_its_members_with_edges(data, rng):
    """Those without edges do not move, nor does the linear model."""
    X, y = data
    network = SVNNRegressor(**QUICK | {"members": 4, "max_epochs": 20})
    with every_part_counts():
        blend = BlendRegressor(network, random_state=0).fit(X, y + 20 * np.sin(X[:, 0]))
    moving = blend.parts_["with edges"]
    X, C = X[:15], np.array(moving.covariance_)
    assert blend.blend_["with edges"] == pytest.approx(1 / 3)
    for _ in range(4):
        C_hat = C + 0.1 * symmetric(rng, 6)
        bound, single = certificate(blend, C, C_hat, X), certificate(moving, C, C_hat, X)
        np.testing.assert_allclose(bound.per_sample, single.per_sample / 3, rtol=1e-6)
        moved = abs(blend.on(C_hat).predict(X) - blend.predict(X))
        assert (moved > 0).all() and (moved <= bound.per_sample).all()


def test_the_certificate_of_members_for_all_signals_of_a_norm(regressor, rng):
    C = np.array(regressor.covariance_)
    C_hat = C + 0.05 * symmetric(rng, 6)
    bound = certificate(regressor, C, C_hat, norm=2.0)
    single = [float(certificate(alone(regressor, i), C, C_hat, norm=2.0)) for i in range(3)]
    assert bound.output == pytest.approx(np.mean(single), rel=1e-6) and bound.per_sample is None
    Z = rng.standard_normal((100, 6))
    Z *= 2 / np.linalg.norm(Z, axis=1, keepdims=True)
    X = regressor.fitted_.standardizer.inverse(Z[..., None])[..., 0]
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
