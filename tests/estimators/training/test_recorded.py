"""A single network's outputs for held-out rows, of epochs that other rows have chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators import _member_training
from svnn.estimators.training import Recorded


class Scripted:
    """A trainer whose outputs for its held-out rows in each epoch are given."""

    watched = np.array([True])
    whitening = rest = None

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
    recorded = Recorded(Scripted([[0.0, 0, 0, 9, 0], [1.0, 1, 1, 0, 1]]))
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

    monkeypatch.setattr(_member_training, "Recorded", Noted)
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
    losses = [float(model._loss(each, recorder.held_out(0)[1]).mean()) for each in recorder.outputs]
    np.testing.assert_allclose(losses, model.history_["valid_loss"], rtol=1e-4)
    assert len(set(losses)) == 6


@pytest.mark.parametrize("options", [{"members": 2}, {"blend": False}, {"validation_fraction": 0.0}], ids=str)
def test_only_a_network_alone_with_rows_of_its_own_is_recorded(options, recorders):
    X, y = data()
    SVNNRegressor(**{"members": 1, "max_epochs": 2, "random_state": 0} | options).fit(X, y)
    SVNNRegressor(members=1, max_epochs=2, random_state=0).fit(X, y, validation_data=(X[:9], y[:9]))
    assert not recorders
