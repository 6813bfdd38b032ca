"""Signals with many values per node: every way to train them finds what training by modules finds."""

from __future__ import annotations

import numpy as np
import pytest

from svnn import SVNNClassifier, SVNNRegressor
from svnn._compiled import load
from svnn.estimators import _trainers
from svnn.estimators.training import CompiledTrainer, ModuleTrainer, StackedTrainer
from svnn.nn._shifted import SpectralSignals

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

SETTINGS = {"members": 2, "max_epochs": 3, "device": "cpu", "random_state": 0}


@pytest.fixture
def used(monkeypatch):
    """The trainers that took an epoch, and what their signals are."""
    found = []
    for kind in (CompiledTrainer, StackedTrainer, ModuleTrainer):

        def epoch(self, *arguments, original=kind.epoch):
            found.append((type(self), type(self.data.x)))
            return original(self, *arguments)

        monkeypatch.setattr(kind, "epoch", epoch)
    return found


def problem():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1, 2], 20)
    return rng.standard_normal((60, 4, 16)) + y[:, None, None], y


@pytest.mark.parametrize("node_dropout", [0.0, 0.2])
def test_stacked_networks_train_in_the_eigenbasis_as_modules_do(node_dropout, used, monkeypatch):
    X, y = problem()
    model = SVNNClassifier(**SETTINGS, node_dropout=node_dropout, shrink=False).fit(X, y)
    assert set(used) == {(StackedTrainer, SpectralSignals)}
    used.clear()
    monkeypatch.setattr(_trainers.Plan, "of", classmethod(lambda *arguments: None))
    modules = SVNNClassifier(**SETTINGS, node_dropout=node_dropout, shrink=False).fit(X, y)
    assert set(used) == {(ModuleTrainer, SpectralSignals)}
    np.testing.assert_allclose(model.history_["train_loss"], modules.history_["train_loss"], rtol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), modules.predict_proba(X), atol=1e-3)


def test_rows_of_validation_data_are_evaluated_in_the_eigenbasis(used):
    X, y = problem()
    model = SVNNClassifier(**SETTINGS, shrink=False).fit(X[:45], y[:45], validation_data=(X[45:], y[45:]))
    assert set(used) == {(StackedTrainer, SpectralSignals)}
    best = np.min(model.history_["valid_loss"])
    chosen = -np.log(model.predict_proba(X[45:])[np.arange(15), y[45:]]).mean()
    assert chosen <= best + 0.05


@pytest.mark.skipif(load("svnn.estimators.training._member_kernels") is None, reason="there are no compiled kernels")
def test_the_kernel_trains_wide_signals_as_stacked_networks_do(used, monkeypatch):
    X, y = problem()
    stacked = SVNNClassifier(**SETTINGS, node_dropout=0.0, shrink=False).fit(X, y)
    used.clear()
    monkeypatch.setattr(_trainers, "_MOST_COMPILED", 100)
    kernel = SVNNClassifier(**SETTINGS, node_dropout=0.0, shrink=False).fit(X, y)
    assert {kind for kind, _ in used} == {CompiledTrainer}
    np.testing.assert_allclose(kernel.history_["train_loss"], stacked.history_["train_loss"], rtol=1e-4)
    np.testing.assert_allclose(kernel.predict_proba(X), stacked.predict_proba(X), atol=1e-3)


def test_few_held_out_rows_of_many_nodes_are_evaluated_by_plain_torch(monkeypatch):
    """The kernel would take as long for one row as for 32."""
    from svnn.estimators.training import CompiledTrainer, StackedTrainer
    from svnn.estimators.training import _compiled_trainer as compiled

    if not compiled.load("svnn.estimators.training._member_kernels"):
        pytest.skip("numba's kernels are not there")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1100))
    used = []
    plain = StackedTrainer.held_out
    monkeypatch.setattr(StackedTrainer, "held_out", lambda *a: used.append(type(a[0])) or plain(*a))
    settings = {"max_epochs": 3, "members": 2, "random_state": 0, "device": "cpu"}
    fast = SVNNRegressor(**settings).fit(X, X[:, 0])
    assert used and set(used) == {CompiledTrainer}
    used.clear()
    monkeypatch.setattr(compiled, "_FEW_ROWS", 0)
    slow = SVNNRegressor(**settings).fit(X, X[:, 0])
    assert not used
    np.testing.assert_allclose(fast.history_["valid_loss"], slow.history_["valid_loss"], rtol=1e-5)
