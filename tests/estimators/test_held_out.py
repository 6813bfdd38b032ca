"""The rows that each member holds out of its training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from strategies import seeds
from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators import _members, _trainers
from svnn.estimators._data import held_out_size, member_folds, prepare, split_rows
from svnn.estimators._evaluate import evaluate
from svnn.nn import Members

QUICK = {"max_epochs": 1, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 1)) + rng.standard_normal((90, 6))
    return X, X @ np.arange(6.0) + 100


class Watched:
    """Fits a model, and notes the folds, what their members are trained with, and what those have learned."""

    def __init__(self, model, *arguments, **given):
        self.batches, self.folds, self.weights, self.trainers = [], [], [], []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_trainers, "batches", self._noting(_trainers.batches, self._note_batches))
            patch.setattr(_members, "held_out_outputs", self._noting(_members.held_out_outputs, self._note_weights))
            patch.setattr(_members, "member_trainer", self._noting(_members.member_trainer, self._note_trainer))
            self.model = model.fit(*arguments, **given)

    @staticmethod
    def _noting(function, note):
        def noted(*arguments, **keywords):
            found = function(*arguments, **keywords)
            note(found, *arguments)
            return found

        return noted

    def _note_batches(self, found, data, make):
        if found[1] is not None:
            self.batches.append(found)

    def _note_weights(self, found, trainers, folds, data):
        self.folds = folds
        for each in self.trainers:
            self.weights.append(torch.stack([nn.utils.parameters_to_vector(n.parameters()) for n in each.networks]))

    def _note_trainer(self, found, model, networks, fold, *rest):
        if fold.data.folds:
            self.trainers.append(found)

    def held_and_trained(self):
        """Of every fold, the rows that it holds out and those that it is trained on."""
        found = []
        for (batch, validation), fold in zip(self.batches, self.folds, strict=True):
            (held,) = fold.data.folds
            targets = torch.as_tensor(fold.data.training.targets[held], dtype=torch.float32)
            assert torch.equal(validation.y, targets)
            found.append((held, np.flatnonzero(batch.weight.numpy())))
        return found


def test_every_member_trains_on_all_rows_but_its_own_held_out_ones(data):
    X, y = data
    weight = np.ones(90)
    weight[::9] = 0
    watched = Watched(SVNNRegressor(members=12, **QUICK), X, y, weight)
    parts = watched.held_and_trained()
    assert len(parts) == 4 and [len(each) for each in watched.weights] == [3, 3, 3, 3]
    for held, trained in parts:
        np.testing.assert_array_equal(np.sort(np.r_[held, trained]), np.flatnonzero(weight))
    assert len(set(np.concatenate([held for held, _ in parts]))) == 32  # a tenth of 80 rows each


@pytest.mark.parametrize(("members", "sizes"), [(2, [1, 1]), (3, [1, 1, 1]), (7, [2, 2, 2, 1])])
def test_members_are_dealt_out_to_at_most_four_folds(members, sizes, data):
    watched = Watched(SVNNRegressor(members=members, **QUICK), *data)
    assert [len(each) for each in watched.weights] == sizes
    assert len(set(np.concatenate([held for held, _ in watched.held_and_trained()]))) == 9 * len(sizes)


def test_groups_are_never_split_between_held_out_and_trained_rows(data):
    X, y = data
    groups = np.random.default_rng(0).integers(0, 7, 90)
    watched = Watched(SVNNRegressor(members=9, validation_fraction=0.3, **QUICK), X, y, groups=groups)
    assert len(watched.folds) == 3
    for held, trained in watched.held_and_trained():
        assert len(held) and len(trained) and len(held) + len(trained) == 90
        assert not set(groups[held]) & set(groups[trained])


def test_a_single_group_cannot_be_split(data):
    with pytest.raises(ValueError, match="groups holds a single group"):
        SVNNRegressor(members=3, **QUICK).fit(*data, groups=np.zeros(90))


@pytest.mark.parametrize("covariance", ["hard", "sample", "acv"])
def test_what_is_held_out_is_held_out_of_everything(covariance, data):
    """Of the standardisation, the covariance, the basis and the weights, whatever stands in the held-out rows."""
    X, y = data
    model = SVNNRegressor(members=2, covariance=covariance, **QUICK)
    first = Watched(model, X, y)
    (held,) = first.folds[0].data.folds
    spoiled_X, spoiled_y = X.copy(), y.copy()
    spoiled_X[held], spoiled_y[held] = 50 * X[held][:, ::-1] + 7, 3 - 20 * y[held]
    second = Watched(model, spoiled_X, spoiled_y)
    others = np.setdiff1d(np.arange(90), held)
    for name in ("signals", "targets"):
        a, b = (getattr(watched.folds[0].data.training, name)[others] for watched in (first, second))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    a, b = (watched.folds[0].shift for watched in (first, second))
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-8, atol=1e-12)
    assert a.scale == pytest.approx(b.scale)
    a, b = (watched.trainers[0].whitening for watched in (first, second))
    assert torch.allclose(a, b, rtol=1e-3)
    assert torch.allclose(first.weights[0], second.weights[0], rtol=1e-3, atol=1e-5)
    assert not torch.allclose(first.weights[1], second.weights[1], rtol=1e-3, atol=1e-5)


def test_a_single_network_learns_from_its_training_rows_alone(data):
    X, y = data
    model = SVNNRegressor(members=1, **QUICK)
    first = model.fit(X, y)
    held = split_rows(y, None, 0.1, int(np.random.default_rng(0).integers(2**31)), stratify=False)[1]
    before = first.covariance_, first.fitted_.standardizer.mean, first.predict(X)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(first.out_of_fold_)), np.sort(held))
    spoiled = X.copy()
    spoiled[held] *= 100
    second = model.fit(spoiled, y)
    after = second.covariance_, second.fitted_.standardizer.mean
    for a, b in zip(before, after, strict=False):
        np.testing.assert_array_equal(a, b)


# -- out_of_fold_ -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [1, 3])
def test_rows_that_were_held_out_have_predictions_and_the_others_do_not(members, data, iris):
    X, y = data
    model = SVNNRegressor(members=members, **QUICK).fit(X, y)
    found = prepare(
        model,
        X,
        y,
        seed=int(np.random.default_rng(0).integers(2**31)),
        are_labels=False,
        n_folds=_members.n_folds(model),
    )
    held = found.held_rows if members == 1 else np.concatenate(found.folds)
    assert len(held) == 9 * members
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(model.out_of_fold_)), np.sort(held))
    assert model.out_of_fold_.shape == y.shape and np.isnan(model.out_of_fold_).sum() == 90 - len(held)
    wide = SVNNRegressor(members=members, **QUICK).fit(X, np.c_[y, -y])
    assert wide.out_of_fold_.shape == (90, 2)
    np.testing.assert_array_equal(np.isfinite(wide.out_of_fold_).all(1), np.isfinite(model.out_of_fold_))
    labels = SVNNClassifier(members=members, **QUICK).fit(*iris)
    rows = np.isfinite(labels.out_of_fold_).all(1)
    assert labels.out_of_fold_.shape == (150, 3) and rows.sum() == 15 * members
    assert np.isnan(labels.out_of_fold_[~rows]).all()
    np.testing.assert_allclose(labels.out_of_fold_[rows].sum(1), 1)


def test_there_are_none_where_no_row_of_the_table_was_held_out(data):
    X, y = data
    for members in (1, 2):
        model = SVNNRegressor(members=members, **QUICK)
        assert model.fit(X, y, validation_data=(X, y)).out_of_fold_ is None
        assert model.set_params(validation_fraction=0.0).fit(X, y).out_of_fold_ is None


@pytest.mark.parametrize("options", [{}, {"hidden": (4, 4)}, {"schedule": "constant", "covariance": "sample"}])
def test_they_are_those_of_members_that_saw_neither_the_rows_nor_their_covariance(options, data):
    X, y = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_members, "_refine", lambda *arguments: None)  # which trains with all rows
        options = QUICK | {"max_epochs": 4, "members": 5, "shrink": False} | options
        watched = Watched(SVNNRegressor(**options), X, y)
    model = watched.model
    shares = np.array_split(np.arange(5), len(watched.folds))
    assert len(watched.folds) == 4
    for own, fold in zip(shares, watched.folds, strict=True):
        (held,) = fold.data.folds
        others = np.setdiff1d(np.arange(90), held)
        Z = fold.data.training.signals
        np.testing.assert_allclose(Z[others].mean(0), 0, atol=1e-9)
        if options.get("covariance") == "sample":
            np.testing.assert_allclose(fold.shift.covariance, np.cov(Z[others, :, 0].T, ddof=0), atol=1e-9)
        members = Members([model.fitted_.networks[i] for i in own])
        expected = model.fitted_.targets.decode(evaluate(members, fold.shift, Z[held]).mean(0))
        np.testing.assert_allclose(model.out_of_fold_[held], expected, rtol=1e-4)


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
@pytest.mark.parametrize("covariance", ["hard", "acv"])
def test_they_do_not_depend_on_other_rows_of_their_fold(kind, covariance, data):
    X, y = data[0], data[1] if kind is SVNNRegressor else (data[1] > 100).astype(int)
    model = kind(members=2, covariance=covariance, shrink=False, **QUICK)
    watched = Watched(model, X, y)
    first, (row, *rest), (other, *_) = model.out_of_fold_, *(fold.data.folds[0] for fold in watched.folds)
    spoiled = X.copy()
    spoiled[rest] = 20 * X[rest][:, ::-1] - 3
    second = model.fit(spoiled, y).out_of_fold_
    np.testing.assert_allclose(second[row], first[row], rtol=1e-3)
    assert np.abs(second[other] - first[other]).max() > 1e-3 * np.abs(first[other]).max()


def test_they_are_as_good_as_predictions_for_new_rows(data):
    """And worse than those for training rows, where a model learns noise."""
    rng = np.random.default_rng(2)
    X, noise = rng.standard_normal((400, 12)), 3 * rng.standard_normal(400)
    y = X[:, 0] + noise
    rows = np.arange(80)
    options = {"members": 4, "max_epochs": 40, "shrink": False, "node_dropout": 0.0, "random_state": 0}
    model = SVNNRegressor(**options).fit(X[rows], y[rows])
    held = np.isfinite(model.out_of_fold_)
    errors = [
        np.mean(np.square(found - target))
        for found, target in (
            (model.out_of_fold_[held], y[rows][held]),
            (model.predict(X[80:]), y[80:]),
            (model.predict(X[rows]), y[rows]),
        )
    ]
    assert errors[2] < 0.8 * errors[0] and 0.6 < errors[0] / errors[1] < 1.6


@pytest.fixture(scope="module")
def noisy(data):
    """Targets of which held-out rows trust a network in part."""
    return data[1] + 20 * np.random.default_rng(1).standard_normal(90)


def test_those_of_a_single_network_are_its_predictions(data, noisy):
    X, options = data[0], QUICK | {"members": 1, "max_epochs": 20}
    model = SVNNRegressor(shrink=False, **options).fit(X, noisy)
    found, held = model.out_of_fold_, np.isfinite(model.out_of_fold_)
    np.testing.assert_allclose(found[held], model.predict(X)[held], rtol=1e-4)
    shrunk = SVNNRegressor(**options).fit(X, noisy).out_of_fold_  # other held-out rows choose their epochs
    assert np.array_equal(held, np.isfinite(shrunk)) and np.std(shrunk[held]) < np.std(found[held])


def test_they_are_shrunk_towards_the_constant_of_the_other_rows(data, noisy):
    X, options = data[0], QUICK | {"members": 3, "max_epochs": 20}
    whole = Watched(SVNNRegressor(shrink=False, **options), X, noisy)
    a, b = whole.model.out_of_fold_, SVNNRegressor(**options).fit(X, noisy).out_of_fold_
    held, constant = np.isfinite(a), np.full(90, np.nan)
    for fold in whole.folds:
        (rows,) = fold.data.folds
        constant[rows] = noisy[np.setdiff1d(np.arange(90), rows)].mean()
    a, b = (found[held] - constant[held] for found in (a, b))
    share = float(a @ b / (a @ a))
    assert 0.05 < share < 0.95 and 20 * share == pytest.approx(round(20 * share), abs=1e-3)
    np.testing.assert_allclose(b, share * a, atol=1e-3)


# -- how rows are dealt out -------------------------------------------------------------------------------------


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
