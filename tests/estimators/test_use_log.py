"""Filters of the logarithm of the covariance: when they are the default, and that everything else knows of them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import ACV, SVNNClassifier, SVNNRegressor, as_operator, load
from svnn.functional import log_covariance, log_eigenvalues
from svnn.stability import certificate, network_response

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

QUICK = {"covariance": "sample", "max_epochs": 3, "members": 1, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """Features with variances from large to small in directions that are not the axes."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((8, 8)) * 10.0 ** -np.linspace(0, 1.5, 8)
    X = rng.standard_normal((150, 8)) @ A.T
    return X, X[:, 0] - 2 * X[:, 1] + np.sin(X[:, 2])


@pytest.fixture(scope="module")
def model(data):
    return SVNNRegressor(**QUICK | {"max_epochs": 30, "members": 2}).fit(*data)


@pytest.mark.parametrize(("n", "use", "order"), [(1000, "log", 5), (1001, "covariance", 2)])
def test_the_logarithm_is_the_default_up_to_1000_features(n, use, order, rng):
    X = rng.standard_normal((12, n))
    model = SVNNRegressor(hidden=(1,), mlp=(), **QUICK | {"max_epochs": 1, "covariance": "hard"}).fit(X, X[:, 0])
    assert model.shift_.use == use and model.module_.order == order
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("options", "use"),
    [
        ({}, "log"),
        ({"use": "covariance"}, "covariance"),
        ({"covariance": "graphical_lasso", "use": "precision"}, "precision"),
        ({"covariance": np.eye(8)}, "covariance"),
        ({"covariance": np.eye(8), "use": "log"}, "log"),
        ({"covariance": "acv", "resample": "epoch"}, "covariance"),
        ({"covariance": "acv", "resample": "forward"}, "covariance"),
        ({"covariance": "acv", "resample": "shift"}, "covariance"),
        ({"covariance": "acv"}, "log"),
        ({"covariance": "acv", "resample": "forward", "use": "log"}, "log"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_where_the_logarithm_is_used(options, use, data):
    model = SVNNRegressor(**QUICK | options).fit(*data)
    assert model.shift_.use == use
    assert model.module_.order == (5 if use == "log" else 2)
    assert model.use == options.get("use", "auto") and model.order == "auto"  # parameters stay as they were given


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("use", ["auto", "covariance"])
def test_an_order_that_is_given_counts(order, use, data):
    assert SVNNRegressor(**QUICK | {"use": use, "order": order}).fit(*data).module_.order == order


@pytest.mark.parametrize("order", [-1, 1.5, "five", None])
def test_other_orders_are_errors(order, data):
    with pytest.raises(ValueError, match="order must be"):
        SVNNRegressor(order=order).fit(*data)


def test_the_shift_is_the_logarithm_of_the_covariance_of_unit_norm(model, data):
    X, _ = data
    Z = (X - X.mean(0)) / X.std(0)
    C = Z.T @ Z / len(Z)
    np.testing.assert_allclose(model.covariance_, C, atol=1e-12)
    norm = np.linalg.norm(C, 2)
    assert model.shift_.scale == pytest.approx(norm) and model.operator_.scale == 1
    np.testing.assert_allclose(model.operator_.to_dense().numpy(), log_covariance(C / norm), atol=1e-5)
    assert model.operator_.norm() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("covariance", ["sample", "hard", "ledoit_wolf", "acv"])
def test_the_own_covariance_changes_no_prediction(covariance, data):
    X, y = data
    model = SVNNRegressor(**QUICK | {"covariance": covariance}).fit(X, y)
    C = model.covariance_ if isinstance(model.covariance_, np.ndarray) else model.covariance_.toarray()
    for same in (C, sp.csr_array(C), as_operator(C), model.covariance_estimator_):
        np.testing.assert_allclose(model.on(same).predict(X), model.predict(X), rtol=1e-4, atol=1e-4)
    other = model.on(np.eye(8))
    assert abs(other.predict(X) - model.predict(X)).max() > 1e-3
    np.testing.assert_allclose(other.on(C).predict(X), model.predict(X), rtol=1e-4, atol=1e-4)


def test_a_shift_of_ones_own_is_the_covariance_that_is_estimated(data):
    X, y = data
    estimated = SVNNRegressor(use="log", **QUICK | {"validation_fraction": 0.0}).fit(X, y)
    options = QUICK | {"covariance": estimated.covariance_, "validation_fraction": 0.0}
    given = SVNNRegressor(use="log", **options).fit(X, y)
    np.testing.assert_allclose(given.predict(X), estimated.predict(X), rtol=1e-5, atol=1e-6)
    plain = SVNNRegressor(**options).fit(X, y)
    np.testing.assert_allclose(
        plain.operator_.to_dense().numpy(), estimated.covariance_ / np.linalg.norm(estimated.covariance_, 2), atol=1e-6
    )


def test_the_scale_of_training_is_that_of_another_matrix(model, data):
    """The filters stay the same: twice the covariance is not scaled to unit norm again."""
    X, _ = data
    C = model.covariance_
    other = model.on(0.5 * C)
    np.testing.assert_allclose(
        other.operator_.to_dense().numpy(), log_covariance(0.5 * C / model.shift_.scale), atol=1e-5
    )
    assert abs(other.predict(X) - model.predict(X)).max() > 1e-3


def test_on_more_features_with_the_mean_readout(data, rng):
    X, y = data
    model = SVNNRegressor(readout="mean", **QUICK).fit(X, y)
    Y = rng.standard_normal((50, 11)) @ rng.standard_normal((11, 11))
    other = model.on("sample", X=Y)
    C = np.corrcoef(Y.T)
    np.testing.assert_allclose(other.operator_.to_dense().numpy(), log_covariance(C / np.linalg.norm(C, 2)), atol=1e-4)
    assert other.shift_.scale == pytest.approx(np.linalg.norm(C, 2)) and other.predict(Y).shape == (50,)


def test_realisations_are_drawn_in_training_and_their_logarithms_are_used(data, monkeypatch):
    from svnn.estimators import _shift

    seen, log = [], _shift.log_covariance
    monkeypatch.setattr(_shift, "log_covariance", lambda C: (seen.append(C), log(C))[1])
    options = QUICK | {"covariance": ACV(density=0.5), "resample": "epoch", "use": "log", "order": 2}
    model = SVNNRegressor(**options).fit(*data)
    assert len(seen) >= 4  # that of prediction, and one for every epoch
    assert any((a != b).any() for a, b in zip(seen[-3:], seen[-2:], strict=False))
    assert np.isfinite(model.predict(data[0])).all()


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_a_model_of_the_logarithm_can_be_stored(kind, data, tmp_path):
    X, y = data
    model = kind(**QUICK).fit(X, y if kind is SVNNRegressor else y > 0)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", device="cpu")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    C = 0.7 * model.covariance_ + 0.3 * np.eye(8)
    np.testing.assert_array_equal(again.on(C).predict(X), model.on(C).predict(X))
    assert again.shift_.use == "log" and again.shift_.scale == model.shift_.scale


def test_what_set_params_changes_later_is_not_what_was_trained(data):
    X, y = data
    model = SVNNRegressor(**QUICK).fit(X, y)
    expected = model.on(np.eye(8)).predict(X)
    lam = np.linspace(0.1, 3, 5)
    response = network_response(model, lam)[0]
    model.set_params(use="covariance", order=1)
    np.testing.assert_array_equal(model.on(np.eye(8)).predict(X), expected)
    np.testing.assert_array_equal(network_response(model, lam)[0], response)


# -- what is said about such a model ----------------------------------------------------------------------


def test_the_response_at_an_eigenvalue_is_the_filter_on_its_eigenvector(model):
    values, vectors = np.linalg.eigh(model.covariance_)
    (response,) = network_response(model, values)
    assert response.shape == (8, 1, 16)
    for value, vector, expected in zip(values, vectors.T, response, strict=True):
        x = torch.tensor(vector[None, :, None])
        for member, own in zip(model.module_.networks, np.split(expected, 2, axis=-1), strict=True):
            layer, shift = copy.deepcopy(member.filters[0]).double(), model.operator_.to(dtype=torch.float64)
            with torch.no_grad():
                filtered = (layer(x, shift) - layer.bias)[0].numpy()
            scale = float(np.abs(layer.weight.detach().numpy()).sum(0).max())
            np.testing.assert_allclose(filtered, vector[:, None] * own, atol=1e-5 * scale)
            assert value == pytest.approx(
                model.shift_.scale * 10 ** (8 * (log_eigenvalues(value / model.shift_.scale) - 1))
            )


def test_the_response_by_hand(model):
    lam = np.array([[0.0, 1e-3], [0.5, 2.0]])
    taps = model.module_.networks[1].filters[0].weight.detach().numpy().astype(np.float64)
    r = np.clip(1 + np.log10(np.maximum(lam / model.shift_.scale, 1e-300)) / 8, 0, None)
    expected = np.einsum("kgf,kij->ijgf", taps, np.stack([r**k for k in range(6)]))
    np.testing.assert_allclose(network_response(model, lam)[0][..., 8:], expected, rtol=1e-6, atol=1e-6)


def changed(rng, C, trial):
    """The covariance sparsified, made indefinite, or moved a little."""
    noise = rng.standard_normal(C.shape)
    if trial % 3 == 0:
        return np.where(abs(C) > rng.uniform(0.05, 0.4), C, 0.0)
    return C + (0.3 if trial % 3 == 1 else 1e-3) * (noise + noise.T)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_the_certificate_is_above_the_truth(kind, data, rng):
    X, y = data
    model = kind(**QUICK | {"max_epochs": 20}).fit(X, y if kind is SVNNRegressor else y > 0)
    outputs = (lambda m: m.predict(X)[:, None]) if kind is SVNNRegressor else (lambda m: m._outputs(X)[0])
    for trial in range(12):
        C_hat = changed(rng, model.covariance_, trial)
        other = model.on(C_hat)
        bound = certificate(model, model.covariance_, C_hat, X)
        moved = np.linalg.norm(outputs(other) - outputs(model), axis=1)
        assert (moved <= bound.per_sample).all() and moved.max() > 0
        assert np.linalg.norm(other.embed(X) - model.embed(X), axis=(1, 2)).max() <= bound.embedding
        assert bound.scale == model.shift_.scale


def test_the_certificate_counts_the_change_of_the_logarithm(data):
    """One filter h0 + h1 L and a linear head: the bound on the filters is h1 times the change of L."""
    model = SVNNRegressor(hidden=(1,), activation="identity", order=1, mlp=(), heads=1, **QUICK).fit(*data)
    C, C_hat = model.covariance_, 0.5 * model.covariance_ + 0.5 * np.eye(8)
    difference = log_covariance(C_hat / model.shift_.scale) - log_covariance(C / model.shift_.scale)
    tap = float(model.module_.filters[0].weight[1].detach())
    bound = certificate(model, C, C_hat)
    assert bound.layers[0].change == pytest.approx(abs(tap) * np.linalg.norm(difference, 2), rel=1e-4)
    assert float(certificate(model, C, C)) == 0


# -- precision ----------------------------------------------------------------------------------------------


def test_single_precision_data_give_nearly_the_same_shift(data):
    X, y = data
    rng = np.random.default_rng(1)
    X = np.c_[X, X @ rng.standard_normal(8) + 3e-4 * rng.standard_normal(len(X))]  # an eigenvalue near 1e-8
    X = X.astype(np.float32)
    single = SVNNRegressor(**QUICK).fit(X, y)
    double = SVNNRegressor(**QUICK).fit(X.astype(np.float64), y)
    assert np.linalg.eigvalsh(double.covariance_ / double.shift_.scale)[0] < 1e-6
    np.testing.assert_allclose(single.operator_.to_dense().numpy(), double.operator_.to_dense().numpy(), atol=1e-3)
    np.testing.assert_allclose(single.predict(X), double.predict(X), rtol=0, atol=1e-2 * y.std())


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_the_unit_of_a_shift_of_ones_own_does_not_matter(unit, data):
    X, y = data
    C = np.cov(X.T)
    options = {name: value for name, value in QUICK.items() if name != "covariance"} | {"use": "log"}
    plain, other = (SVNNRegressor(covariance=factor * C, **options).fit(X, y) for factor in (1.0, unit))
    np.testing.assert_allclose(other.predict(X), plain.predict(X), rtol=1e-3, atol=1e-4)


def test_a_zero_covariance_is_the_zero_shift(data):
    X, y = data
    model = SVNNRegressor(**QUICK | {"covariance": np.zeros((8, 8)), "use": "log"}).fit(X, y)
    assert not model.operator_.to_dense().any() and np.isfinite(model.predict(X)).all()
