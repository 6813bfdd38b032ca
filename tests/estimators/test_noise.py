"""How far off a prediction of an S-VNN may be; blends have their own tests of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from model_files import forge, read
from strategies import seeds
from svnn import BlendRegressor, SVNNRegressor, load
from svnn.estimators._model_file import ModelFileError
from svnn.estimators._noise import Noise

QUICK = {"max_epochs": 4, "members": 3, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 1)) + rng.standard_normal((90, 6))
    return X, X @ np.arange(6.0) + 100


@pytest.fixture(scope="module", params=[False, True], ids=["network", "blend"])
def waves(wave, request):
    if request.param:
        return BlendRegressor(SVNNRegressor(max_epochs=60, device="cpu"), random_state=0).fit(*wave)
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


def test_deviations_add_up_the_disagreement_of_members_and_the_noise(wave):
    X, y = wave
    model = SVNNRegressor(max_epochs=30, device="cpu", random_state=0).fit(X, y)
    far, scale = 4 * X, model.fitted_.targets.standardizer.scale
    outputs = model._outputs(far)
    within, mean = outputs.var(0, ddof=1), outputs.mean(0)
    assert len(outputs) == 8 and (within > 0).all()
    expected = np.sqrt(within + model.fitted_.noise.variance(mean, np.zeros_like(mean))) * scale
    np.testing.assert_allclose(model.predict(far, return_std=True)[1], expected[:, 0], rtol=1e-8)


@pytest.mark.parametrize("members", [1, 3, 6])
def test_deviations_are_as_large_as_the_errors_of_held_out_rows(members, wave):
    X, y = wave
    options = QUICK | {"members": members, "loss": "squared", "max_epochs": 15}
    model = SVNNRegressor(**options).fit(X[:200], y[:200], validation_data=(X[200:], y[200:]))
    mean, std = model.predict(X[200:], return_std=True)
    expected = np.mean((mean - y[200:]) ** 2)  # all members watch these rows
    rel = 1e-3 if members == 1 else 0.05
    assert np.mean(std**2) == pytest.approx(expected, rel=rel)
    assert len(np.unique(std)) > 50  # and not the same for all of them


def test_rows_without_weight_do_not_count(wave):
    """Neither do they lie among the rows by which the members' agreement is measured."""
    X, y = wave
    weight = np.ones(300)
    weight[::3] = 0
    other = np.where(weight[:, None] > 0, X, 5 * X)
    options = QUICK | {"members": 8, "max_epochs": 25}
    models = [SVNNRegressor(**options).fit(each, y, weight) for each in (X, other)]
    stds = [model.predict(X, return_std=True)[1] for model in models]
    np.testing.assert_allclose(*stds, rtol=1e-6)
    assert abs(SVNNRegressor(**options).fit(X, y).predict(X, return_std=True)[1] - stds[0]).max() > 1e-3


def test_members_without_held_out_rows_give_their_disagreement(data):
    X, y = data
    model = SVNNRegressor(**QUICK | {"validation_fraction": 0.0}).fit(X, y)
    assert "valid_loss" in model.history_ and not model.history_["valid_loss"]
    single = model._outputs(X)[..., 0] * model.fitted_.targets.standardizer.scale
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


# -- in model files -------------------------------------------------------------------------------------------


@pytest.fixture
def stored(data, tmp_path):
    """A stored model, its tensors and its header."""
    path = tmp_path / "model.safetensors"
    SVNNRegressor(**QUICK).fit(*data).save(path)
    return path, *read(path)


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("change", ["nan", "inf", "float32", "wider", "longer"])
def test_a_file_with_another_noise_is_damaged(part, change, stored):
    path, tensors, header = stored
    key = f"noise.{part}"
    values = tensors[key]
    other = {
        "nan": values * torch.nan,
        "inf": values + torch.inf,
        "float32": values.float(),
        "wider": torch.cat([values, values], 1),
        "longer": torch.cat([values, values]),
    }[change]
    forge(path, tensors | {key: other}, header)
    with pytest.raises(ModelFileError, match="damaged"):
        load(path, device="cpu")


# -- the model of the noise -----------------------------------------------------------------------------------


def rows(seed, n, columns=2):
    """Predictions, disagreements, and targets whose errors grow with both; the true deviations are returned too."""
    rng = np.random.default_rng(seed)
    prediction, disagreement = rng.standard_normal((n, columns)), rng.gamma(2.0, 0.1, (n, columns))
    sigma = np.exp(0.5 * prediction) * np.sqrt(disagreement)
    return prediction, disagreement, prediction + sigma * rng.standard_normal((n, columns)), sigma


@given(seeds)
def test_noise_that_depends_on_the_prediction_is_found(seed):
    prediction, disagreement, targets, _ = rows(seed, 400)
    noise = Noise.learn(prediction, disagreement, targets, np.ones(400))
    prediction, disagreement, targets, sigma = rows(seed + 1, 2000)
    found = np.sqrt(noise.variance(prediction, disagreement))
    assert found.shape == (2000, 2) and (found > 0).all()
    for column in range(2):
        score = (targets - prediction)[:, column] / found[:, column]
        assert 0.6 < np.mean(score**2) < 1.6
        assert spearmanr(found[:, column], abs(targets - prediction)[:, column]).statistic > 0.3
        assert spearmanr(found[:, column], sigma[:, column]).statistic > 0.7


@given(seeds)
def test_the_mean_variance_is_that_of_the_errors(seed):
    prediction, disagreement, targets, _ = rows(seed, 60)
    weight = np.random.default_rng(seed).uniform(0, 1, 60)
    noise = Noise.learn(prediction, disagreement, targets, weight)
    found = noise.variance(prediction, disagreement)
    expected = np.average((targets - prediction) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(np.average(found, axis=0, weights=weight), expected, rtol=1e-6)


@given(seeds, st.floats(1e-3, 1e3))
def test_the_unit_of_weights_does_not_matter(seed, unit):
    *arguments, _ = rows(seed, 50)
    weight = np.random.default_rng(seed).uniform(0.1, 1, 50)
    one, other = (Noise.learn(*arguments, factor * weight) for factor in (1.0, unit))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_few_rows_with_the_same_noise_say_that_it_is_the_same_everywhere():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(20):
        prediction, disagreement = rng.standard_normal((25, 1)), rng.gamma(2.0, 0.1, (25, 1))
        noise = Noise.learn(prediction, disagreement, prediction + rng.standard_normal((25, 1)), np.ones(25))
        found = np.sqrt(noise.variance(prediction, disagreement))
        ratios.append(np.quantile(found, 0.9) / np.quantile(found, 0.1))
    assert np.median(ratios) < 2.5


@pytest.mark.parametrize("far", [1e3, 1e30, 1e150])
def test_far_from_the_rows_seen_the_noise_stays_that_of_the_last_of_them(far):
    prediction, disagreement, targets, _ = rows(0, 100, 1)
    noise = Noise.learn(prediction, disagreement, targets, np.ones(100))
    within = noise.variance(*(np.array([[a], [b]]) for a, b in ((-1e2, 1e2), (1e-12, 1e12))))
    beyond = noise.variance(np.array([[-far], [far]]), np.array([[0.0], [far]]))
    assert np.isfinite(beyond).all() and (beyond > 0).all()
    np.testing.assert_allclose(beyond, within)


@pytest.mark.parametrize("errors", ["none", "one"])
def test_noise_is_finite_where_there_is_next_to_none(errors):
    prediction, disagreement = np.linspace(0, 1, 30)[:, None], np.zeros((30, 1))
    targets = prediction.copy()
    targets[3] += errors == "one"
    noise = Noise.learn(prediction, disagreement, targets, np.ones(30))
    found = noise.variance(prediction, disagreement)
    assert np.isfinite(found).all() and (found > 0).all()
    assert found.mean() == pytest.approx(1 / 30 if errors == "one" else 0, abs=1e-12)
