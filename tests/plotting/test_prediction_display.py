from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix

from svnn import SVNNRegressor
from svnn.plotting import PredictionDisplay


def test_points_and_bars_are_predictions_and_their_deviations(model, blocks):
    X, y, _ = blocks
    display = PredictionDisplay.from_estimator(model, X, y, target="age (years)")
    mean, std = model.predict(X, return_std=True)
    points = display.ax_.collections[-1].get_offsets()
    np.testing.assert_allclose(points, np.stack([y, mean], -1))
    segments = np.array(display.ax_.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, :, 1], np.stack([mean - std, mean + std], -1))
    assert display.ax_.get_xlabel() == "true age (years)" and display.ax_.get_ylabel() == "predicted age (years)"
    title = display.ax_.get_title(loc="left")
    assert f"mean absolute error {abs(mean - y).mean():.3g}, 120 rows" in title
    assert f"{100 * (abs(mean - y) <= std).mean():.0f} % lie within" in title


def test_models_without_deviations_have_points_only(blocks):
    X, y, _ = blocks
    display = PredictionDisplay.from_estimator(Ridge().fit(X, y), X, y)
    assert display.std is None and len(display.ax_.collections) == 1


def test_one_of_several_outputs_is_drawn(blocks):
    X, y, _ = blocks
    Y = np.stack([y, 10 + 3 * y], -1)
    model = SVNNRegressor(members=2, max_epochs=3, device="cpu", random_state=0).fit(X, Y)
    display = PredictionDisplay.from_estimator(model, X, Y, output=1)
    np.testing.assert_allclose(display.y_true, Y[:, 1])
    np.testing.assert_allclose(display.y_pred, model.predict(X)[:, 1])
    with pytest.raises(ValueError, match="output must be from 0 to 1"):
        PredictionDisplay.from_estimator(model, X, Y, output=2)


def test_classifiers_have_a_matrix_of_counts(classifier, blocks):
    X, y, _ = blocks
    labels = np.where(y > 0, "high", "low")
    display = PredictionDisplay.from_estimator(classifier, X, labels, target="level")
    expected = confusion_matrix(labels, classifier.predict(X), labels=classifier.classes_)
    np.testing.assert_array_equal(display.counts_, expected)
    assert [text.get_text() for text in display.ax_.texts] == [str(count) for count in expected.ravel()]
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["high", "low"]
    assert display.ax_.get_xlabel() == "predicted level" and display.ax_.get_ylabel() == "true level"
    right = 100 * np.trace(expected) / expected.sum()
    assert f"{right:.1f} % of 120 rows are right" in display.ax_.get_title(loc="left")


def test_numbers_are_labels_where_labels_are_given():
    display = PredictionDisplay.from_predictions([0, 1, 2], [0, 2, 2], labels=[0, 1, 2])
    assert display.counts_.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert not hasattr(PredictionDisplay.from_predictions([0, 1, 2], [0, 2, 2]), "counts_")


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="same shape"):
        PredictionDisplay.from_predictions([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="std must have the shape"):
        PredictionDisplay.from_predictions([1.0, 2.0], [1.0, 2.0], std=[1.0])
    with pytest.raises(ValueError, match="labels must hold every label"):
        PredictionDisplay.from_predictions(["a"], ["b"], labels=["a"])
