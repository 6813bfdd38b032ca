"""Promises of all displays: the axis that is given, one style, quantities on the axes."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from svnn import BlendRegressor, HardThreshold, SVNNRegressor, plotting
from svnn.plotting import (
    ContributionsDisplay,
    CovarianceDisplay,
    GraphDisplay,
    PredictionDisplay,
    ResponseDisplay,
    SpectrumDisplay,
    StabilityDisplay,
    TrainingDisplay,
)
from svnn.plotting._style import LONGEST_NAME, feature_names, short_names

CURVE = [{"n_samples": n, "embedding_error": 1 / n + r / 10} for n in (50, 100) for r in range(3)]
DRAW = {
    "contributions": lambda m, X, y, ax: ContributionsDisplay.from_contributions(X, ax=ax),
    "covariance": lambda m, X, y, ax: CovarianceDisplay.from_estimator(m, X, ax=ax),
    "graph": lambda m, X, y, ax: GraphDisplay.from_estimator(m, ax=ax),
    "prediction": lambda m, X, y, ax: PredictionDisplay.from_estimator(m, X, y, ax=ax),
    "response": lambda m, X, y, ax: ResponseDisplay.from_estimator(m, ax=ax),
    "spectrum": lambda m, X, y, ax: SpectrumDisplay.from_estimator(m, X, ax=ax),
    "stability": lambda m, X, y, ax: StabilityDisplay.from_curves(CURVE, ax=ax),
    "training": lambda m, X, y, ax: TrainingDisplay.from_estimator(m, ax=ax),
}
every_display = pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)


@pytest.fixture(scope="module")
def blend(blocks):
    X, y, _ = blocks
    network = SVNNRegressor(covariance=HardThreshold(tau=0.3), members=4, max_epochs=3, device="cpu", random_state=0)
    return BlendRegressor(network).fit(X, y)


def test_a_blend_is_drawn_as_its_network(blend, blocks):
    X, y, _ = blocks
    network = blend.parts_["with edges"]
    shown = {
        "covariance": lambda display: display.after,
        "graph": lambda display: display.weights,
        "response": lambda display: display.responses,
        "spectrum": lambda display: display.after,
        "training": lambda display: display.history["train_loss"],
    }
    for name, what in shown.items():
        found, expected = (what(DRAW[name](model, X, y, None)) for model in (blend, network))
        np.testing.assert_array_equal(found, expected, err_msg=name)
    display = DRAW["prediction"](blend, X, y, None)
    np.testing.assert_array_equal(display.y_pred, blend.predict(X))


def drawn(axis):
    """The number of things on an axis that a plot adds."""
    return len(axis.lines) + len(axis.collections) + len(axis.images) + len(axis.patches)


@every_display
def test_it_draws_on_the_given_axis_and_opens_no_figure(draw, model, blocks, axis):
    X, y, _ = blocks
    display = draw(model, X, y, axis)
    assert display.ax_ is axis and display.figure_ is axis.get_figure()
    assert drawn(axis) and plt.get_fignums() == [axis.get_figure().number]
    assert not axis.spines["top"].get_visible() and not axis.spines["right"].get_visible()


@every_display
def test_it_makes_a_figure_of_its_own_and_can_draw_again(draw, model, blocks, axis):
    X, y, _ = blocks
    display = draw(model, X, y, None)
    first = display.figure_
    assert all(drawn(each) for each in np.ravel(display.ax_)) and first is not axis.get_figure()
    assert display.plot(ax=axis) is display
    assert display.ax_ is axis and display.figure_ is not first and drawn(axis)


@every_display
def test_axes_have_quantities(draw, model, blocks):
    X, y, _ = blocks
    display = draw(model, X, y, None)
    if not isinstance(display, GraphDisplay):  # places of nodes mean nothing
        assert all(each.get_xlabel() for each in np.ravel(display.ax_))
    display.figure_.canvas.draw()  # nothing fails while drawing


@every_display
def test_what_is_no_axis_is_refused(draw, model, blocks):
    X, y, _ = blocks
    with pytest.raises(ValueError, match=r"ax must be a matplotlib Axes.*got str"):
        draw(model, X, y, "left")


def test_displays_of_one_panel_take_one_axis(model, blocks):
    with pytest.raises(ValueError, match="ax must be a matplotlib Axes, got 2"):
        TrainingDisplay.from_estimator(model, ax=plt.subplots(1, 2)[1])
    X, _, _ = blocks
    with pytest.raises(ValueError, match="or 2 of them, got 3"):
        CovarianceDisplay.from_estimator(model, X, ax=plt.subplots(1, 3)[1])


@pytest.mark.parametrize("kind", [CovarianceDisplay, GraphDisplay, ResponseDisplay, SpectrumDisplay, TrainingDisplay])
def test_models_must_be_fitted(kind, blocks):
    X, _, _ = blocks
    arguments = [X] if kind in (CovarianceDisplay, SpectrumDisplay) else []
    with pytest.raises(ValueError, match="fit"):
        kind.from_estimator(SVNNRegressor(), *arguments)


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from svnn.plotting import TrainingDisplay\n"
        "try: TrainingDisplay({'train_loss': [1.0]}).plot()\n"
        "except ImportError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'svnn[plot]'" in said


def test_importing_the_room_does_not_import_matplotlib():
    code = "import svnn, sys; svnn.plotting.GraphDisplay; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_display_is_documented_with_an_example():
    for name in plotting.__all__:
        assert ">>>" in inspect.getdoc(getattr(plotting, name)), name
    for module in ("_style", "_matrices"):
        assert importlib.import_module(f"svnn.plotting.{module}").__doc__


# -- names ------------------------------------------------------------------------------------------------


def test_names_lose_what_all_of_them_share():
    assert short_names(["a_x_mm", "a_y_mm"]) == ["x", "y"]
    assert short_names(["region_left", "region_right"]) == ["left", "right"]
    assert short_names(["same", "same"]) == ["same", "same"]
    assert short_names(["x0", "x1", "x10"]) == ["x0", "x1", "x10"]
    assert short_names(["only_one_name"]) == ["only_one_name"]


def test_long_names_are_cut_in_the_middle():
    (name, short) = short_names(["abcdefghij" * 5 + "z", "fat"])
    assert len(name) <= LONGEST_NAME and name.startswith("abc") and name.endswith("z") and "…" in name
    assert short == "fat"


def test_names_come_from_the_first_source_that_has_them(blocks):
    import pandas as pd

    frame = pd.DataFrame(blocks[0][:, :2], columns=["a", "b"])
    assert feature_names(2, None, object(), frame) == ["a", "b"]
    assert feature_names(3, None, frame) == ["x0", "x1", "x2"]
    with pytest.raises(ValueError, match="names has 1 entries for 2 features"):
        feature_names(2, ["a"])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("constant", [False, True])
def test_tiny_and_constant_data_can_be_drawn(n, constant):
    rng = np.random.default_rng(0)
    X = np.ones((30, n)) if constant else rng.standard_normal((30, n))
    y = rng.standard_normal(30)
    model = SVNNRegressor(max_epochs=1, members=2, device="cpu", random_state=0).fit(X, y)
    for name in ("covariance", "graph", "spectrum", "response", "training", "prediction"):
        DRAW[name](model, X, y, None).figure_.canvas.draw()
