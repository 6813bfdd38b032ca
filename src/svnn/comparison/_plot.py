"""The picture of a comparison: a dot and an interval for every model."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from svnn.comparison._comparison import CONTROL, DENSE, OURS, Comparison
from svnn.plotting._style import plain, short_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours that colour-blind readers can tell apart: ours, its two relatives, the others.
_OURS, _RELATIVES, _OTHERS = "#0072B2", "#56B4E9", "#5A5A5A"


def plot(comparison: Comparison, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the mean score of every model with its 95 % interval, the best on top; write a PNG where a path is given.

    Parameters
    ----------
    comparison : Comparison
    path : path, optional

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.comparison import Comparison, plot
    >>> scores = {"S-VNN": np.array([1.0, 1.2, 1.1]), "ridge": np.array([2.0, 2.3, 2.0])}
    >>> figure = plot(Comparison("meat", "regression", "MAE", scores, {}, 40, 5, None, {"folds": 3, "repeats": 1}))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['S-VNN', 'ridge']
    """
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ImportError('Pictures need matplotlib: pip install "svnn[compare]".') from None
    with rc_context({"text.usetex": False}):  # names of tables are no LaTeX
        figure = _drawn(comparison)
        if path is not None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph", UserWarning)  # letters that the font does not have
                figure.savefig(path, dpi=160)
    return figure


def _drawn(comparison: Comparison) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    means = comparison.means()
    order = sorted(means, key=means.__getitem__)
    figure = Figure(figsize=(7.5, 1.4 + 0.42 * len(order)), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    for place, model in enumerate(order):
        mean, low, high = comparison.interval(model)
        colour = _OURS if model == OURS else _RELATIVES if model in (CONTROL, DENSE) else _OTHERS
        below = [place + 0.22] * comparison.n_splits
        axis.plot(comparison.scores[model], below, ".", color=colour, alpha=0.5, markersize=3.5)
        axis.plot([max(low, 0), high], [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
        axis.plot(mean, place, "o", color=colour, markersize=7)
        axis.annotate(f"{mean:.3g}", (mean, place), (0, 7), textcoords="offset points", ha="center", fontsize=8)
    names = [short_names([model], 40)[0] for model in order]
    axis.set_yticks(range(len(order)), names, **plain(*names))
    for label in axis.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == OURS else "normal")
    axis.set_ylim(len(order) - 0.5, -0.7)
    axis.set_xlim(left=0)
    axis.set_xlabel(f"{comparison.metric} on rows that were held out (lower is better)")
    (name,) = short_names([comparison.name], 60)
    title = f"{name}: {comparison.n_samples} rows, {comparison.n_features} features"
    axis.set_title(title, loc="left", **plain(name))
    note = f"dot: mean of {comparison.n_splits} splits; line: 95 % interval; small dots: single splits"
    figure.supxlabel(note, fontsize=8, color=_OTHERS)
    axis.grid(axis="x", color="#e5e5e5")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
