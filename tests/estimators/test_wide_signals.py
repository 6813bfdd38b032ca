"""Signals with many values per node: the compiled training is used, and finds what training by modules finds."""

from __future__ import annotations

import numpy as np
import pytest

from svnn import SVNNClassifier, SVNNRegressor
from svnn._compiled import load
from svnn.estimators import _member_training
from svnn.estimators.training import CompiledTrainer, ModuleTrainer


@pytest.fixture
def used(monkeypatch):
    """The trainers that took an epoch."""
    found = []
    for kind in (CompiledTrainer, ModuleTrainer):

        def epoch(self, *arguments, original=kind.epoch):
            found.append(type(self))
            return original(self, *arguments)

        monkeypatch.setattr(kind, "epoch", epoch)
    return found


@pytest.mark.skipif(load("svnn.estimators.training._member_kernels") is None, reason="there are no compiled kernels")
def test_the_kernel_trains_wide_signals_as_modules_do(used, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.tile([0, 1, 2], 20)
    X = rng.standard_normal((60, 4, 16)) + y[:, None, None]
    settings = {"members": 2, "max_epochs": 3, "node_dropout": 0.0, "device": "cpu", "random_state": 0}
    kernel = SVNNClassifier(**settings).fit(X, y)
    assert set(used) == {CompiledTrainer}
    used.clear()
    monkeypatch.setattr(_member_training, "_MOST_COMPILED", 0)
    modules = SVNNClassifier(**settings).fit(X, y)
    assert set(used) == {ModuleTrainer}
    np.testing.assert_allclose(kernel.history_["train_loss"], modules.history_["train_loss"], rtol=1e-4)
    np.testing.assert_allclose(kernel.predict_proba(X), modules.predict_proba(X), atol=1e-3)


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
