from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from svnn import HardThreshold
from svnn.plotting import CovarianceDisplay


def test_before_are_sample_correlations_and_after_those_of_the_model(model, blocks):
    X, _, _ = blocks
    display = CovarianceDisplay.from_estimator(model, X)
    np.testing.assert_allclose(display.before, np.corrcoef(X.T), atol=1e-12)
    C = model.covariance_
    scale = np.sqrt(np.diag(C))
    np.testing.assert_allclose(display.after, C / scale / scale[:, None])
    shown = display.ax_[0].images[0].get_array()
    np.testing.assert_allclose(shown, display.before[np.ix_(display.order_, display.order_)])


def test_features_of_a_block_stand_side_by_side(model, blocks):
    X, _, group = blocks
    display = CovarianceDisplay.from_estimator(model, X)
    assert np.count_nonzero(np.diff(group[display.order_])) == 1
    labels = [text.get_text() for text in display.ax_[0].get_yticklabels()]
    assert labels == [f"x{i}" for i in display.order_]


def test_dropped_pairs_are_masked_and_counted(model, blocks):
    X, _, _ = blocks
    display = CovarianceDisplay.from_estimator(model, X)
    dropped = (model.covariance_ == 0)[np.ix_(display.order_, display.order_)]
    assert dropped.any()
    np.testing.assert_array_equal(np.ma.getmaskarray(display.ax_[1].images[0].get_array()), dropped)
    density = 1 - dropped.sum() / (12 * 11)
    assert f"{100 * density:.3g} % of the pairs kept" in display.ax_[1].get_title(loc="left")


def test_one_axis_holds_before_below_the_diagonal_and_after_above_it(model, blocks, axis):
    X, _, _ = blocks
    display = CovarianceDisplay.from_estimator(model, X, ax=axis)
    shown, order = axis.images[0].get_array(), np.ix_(display.order_, display.order_)
    below, above = np.tril_indices(12, -1), np.triu_indices(12, 1)
    np.testing.assert_allclose(shown[below], display.before[order][below])
    np.testing.assert_allclose(shown.filled(0)[above], display.after[order][above])


def test_two_axes_of_the_caller_are_used(model, blocks):
    pair = plt.subplots(1, 2)[1]
    display = CovarianceDisplay.from_estimator(model, blocks[0], ax=pair)
    assert list(display.ax_) == list(pair) and all(len(each.images) == 1 for each in pair)


def test_of_many_features_the_best_connected_are_shown(blocks):
    X = np.hstack([blocks[0], np.random.default_rng(1).standard_normal((120, 8))])
    display = CovarianceDisplay.from_estimator(HardThreshold(tau=0.3).fit(X), X, max_features=12)
    assert display.before.shape == (12, 12) and set(display.names) == {f"x{i}" for i in range(12)}
    assert "the 12 best connected of 20 features" in display.ax_[0].get_xlabel()


def test_covariances_of_any_unit_and_kind_are_correlations():
    C = np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    display = CovarianceDisplay.from_matrix(C)
    np.testing.assert_allclose(display.before, [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 0]])
    assert len(np.ravel(display.ax_)) == 1


def test_colours_use_the_range_where_all_correlations_are_large():
    R = np.full((4, 4), 0.98) + 0.02 * np.eye(4)
    (image,) = CovarianceDisplay.from_matrix(R).ax_.images
    assert image.get_clim() == (pytest.approx(0.98), 1.0)
    (image,) = CovarianceDisplay.from_matrix(np.eye(4)).ax_.images
    assert image.get_clim() == (-1.0, 1.0)


def test_data_of_other_features_is_refused(model, blocks):
    with pytest.raises(ValueError, match=r"X has shape \(120, 5\), but the covariance has 12 features"):
        CovarianceDisplay.from_estimator(model, blocks[0][:, :5])
    with pytest.raises(ValueError, match="of the same features"):
        CovarianceDisplay.from_matrix(np.eye(3), np.eye(4))


def test_missing_values_are_left_out_pair_by_pair(blocks):
    X = blocks[0].copy()
    estimator = HardThreshold(tau=0.3).fit(X)
    X[0, 0] = np.nan
    assert np.isfinite(CovarianceDisplay.from_estimator(estimator, X).before).all()


def test_a_correlation_that_is_rounded_above_one_can_be_drawn():
    display = CovarianceDisplay(np.full((1, 1), np.nextafter(1, 2))).plot()
    display.figure_.canvas.draw()
