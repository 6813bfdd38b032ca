"""The compiled kernel trains as torch's gradients do, and it is what trains a network by default."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from svnn import SVNNClassifier, SVNNRegressor, as_operator
from svnn._compiled import load
from svnn.estimators import _member_training
from svnn.estimators.training import (
    LOSSES,
    Batch,
    CompiledTrainer,
    ModuleTrainer,
    Optimiser,
    Plan,
    Shifts,
    StackedTrainer,
    Validation,
    _compiled_trainer,
    has_kernel,
    train,
)
from svnn.estimators.training._loop import one_cycle
from svnn.nn import SVNN
from svnn.nn._shifted import PowerSignals

KERNELS = "svnn.estimators.training._member_kernels"
CPU = torch.device("cpu")
needs_numba = pytest.mark.skipif(load(KERNELS) is None, reason="numba is switched off or not installed")
COMMON = {"covariance": "sample", "members": 2, "order": 2, "max_epochs": 3, "device": "cpu", "random_state": 0}


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
                patch.setattr(_member_training, "has_kernel", lambda plan, device: False)
            if way is ModuleTrainer:
                patch.setattr(_member_training.Plan, "of", classmethod(lambda *args: None))
            for kind in (CompiledTrainer, StackedTrainer, ModuleTrainer):
                patch.setattr(_member_training, kind.__name__, recorded(kind, used))
            model = copy.deepcopy(model).fit(X, y, sample_weight, **options)
        n_teams = len([name for name in model.blend_ if name != "linear"])
        assert used == [way] * n_teams
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
    np.testing.assert_allclose(found._output(X), expected._output(X), rtol=0, atol=1e-4)


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
    "no average": {"averaging": 0.0},
    "weight decay": {"weight_decay": 0.1},
    "powers": {"basis": "powers"},
    "one member": {"members": 1},
    "three members": {"members": 3, "validation_fraction": 0.2},
    "teams with and without edges": {"members": 4, "validation_fraction": 0.2, "max_epochs": 4},
    "members that stop one by one": {"members": 4, "patience": 2, "max_epochs": 12, "lr": 0.05, "blend": False},
    "teams whose members stop one by one": {
        "members": 4, "validation_fraction": 0.2, "patience": 2, "max_epochs": 12, "lr": 0.05
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
        *("defaults", "relu", "mean", "linear head", "deep head", "much dropout", "batches of 7", "no average"),
        *("weight decay", "powers", "one member", "one batch", "nearly all dropped"),
        *("teams with and without edges", "members that stop one by one", "teams whose members stop one by one"),
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
    assert "without edges" in model.blend_
    assert calls.count("train_epoch") == 2 * 2  # for each team
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
        ({"cache_bytes": 0}, ModuleTrainer),
        ({"covariance": "acv", "resample": "epoch"}, ModuleTrainer),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_networks_that_the_kernel_cannot_do_are_trained_all_the_same(options, expected, monkeypatch):
    used = []
    for kind in (CompiledTrainer, StackedTrainer, ModuleTrainer):
        monkeypatch.setattr(_member_training, kind.__name__, recorded(kind, used))
    X, y = problem()
    model = SVNNRegressor(**COMMON | {"max_epochs": 30} | options).fit(X, y)
    assert used == [expected]
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


@pytest.mark.parametrize("kind", [pytest.param(CompiledTrainer, marks=needs_numba), StackedTrainer])
def test_signals_that_are_held_out_in_turn_are_stored_once(kind):
    made = trainer(kind, torch.randn(40, 5, 1))
    assert made.held is made.x


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
    # The linear model comes from a decomposition that may be computed by several threads, and is equal to rounding.
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


def network(n=5, **options):
    options = {"hidden": (4,), "order": 1, "readout": "weighted", "batch_norm": False, "mlp": (3,)} | options
    return SVNN(1, 2, n_nodes=n, heads=2 if options["readout"] == "weighted" else 1, **options)


def trainer(kind, x, loss="huber", noise=0, **options):
    """Two networks on signals (t, N, 1), of which each holds some out."""
    torch.manual_seed(0)
    networks = [network(x.shape[1], **options) for _ in range(2)]
    shift = as_operator(torch.eye(x.shape[1])).normalized()
    signals = PowerSignals.from_shift(x, shift, 1)
    signals.scale = shift.scale
    codes = torch.arange(len(x)) % 2
    y = codes if loss == "cross_entropy" else torch.stack([x[:, 0, 0].sin(), x[:, 1, 0]], 1).nan_to_num(0, 0, 0)
    weight = torch.ones(2, len(x))
    folds = [torch.arange(0, 6), torch.arange(6, 9)]
    for member, rows in enumerate(folds):
        weight[member, rows] = 0

    def losses(output, target):
        if loss == "cross_entropy":
            return torch.nn.functional.cross_entropy(output, target, reduction="none")
        return LOSSES[loss](output, target).mean(-1)

    data, validation = Batch(signals, y, weight), Validation(Batch(signals, y, torch.ones(len(x))), folds)
    draws = [torch.Generator().manual_seed(noise + member) for member in range(2)]
    rest = losses, data, validation
    optimiser = Optimiser(weight_decay=1e-3, averaging=0.9)
    if kind is ModuleTrainer:
        return kind(networks, *rest, Shifts(shift), optimiser, draws)
    made = kind(networks, Plan.of(networks[0], x.shape[1]), *rest, optimiser, draws)
    return made.prepare(loss) if kind is CompiledTrainer else made


@pytest.mark.parametrize("kind", [pytest.param(CompiledTrainer, marks=needs_numba), StackedTrainer, ModuleTrainer])
@pytest.mark.parametrize("loss", ["huber", "cross_entropy"])
def test_members_are_trained_by_themselves(kind, loss):
    """A single step of each member is the one that its own draws and its own rows give."""
    x = torch.randn(40, 5, 1)
    both = trainer(kind, x, loss, node_dropout=0.4)
    both.epoch(np.arange(40), [16, 40], [0.01, 0.01], np.arange(2))
    both.keep([0, 1])
    outputs = [both.held_out(member)[0] for member in range(2)]
    assert [len(found) for found in outputs] == [6, 3]
    x[0] += 100  # a row that the first member holds out and the second trains on
    other = trainer(kind, x, loss, node_dropout=0.4)
    other.epoch(np.arange(40), [16, 40], [0.01, 0.01], np.arange(2))
    torch.testing.assert_close(other.held_out(0)[0][1:], outputs[0][1:], rtol=1e-5, atol=1e-6)
    assert (other.held_out(1)[0] - outputs[1]).abs().max() > 1e-3


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute", "cross_entropy"])
@pytest.mark.parametrize("readout", ["mean", "weighted"])
def test_all_trainers_take_the_same_steps_and_restore_the_same_weights(loss, readout):
    x = torch.randn(50, 5, 1)
    kinds = [StackedTrainer, ModuleTrainer] + [CompiledTrainer] * (load(KERNELS) is not None)
    options = {"lr": 0.02, "schedule": one_cycle, "max_epochs": 4, "patience": None, "batch_size": 11}
    found = []
    for kind in kinds:
        made = trainer(kind, x, loss, readout=readout, node_dropout=0.3, activation="silu")
        history = train(made, len(x), **options, generator=torch.Generator().manual_seed(0))
        networks = made.modules if kind is ModuleTrainer else made.networks
        weights = torch.stack([Plan.of(each, 5).vector(each) for each in networks])
        found.append((history, weights, torch.cat([made.held_out(member)[0] for member in range(2)])))
        assert not any(each.training for each in networks)
    (history, weights, outputs), *others = found
    for other_history, other_weights, other_outputs in others:
        for name, losses in history.items():
            np.testing.assert_allclose(other_history[name], losses, rtol=1e-5)
        torch.testing.assert_close(other_weights, weights, rtol=0, atol=1e-4)
        torch.testing.assert_close(other_outputs, outputs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("mlp", [(), (4,), (6, 4)])
def test_a_vector_of_weights_is_the_network(heads, mlp):
    first, second = (SVNN(2, 3, (4,), 2, "silu", 0.0, False, "weighted", heads, 5, mlp) for _ in range(2))
    with torch.no_grad():
        first.readout.weight.normal_()
    plan, shift = Plan.of(first, 5), as_operator(torch.eye(5) / 2).normalized(1.0)
    plan.write(plan.vector(first), second)
    x = torch.randn(6, 5, 2)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    values = PowerSignals.from_shift(x, shift, 2).powers[..., :-1]
    torch.testing.assert_close(plan.outputs(plan.vector(first)[None], values)[0], first(x, shift))


@needs_numba
@pytest.mark.parametrize("activation", ["silu", "relu", "leaky_relu", "identity"])
@pytest.mark.parametrize("loss", ["huber", "squared", "absolute", "cross_entropy"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_signals_that_are_not_finite_are_an_error(activation, loss, wrong):
    x = torch.randn(40, 5, 1)
    x[20] = wrong
    made = trainer(CompiledTrainer, x, loss, activation=activation)
    options = {"lr": 0.02, "schedule": one_cycle, "max_epochs": 3, "patience": None, "batch_size": 16}
    with pytest.raises(FloatingPointError, match=r"the training loss became \S+ in epoch 1"):
        train(made, len(x), **options)


@pytest.mark.parametrize("activation", ["silu", "relu", "gelu"])
def test_weights_that_overflow_are_an_error_of_the_fit(activation):
    with pytest.raises(FloatingPointError, match="use a smaller lr"):
        SVNNRegressor(**COMMON | {"activation": activation, "lr": 1e30}).fit(*problem())


def kernel_of_silu():
    """SiLU and its derivative on 32 numbers, as the kernel has them."""
    import numba

    from svnn.estimators.training._lanes import LANES, silu

    @numba.njit
    def apply(values, scale, rates):
        silu(values.ctypes.data, scale.ctypes.data, rates.ctypes.data)

    def run(x, scale=1.0):
        padded = np.zeros(-(-len(x) // LANES) * LANES, np.float32)
        padded[: len(x)] = x
        rates = np.empty_like(padded)
        for start in range(0, len(padded), LANES):
            part = slice(start, start + LANES)
            apply(padded[part], np.full(LANES, scale, np.float32), rates[part])
        return padded[: len(x)], rates[: len(x)]

    return run


@needs_numba
def test_silu_is_precise_and_never_overflows():
    run = kernel_of_silu()
    x = np.concatenate([np.linspace(-100, 100, 40_001), np.linspace(-1, 1, 2001), 10.0 ** np.arange(-30, 0)])
    x = x.astype(np.float32)
    values, rates = run(x)
    exact = x.astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-exact))
    np.testing.assert_allclose(values, exact * sigmoid, rtol=1e-5, atol=1e-34)
    np.testing.assert_allclose(rates, sigmoid * (1 + exact * (1 - sigmoid)), rtol=1e-5, atol=1e-6)
    near = abs(exact) < 10
    np.testing.assert_allclose(values[near], (exact * sigmoid)[near], rtol=1e-6)
    ends = np.array([1e4, -1e4, 3e38, 0.0], np.float32)
    values, rates = run(ends)
    assert np.isfinite(values).all() and np.isfinite(rates).all()
    np.testing.assert_allclose(values[[0, 1, 3]], [1e4, 0, 0], rtol=1e-6, atol=1e-30)
    assert values[2] == pytest.approx(3e38, rel=1e-6)
    np.testing.assert_allclose(rates, [1, 0, 1, 0.5], atol=1e-6)
    doubled = run(ends[:2], 2.0)
    np.testing.assert_allclose(doubled[0], 2 * values[:2])
    np.testing.assert_allclose(doubled[1], 2 * rates[:2])
