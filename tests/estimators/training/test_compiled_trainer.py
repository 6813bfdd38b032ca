"""The compiled kernel trains as torch's gradients do, and it is what trains a network by default."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from estimators.training.small_trainers import KERNELS, needs_numba, network
from svnn import SVNNClassifier, SVNNRegressor
from svnn._compiled import load
from svnn.estimators import _trainers
from svnn.estimators.training import (
    LOSSES,
    CompiledTrainer,
    ModuleTrainer,
    Plan,
    StackedTrainer,
    _compiled_trainer,
    has_kernel,
)

CPU = torch.device("cpu")
COMMON = {
    "covariance": "sample",
    "members": 2,
    "order": 2,
    "max_epochs": 3,
    "device": "cpu",
    "random_state": 0,
    "shrink": False,  # networks of a few epochs are no better than a constant, and would become one
}


def problem(kind=SVNNRegressor, n=5, t=70, n_values=1, n_outputs=1):
    """A smooth, noisy target: one number, several of them, or three classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((t, 1, n_values)) + rng.standard_normal((t, n, n_values))
    y = np.tanh(X[:, 0, 0]) + 0.5 * X.mean((1, 2)) + 0.1 * rng.standard_normal(t)
    if kind is SVNNClassifier:
        return X, np.digitize(y, [-0.5, 0.5])
    return X, y if n_outputs == 1 else np.stack([y * (k + 1) + k * X[:, -1, 0] ** 2 for k in range(n_outputs)], 1)


@pytest.fixture
def fit(monkeypatch):
    """Fit an estimator in one of the three ways to train, and see to it that it is this one."""

    def run(way, model, X, y, sample_weight=None, **options):
        used = []
        with monkeypatch.context() as patch:
            if way is not CompiledTrainer:
                patch.setattr(_trainers, "has_kernel", lambda plan, device: False)
            if way is ModuleTrainer:
                patch.setattr(_trainers.Plan, "of", classmethod(lambda *args: None))
            for kind in (CompiledTrainer, StackedTrainer, ModuleTrainer):
                patch.setattr(_trainers, kind.__name__, recorded(kind, used))
            model = copy.deepcopy(model).fit(X, y, sample_weight, **options)
        assert set(used) == {way}
        return model

    return run


def recorded(kind, used):
    """The same class of trainers, which notes in ``used`` that one of them trained."""

    class Recorded(kind):
        def epoch(self, order, ends, rates, members):
            if self.steps_before == 0:
                used.append(kind)
            self.steps_before += 1
            return super().epoch(order, ends, rates, members)

        steps_before = 0

    return Recorded


def assert_same(found, expected, X):
    """Losses to 1e-5 of their size, weights and outputs to 1e-4."""
    assert found.history_.keys() == expected.history_.keys()
    for name, losses in expected.history_.items():
        np.testing.assert_allclose(found.history_[name], losses, rtol=1e-5)
    weights = expected.module_.state_dict()
    for name, value in found.module_.state_dict().items():
        size = max(1.0, float(weights[name].abs().max()))
        torch.testing.assert_close(value, weights[name], rtol=0, atol=1e-4 * size)
    np.testing.assert_allclose(outputs(found, X), outputs(expected, X), rtol=0, atol=1e-4)


def outputs(model, X):
    return model.predict_proba(X) if isinstance(model, SVNNClassifier) else model.predict(X)


MODELS = {
    "defaults": {},
    "order auto": {"order": "auto"},
    "order 0": {"order": 0},
    "relu": {"activation": "relu"},
    "leaky relu": {"activation": "leaky_relu"},
    "identity": {"activation": "identity"},
    "squared": {"loss": "squared"},
    "absolute": {"loss": "absolute"},
    "mean": {"readout": "mean"},
    "one head": {"heads": 1, "hidden": (3,)},
    "linear head": {"mlp": ()},
    "small head": {"mlp": (5,)},
    "deep head": {"mlp": (6, 4)},
    "relu in a deep head": {"mlp": (6, 4), "activation": "relu", "readout": "mean"},
    "no dropout": {"node_dropout": 0.0},
    "much dropout": {"node_dropout": 0.3},
    "most dropped": {"node_dropout": 0.9, "readout": "mean"},
    "nearly all dropped": {"node_dropout": 1 - 1e-9},
    "batches of 7": {"batch_size": 7},
    "batches of 45": {"batch_size": 45},
    "one batch": {"batch_size": None},
    "weight decay": {"weight_decay": 0.1},
    "one member": {"members": 1},
    "three members": {"members": 3, "validation_fraction": 0.2},
    "members that hold out different rows": {"members": 8, "validation_fraction": 0.2, "max_epochs": 4},
    "members that stop one by one": {
        "members": 8,
        "validation_fraction": 0.2,
        "patience": 2,
        "max_epochs": 12,
        "lr": 0.05,
    },
    "nothing held out": {"validation_fraction": 0.0},
    "constant rate": {"schedule": "constant", "patience": 1},
}
PROBLEMS = {
    "three outputs": {"n_outputs": 3},
    "three values": {"n_values": 3},
    "one node": {"n": 1},
    "33 nodes": {"n": 33},
    "33 rows": {"t": 33},
}


@needs_numba
@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_trains_as_torch_does(name, fit):
    X, y = problem()
    model = SVNNRegressor(**COMMON | MODELS[name])
    assert_same(fit(CompiledTrainer, model, X, y), fit(StackedTrainer, model, X, y), X)


@needs_numba
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_kernel_trains_on_data_of_any_shape(name, loss, fit):
    X, y = problem(**PROBLEMS[name])
    model = SVNNRegressor(loss=loss, mlp=(6,), node_dropout=0.3, **COMMON)
    assert_same(fit(CompiledTrainer, model, X, y), fit(StackedTrainer, model, X, y), X)


@needs_numba
@pytest.mark.parametrize("options", [{}, {"n": 1}, {"n": 33}, {"n_values": 2}])
@pytest.mark.parametrize("readout", ["mean", "weighted"])
def test_the_kernel_trains_a_classifier_of_three_classes(options, readout, fit):
    X, y = problem(SVNNClassifier, **options)
    model = SVNNClassifier(readout=readout, class_weight={0: 1, 1: 2, 2: 3}, **COMMON)
    assert_same(fit(CompiledTrainer, model, X, y), fit(StackedTrainer, model, X, y), X)


@needs_numba
@pytest.mark.parametrize("batch_size", [4, 45])
def test_the_kernel_knows_the_weights_of_samples(batch_size, fit):
    X, y = problem()
    weight = np.random.default_rng(1).uniform(0, 2, len(X))
    weight[::3] = 0
    weight[10:40] = 0  # some batches have no weight at all
    model = SVNNRegressor(batch_size=batch_size, **COMMON)
    found = fit(CompiledTrainer, model, X, y, weight)
    assert_same(found, fit(StackedTrainer, model, X, y, weight), X)
    assert abs(found.predict(X) - fit(CompiledTrainer, model, X, y).predict(X)).max() > 1e-2


@needs_numba
def test_the_kernel_validates_on_data_of_its_own(fit):
    X, y = problem()
    model, options = SVNNRegressor(**COMMON), {"validation_data": (X[:37], y[:37])}
    assert_same(fit(CompiledTrainer, model, X, y, **options), fit(StackedTrainer, model, X, y, **options), X)


@pytest.mark.parametrize(
    "name",
    [
        *("defaults", "relu", "mean", "linear head", "deep head", "much dropout", "batches of 7", "constant rate"),
        *("weight decay", "one member", "one batch", "nearly all dropped"),
        *("members that hold out different rows", "members that stop one by one"),
    ],
)
def test_stacked_networks_train_as_modules_do(name, fit):
    X, y = problem(n_values=2, n_outputs=2)
    model = SVNNRegressor(**COMMON | MODELS[name])
    assert_same(fit(StackedTrainer, model, X, y), fit(ModuleTrainer, model, X, y), X)


def test_stacked_networks_classify_as_modules_do(fit):
    X, y = problem(SVNNClassifier)
    weight = np.arange(len(X)) % 4 / 2
    model = SVNNClassifier(**COMMON)
    assert_same(fit(StackedTrainer, model, X, y, weight), fit(ModuleTrainer, model, X, y, weight), X)


# -- which way a fit takes ----------------------------------------------------------------------------


@needs_numba
@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_a_default_fit_on_a_cpu_is_compiled(kind, monkeypatch):
    kernels, calls = load(KERNELS), []
    for name in ("train_epoch", "evaluate"):
        function = getattr(kernels, name)
        monkeypatch.setattr(
            kernels, name, lambda *args, function=function, name=name: (calls.append(name), function(*args))
        )
    model = kind(device="cpu", max_epochs=2, random_state=0).fit(*problem(kind))
    assert calls.count("train_epoch") >= 2 * 4  # the members of each fold with their own signals
    assert calls.count("evaluate") >= 2 * model.members


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"activation": "gelu"}, StackedTrainer),
        ({"activation": "tanh"}, StackedTrainer),
        ({"batch_norm": True}, ModuleTrainer),
        ({"hidden": (4, 4)}, ModuleTrainer),
        ({"dropout": 0.2}, ModuleTrainer),
        ({"readout": "flatten"}, ModuleTrainer),
        ({"_CACHE_BYTES": 0}, ModuleTrainer),
        ({"covariance": "acv", "resample": "epoch"}, ModuleTrainer),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_networks_that_the_kernel_cannot_do_are_trained_all_the_same(options, expected, monkeypatch):
    used = []
    for kind in (CompiledTrainer, StackedTrainer, ModuleTrainer):
        monkeypatch.setattr(_trainers, kind.__name__, recorded(kind, used))
    for name in options.keys() & {"_CACHE_BYTES"}:
        monkeypatch.setattr(_trainers, name, options[name])
    options = {name: value for name, value in options.items() if not name.startswith("_")}
    X, y = problem()
    model = SVNNRegressor(**COMMON | {"max_epochs": 30} | options).fit(X, y)
    assert set(used) == {expected}
    assert model.history_["train_loss"][-1] < 0.6 * model.history_["train_loss"][0] and model.score(X, y) > 0.5


@needs_numba
def test_there_is_a_kernel_for_known_activations_on_a_cpu_only():
    plans = {name: Plan.of(network(activation=name), 5) for name in ("silu", "relu", "gelu")}
    assert has_kernel(plans["silu"], CPU) and has_kernel(plans["relu"], CPU) and not has_kernel(plans["gelu"], CPU)
    assert not has_kernel(plans["silu"], torch.device("meta"))


def test_without_numba_predictions_are_nearly_the_same(monkeypatch, fit):
    X, y = problem()
    model = SVNNRegressor(**COMMON | {"max_epochs": 10})
    expected = model.fit(X, y).predict(X)
    monkeypatch.setenv("SVNN_NUMBA", "0")
    assert not has_kernel(Plan.of(network(), 5), CPU)
    found = copy.deepcopy(model).fit(X, y).predict(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * y.std())


# -- threads, memory and numbers that are none ----------------------------------------------------------


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@needs_numba
@pytest.mark.parametrize("members", [1, 2, 5, 8])
def test_the_number_of_threads_changes_no_bit(members, fit, request):
    X, y = problem(n=9)
    model = SVNNRegressor(**COMMON | {"members": members})
    assert torch.get_num_threads() == 1
    one = fit(CompiledTrainer, model, X, y)
    request.getfixturevalue("two_threads")
    two = fit(CompiledTrainer, model, X, y)
    assert one.history_ == two.history_
    for a, b in zip(one.module_.parameters(), two.module_.parameters(), strict=True):
        assert torch.equal(a, b)
    np.testing.assert_allclose(two.predict(X), one.predict(X), rtol=1e-9)


@needs_numba
def test_draws_that_do_not_fit_in_memory_at_once_are_the_same_draws(monkeypatch, fit):
    X, y = problem()
    model = SVNNRegressor(batch_size=7, node_dropout=0.5, **COMMON)
    expected = fit(CompiledTrainer, model, X, y)
    for some in (1, 1000):  # bytes: a batch at a time, and a few of them
        monkeypatch.setattr(_compiled_trainer, "_DRAW_BYTES", some)
        found = fit(CompiledTrainer, model, X, y)
        assert found.history_ == expected.history_
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("activation", ["silu", "relu", "gelu"])
def test_weights_that_overflow_are_an_error_of_the_fit(activation):
    with pytest.raises(FloatingPointError, match="use a smaller lr"):
        SVNNRegressor(**COMMON | {"activation": activation, "lr": 1e30}).fit(*problem())
