"""The losses of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from svnn.plotting import _style as style
from svnn.plotting._display import Display

if TYPE_CHECKING:
    from svnn.plotting._display import Axes


class TrainingDisplay(Display):
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
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

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
        """Draw the training of a fitted network."""
        check_is_fitted(estimator)
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
