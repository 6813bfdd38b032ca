"""Several trainers as one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from svnn.estimators.training import Teams, Trainer, train
from svnn.estimators.training._loop import constant


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
def test_members_are_dealt_out_to_their_teams(sizes, data):
    n = sum(sizes)
    starts = np.cumsum([0, *sizes])
    teams = Teams([Noted(range(start, start + size)) for start, size in zip(starts[:-1], sizes, strict=True)])
    assert teams.n_members == n and len(teams.watched) == n
    members = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    losses = teams.epoch(np.arange(6), [3, 6], [0.1, 0.2], members)
    np.testing.assert_allclose(losses[members], members + 0.01)
    np.testing.assert_allclose(teams.validate(members)[members], members + 0.01)
    teams.keep(members.tolist())
    for team, start, size in zip(teams.teams, starts[:-1], sizes, strict=True):
        own = (members[(members >= start) & (members < start + size)] - start).tolist()
        expected = [own] if own else []  # a team all of whose members have stopped is not asked
        assert team.asked == team.validated == team.kept == expected
        if own:
            assert team.arguments == (list(range(6)), [3, 6], [0.1, 0.2])
    for member in range(n):
        assert teams.held_out(member)[0].tolist() == [member]
    teams.restore()
    assert all(team.restored == 1 for team in teams.teams)


def test_to_keep_nobody_is_to_keep_nothing():
    teams = Teams([Noted([0, 1]), Noted([2])])
    teams.keep([])
    assert [team.kept for team in teams.teams] == [[], []]


def test_some_members_are_watched():
    teams = Teams([Noted([0, 1], [True, False]), Noted([2], [True])])
    np.testing.assert_array_equal(teams.watched, [True, False, True])


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
def test_teams_are_trained_as_one_trainer_with_all_members_is(patience):
    script = np.random.default_rng(0).uniform(0, 1, (12, 5))
    options = {"lr": 0.1, "schedule": constant, "max_epochs": 12, "patience": patience, "batch_size": 4}
    one, parts = Scripted(script), [Scripted(script[:, :2]), Scripted(script[:, 2:])]
    expected = train(one, 10, **options, generator=torch.Generator().manual_seed(0))
    found = train(Teams(parts), 10, **options, generator=torch.Generator().manual_seed(0))
    assert found == expected
    asked = [[member for member in members if member < 2] for members in one.asked]
    assert parts[0].asked == [members for members in asked if members]


def test_the_epoch_of_a_member_is_that_of_members_that_hold_out_other_rows():
    """Two teams of one shape, and one of another, which has nobody else to ask."""
    parts = [Noted([0, 1]), Noted([2]), Noted([3])]
    np.testing.assert_allclose(Teams(parts, [5, 5, 0]).monitored(np.array([1.0, 3, 7, 9])), [7, 7, 2, 9])
    np.testing.assert_allclose(Teams(parts).monitored(np.array([1.0, 3, 7, 9])), [1, 3, 7, 9])


def test_best_epochs_and_patience_follow_the_losses_of_the_others():
    falls, rises = [[3.0], [2], [1]], [[1.0], [2], [3]]
    options = {"lr": 0.1, "schedule": constant, "max_epochs": 3, "patience": None, "batch_size": 10}
    found = train(Teams([Scripted(falls), Scripted(rises)], [1, 1]), 10, **options)
    assert found["best_epoch"] == [1, 3] and found["valid_loss"] == [2, 2, 2]
