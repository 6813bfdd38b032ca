"""Shifted signals made uncorrelated: the same filters, in a basis that training finds them in faster."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import seeds
from svnn import SVNNClassifier, SVNNRegressor, as_operator
from svnn.nn import SVNN
from svnn.nn._shifted import PowerSignals


def signals(seed=0, n=12, t=40, n_values=1, order=2, C=None):
    """Shifted signals in double precision."""
    rng = np.random.default_rng(seed)
    if C is None:
        A = rng.standard_normal((n, n))
        C = A @ A.T / n
    x = torch.from_numpy(1 + rng.standard_normal((t, n, n_values)) * rng.uniform(0.1, 10, n_values))
    shift = as_operator(C, dtype=torch.float64).normalized()
    found = PowerSignals.from_shift(x, shift if order else None, order)
    found.scale = shift.scale if order else None
    return found, x, shift


def values_of(shifted):
    """The values of every node of every sample, (t N, P), without the one."""
    return shifted.powers[..., :-1].flatten(0, 1)


@settings(max_examples=20)
@given(seeds, st.integers(1, 3), st.integers(0, 4))
def test_whitened_values_are_uncorrelated_with_unit_mean_squares(seed, n_values, order):
    shifted, *_ = signals(seed, n_values=n_values, order=order)
    T = shifted.whitening()
    z = values_of(shifted.transformed(T))
    kept = (T != 0).any(1)
    assert kept[:n_values].all()  # the signals themselves are never left out
    expected = torch.diag(kept.double())
    torch.testing.assert_close(z.T @ z / len(z), expected, rtol=0, atol=1e-5)


@settings(max_examples=20)
@given(seeds, st.integers(1, 3))
def test_the_matrix_is_triangular_each_power_adds_to_those_before(seed, n_values):
    T = signals(seed, n_values=n_values, order=3)[0].whitening()
    assert torch.equal(T, T.tril()) and (T.diagonal() >= 0).all()
    assert T.dtype == torch.float64


@settings(max_examples=20)
@given(seeds, st.integers(1, 3), st.integers(0, 3))
def test_filters_of_whitened_signals_are_filters_of_powers(seed, n_values, order):
    shifted, x, shift = signals(seed, n_values=n_values, order=order)
    T = shifted.whitening()
    torch.manual_seed(0)
    white = SVNN(n_values, 2, hidden=(4,), order=order, batch_norm=False).double()
    plain = SVNN(n_values, 2, hidden=(4,), order=order, batch_norm=False).double()
    plain.load_state_dict(white.state_dict())
    weight = white.filters[0].weight
    with torch.no_grad():
        plain.filters[0].weight.copy_((T.T @ weight.flatten(0, 1)).view(weight.shape))
        expected = plain(x, shift)
        found = white(shifted.transformed(T), shift)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8 * max(1.0, float(expected.abs().max())))


def test_the_column_of_ones_stays():
    shifted, *_ = signals(order=3)
    other = shifted.transformed(shifted.whitening())
    assert torch.equal(other.powers[..., -1], torch.ones_like(other.powers[..., -1]))
    assert other.order == 3 and other.shape == shifted.shape and other.scale == shifted.scale


@pytest.mark.parametrize("n_values", [1, 2])
def test_powers_that_add_nothing_are_left_out(n_values):
    """All powers of the identity are the identity."""
    shifted, *_ = signals(n_values=n_values, order=3, C=np.eye(12))
    T = shifted.whitening()
    assert (T[:n_values].diagonal() > 0).all() and not T[n_values:].any()
    assert not values_of(shifted.transformed(T))[:, n_values:].any()


def test_a_matrix_of_two_eigenvalues_has_two_powers():
    shifted, *_ = signals(order=4, C=np.diag([1.0] * 6 + [0.5] * 6))
    T = shifted.whitening()
    assert (T != 0).any(1).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("share", [1e-4, 1e-2])
def test_what_a_power_adds_counts_from_a_thousandth_on(share):
    """The identity but for one node, whose signal then is the only news."""
    C = np.eye(2)
    C[1, 1] = 1 - share * 2**0.5
    x = torch.tensor([[[1.0], [1.0]], [[1.0], [-1.0]]] * 50, dtype=torch.float64)
    T = PowerSignals.from_shift(x, as_operator(C, dtype=torch.float64).normalized(), 1).whitening()
    assert bool(T[1].any()) is (share > 1e-3)


@pytest.mark.parametrize(("repeats", "counts"), [(10, False), (20, True)])
def test_few_samples_show_a_power_only_where_it_adds_much(repeats, counts):
    """A hundredth of itself is less than (3 / t)² for 20 samples, and more for 40."""
    C = np.diag([1.0, 1 - 0.01 * 2**0.5])
    x = torch.tensor([[[1.0], [1.0]], [[1.0], [-1.0]]] * repeats, dtype=torch.float64)
    T = PowerSignals.from_shift(x, as_operator(C, dtype=torch.float64).normalized(), 1).whitening()
    assert bool(T[1].any()) is counts


def test_signals_that_are_zero_are_left_out():
    shifted, *_ = signals(n_values=2, order=1)
    shifted.powers[..., 0] = 0
    shifted.powers[..., 2] = 0
    T = shifted.whitening()
    assert T.isfinite().all() and (T != 0).any(1).tolist() == [False, True, False, True]


# -- what a fit makes of it -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 1)) + rng.standard_normal((80, 6))
    return X, X @ np.arange(6.0) + 100


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("use", ["covariance", "log"])
@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_fitted_filters_are_those_of_powers_of_the_shift(members, use, kind, data):
    X, y = data
    y = y if kind is SVNNRegressor else y > 100
    options = {"covariance": "sample", "use": use, "members": members, "max_epochs": 5, "random_state": 0}
    options["shrink"] = False
    model = kind(mlp=(5,), **options).fit(X, y)
    networks = [model.module_] if members == 1 else list(model.module_.networks)
    S = model.operator_.to_dense().double()
    z = torch.from_numpy(model.fitted_.standardizer(X[..., None])[..., 0])
    outputs = []
    for network in networks:
        state = {name: value.double() for name, value in network.state_dict().items()}
        taps, bias = state["filters.0.weight"], state["filters.0.bias"]
        u = bias + sum((z @ torch.linalg.matrix_power(S, k))[..., None] * taps[k, 0] for k in range(len(taps)))
        u = torch.nn.functional.silu(u)
        v = (state["readout.weight"] / 6 @ u).flatten(1)
        v = torch.nn.functional.silu(v @ state["head.0.weight"].T + state["head.0.bias"])
        outputs.append(v @ state["head.2.weight"].T + state["head.2.bias"])
    outputs = torch.stack(outputs)
    if kind is SVNNClassifier:
        np.testing.assert_allclose(model.predict_proba(X), outputs.softmax(-1).mean(0).numpy(), atol=1e-7)
    else:
        expected = model.fitted_.targets.standardizer.inverse(outputs.mean(0).numpy())[:, 0]
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)


@pytest.mark.parametrize("order", [2, "auto"])
def test_the_trained_outputs_are_the_predicted_ones(order, data):
    """The validation loss of the best epoch is that of the predictions, by the filters of powers."""
    X, y = data
    model = SVNNRegressor(order=order, members=1, max_epochs=20, loss="squared", random_state=0)
    model.fit(X, y, validation_data=(X[:30], y[:30]))
    error = (model.predict(X[:30]) - y[:30]) / model.fitted_.targets.standardizer.scale
    assert np.mean(error**2) == pytest.approx(min(model.history_["valid_loss"]), rel=1e-3)


def test_both_bases_train_the_same_kind_of_network(data, monkeypatch):
    X, y = data
    models = [SVNNRegressor(max_epochs=60, random_state=0).fit(X, y)]
    monkeypatch.setattr("svnn.estimators._trainers._MOST_WHITENED", 0)
    models.append(SVNNRegressor(max_epochs=60, random_state=0).fit(X, y))
    a, b = (model.module_.state_dict() for model in models)
    assert {name: value.shape for name, value in a.items()} == {name: value.shape for name, value in b.items()}
    assert all(model.score(X, y) > 0.9 for model in models)
    assert models[0].history_["train_loss"] != models[1].history_["train_loss"]


def test_rows_without_weight_do_not_count(data):
    X, y = data
    weight = np.ones(len(X))
    weight[::8] = 0
    far = X.copy()
    far[::8] = 1e4  # whatever they are
    model = SVNNRegressor(max_epochs=30, random_state=0)
    expected = model.fit(X, y, weight).predict(X)
    np.testing.assert_allclose(model.fit(far, y, weight).predict(X), expected, rtol=1e-3)
