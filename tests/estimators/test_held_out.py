"""The rows that each member holds out of its training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn import SVNNRegressor
from svnn.estimators._training_data import member_folds

QUICK = {"max_epochs": 1, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 1)) + rng.standard_normal((90, 6))
    return X, X @ np.arange(6.0) + 100


class Watched(SVNNRegressor):
    """Notes the rows and weights that the members of its teams are trained with."""

    def _batches(self, *arguments):
        self.teams = [*getattr(self, "teams", []), super()._batches(*arguments)]
        return self.teams[-1]


def held_and_trained(model):
    """Of every member, the rows that it holds out and those that it is trained on."""
    found = []
    for batch, validation in model.teams:
        trained = [np.flatnonzero(weight) for weight in batch.weight.numpy()]
        found += zip([rows.numpy() for rows in validation.rows], trained, strict=True)
    return found


def test_every_member_trains_on_all_rows_but_its_own_held_out_ones(data):
    X, y = data
    weight = np.ones(90)
    weight[::9] = 0
    model = Watched(blend=False, **QUICK | {"members": 12}).fit(X, y, weight)
    parts = held_and_trained(model)
    assert len(parts) == 12
    for held, trained in parts:
        np.testing.assert_array_equal(np.sort(np.r_[held, trained]), np.flatnonzero(weight))
    np.testing.assert_array_equal(parts[0][0], parts[10][0])  # ten folds for twelve members
    assert len(set(np.concatenate([held for held, _ in parts[:10]]))) == 80


@pytest.mark.parametrize("members", [7, 12])
def test_members_without_edges_hold_out_the_rows_of_those_with(members, data):
    X, y = data
    model = Watched(**QUICK | {"members": members}).fit(X, y)
    n = members // 2
    assert [len(batch.weight) for batch, _ in model.teams] == [members - n, n]
    parts = held_and_trained(model)
    for number, (held, trained) in enumerate(parts):
        np.testing.assert_array_equal(np.sort(np.r_[held, trained]), np.arange(90))
        if number < n:
            np.testing.assert_array_equal(held, parts[members - n + number][0])
    assert len(set(np.concatenate([held for held, _ in parts[: members - n]]))) == 9 * (members - n)


def test_groups_are_never_split_between_held_out_and_trained_rows(data):
    X, y = data
    groups = np.random.default_rng(0).integers(0, 7, 90)
    model = Watched(**QUICK | {"members": 9, "validation_fraction": 0.3}).fit(X, y, groups=groups)
    assert len(model.teams) == 2
    for held, trained in held_and_trained(model):
        assert len(held) and len(trained) and len(held) + len(trained) == 90
        assert not set(groups[held]) & set(groups[trained])


def test_a_single_group_cannot_be_split(data):
    with pytest.raises(ValueError, match="groups holds a single group"):
        SVNNRegressor(members=3, **QUICK).fit(*data, groups=np.zeros(90))


def test_a_member_does_not_learn_from_the_rows_it_holds_out(data):
    """Where these exchange their targets, which keeps the scale, the member's weights after an epoch are the same."""
    X, y = data
    options = QUICK | {"members": 2}
    first = Watched(**options).fit(X, y)
    held = held_and_trained(first)[0][0]
    exchanged = y.copy()
    exchanged[held] = y[held][::-1]
    second = Watched(**options).fit(X, exchanged)
    pairs = [zip(*(m.module_.networks[i].parameters() for m in (first, second)), strict=True) for i in range(2)]
    assert all(torch.allclose(a, b, rtol=1e-5) for a, b in pairs[0])
    assert not any(torch.allclose(a, b, rtol=1e-5) for a, b in pairs[1])


weights = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=60)


@given(weights, st.floats(0.02, 0.5), st.integers(2, 12), seeds, st.booleans())
def test_folds_are_disjoint_parts_of_the_rows_with_weight(weight, fraction, n_members, seed, stratify):
    weight = np.array(weight)
    y = np.random.default_rng(seed).integers(0, 3, len(weight))
    folds = member_folds(y, None, weight, fraction, n_members, seed, stratify)
    rows = np.flatnonzero(weight)
    size = round(fraction * len(rows))
    if size < 1 or len(rows) - size < 2:
        assert folds is None
        return
    assert len(folds) == n_members
    distinct = {tuple(fold) for fold in folds}
    together = np.concatenate([list(fold) for fold in distinct])
    assert len(set(together)) == len(together) and set(together) <= set(rows)
    n_folds = max(round(len(rows) / size), 2)
    assert len(distinct) == min(n_folds, n_members)
    for member, fold in enumerate(folds):  # more members than folds begin again
        np.testing.assert_array_equal(fold, folds[member % n_folds])
        assert len(fold) and abs(len(fold) - len(rows) / n_folds) < 1
        assert 0.6 * fraction * len(rows) - 1 <= len(fold) <= 1.5 * fraction * len(rows) + 1
    if n_members >= n_folds:
        assert set(together) == set(rows)
    again = member_folds(y, None, weight, fraction, n_members, seed, stratify)
    for fold, same in zip(folds, again, strict=True):
        np.testing.assert_array_equal(fold, same)


@given(st.lists(st.sampled_from("abc"), min_size=10, max_size=60), st.floats(0.1, 0.5), seeds)
def test_classes_are_dealt_out_evenly(labels, fraction, seed):
    y = np.array(labels)
    folds = member_folds(y, None, np.ones(len(y)), fraction, 40, seed, stratify=True)
    for label in np.unique(y):
        counts = [np.count_nonzero(y[fold] == label) for fold in folds]
        assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(0, 5), min_size=6, max_size=60), st.floats(0.1, 0.5), seeds)
def test_groups_stay_together(groups, fraction, seed):
    groups = np.array([*groups, 0, 1])
    folds = member_folds(np.zeros(len(groups)), groups, np.ones(len(groups)), fraction, 8, seed, stratify=False)
    for fold in folds:
        outside = np.setdiff1d(np.arange(len(groups)), fold)
        assert len(fold) and len(outside) and not set(groups[fold]) & set(groups[outside])


def test_another_seed_deals_out_other_rows():
    y, ones = np.zeros(40), np.ones(40)
    first, second = (member_folds(y, None, ones, 0.1, 3, seed, stratify=False) for seed in (0, 1))
    assert any(set(a) != set(b) for a, b in zip(first, second, strict=True))
