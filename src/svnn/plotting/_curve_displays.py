"""Curves: the losses of a training, and the change of a network's outputs when its covariance is estimated anew."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from svnn.inspection._fitted import network_of
from svnn.plotting import _style as style
from svnn.stability import stability_curve

if TYPE_CHECKING:
    from svnn.plotting._style import Axes

#: The axes that a curve can have.
_AXES = {
    "n_samples": "rows that the covariance is estimated from",
    "level": "share of the pairs that is kept, on average",
    "n_features": "number of features N",
}
#: The quantities that can be drawn.
_QUANTITIES = {
    "embedding_error": "change of the embeddings, as a share of their norm",
    "embedding_distance": "change of a row's embedding (norm)",
    "prediction_change": "change of the predictions (mean absolute, or share of labels)",
    "covariance_error": "error of the covariance (spectral norm, relative)",
    "covariance_error_fro": "error of the covariance (Frobenius norm, relative)",
    "density": "share of the pairs that is kept",
    "task_error": "error of the predictions (mean absolute, or share of labels)",
    "task_change": "change of the error of the predictions",
}


class StabilityDisplay(style.Display):
    """Stability curves: the change of a network's outputs against samples, sparsity or features.

    Lines are medians over the repeats, bands reach from the lower to the upper quartile.

    Parameters
    ----------
    curves : mapping from names to tables
        Tables as :func:`svnn.stability.stability_curve` returns them, one for each line.

    Attributes
    ----------
    x_ : str
        The column of the horizontal axis: the one whose values differ.
    ax_, figure_ : Axes and Figure of matplotlib

    See Also
    --------
    svnn.stability.stability_curve : measures a curve.

    Examples
    --------
    >>> from svnn.plotting import StabilityDisplay
    >>> table = [{"n_samples": n, "embedding_error": 1 / n + r / 100} for n in (50, 100, 200) for r in range(3)]
    >>> display = StabilityDisplay({"hard": table}).plot()
    >>> display.x_, display.ax_.lines[0].get_xdata().tolist()
    ('n_samples', [50.0, 100.0, 200.0])
    """

    def __init__(self, curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        if not curves or not all(len(table) for table in curves.values()):
            raise ValueError("curves must hold at least one table, and every table at least one row.")
        self.curves = dict(curves)
        self.x_ = _axis_of([row for table in curves.values() for row in table])

    @classmethod
    def from_curves(
        cls,
        curves: Mapping[str, Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]],
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the result of :func:`svnn.stability.stability_curve`, or a dict of several results."""
        named = curves if isinstance(curves, Mapping) else {"": curves}
        return cls(named).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X_test: Any,
        covariances: str | Sequence[Any],
        X_pool: Any,
        *,
        y: str = "embedding_error",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Measure and draw the curves of a fitted S-VNN or blend, one for each covariance.

        Parameters
        ----------
        estimator : fitted S-VNN or blend
        X_test : array or data frame of shape (t, N) or (t, N, F)
        covariances : name or sequence of names and covariance estimators
        X_pool : array or data frame of shape (T, N) or (T, N, F)
        y : str
            The column to draw; see :meth:`plot`.
        ax : matplotlib Axes, optional
        **kwargs : see :func:`svnn.stability.stability_curve`
        """
        listed = [covariances] if isinstance(covariances, str) or hasattr(covariances, "fit") else list(covariances)
        named = {each if isinstance(each, str) else repr(clone(each, safe=False)): each for each in listed}
        return cls({name: stability_curve(estimator, X_test, c, X_pool, **kwargs) for name, c in named.items()}).plot(
            ax, y=y
        )

    def plot(self, ax: Axes | None = None, *, y: str = "embedding_error") -> Self:
        """Draw a column of the tables against their axis.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        y : str, default="embedding_error"
            A column of the tables.

        Returns
        -------
        self
        """
        for name, table in self.curves.items():
            if y not in table[0]:
                raise ValueError(f"y={y!r} is not a column of the curve {name!r}; use one of {', '.join(table[0])}.")
        with style.context():
            (axis,) = self._start(ax, (6.0, 3.8))
            lowest, handles, names = np.inf, [], []
            for name, look in style.looks(list(self.curves)).items():
                table = self.curves[name]
                at = np.unique([float(row[self.x_]) for row in table])
                groups = [[row[y] for row in table if row[self.x_] == x] for x in at]
                low, middle, high = np.array([np.quantile(group, (0.25, 0.5, 0.75)) for group in groups]).T
                names.append(style.short_names([name])[0] or "median")
                handles += axis.plot(at, middle, label=names[-1], **look)
                axis.fill_between(at, low, high, color=look["color"], alpha=0.15, linewidth=0)
                lowest = min(lowest, low.min())
            if self.x_ != "level":
                axis.set_xscale("log")
                ticks = np.unique([float(row[self.x_]) for table in self.curves.values() for row in table])
                if len(ticks) <= 8:
                    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
                    axis.minorticks_off()
            if lowest >= 0:
                axis.set_ylim(bottom=0)
            axis.set_xlabel(_AXES[self.x_] + (" (log scale)" if self.x_ != "level" else ""))
            axis.set_ylabel(textwrap.fill(_QUANTITIES.get(y, y), 36), **style.plain(y))
            repeats = max(sum(row[self.x_] == table[0][self.x_] for row in table) for table in self.curves.values())
            if repeats > 1:
                style.note(axis, f"medians of {repeats} repeats, bands from the lower to the upper quartile")
            if list(self.curves) != [""]:
                entries = zip(*axis.get_legend_handles_labels(), strict=True)
                shown = [entry for entry in entries if entry[0] not in handles] + list(zip(handles, names, strict=True))
                style.legend(axis, [handle for handle, _ in shown], [name for _, name in shown], loc="best")
        return self


def _axis_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the column that differs between the points of curves."""
    for name in ("level", "n_features", "n_samples"):
        values = {row[name] for row in rows if name in row and row[name] == row[name]}
        if len(values) > 1 or (name == "level" and values):
            return name
    if not any("n_samples" in row for row in rows):
        raise ValueError(
            "the tables have no column n_samples, n_features or level; use svnn.stability.stability_curve."
        )
    return "n_samples"


class TrainingDisplay(style.Display):
    """Training and validation loss of every epoch, means over the members, and each member's best epoch.

    Parameters
    ----------
    history : mapping
        As a fitted network's ``history_``: ``train_loss`` and ``valid_loss``, which may be empty, for every epoch, and
        where known ``best_epoch`` for every member, from 1.
    loss : str, default="loss"
        What the loss is called.

    Attributes
    ----------
    best_epochs_ : list of int
        The epochs whose weights the members kept; the epoch of the smallest loss where the history does not say.
    ax_, figure_ : Axes and Figure of matplotlib

    Examples
    --------
    >>> from svnn.plotting import TrainingDisplay
    >>> history = {"train_loss": [1.0, 0.5, 0.3], "valid_loss": [1.1, 0.7, 0.8], "best_epoch": [2, 2, 3]}
    >>> display = TrainingDisplay(history).plot()
    >>> display.best_epochs_, display.ax_.get_xlabel()
    ([2, 2, 3], 'epoch')
    """

    def __init__(self, history: Mapping[str, Sequence[float]], *, loss: str = "loss") -> None:
        if not len(history.get("train_loss", ())):
            raise ValueError('history must hold the losses of at least one epoch as "train_loss".')
        self.history, self.loss = history, loss
        monitored = history.get("valid_loss") or history["train_loss"]
        kept = history.get("best_epoch") or [int(np.argmin(monitored)) + 1]
        self.best_epochs_ = [int(epoch) for epoch in kept]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the training of a fitted network, or of the S-VNN with edges of a blend."""
        check_is_fitted(estimator)
        estimator = network_of(estimator)
        if not hasattr(estimator, "history_"):
            raise TypeError(f"{type(estimator).__name__} has no history_; give a fitted network.")
        name = getattr(estimator, "loss", "cross-entropy")
        return cls(estimator.history_, loss=f"{name} loss").plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, log: bool = True) -> Self:
        """Draw the curves, on a logarithmic axis unless ``log=False``, and return self."""
        with style.context():
            (axis,) = self._start(ax, (6.0, 3.8))
            train, valid = self.history["train_loss"], self.history.get("valid_loss") or ()
            epochs = np.arange(1, len(train) + 1)
            axis.plot(epochs, train, color=style.PALETTE[0], label="training rows")
            if len(valid):
                axis.plot(epochs, valid, color=style.PALETTE[1], linestyle="--", label="held-out rows")
            monitored = np.asarray(valid if len(valid) else train)
            at, counts = np.unique(self.best_epochs_, return_counts=True)
            several = len(self.best_epochs_) > 1
            axis.scatter(
                at,
                monitored[at - 1],
                s=50 + 20 * (counts - 1),
                marker="v",
                color=style.PALETTE[1] if len(valid) else style.PALETTE[0],
                edgecolor="white",
                linewidth=0.7,
                zorder=3,
                label=f"best epochs of the {len(self.best_epochs_)} members" if several else "best epoch",
            )
            if log and min(min(train), monitored.min()) > 0:
                axis.set_yscale("log")
            axis.set_xlabel("epoch")
            axis.set_ylabel(f"{self.loss}, mean of the members" if several else self.loss, **style.plain(self.loss))
            axis.set_xlim(0, len(train) + 1)
            _plain_numbers(axis)
            axis.legend(loc="upper right")
        return self


def _plain_numbers(axis: Axes) -> None:
    """Write the ticks of a logarithmic axis as plain numbers, and enough of them."""
    if axis.get_yscale() != "log":
        return
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
