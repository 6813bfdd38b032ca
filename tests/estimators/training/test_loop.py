"""The training loop: batches, learning rates, patience and best epochs, with a trainer that follows a script."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from svnn.estimators.training import SCHEDULES, StatefulCallback, Trainer, Training, train
from svnn.estimators.training._loop import batch_ends, batch_rows, epochs, one_cycle, weighted


class Scripted(Trainer):
    """Its members have the losses that are given, (epochs, members); it notes what it is asked to do.

    The losses of members that are not asked for are not numbers: they must not count.
    """

    def __init__(self, valid, trained=None, watched=None):
        self.valid = np.array(valid, dtype=float)
        self.trained = np.ones_like(self.valid) if trained is None else np.array(trained, dtype=float)
        self.n_members = self.valid.shape[1]
        self.watched = np.ones(self.n_members, dtype=bool) if watched is None else np.array(watched)
        self.calls, self.best = [], np.full(self.n_members, -1)
        self.restored, self.asked = 0, []

    def epoch(self, order, ends, rates, members):
        self.calls.append((order, list(ends), list(rates)))
        self.asked.append(members.tolist())
        return self._only(self.trained, members)

    def validate(self, members):
        assert members.tolist() == self.asked[-1]
        return self._only(self.valid, members)

    def _only(self, losses, members):
        found = np.full(self.n_members, np.nan)
        found[members] = losses[len(self.calls) - 1, members]
        return found

    def keep(self, members):
        self.best[members] = len(self.calls) - 1

    def restore(self):
        self.restored += 1

    def held_out(self, member):
        raise NotImplementedError


def run(trainer, n_rows=10, draws=None, **options):
    usual = {"lr": 0.1, "schedule": "constant", "max_epochs": len(trainer.valid), "patience": None, "batch_size": 4}
    return train(trainer, n_rows, Training(**usual | options), draws)


losses = st.lists(st.lists(st.floats(0, 10), min_size=3, max_size=3), min_size=1, max_size=12)


@given(losses)
def test_every_member_keeps_its_own_best_epoch(script):
    trainer = Scripted(script)
    history = run(trainer)
    np.testing.assert_array_equal(trainer.best, np.argmin(script, axis=0))  # the first of equal ones
    np.testing.assert_allclose(history["valid_loss"], np.mean(script, axis=1))
    assert history["train_loss"] == [1.0] * len(script)
    assert trainer.restored == 1


@given(losses, st.integers(1, 5))
def test_every_member_stops_when_it_has_waited(script, patience):
    trainer = Scripted(script)
    history = run(trainer, patience=patience)
    n_epochs, last_losses = np.full(3, len(script)), []
    for member, losses in enumerate(np.array(script).T):
        best, last = np.inf, -1
        for epoch, now in enumerate(losses):
            if now < best:
                best, last = now, epoch
            if epoch - last >= patience:
                n_epochs[member] = epoch + 1
                break
        assert trainer.best[member] == np.argmin(losses[: n_epochs[member]])
        stop = n_epochs[member] - 1
        last_losses.append(np.where(np.arange(len(script)) < stop, losses, losses[stop]))
    assert len(trainer.calls) == n_epochs.max()
    assert trainer.asked == [np.flatnonzero(epoch < n_epochs).tolist() for epoch in range(n_epochs.max())]
    # The last losses of members that have stopped count on.
    np.testing.assert_allclose(history["valid_loss"], np.mean(last_losses, axis=0)[: n_epochs.max()])


def test_members_that_improve_train_on_without_the_others():
    falling, flat = np.arange(10.0, 0, -1), np.ones(10)

    def asked(*members):
        trainer = Scripted(np.stack(members, 1))
        run(trainer, patience=3)
        return trainer.asked

    assert asked(flat, flat) == [[0, 1]] * 4
    assert asked(flat, falling) == [[0, 1]] * 4 + [[1]] * 6
    assert asked(falling, flat) == [[0, 1]] * 4 + [[0]] * 6


def test_a_member_that_has_stopped_does_not_come_back():
    late = [3.0, 3.0, 3.0, 0.0, 0.0, 0.0]
    trainer = Scripted(np.stack([late, np.arange(6.0, 0, -1)], 1))
    run(trainer, patience=2)
    assert trainer.asked == [[0, 1]] * 3 + [[1]] * 3
    np.testing.assert_array_equal(trainer.best, [0, 5])


def test_without_patience_all_epochs_are_trained():
    trainer = Scripted(np.arange(20.0)[:, None])
    run(trainer)
    assert len(trainer.calls) == 20 and trainer.best == [0]


def test_a_member_without_held_out_rows_is_judged_by_its_training_loss():
    valid = [[3.0, np.nan], [1.0, np.nan], [2.0, np.nan]]
    trainer = Scripted(valid, trained=[[9.0, 4.0], [8.0, 6.0], [7.0, 2.0]], watched=[True, False])
    history = run(trainer)
    np.testing.assert_array_equal(trainer.best, [1, 2])
    assert history["train_loss"] == [6.5, 7.0, 4.5] and history["valid_loss"] == [3.5, 3.5, 2.0]


def test_without_held_out_rows_there_are_no_validation_losses():
    seen = []
    trained = [[3.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    trainer = Scripted(np.full((3, 2), np.nan), trained, watched=[False, False])
    history = run(trainer, callbacks=(lambda record: seen.append(record["valid_loss"]),))
    np.testing.assert_array_equal(trainer.best, [1, 0])
    assert history["train_loss"] == [2.0, 1.5, 2.5] == seen and history["valid_loss"] == []


def test_callbacks_see_every_epoch():
    seen = []
    run(Scripted([[4.0, 2.0], [1.0, 3.0], [2.0, 2.0]], trained=[[1, 3], [5, 5], [0, 1]]), callbacks=(seen.append,))
    assert seen == [
        {"epoch": 1, "train_loss": 2.0, "valid_loss": 3.0, "best_loss": 3.0},
        {"epoch": 2, "train_loss": 5.0, "valid_loss": 2.0, "best_loss": 1.5},
        {"epoch": 3, "train_loss": 0.5, "valid_loss": 2.0, "best_loss": 1.5},
    ]


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_stops_the_training(answer):
    seen, trainer = [], Scripted(np.arange(9.0, 0, -1)[:, None])
    history = run(trainer, callbacks=(lambda record: record["epoch"] == 3 and answer, seen.append))
    assert len(trainer.calls) == len(seen) == len(history["valid_loss"]) == 3
    assert trainer.best == [2] and trainer.restored == 1


def test_other_answers_of_callbacks_do_not_stop_it():
    trainer = Scripted(np.ones((4, 1)))
    run(trainer, callbacks=(lambda record: 1, lambda record: "stop", lambda record: None, lambda record: False))
    assert len(trainer.calls) == 4


@pytest.mark.parametrize("name", ["training", "validation"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_losses_that_are_not_finite_are_an_error(name, wrong):
    trained, valid = np.ones((3, 2)), np.ones((3, 2))
    (trained if name == "training" else valid)[1, 1] = wrong
    trainer = Scripted(valid, trained)
    with pytest.raises(FloatingPointError, match=f"the {name} loss became {wrong} in epoch 2"):
        run(trainer)
    assert len(trainer.calls) == 2


class Keeps:
    """A stateful callback that notes the epochs that it is told of, and starts after some of them."""

    def __init__(self, done=0):
        self.done, self.told = done, []

    def __call__(self, record):
        self.told.append(("record", record["epoch"]))

    def resume(self, course, run):
        self.identity, self.rng, self.trainer = run.identity(), run.rng, run.trainer
        course.epoch = self.done
        return course

    def after_epoch(self, course, run):
        self.told.append(("after", course.epoch))

    def end(self):
        self.told.append("end")


def test_stateful_callbacks_resume_and_are_told_of_every_epoch():
    assert isinstance(Keeps(), StatefulCallback) and not isinstance(lambda record: None, StatefulCallback)
    keeps, trainer, rng = Keeps(2), Scripted(np.ones((3, 2))), np.random.default_rng(0)
    training = Training(0.1, "constant", 5, None, 4, (print, keeps))
    train(trainer, 10, training, rng=rng, identity=lambda: {"lr": "1"})
    assert keeps.told == [("record", 3), ("after", 3), ("record", 4), ("after", 4), ("record", 5), ("after", 5)]
    assert keeps.identity == {"lr": "1"} and keeps.rng is rng and keeps.trainer is trainer
    training.end()
    assert keeps.told[-1] == "end"


def test_without_an_identity_stateful_callbacks_are_plain_ones():
    keeps = Keeps(2)
    run(Scripted(np.ones((3, 2))), callbacks=(keeps,))
    assert keeps.told == [("record", 1), ("record", 2), ("record", 3)]


# -- learning rates and batches -----------------------------------------------------------------------


@given(st.floats(0, 1))
def test_one_cycle_lies_between_0_and_1_and_does_not_jump(progress):
    assert 0 <= one_cycle(progress) <= 1
    near = min(progress + 1e-6, 1.0)
    assert abs(one_cycle(near) - one_cycle(progress)) <= 1e-5  # the slope is at most pi / 2 / 0.3


@given(st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0.3, 1), st.floats(0.3, 1))
def test_one_cycle_rises_and_then_falls(a, b, c, d):
    rising, falling = sorted((a, b)), sorted((c, d))
    assert one_cycle(rising[0]) <= one_cycle(rising[1]) + 1e-12
    assert one_cycle(falling[0]) >= one_cycle(falling[1]) - 1e-12


def test_one_cycle_at_its_ends():
    assert one_cycle(0.0) == pytest.approx(1 / 25)
    assert one_cycle(0.3) == 1
    assert one_cycle(1.0) == pytest.approx(0, abs=1e-12)
    assert [SCHEDULES["constant"](share) for share in (0.0, 0.5, 1.0)] == [1, 1, 1]


def test_every_step_has_the_rate_of_its_place_among_all_steps():
    trainer = Scripted(np.ones((4, 1)))
    run(trainer, n_rows=11, schedule="one_cycle", lr=0.5)
    rates = [rate for _, ends, found in trainer.calls for rate in found]
    np.testing.assert_allclose(rates, [0.5 * one_cycle(step / 12) for step in range(12)])


def test_the_rows_are_shuffled_by_the_generator_and_by_nothing_else():
    def orders(seed):
        trainer = Scripted(np.ones((3, 1)))
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        run(trainer, n_rows=30, draws=generator)
        return np.array([order for order, _, _ in trainer.calls])

    first = orders(0)
    np.testing.assert_array_equal(np.sort(first, axis=1), np.tile(np.arange(30), (3, 1)))
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(orders(0), first)
    assert (orders(1) != first).any() and (orders(None) != orders(None)).any()


def test_a_single_batch_is_not_shuffled():
    trainer = Scripted(np.ones((2, 1)))
    state = torch.Generator().manual_seed(0)
    before = state.get_state()
    run(trainer, n_rows=6, batch_size=6, draws=state)
    for order, ends, _ in trainer.calls:
        np.testing.assert_array_equal(order, np.arange(6))
        assert ends == [6]
    assert torch.equal(state.get_state(), before)


@given(st.integers(1, 300), st.integers(1, 80))
def test_batches_cover_all_rows_and_none_has_a_single_row(n_rows, batch_size):
    ends = batch_ends(n_rows, batch_size)
    sizes = np.diff([0, *ends])
    assert ends[-1] == n_rows and sizes.sum() == n_rows and (sizes > 0).all()
    assert (sizes[:-1] == batch_size).all() and sizes[-1] <= max(batch_size + 1, 1)
    if batch_size > 1 and n_rows > 1:
        assert sizes.min() > 1


@given(st.integers(2, 10_000))
def test_automatic_batches_are_powers_of_two_up_to_64(n_rows):
    size = batch_rows("auto", n_rows)
    assert size in (2, 4, 8, 16, 32, 64)
    assert size == 64 or n_rows / 4 <= size < max(n_rows / 2, 4)
    assert batch_rows(None, n_rows) == n_rows and batch_rows(7, n_rows) == 7


@given(st.integers(1, 10_000))
def test_automatic_epochs_take_about_1500_steps(n_batches):
    found = epochs("auto", "one_cycle", n_batches, n_values=1000)
    assert 40 <= found <= 120
    if 40 < found < 120:
        assert 1500 - n_batches < found * n_batches <= 1500
    assert epochs("auto", "constant", n_batches, 1000) == 1000
    assert epochs(3, "constant", n_batches, 1000) == epochs(3, "one_cycle", n_batches, 1000) == 3
    assert epochs("auto", "one_cycle", n_batches, 10**9) == 40  # so many features


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 4)), min_size=1, max_size=10))
def test_losses_are_weighted(pairs):
    values, weight = np.array(pairs).T
    found = float(weighted(torch.tensor(values), torch.tensor(weight)))
    expected = np.average(values, weights=weight) if weight.any() else 0.0
    assert found == pytest.approx(expected, abs=1e-9)
