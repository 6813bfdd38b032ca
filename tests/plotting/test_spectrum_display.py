from __future__ import annotations

import numpy as np
import pytest

from svnn.plotting import SpectrumDisplay
from svnn.plotting._spectral_displays import marchenko_pastur_share
from svnn.stability import marchenko_pastur_edge


def line(display, start):
    (found,) = (each for each in display.ax_.lines if each.get_label().startswith(start))
    return found


def heights(display):
    return np.array([bar.get_height() for bar in display.ax_.patches if hasattr(bar, "get_height")])


def test_bars_hold_all_eigenvalues_and_the_edge_is_marked(blocks):
    X, _, _ = blocks
    display = SpectrumDisplay.from_data(X)
    np.testing.assert_allclose(display.eigenvalues, np.linalg.eigvalsh(np.corrcoef(X.T))[::-1])
    assert heights(display).sum() == 12
    assert display.edge_ == marchenko_pastur_edge(120, 12)
    assert line(display, "edge").get_xdata()[0] == display.edge_
    assert display.n_above_ == 2 and "2 of 12 eigenvalues above the edge" in display.ax_.get_title(loc="left")
    assert display.ax_.get_xscale() == "log"


def test_the_curve_of_noise_adds_up_to_all_features(blocks):
    display = SpectrumDisplay.from_data(blocks[0], bins=50)
    assert line(display, "independent").get_ydata().sum() == pytest.approx(12, rel=1e-3)


@pytest.mark.parametrize(("n_samples", "n_features"), [(2000, 400), (300, 600)])
def test_the_law_of_noise_agrees_with_noise(n_samples, n_features):
    X = np.random.default_rng(0).standard_normal((n_samples, n_features))
    values = np.linalg.eigvalsh(X.T @ X / n_samples)
    values = values[values > 1e-9]
    at = np.quantile(values, (0.1, 0.5, 0.9))
    expected = np.array([(values <= each).sum() for each in at]) / n_features
    np.testing.assert_allclose(marchenko_pastur_share(at, n_samples, n_features), expected, atol=0.01)


def test_zero_eigenvalues_are_counted_not_drawn_on_a_log_axis():
    X = np.random.default_rng(0).standard_normal((10, 30))
    display = SpectrumDisplay.from_data(X)
    assert heights(display).sum() == 9
    assert "zero or negative: 21" in display.ax_.get_title(loc="left")
    display.plot(log=False)
    assert heights(display).sum() == 30 and display.ax_.get_xscale() == "linear"


def test_a_plain_axis_ends_at_three_edges_and_says_what_is_beyond():
    R = np.full((40, 40), 0.9) + 0.1 * np.eye(40)
    display = SpectrumDisplay.from_matrix(R, n_samples=400, log=False)
    assert "too large: 1, up to 36.1" in display.ax_.get_title(loc="left")
    assert heights(display).sum() == 39


def test_the_spectrum_after_sparsification_is_drawn_too(model, blocks):
    display = SpectrumDisplay.from_estimator(model, blocks[0])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "sample correlations" in labels and "after sparsification" in labels
    C = model.covariance_
    scale = np.sqrt(np.diag(C))
    np.testing.assert_allclose(display.after, np.linalg.eigvalsh(C / scale / scale[:, None])[::-1], atol=1e-9)


def test_values_per_node_count_as_observations():
    X = np.random.default_rng(0).standard_normal((50, 6, 4))
    assert SpectrumDisplay.from_data(X).n_samples == 200


def test_data_of_other_features_is_refused(model, blocks):
    with pytest.raises(ValueError, match="they must agree"):
        SpectrumDisplay.from_estimator(model, blocks[0][:, :3])
