from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from svnn.plotting import ContributionsDisplay
from svnn.plotting._contributions_display import _swarm

VALUES = np.random.default_rng(0).standard_normal((60, 5)) * [1.0, 5.0, 0.1, 3.0, 2.0]


def test_bars_are_mean_absolute_contributions_the_largest_first():
    display = ContributionsDisplay.from_contributions(VALUES, list("abcde"), max_features=3, unit="years")
    bars, points = display.ax_
    widths = [bar.get_width() for bar in bars.patches]
    np.testing.assert_allclose(widths, np.abs(VALUES).mean(0)[[1, 3, 4]])
    assert [tick.get_text() for tick in bars.get_yticklabels()] == ["b", "d", "e"]
    assert bars.yaxis_inverted() and "years" in bars.get_xlabel() and "years" in points.get_xlabel()
    assert "the 3 most important of 5 features" in bars.get_title(loc="left")


def test_every_row_is_a_point_in_the_row_of_its_feature():
    display = ContributionsDisplay.from_contributions(VALUES)
    for row, cloud in enumerate(display.ax_[1].collections):
        places = cloud.get_offsets()
        np.testing.assert_allclose(places[:, 0], VALUES[:, display.shown_[row]])
        assert np.abs(places[:, 1] - row).max() < 0.4


def test_points_are_coloured_by_the_feature():
    X = np.random.default_rng(1).standard_normal(VALUES.shape)
    display = ContributionsDisplay.from_contributions(VALUES, X=X)
    for row, cloud in enumerate(display.ax_[1].collections):
        feature = X[:, display.shown_[row]]
        np.testing.assert_array_equal(np.argsort(cloud.get_array()), np.argsort(feature))
    assert display.figure_.axes[-1].get_ylabel() == "value of the feature"


def test_results_of_inspection_are_taken_as_they_are():
    result = SimpleNamespace(contributions=VALUES, names=["p", "q", "r", "s", "t"])
    display = ContributionsDisplay.from_contributions(result)
    assert display.names == ["p", "q", "r", "s", "t"]
    np.testing.assert_array_equal(display.contributions, VALUES)


@pytest.mark.parametrize(("kind", "n_bars", "n_clouds"), [("points", 0, 5), ("bars", 5, 0)])
def test_a_single_axis_gets_points_or_bars(kind, n_bars, n_clouds, axis):
    ContributionsDisplay.from_contributions(VALUES, ax=axis, kind=kind)
    assert len(axis.patches) == n_bars and len(axis.collections) == n_clouds
    assert len(axis.get_yticklabels()) == 5


def test_close_points_spread():
    x = np.concatenate([np.full(20, 1.0), [5.0]])
    heights = _swarm(x, x[:, None])
    assert len(set(heights[:20])) == 20 and heights[20] == 0 and np.abs(heights).max() <= 1


def test_contributions_that_are_all_zero_can_be_drawn():
    ContributionsDisplay.from_contributions(np.zeros((4, 3))).figure_.canvas.draw()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"contributions must have shape \(t, N\), got \(2, 3, 4\)"):
        ContributionsDisplay.from_contributions(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="X must have the shape of the contributions"):
        ContributionsDisplay.from_contributions(VALUES, X=VALUES[:3])
    with pytest.raises(ValueError, match="names has 2 entries for 5 features"):
        ContributionsDisplay.from_contributions(VALUES, ["a", "b"])
    with pytest.raises(ValueError, match="kind must be"):
        ContributionsDisplay.from_contributions(VALUES, kind="violin")
