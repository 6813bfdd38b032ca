from __future__ import annotations

import numpy as np
import pytest

from svnn import HardThreshold
from svnn.plotting import StabilityDisplay
from svnn.stability import stability_curve


def test_lines_are_medians_and_bands_quartiles(model, blocks):
    X, _, _ = blocks
    tables = {
        name: stability_curve(model, X[:20], name, X[20:], sizes=(20, 40, 80), repeats=4, random_state=0)
        for name in ("hard", "sample")
    }
    display = StabilityDisplay.from_curves(tables)
    assert display.x_ == "n_samples" and [each.get_label() for each in display.ax_.lines] == ["hard", "sample"]
    for line, table in zip(display.ax_.lines, tables.values(), strict=True):
        errors = table["embedding_error"].reshape(3, 4)
        np.testing.assert_allclose(line.get_xdata(), [20, 40, 80])
        np.testing.assert_allclose(line.get_ydata(), np.median(errors, 1))
    band = display.ax_.collections[0].get_paths()[0].vertices
    quartiles = np.quantile(tables["hard"]["embedding_error"].reshape(3, 4), (0.25, 0.75), axis=1)
    assert band[:, 1].max() == pytest.approx(quartiles.max()) and band[:, 1].min() == pytest.approx(quartiles.min())
    assert "medians of 4 repeats" in display.ax_.get_title(loc="left")


def test_it_measures_the_curves_of_an_estimator(model, blocks):
    X, _, _ = blocks
    display = StabilityDisplay.from_estimator(model, X[:20], "hard", X[20:], levels=(0.2, 0.6), y="prediction_change")
    (line,) = display.ax_.lines
    assert display.x_ == "level" and line.get_xdata().tolist() == [0.2, 0.6]
    assert "share of the pairs" in display.ax_.get_xlabel() and display.ax_.get_xscale() == "linear"
    assert "change of the predictions" in display.ax_.get_ylabel().replace("\n", " ")
    np.testing.assert_allclose(line.get_ydata(), display.curves["hard"]["prediction_change"])


def test_estimators_are_named_by_their_parameters(model, blocks):
    X, _, _ = blocks
    covariances = ["sample", HardThreshold(top_k=4).fit(X)]
    display = StabilityDisplay.from_estimator(
        model, X[:20], covariances, X[20:], sizes=(30,), repeats=2, random_state=0
    )
    assert list(display.curves) == ["sample", "HardThreshold(top_k=4)"]


def test_the_legend_keeps_other_lines_of_the_axis(axis):
    axis.plot([50, 100], [0, 0], label="mine")
    table = [{"n_samples": n, "embedding_error": 1 / n} for n in (50, 100)]
    for name in ("_hard", "soft"):
        StabilityDisplay.from_curves({name: table}, ax=axis)
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["mine", "soft"]


def test_a_single_table_needs_no_legend():
    table = [{"n_samples": 50, "n_features": n, "level": np.nan, "embedding_error": 1.0 / n} for n in (10, 20, 40)]
    display = StabilityDisplay.from_curves(table)
    assert display.x_ == "n_features" and display.ax_.get_legend() is None
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["10", "20", "40"]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one"):
        StabilityDisplay({})
    with pytest.raises(ValueError, match="no column n_samples"):
        StabilityDisplay({"a": [{"error": 1.0}]})
    with pytest.raises(ValueError, match="y='speed' is not a column of the curve 'a'; use one of n_samples"):
        StabilityDisplay({"a": [{"n_samples": 1, "embedding_error": 1.0}]}).plot(y="speed")
