from __future__ import annotations

import numpy as np
import pytest

from svnn import SVNNRegressor
from svnn.covariance import HardThreshold
from svnn.plotting import TrainingDisplay


def test_curves_are_the_history_and_markers_the_best_epochs(model):
    display = TrainingDisplay.from_estimator(model)
    train, valid = display.ax_.lines
    np.testing.assert_allclose(train.get_ydata(), model.history_["train_loss"])
    np.testing.assert_allclose(valid.get_ydata(), model.history_["valid_loss"])
    assert train.get_xdata().tolist() == list(range(1, 7))
    places = display.ax_.collections[0].get_offsets()
    at = np.unique(model.history_["best_epoch"])
    np.testing.assert_allclose(places, np.stack([at, np.array(model.history_["valid_loss"])[at - 1]], -1))
    assert "huber loss" in display.ax_.get_ylabel() and display.ax_.get_xlabel() == "epoch"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["training rows", "held-out rows", "best epochs of the 3 members"]


def test_best_epochs_are_those_of_the_smallest_losses(blocks):
    X, y, _ = blocks
    single = SVNNRegressor(members=1, max_epochs=12, device="cpu", random_state=0).fit(X, y)
    assert single.history_["best_epoch"] == [int(np.argmin(single.history_["valid_loss"])) + 1]
    several = SVNNRegressor(members=4, max_epochs=12, device="cpu", random_state=0).fit(X, y)
    assert len(several.history_["best_epoch"]) == 4
    assert all(1 <= epoch <= 12 for epoch in several.history_["best_epoch"])


def test_without_held_out_rows_there_is_one_curve(blocks):
    X, y, _ = blocks
    model = SVNNRegressor(members=1, max_epochs=4, validation_fraction=0.0, device="cpu", random_state=0).fit(X, y)
    display = TrainingDisplay.from_estimator(model)
    assert len(display.ax_.lines) == 1 and display.best_epochs_ == model.history_["best_epoch"]


def test_histories_of_older_files_have_no_best_epochs():
    display = TrainingDisplay({"train_loss": [3.0, 2.0, 1.0], "valid_loss": [3.0, 1.5, 2.0]}).plot()
    assert display.best_epochs_ == [2]


def test_classifiers_name_their_loss(classifier):
    assert "cross-entropy loss" in TrainingDisplay.from_estimator(classifier).ax_.get_ylabel()


def test_bad_input_is_named(blocks):
    with pytest.raises(TypeError, match="HardThreshold has no history_"):
        TrainingDisplay.from_estimator(HardThreshold().fit(blocks[0]))
    with pytest.raises(ValueError, match="at least one epoch"):
        TrainingDisplay({"train_loss": []})
