from __future__ import annotations

import numpy as np
import pytest

from svnn import SVNNRegressor
from svnn.plotting import ResponseDisplay
from svnn.stability import frequency_response

QUICK = {"max_epochs": 3, "device": "cpu", "random_state": 0}


def test_responses_are_those_of_each_members_filters(model):
    display = ResponseDisplay.from_estimator(model)
    assert display.responses.shape == (300, 3, 8) and display.use == "log"
    shift = 1 + np.log10(display.lam) / 8  # what the filters are polynomials of
    for member, network in enumerate(model.module_.networks):
        expected = frequency_response(network.filters[0].weight, shift)[:, 0]
        np.testing.assert_allclose(display.responses[:, member], expected, rtol=1e-6, atol=1e-8)


def test_members_are_faint_and_their_mean_is_bold(model):
    display = ResponseDisplay.from_estimator(model)
    *members, mean, rug = display.ax_.lines
    assert len(members) == 3 and rug.get_gid() == "eigenvalues"
    for each, gain in zip(members, display.gains_.T, strict=True):
        np.testing.assert_allclose(each.get_ydata(), gain)
        assert each.get_linewidth() < mean.get_linewidth() and each.get_alpha() < 1
    np.testing.assert_allclose(mean.get_ydata(), display.gains_.mean(1))


def test_the_rug_marks_the_eigenvalues_of_the_covariance(model):
    display = ResponseDisplay.from_estimator(model)
    values = np.linalg.eigvalsh(model.covariance_)
    values = values / values.max()
    np.testing.assert_allclose(np.sort(display.ax_.lines[-1].get_xdata()), values[values > 1e-8], rtol=1e-4)


def test_the_axis_says_that_the_filters_work_on_the_logarithm(model, blocks):
    display = ResponseDisplay.from_estimator(model)
    assert "polynomials of log λ" in display.ax_.get_xlabel() and display.ax_.get_xscale() == "log"
    X, y, _ = blocks
    plain = ResponseDisplay.from_estimator(SVNNRegressor(use="covariance", members=1, **QUICK).fit(X, y))
    assert "log" not in plain.ax_.get_xlabel() and plain.ax_.get_xscale() == "linear"
    assert plain.lam[0] <= 0 and plain.lam[-1] == pytest.approx(1)


def test_all_filters_can_be_drawn(model):
    display = ResponseDisplay.from_estimator(model, kind="filters")
    curves = [each for each in display.ax_.lines if len(each.get_xdata()) == 300]
    assert len(curves) == 24 and len({each.get_color() for each in curves}) == 3


def test_layers_are_counted(blocks):
    X, y, _ = blocks
    deep = SVNNRegressor(hidden=(4, 5), members=2, **QUICK).fit(X, y)
    display = ResponseDisplay.from_estimator(deep, layer=1)
    assert display.responses.shape == (300, 2, 20) and "layer 2" in display.ax_.get_ylabel()
    with pytest.raises(ValueError, match="layer must be from 0 to 1, as the network has 2"):
        ResponseDisplay.from_estimator(deep, layer=2)


def test_unknown_kinds_are_named(model):
    with pytest.raises(ValueError, match="kind must be"):
        ResponseDisplay.from_estimator(model, kind="all")
