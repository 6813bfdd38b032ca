"""Names of columns, classes, curves and files are drawn as they are: they are text, never formulas or markup."""

from __future__ import annotations

import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

from svnn.comparison import Comparison, plot
from svnn.plotting import (
    ContributionsDisplay,
    CovarianceDisplay,
    GraphDisplay,
    PredictionDisplay,
    StabilityDisplay,
    TrainingDisplay,
)
from svnn.plotting._style import short_names

#: Each of them is an error of matplotlib, is left out of legends, or has no glyph, where it is not taken for text.
NAMES = [
    r"$\frac{$", "a$b", "$x^$ and $y$", r"\$5", "_hidden", "%s%d", r"\alpha{", "two\nlines", "😀 𝒳", "{0}", "x" * 3000,
    "\x07\ud800", "",
]  # fmt: skip
TABLE = [{"n_samples": n, "embedding_error": 1 / n, "$y^$": 1.0} for n in (50, 100)]
C = np.eye(len(NAMES)) + 0.5


def classes(ax, target):
    labels = np.array(NAMES)
    return PredictionDisplay.from_predictions(labels, labels[::-1], labels=NAMES, target=target, ax=ax)


DRAW = {
    "contributions": lambda ax: ContributionsDisplay.from_contributions(C, NAMES, unit="$^$", ax=ax),
    "covariance": lambda ax: CovarianceDisplay.from_matrix(C, names=NAMES, ax=ax),
    "graph": lambda ax: GraphDisplay(C, NAMES, quantity="$^$").plot(ax, n_names=len(NAMES)),
    "classes": lambda ax: classes(ax, "$^$"),
    "numbers": lambda ax: PredictionDisplay.from_predictions([1.0, 2.0], [1.1, 2.1], target="$^$", ax=ax),
    "stability": lambda ax: StabilityDisplay.from_curves(dict.fromkeys(NAMES, TABLE), ax=ax),
    "column": lambda ax: StabilityDisplay({"": TABLE}).plot(ax, y="$y^$"),
    "training": lambda ax: TrainingDisplay({"train_loss": [1.0, 0.5]}, loss="$^$").plot(ax),
}


def rendered(figure):
    """Draw a figure; return its texts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # the font has no such letter
        warnings.filterwarnings("error", "An artist whose label")
        figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("case", DRAW)
def test_names_are_drawn_as_text(case, given):
    display = DRAW[case](plt.subplots()[1] if given else None)
    texts = rendered(display.figure_)
    if case in ("contributions", "covariance", "graph", "classes"):
        assert set(short_names(NAMES, 18 if case == "classes" else 24)) <= {*texts, ""}
    elif case == "stability":
        legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert legend == [short_names([name])[0] or "median" for name in NAMES]
    if case not in ("covariance", "stability"):
        assert any("$^$" in text or "$y^$" in text for text in texts)


def test_names_take_one_line_and_little_room():
    assert short_names(["two\nlines", "\t_a\x07b "]) == ["two lines", "_a b"]
    assert max(map(len, short_names(NAMES))) <= 24


def test_names_stay_text_where_matplotlib_uses_latex(axis):
    with mpl.rc_context({"text.usetex": True}):
        display = GraphDisplay(C, NAMES).plot()
        display.ax_.legend_.remove()
    names = [text for text in display.ax_.texts if text.get_text()]
    assert len(names) == len(NAMES) - 2 and not any(text.get_usetex() for text in names)


@pytest.mark.parametrize("name", ["$x^$ and $y$", "😀 𝒳", "_\ud800" * 2000])
def test_the_picture_of_a_comparison(tmp_path, name):
    scores = {"S-VNN": np.array([1.0, 1.2, 1.1]), name: np.array([2.0, 2.3, 2.0])}
    found = Comparison(name, "regression", "MAE", scores, {}, 40, 5, None, {"folds": 3, "repeats": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot(found, tmp_path / "comparison.png")
    assert (tmp_path / "comparison.png").stat().st_size > 1000
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert f"{short_names([name], 60)[0]}: 40 rows, 5 features" in texts


def test_the_picture_of_a_comparison_where_matplotlib_uses_latex():
    scores = {"S-VNN": np.array([1.0, 1.2, 1.1])}
    with mpl.rc_context({"text.usetex": True}):
        figure = plot(Comparison("_", "regression", "MAE", scores, {}, 40, 5, None, {"folds": 3, "repeats": 1}))
    assert not any(text.get_usetex() for text in figure.findobj(Text))
