"""Several trainers as one, and a single network's outputs for held-out rows, of epochs that other rows have chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators import _members
from svnn.estimators._trainers import loss_of
from svnn.estimators.training import Recorded, Trainer, TrainerGroup, Training, train


class Noted(Trainer):
    """Losses of its members are their names plus a hundredth of the epoch; it notes what it is asked to do."""

    def __init__(self, names, watched=None):
        self.names, self.n_members = np.array(names, dtype=float), len(names)
        self.watched = np.ones(len(names), dtype=bool) if watched is None else np.array(watched)
        self.asked, self.validated, self.kept, self.restored = [], [], [], 0

    def epoch(self, order, ends, rates, members):
        self.asked.append(members.tolist())
        self.arguments = order.tolist(), list(ends), list(rates)
        return self._only(members)

    def validate(self, members):
        self.validated.append(members.tolist())
        return self._only(members)

    def _only(self, members):
        found = np.full(self.n_members, np.nan)
        found[members] = self.names[members] + len(self.asked) / 100
        return found

    def keep(self, members):
        self.kept.append(list(members))

    def restore(self):
        self.restored += 1

    def held_out(self, member):
        return torch.tensor([self.names[member]]), torch.zeros(1)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_members_are_dealt_out_to_their_trainers(sizes, data):
    n = sum(sizes)
    starts = np.cumsum([0, *sizes])
    group = TrainerGroup([Noted(range(start, start + size)) for start, size in zip(starts[:-1], sizes, strict=True)])
    assert group.n_members == n and len(group.watched) == n
    members = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    losses = group.epoch(np.arange(6), [3, 6], [0.1, 0.2], members)
    np.testing.assert_allclose(losses[members], members + 0.01)
    np.testing.assert_allclose(group.validate(members)[members], members + 0.01)
    group.keep(members.tolist())
    for trainer, start, size in zip(group.trainers, starts[:-1], sizes, strict=True):
        own = (members[(members >= start) & (members < start + size)] - start).tolist()
        expected = [own] if own else []  # a trainer all of whose members have stopped is not asked
        assert trainer.asked == trainer.validated == trainer.kept == expected
        if own:
            assert trainer.arguments == (list(range(6)), [3, 6], [0.1, 0.2])
    for member in range(n):
        assert group.held_out(member)[0].tolist() == [member]
    group.restore()
    assert all(trainer.restored == 1 for trainer in group.trainers)


def test_to_keep_nobody_is_to_keep_nothing():
    group = TrainerGroup([Noted([0, 1]), Noted([2])])
    group.keep([])
    assert [trainer.kept for trainer in group.trainers] == [[], []]


def test_some_members_are_watched():
    group = TrainerGroup([Noted([0, 1], [True, False]), Noted([2], [True])])
    np.testing.assert_array_equal(group.watched, [True, False, True])


class Scripted(Noted):
    """Its members have the losses that are given, (epochs, members)."""

    def __init__(self, losses):
        super().__init__(range(len(losses[0])))
        self.losses = np.array(losses, dtype=float)

    def _only(self, members):
        found = np.full(self.n_members, np.nan)
        found[members] = self.losses[len(self.asked) - 1, members]
        return found


@pytest.mark.parametrize("patience", [1, 2, 4, None])
def test_a_group_is_trained_as_one_trainer_with_all_members_is(patience):
    script = np.random.default_rng(0).uniform(0, 1, (12, 5))
    training = Training(lr=0.1, schedule="constant", max_epochs=12, patience=patience, batch_size=4)
    one, parts = Scripted(script), [Scripted(script[:, :2]), Scripted(script[:, 2:])]
    expected = train(one, 10, training, torch.Generator().manual_seed(0))
    found = train(TrainerGroup(parts), 10, training, torch.Generator().manual_seed(0))
    assert found == expected
    asked = [[member for member in members if member < 2] for members in one.asked]
    assert parts[0].asked == [members for members in asked if members]


def test_the_epoch_of_a_member_is_that_of_members_that_hold_out_other_rows():
    parts, losses = [Noted([0, 1]), Noted([2]), Noted([3])], np.array([1.0, 3, 7, 9])
    np.testing.assert_allclose(TrainerGroup(parts, alike=True).monitored(losses), [8, 8, 13 / 3, 11 / 3])
    np.testing.assert_allclose(TrainerGroup(parts).monitored(losses), losses)
    np.testing.assert_allclose(TrainerGroup(parts[:1], alike=True).monitored(losses[:2]), losses[:2])  # nobody else


def test_best_epochs_and_patience_follow_the_losses_of_the_others():
    falls, rises = [[3.0], [2], [1]], [[1.0], [2], [3]]
    training = Training(lr=0.1, schedule="constant", max_epochs=3, patience=None, batch_size=10)
    found = train(TrainerGroup([Scripted(falls), Scripted(rises)], alike=True), 10, training)
    assert found["best_epoch"] == [1, 3] and found["valid_loss"] == [2, 2, 2]


# -- a network alone ----------------------------------------------------------------------------------


class Outputs:
    """A trainer whose outputs for its held-out rows in each epoch are given."""

    n_members, watched = 1, np.array([True])

    def __init__(self, outputs):
        self.script = iter(outputs)

    def validate(self, members):
        self.now = torch.tensor(next(self.script))[:, None]
        return np.zeros(1)

    def held_out(self, member):
        return self.now, torch.zeros(len(self.now), 1)


def squared(outputs, targets):
    return (outputs - targets)[:, 0] ** 2


def test_every_row_has_the_outputs_of_the_epoch_that_suits_the_others():
    """By row 3 alone the second epoch is the best, by each of the others the first: row 3 is not asked about itself."""
    recorded = Recorded(Outputs([[0.0, 0, 0, 9, 0], [1.0, 1, 1, 0, 1]]))
    for _ in range(2):
        recorded.validate(np.array([0]))
    found = recorded.cross_fitted(torch.zeros(5, 1), np.ones(5), squared)
    assert found[:, 0].tolist() == [1, 1, 1, 9, 1]
    weighted = recorded.cross_fitted(torch.zeros(5, 1), np.array([1.0, 1, 1, 0, 1]), squared)
    assert weighted[:, 0].tolist() == [0, 0, 0, 9, 0]


@pytest.fixture
def recorders(monkeypatch):
    """The recorded trainers of the fits of a test."""
    found = []

    class Noted(Recorded):
        def __init__(self, trainer):
            super().__init__(trainer)
            found.append(self)

    monkeypatch.setattr(_members, "Recorded", Noted)
    return found


def data(rows=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 1)) + rng.standard_normal((rows, 5))
    return X, X[:, 0] + np.sin(2 * X[:, 1])


@pytest.mark.parametrize(
    "options", [{}, {"hidden": (4, 4)}, {"activation": "gelu"}], ids=["kernel", "modules", "stacked"]
)
@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_what_is_recorded_is_what_is_validated(kind, options, recorders):
    X, y = data()
    y = y if kind is SVNNRegressor else y > 0
    model = kind(members=1, max_epochs=6, random_state=0, **options).fit(X, y)
    (recorder,) = recorders
    losses = [float(loss_of(model)(each, recorder.held_out(0)[1]).mean()) for each in recorder.outputs]
    np.testing.assert_allclose(losses, model.history_["valid_loss"], rtol=1e-4)
    assert len(set(losses)) == 6


@pytest.mark.parametrize("options", [{"members": 2}, {"shrink": False}, {"validation_fraction": 0.0}], ids=str)
def test_only_a_network_alone_with_rows_of_its_own_is_recorded(options, recorders):
    X, y = data()
    SVNNRegressor(**{"members": 1, "max_epochs": 2, "random_state": 0} | options).fit(X, y)
    SVNNRegressor(members=1, max_epochs=2, random_state=0).fit(X, y, validation_data=(X[:9], y[:9]))
    assert not recorders
