"""Modules that are trained by torch: batches, realisations of a shift, and the average of the weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from svnn.estimators.training import LOSSES, Batch, ModuleTrainer, Optimiser, Shifts, Training, train
from svnn.estimators.training._loop import batch_rows
from svnn.estimators.training._module_trainer import WeightAverage

OPTIMISER = Optimiser(weight_decay=0.0, averaging=0.0)
TRAINING = Training(lr=0.1, schedule="constant", max_epochs=3, patience=100, batch_size=4)


@pytest.mark.parametrize("gather_bytes", [0, 2**28])
def test_batches_cover_every_row_once_and_never_end_in_a_single_row(monkeypatch, gather_bytes):
    monkeypatch.setattr("svnn.estimators.training._module_trainer._GATHER_BYTES", gather_bytes)
    for n, size in [(10, 3), (9, 4), (5, 5), (7, 2), (3, 2)]:
        seen = []

        def loss(output, y, seen=seen):
            seen.append(y.tolist())
            return output[:, 0]

        numbers = torch.arange(n)
        data = Batch(numbers.view(n, 1, 1).float(), numbers, torch.ones(n))
        trainer = ModuleTrainer([Recorder()], loss, data, None, Shifts(None), OPTIMISER, [None])
        train(trainer, n, replace(TRAINING, max_epochs=1, batch_size=size))
        assert sorted(row for part in seen for row in part) == list(range(n))
        assert min(len(part) for part in seen) > 1


class Recorder(nn.Module):
    """A network that notes the shifts it is called with."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.calls = []

    def forward(self, x, shift):
        self.calls.append((self.training, shift))
        return x[:, 0] * self.scale


def run(resample):
    module, counter = Recorder(), iter(range(1000))
    x, y = torch.randn(8, 1, 1), torch.randn(8, 1)
    validation = Batch(x, y, torch.ones(8))
    shifts = Shifts("fixed", resample, lambda: next(counter), n_shifts=2)
    data = Batch(x, y, torch.ones(8))
    loss = LOSSES["squared"]
    trainer = ModuleTrainer([module], lambda o, y: loss(o, y).mean(-1), data, validation, shifts, OPTIMISER, [None])
    train(trainer, 8, TRAINING)
    assert all(shift == "fixed" for training, shift in module.calls if not training)
    return [shift for training, shift in module.calls if training]


def test_realisations_follow_the_resampling():
    assert run("fixed") == ["fixed"] * 6
    assert run("epoch") == [0, 0, 1, 1, 2, 2]
    assert run("forward") == [0, 1, 2, 3, 4, 5]
    assert run("shift") == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]


def test_the_average_follows_the_weights_and_forgets_the_start():
    module = nn.Linear(1, 1)
    start = module.weight.detach().clone()
    average = WeightAverage(module, 0.9)
    with torch.no_grad():
        module.weight += 1
    average.update()
    decay = 2 / 11  # (1 + 1) / (10 + 1): below 0.9 at first
    torch.testing.assert_close(average.module.weight, start + 1 - decay)
    for _ in range(500):
        average.update()
    torch.testing.assert_close(average.module.weight, start + 1)
    assert WeightAverage(module, 0.0).module is module


def test_tiny_data_sets_get_small_batches():
    assert [batch_rows("auto", n) for n in (2, 8, 57, 100, 128, 10_000)] == [2, 2, 16, 32, 32, 64]
    assert batch_rows(None, 57) == 57 and batch_rows(5, 57) == 5


def test_the_losses_of_errors():
    """Huber's is the squared error up to one half, and then grows as fast as the absolute one."""
    errors = torch.tensor([-2.0, -0.5, -0.25, 0.0, 0.25, 0.5, 2.0])
    zero = torch.zeros_like(errors)
    expected = {
        "squared": [4, 0.25, 0.0625, 0, 0.0625, 0.25, 4],
        "huber": [1.75, 0.25, 0.0625, 0, 0.0625, 0.25, 1.75],
        "absolute": [2, 0.5, 0.25, 0, 0.25, 0.5, 2],
    }
    assert LOSSES.keys() == expected.keys()
    for name, values in expected.items():
        assert LOSSES[name](errors, zero).tolist() == values
