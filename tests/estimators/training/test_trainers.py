"""The ways to train: all of them take the same steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from estimators.training.small_trainers import KERNELS, needs_numba, trainer
from svnn import as_operator
from svnn._compiled import load
from svnn.estimators.training import CompiledTrainer, ModuleTrainer, Plan, StackedTrainer, Training, train
from svnn.nn import SVNN
from svnn.nn._shifted import PowerSignals


@pytest.mark.parametrize("kind", [pytest.param(CompiledTrainer, marks=needs_numba), StackedTrainer, ModuleTrainer])
@pytest.mark.parametrize("loss", ["huber", "cross_entropy"])
def test_members_are_trained_by_themselves_and_not_on_held_out_rows(kind, loss):
    """A single step of each member is the one that its own draws and the rows with weight give."""
    x = torch.randn(40, 5, 1)
    first = trainer(kind, x, loss, node_dropout=0.4)
    arguments = np.arange(40), [16, 40], [0.01, 0.01]
    first.epoch(*arguments, np.arange(2))
    first.keep([0, 1])
    outputs = [first.held_out(member)[0] for member in range(2)]
    assert [len(found) for found in outputs] == [6, 6] and (outputs[0] - outputs[1]).abs().max() > 1e-3
    alone = trainer(kind, x, loss, node_dropout=0.4)
    alone.epoch(*arguments, np.array([1]))
    torch.testing.assert_close(alone.held_out(1)[0], outputs[1], rtol=1e-5, atol=1e-6)
    x[0] += 100  # a row that they hold out
    other = trainer(kind, x, loss, node_dropout=0.4)
    other.epoch(*arguments, np.arange(2))
    torch.testing.assert_close(other.held_out(0)[0][1:], outputs[0][1:], rtol=1e-5, atol=1e-6)
    x[6] += 100  # a row that they train on
    other = trainer(kind, x, loss, node_dropout=0.4)
    other.epoch(*arguments, np.arange(2))
    assert (other.held_out(0)[0][1:] - outputs[0][1:]).abs().max() > 1e-3


def trained(kind, x, loss, readout, **options):
    """Return what a training leaves: losses, weights and outputs for held-out rows; and who took part in its epochs."""
    made = trainer(kind, x, loss, readout=readout, node_dropout=0.3, activation="silu")
    asked, original = [], made.epoch
    made.epoch = lambda *arguments: (asked.append(arguments[-1].tolist()), original(*arguments))[1]
    training = Training(schedule="one_cycle", batch_size=11, **options)
    history = train(made, len(x), training, torch.Generator().manual_seed(0))
    networks = made.modules if kind is ModuleTrainer else made.networks
    assert not any(each.training for each in networks)
    weights = torch.stack([Plan.of(each, 5).vector(each) for each in networks])
    return history, weights, torch.cat([made.held_out(member)[0] for member in range(2)]), asked


WAYS = [StackedTrainer, ModuleTrainer] + [CompiledTrainer] * (load(KERNELS) is not None)


@pytest.mark.parametrize("loss", ["huber", "squared", "absolute", "cross_entropy"])
@pytest.mark.parametrize("readout", ["mean", "weighted"])
@pytest.mark.parametrize("patience", [None, 1])
def test_all_trainers_take_the_same_steps_and_restore_the_same_weights(loss, readout, patience):
    x = torch.randn(50, 5, 1, generator=torch.Generator().manual_seed(3))
    options = {"lr": 0.02, "max_epochs": 4, "patience": None} if patience is None else PATIENT
    (history, weights, outputs, asked), *others = [trained(kind, x, loss, readout, **options) for kind in WAYS]
    for other_history, other_weights, other_outputs, other_asked in others:
        assert other_asked == asked
        for name, losses in history.items():
            np.testing.assert_allclose(other_history[name], losses, rtol=1e-5)
        torch.testing.assert_close(other_weights, weights, rtol=0, atol=1e-4)
        torch.testing.assert_close(other_outputs, outputs, rtol=0, atol=1e-4)


PATIENT = {"lr": 0.05, "max_epochs": 10, "patience": 1}


@pytest.mark.parametrize("kind", WAYS)
def test_members_that_have_stopped_keep_their_weights(kind):
    """The first member to stop has the weights that it had when the training as a whole ends with its last epoch."""
    x = torch.randn(50, 5, 1, generator=torch.Generator().manual_seed(3))
    _, weights, _, asked = trained(kind, x, "huber", "weighted", **PATIENT)
    alone = next(members for members in asked if len(members) == 1)  # there is one: the members stop one by one
    n_epochs = asked.index(alone)
    stop = (lambda record: record["epoch"] == n_epochs,)
    _, early, _, _ = trained(kind, x, "huber", "weighted", **PATIENT | {"patience": None}, callbacks=stop)
    stopped = 1 - alone[0]
    assert torch.equal(early[stopped], weights[stopped])


@pytest.mark.parametrize("kind", WAYS)
def test_members_that_are_not_asked_for_are_not_changed(kind):
    x = torch.randn(40, 5, 1, generator=torch.Generator().manual_seed(0))
    made = trainer(kind, x)
    arguments = np.arange(40), [16, 40], [0.01, 0.01]
    made.epoch(*arguments, np.arange(2))
    made.keep([0, 1])
    kept = [made.held_out(member)[0] for member in range(2)]
    made.epoch(*arguments, np.array([1]))
    assert (made.held_out(1)[0] - kept[1]).abs().max() > 1e-4
    np.testing.assert_allclose(made.validate(np.array([1]))[1], made.validate(np.arange(2))[1])
    made.keep([1])
    last = made.held_out(1)[0]
    made.restore()
    torch.testing.assert_close(made.held_out(0)[0], kept[0], rtol=0, atol=0)
    torch.testing.assert_close(made.held_out(1)[0], last, rtol=0, atol=0)


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
    with pytest.raises(FloatingPointError, match=r"the training loss became \S+ in epoch 1"):
        train(made, len(x), Training(0.02, "one_cycle", max_epochs=3, patience=None, batch_size=16))


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
