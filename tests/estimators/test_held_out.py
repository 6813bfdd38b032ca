"""The rows that each member holds out of its training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn import SVNNRegressor
from svnn.estimators._training_data import held_out_size, member_folds, split_rows

QUICK = {"max_epochs": 1, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 1)) + rng.standard_normal((90, 6))
    return X, X @ np.arange(6.0) + 100


class Watched(SVNNRegressor):
    """Notes the rows and weights that members are trained with, and what those that hold out rows have learned."""

    def _batches(self, *arguments):
        found = super()._batches(*arguments)
        if found[1] is not None:
            self.teams = [*getattr(self, "teams", []), found]
        return found

    def _finish(self, networks, trainer, data, folds, draws):
        self.folds = folds
        self.weights = [team.theta.clone() for team in getattr(trainer, "teams", [trainer])]
        self.bases = [team.whitening.clone() for team in getattr(trainer, "teams", [trainer])]
        super()._finish(networks, trainer, data, folds, draws)


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
    sets = {tuple(held) for held, _ in parts}
    assert len(sets) == 4 and len(set(np.concatenate([*map(list, sets)]))) == 32  # a tenth of 80 rows each


@pytest.mark.parametrize("members", [7, 12])
def test_members_without_edges_hold_out_the_rows_of_those_with(members, data):
    X, y = data
    model = Watched(**QUICK | {"members": members}).fit(X, y)
    sizes, n_folds = [len(batch.weight) for batch, _ in model.teams], min(members // 2, 4)
    assert len(sizes) == 2 * n_folds and sum(sizes[:n_folds]) == members - members // 2
    held = [[rows.numpy() for rows in validation.rows] for _, validation in model.teams]
    for with_edges, without in zip(held[:n_folds], held[n_folds:], strict=True):
        for rows in [*with_edges, *without]:
            np.testing.assert_array_equal(rows, with_edges[0])
    assert len(set(np.concatenate([rows for (rows, *_) in held[:n_folds]]))) == 9 * n_folds


def test_groups_are_never_split_between_held_out_and_trained_rows(data):
    X, y = data
    groups = np.random.default_rng(0).integers(0, 7, 90)
    model = Watched(**QUICK | {"members": 9, "validation_fraction": 0.3}).fit(X, y, groups=groups)
    assert len(model.teams) == 6
    for held, trained in held_and_trained(model):
        assert len(held) and len(trained) and len(held) + len(trained) == 90
        assert not set(groups[held]) & set(groups[trained])


def test_a_single_group_cannot_be_split(data):
    with pytest.raises(ValueError, match="groups holds a single group"):
        SVNNRegressor(members=3, **QUICK).fit(*data, groups=np.zeros(90))


@pytest.mark.parametrize("covariance", ["hard", "sample", "acv"])
def test_what_is_held_out_is_held_out_of_everything(covariance, data):
    """Of the standardisation, the covariance, the basis and the weights, whatever stands in the held-out rows."""
    X, y = data
    options = QUICK | {"members": 4, "covariance": covariance}
    first = Watched(**options).fit(X, y)
    (held,) = first.folds[0].data.folds
    spoiled_X, spoiled_y = X.copy(), y.copy()
    spoiled_X[held], spoiled_y[held] = 50 * X[held][:, ::-1] + 7, 3 - 20 * y[held]
    second = Watched(**options).fit(spoiled_X, spoiled_y)
    others = np.setdiff1d(np.arange(90), held)
    for name in ("signals", "targets"):
        a, b = (getattr(model.folds[0].data.training, name)[others] for model in (first, second))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    a, b = (model.folds[0].shift for model in (first, second))
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-8, atol=1e-12)
    assert a.scale == pytest.approx(b.scale)
    # The first set of rows is held out by the first members with edges, and by the first ones without.
    for team in (0, 2):
        assert torch.allclose(first.bases[team], second.bases[team], rtol=1e-3)
        assert torch.allclose(first.weights[team], second.weights[team], rtol=1e-3, atol=1e-5)
        assert not torch.allclose(first.weights[team + 1], second.weights[team + 1], rtol=1e-3, atol=1e-5)


def test_a_single_network_learns_from_its_training_rows_alone(data):
    X, y = data
    options = QUICK | {"members": 1}
    first = SVNNRegressor(**options).fit(X, y)
    held = split_rows(y, None, 0.1, int(np.random.default_rng(0).integers(2**31)), stratify=False)[1]
    spoiled = X.copy()
    spoiled[held] *= 100
    second = SVNNRegressor(**options).fit(spoiled, y)
    np.testing.assert_array_equal(first.covariance_, second.covariance_)
    np.testing.assert_array_equal(first._standardizer.mean, second._standardizer.mean)


weights = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=60)


@given(weights, st.floats(0.02, 0.5), st.integers(1, 12), seeds, st.booleans())
def test_folds_are_disjoint_parts_of_the_rows_with_weight(weight, fraction, n_folds, seed, stratify):
    weight = np.array(weight)
    y = np.random.default_rng(seed).integers(0, 3, len(weight))
    folds = member_folds(y, None, weight, fraction, n_folds, seed, stratify)
    rows = np.flatnonzero(weight)
    size = held_out_size(fraction, len(rows))
    if size < 1 or len(rows) - size < 2:
        assert folds == []
        return
    n_parts = max(round(len(rows) / size), 2)
    assert len(folds) == min(n_parts, n_folds)
    together = np.concatenate(folds)
    assert len(set(together)) == len(together) and set(together) <= set(rows)
    for fold in folds:
        assert len(fold) and abs(len(fold) - len(rows) / n_parts) < 1
    if n_folds >= n_parts:
        assert set(together) == set(rows)
    again = member_folds(y, None, weight, fraction, n_folds, seed, stratify)
    for fold, same in zip(folds, again, strict=True):
        np.testing.assert_array_equal(fold, same)


@given(st.floats(0.01, 0.5), st.integers(0, 400))
def test_a_few_rows_are_held_out_where_there_are_few(fraction, n_rows):
    size = held_out_size(fraction, n_rows)
    assert size == 0 or size >= 2
    assert size >= round(fraction * n_rows) or size == 0
    if size > round(fraction * n_rows):
        assert size <= 5 and size <= n_rows / 4
    assert held_out_size(0, n_rows) == 0


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
