"""With few rows a network is never much worse than both ridge regression and a constant.

`make few-rows` measures the whole grid, of which this is a small part.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from few_rows import BAR, Cell, grid, measure

from svnn import SVNNClassifier, SVNNRegressor
from svnn.covariance._resolve import NAMES
from svnn.estimators._held_out import HeldOut, trusted_share

#: Where directions that the training rows hardly show were scaled up: the errors were up to a hundred times ridge's.
LARGE = [Cell("LargeCov", rows, "hard", "log", 8, seed) for rows, seed in ((60, 2), (80, 0), (80, 1), (120, 3))]
FEWER_ROWS_THAN_FEATURES = [Cell("meats", rows, "sample", "log", 8, 0) for rows in (12, 40)]
SPREAD = [
    Cell("LargeCov", 80, "sample", "covariance", 1, 0),
    Cell("SparseCov", 5, "hard", "log", 8, 0),
    Cell("SparseCov", 8, "ledoit_wolf", "precision", 1, 0),
    Cell("SparseCov", 80, "ledoit_wolf", "precision", 8, 0),
    Cell("Spiked", 8, "ledoit_wolf", "log", 1, 0),
    Cell("Spiked", 72, "sample", "covariance", 8, 0),
    Cell("Spiked", 120, "sample", "covariance", 1, 0),
    Cell("digits", 20, "soft", "covariance", 8, 0),
    Cell("LargeCov classes", 50, "sample", "log", 8, 0),
    Cell("SparseCov classes", 12, "acv", "log", 1, 0),
]


@pytest.mark.parametrize("cell", LARGE + FEWER_ROWS_THAN_FEATURES + SPREAD, ids=lambda cell: "-".join(cell.key))
def test_the_error_is_not_much_above_that_of_ridge_and_of_a_constant(cell):
    found = measure(cell)
    assert float(found["ratio"]) < BAR, found


def test_every_covariance_with_fewer_rows_than_features():
    for name in NAMES:
        found = measure(Cell("meats", 20, name, "log", 8, 0))
        assert "refused" in found or float(found["ratio"]) < BAR, found


def test_the_grid_has_every_covariance_every_use_and_both_numbers_of_members():
    cells = list(grid(("SparseCov", "digits"), range(1)))
    assert {cell.covariance for cell in cells} == set(NAMES)
    assert {cell.use for cell in cells} == {"covariance", "log", "precision"}
    assert {cell.members for cell in cells} == {1, 8} and min(cell.rows for cell in cells) == 5
    assert max(cell.rows for cell in cells if cell.table == "SparseCov") == 300


# -- how much held-out rows trust a network ----------------------------------------------------------------------------


def share(errors, constant, weight=None):
    """The share that is trusted of outputs with these errors, where those of the constant are the others."""
    weight = np.ones(len(errors)) if weight is None else weight
    held = HeldOut(errors[:, None], constant[:, None], np.zeros((len(errors), 1)), weight, None)
    return trusted_share(held, lambda outputs, y: torch.square(outputs - y).mean(-1))


def test_a_network_without_errors_counts_in_full_and_one_as_bad_as_a_constant_does_not(rng):
    constant = rng.standard_normal(20)
    assert share(0 * constant, constant) == 1
    assert share(1.5 * constant, constant) == 0


@pytest.mark.parametrize(("rows", "expected"), [(1, 0), (3, 0), (4, 1)])
def test_three_rows_say_nothing(rows, expected):
    constant = np.full(rows, 3.0) + np.arange(rows) / 100
    assert share(0 * constant, constant) == expected
    weight = np.append(np.ones(rows), np.zeros(30))  # rows without weight are no rows
    constant = np.append(constant, np.full(30, 5.0))
    assert share(0 * constant, constant, weight) == expected


def test_the_same_gain_on_more_rows_is_trusted_more(rng):
    constant, errors = rng.standard_normal((2, 8))
    errors = 0.45 * constant + 0.8 * errors
    few, many = (share(np.tile(errors, n), np.tile(constant, n)) for n in (1, 50))
    assert few < many < 1


# -- shrink ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [1, 3])
def test_where_nothing_can_be_learned_a_constant_is_predicted(members, rng):
    """The mean of the targets, or the shares of the classes, which of few rows are not told apart from noise."""
    X, y = rng.standard_normal((24, 5)), rng.standard_normal(24) + 10
    options = {"members": members, "max_epochs": 5, "random_state": 0}
    np.testing.assert_allclose(SVNNRegressor(**options).fit(X, y).predict(X), y.mean(), rtol=1e-5)
    assert np.ptp(SVNNRegressor(shrink=False, **options).fit(X, y).predict(X)) > 0.01
    labels = np.where(np.arange(24) % 4 == 0, "rare", "usual")
    found = SVNNClassifier(**options).fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(found, np.tile([0.25, 0.75], (24, 1)), rtol=1e-5)
    assert np.ptp(SVNNClassifier(shrink=False, **options).fit(X, labels).predict_proba(X)[:, 0]) > 0.01


@pytest.mark.parametrize("members", [1, 2])
def test_too_few_rows_to_hold_any_out_leave_a_constant(members, rng):
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    options = {"members": members, "max_epochs": 5, "random_state": 0}
    model = SVNNRegressor(**options).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-5)
    assert model.out_of_fold_ is None
    # Whoever holds nothing out, or gives validation data, takes the network as it is.
    assert np.ptp(SVNNRegressor(validation_fraction=0, **options).fit(X, y).predict(X)) > 0.01
    assert np.ptp(SVNNRegressor(**options).fit(X, y, validation_data=(X, y)).predict(X)) > 0.01


def test_shrink_takes_a_share_of_the_same_network(data):
    """Of a single network, whose training it does not change: outputs are a mean of its own and of the constant."""
    X, y = data
    noisy = y + 15 * np.random.default_rng(1).standard_normal(len(y))
    options = {"members": 1, "max_epochs": 30, "random_state": 0}
    whole, shrunk = (SVNNRegressor(shrink=shrink, **options).fit(X, noisy) for shrink in (False, True))
    assert whole.history_ == shrunk.history_
    a, b = (model.predict(X) - noisy.mean() for model in (whole, shrunk))
    share = float(a @ b / (a @ a))
    assert 0.05 < share < 0.95 and 20 * share == pytest.approx(round(20 * share), abs=1e-3)
    np.testing.assert_allclose(b, share * a, atol=1e-3)
    held = ~np.isnan(shrunk.out_of_fold_)
    assert np.array_equal(held, ~np.isnan(whole.out_of_fold_)) and 0 < held.sum() < len(y) / 4
