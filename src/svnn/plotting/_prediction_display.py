"""Predictions against the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import is_classifier

from svnn.functional._array import to_numpy
from svnn.plotting import _style as style

if TYPE_CHECKING:
    from svnn._types import ColumnLike, DataLike
    from svnn.plotting._style import Axes


class PredictionDisplay(style.Display):
    """Predicted against true targets with their standard deviations; for labels, a confusion matrix.

    Parameters
    ----------
    y_true, y_pred : ndarray of shape (t,)
    std : ndarray of shape (t,), optional
        Standard deviations of the predictions, in the units of the targets.
    labels : sequence, optional
        The classes, in the order of the matrix. Without them targets are numbers.
    target : str, default="target"
        The name of what is predicted, with its unit, such as "age (years)".

    Attributes
    ----------
    counts_ : ndarray of shape (n_classes, n_classes)
        For classes: true ones in rows, predicted ones in columns.
    ax_, figure_ : Axes and Figure of matplotlib

    Examples
    --------
    >>> from svnn.plotting import PredictionDisplay
    >>> display = PredictionDisplay.from_predictions([1.0, 2.0, 3.0], [1.1, 1.8, 3.0], std=[0.2, 0.2, 0.2])
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('true target', 'predicted target')
    >>> PredictionDisplay.from_predictions(["a", "b", "b"], ["a", "a", "b"]).counts_
    array([[1, 0],
           [1, 1]])
    """

    def __init__(
        self,
        y_true: np.ndarray,
        y_pred: np.ndarray,
        std: np.ndarray | None = None,
        *,
        labels: Any = None,
        target: str = "target",
    ) -> None:
        self.y_true, self.y_pred, self.std = y_true, y_pred, std
        self.labels, self.target = labels, target
        if labels is not None:
            place = {label: i for i, label in enumerate(labels)}
            self.counts_ = np.zeros((len(place), len(place)), dtype=int)
            for truth, guess in zip(y_true.tolist(), y_pred.tolist(), strict=True):
                self.counts_[place[truth], place[guess]] += 1

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: DataLike,
        y: ColumnLike,
        *,
        output: int = 0,
        target: str = "target",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Predict ``X`` and draw the result against ``y``.

        Parameters
        ----------
        estimator : fitted regressor or classifier
            Standard deviations are drawn where its ``predict`` returns them.
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,) or (t, n_outputs)
        output : int, default=0
            Which of several outputs to draw.
        target : str, default="target"
            The name of what is predicted, with its unit.
        ax : matplotlib Axes, optional
        **kwargs : see :meth:`plot`
        """
        truth = to_numpy(y)
        if is_classifier(estimator):
            kwargs |= {"labels": estimator.classes_, "target": target, "ax": ax}
            return cls.from_predictions(truth, estimator.predict(X), **kwargs)
        try:
            mean, std = estimator.predict(X, return_std=True)
        except (TypeError, ValueError):  # it has none: another regressor, or a single network without held-out rows
            mean, std = estimator.predict(X), None
        mean, truth = (values.reshape(len(values), -1) for values in (np.asarray(mean), truth))
        if not 0 <= output < mean.shape[1]:
            raise ValueError(f"output must be from 0 to {mean.shape[1] - 1}, got {output}.")
        deviation = None if std is None else np.asarray(std).reshape(mean.shape)[:, output]
        return cls.from_predictions(truth[:, output], mean[:, output], deviation, target=target, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ColumnLike,
        y_pred: ColumnLike,
        std: ColumnLike | None = None,
        *,
        labels: Any = None,
        target: str = "target",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw predictions against the truth: as labels where ``labels`` are given, or where they are not numbers."""
        truth, guess = np.asarray(to_numpy(y_true)), np.asarray(to_numpy(y_pred))
        if truth.shape != guess.shape or truth.ndim != 1 or not len(truth):
            raise ValueError(
                f"y_true and y_pred must be of the same shape (t,), got {truth.shape} and {guess.shape}; "
                "draw several outputs one by one."
            )
        classes = None if labels is None else np.asarray(labels).tolist()
        if classes is None and truth.dtype.kind not in "fiu":
            classes = np.unique(np.concatenate([truth, guess])).tolist()
        if classes is not None and not {*truth.tolist(), *guess.tolist()} <= set(classes):
            raise ValueError("labels must hold every label of y_true and y_pred.")
        deviation = None if std is None else np.asarray(to_numpy(std), dtype=float)
        if deviation is not None and deviation.shape != truth.shape:
            raise ValueError(f"std must have the shape of y_true, {truth.shape}, got {deviation.shape}.")
        return cls(truth, guess, deviation, labels=classes, target=target).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the predictions and return self."""
        with style.context():
            if self.labels is None:
                (axis,) = self._start(ax, (4.9, 4.6))
                self._draw_numbers(axis)
            else:
                side = min(2.6 + 0.5 * len(self.labels), 9.0)
                (axis,) = self._start(ax, (side + 0.6, side))
                self._draw_counts(axis)
        return self

    def _draw_numbers(self, axis: Axes) -> None:
        error = np.abs(self.y_true - self.y_pred)
        text = f"mean absolute error {error.mean():.3g}, {len(error)} rows"
        if self.std is not None:
            look: dict[str, Any] = {"fmt": "none", "ecolor": style.PALETTE[5], "elinewidth": 0.8, "alpha": 0.5}
            axis.errorbar(self.y_true, self.y_pred, self.std, zorder=1, label="± one standard deviation", **look)
            text += f"\n{100 * (error <= self.std).mean():.0f} % lie within ± one standard deviation"
        axis.scatter(self.y_true, self.y_pred, s=14, color=style.PALETTE[0], alpha=0.8, linewidth=0, zorder=2)
        both = np.concatenate([self.y_true, self.y_pred])
        ends = [both.min(), both.max()]
        axis.plot(ends, ends, "--", color="black", linewidth=1.2, zorder=3, label="prediction = truth")
        margin = 0.04 * (ends[1] - ends[0]) or 1.0
        axis.set_xlim(ends[0] - margin, ends[1] + margin)
        axis.set_xlabel(f"true {self.target}", **style.plain(self.target))
        axis.set_ylabel(f"predicted {self.target}", **style.plain(self.target))
        style.note(axis, text)
        axis.legend(loc="upper left")

    def _draw_counts(self, axis: Axes) -> None:
        style.dress(axis, grid=False)
        n = len(self.labels)
        share = self.counts_ / np.maximum(self.counts_.sum(1, keepdims=True), 1)
        image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
        names = style.short_names([str(label) for label in self.labels], 18)
        if n <= 30:
            for (i, j), count in np.ndenumerate(self.counts_):
                if count or n <= 12:
                    colour = "white" if share[i, j] > 0.5 else "black"
                    axis.text(j, i, str(count), ha="center", va="center", color=colour)
        upright = max(map(len, names)) * n < 60
        look = style.plain(*names)
        axis.set_xticks(range(n), names, rotation=0 if upright else 45, ha="center" if upright else "right", **look)
        axis.set_yticks(range(n), names, **look)
        axis.tick_params(length=0)
        axis.set_xlabel(f"predicted {self.target}", **style.plain(self.target))
        axis.set_ylabel(f"true {self.target}", **style.plain(self.target))
        right = np.trace(self.counts_) / self.counts_.sum()
        style.note(axis, f"{100 * right:.1f} % of {self.counts_.sum()} rows are right")
        self.figure_.colorbar(image, ax=axis, label="share of the true class", shrink=0.8)
