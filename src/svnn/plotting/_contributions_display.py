"""Contributions of features to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from svnn.functional._array import to_numpy
from svnn.plotting import _style as style

if TYPE_CHECKING:
    from svnn._types import DataLike
    from svnn.plotting._style import Axes, AxesLike


class ContributionsDisplay(style.Display):
    """Contributions of features to predictions: their mean sizes as bars, and a point for every row.

    Parameters
    ----------
    contributions : ndarray of shape (t, N)
        The contribution of each feature to the prediction of each row.
    names : sequence of str, optional
    values : ndarray of shape (t, N), optional
        The features themselves, which colour the points from low to high.
    unit : str, default="units of the prediction"
        The unit of the contributions.

    Attributes
    ----------
    importance_ : ndarray of shape (N,)
        Mean absolute contributions.
    shown_ : ndarray
        The features that are drawn, the most important one first.
    ax_ : matplotlib Axes, or ndarray of two
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.plotting import ContributionsDisplay
    >>> values = np.random.default_rng(0).standard_normal((30, 3)) * [1.0, 3.0, 2.0]
    >>> display = ContributionsDisplay.from_contributions(values, ["a", "b", "c"])
    >>> [display.names[i] for i in display.shown_]
    ['b', 'c', 'a']
    """

    def __init__(
        self,
        contributions: np.ndarray,
        names: Sequence[str] | None = None,
        *,
        values: np.ndarray | None = None,
        unit: str = "units of the prediction",
    ) -> None:
        self.contributions = contributions
        self.names = style.feature_names(contributions.shape[1], names)
        self.values, self.unit = values, unit
        self.importance_ = np.abs(contributions).mean(0)

    @classmethod
    def from_contributions(
        cls,
        contributions: Any,
        names: Sequence[str] | None = None,
        *,
        X: DataLike | None = None,
        unit: str = "units of the prediction",
        ax: AxesLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a result of ``svnn.inspection.feature_contributions``, or an array of contributions.

        Parameters
        ----------
        contributions : array of shape (t, N), or an object with ``contributions`` and ``names``
        names : sequence of str, optional
        X : array or data frame of shape (t, N), optional
            The features, which colour the points.
        unit : str
        ax : matplotlib Axes, or two of them, optional
        **kwargs : see :meth:`plot`
        """
        table = np.asarray(to_numpy(getattr(contributions, "contributions", contributions)), dtype=np.float64)
        if table.ndim != 2 or not table.size:
            raise ValueError(
                f"contributions must have shape (t, N), got {table.shape}; of several outputs, or values per feature, "
                "choose one or add them up."
            )
        known = getattr(contributions, "names", None) if names is None else names
        called = style.feature_names(table.shape[1], known, X)
        values = None if X is None else np.asarray(X, dtype=np.float64)
        if values is not None and values.shape != table.shape:
            raise ValueError(f"X must have the shape of the contributions, {table.shape}, got {values.shape}.")
        return cls(table, called, values=values, unit=unit).plot(ax, **kwargs)

    def plot(self, ax: AxesLike | None = None, *, max_features: int = 15, kind: str = "points") -> Self:
        """Draw bars beside points.

        Parameters
        ----------
        ax : matplotlib Axes, or two of them, optional
            Two axes get bars and points. A single one gets the picture that ``kind`` names.
        max_features : int, default=15
            How many of the most important features are drawn.
        kind : {"points", "bars"}, default="points"

        Returns
        -------
        self
        """
        if kind not in ("points", "bars"):
            raise ValueError(f'kind must be "points" or "bars", got {kind!r}.')
        self.shown_ = np.argsort(-self.importance_, kind="stable")[:max_features]
        labels = style.short_names(self.names)
        with style.context():
            height = 1.3 + 0.27 * len(self.shown_)
            axes = self._start(ax, (9.2, height), 2)
            drawn = [self._bars, self._points] if len(axes) == 2 else [getattr(self, f"_{kind}")]
            for axis, draw in zip(axes, drawn, strict=True):
                draw(axis)
                axis.set_ylim(len(self.shown_) - 0.4, -0.6)
                names = [labels[i] for i in self.shown_]
                axis.set_yticks(range(len(self.shown_)), names, **style.plain(*names))
                axis.tick_params(axis="y", length=0)
            if len(axes) == 2:
                axes[1].set_yticklabels([])
            n = len(self.names)
            if len(self.shown_) < n:
                style.note(axes[0], f"the {len(self.shown_)} most important of {n} features")
        return self

    def _bars(self, axis: Axes) -> None:
        axis.barh(range(len(self.shown_)), self.importance_[self.shown_], color=style.PALETTE[0], height=0.65)
        axis.set_xlabel(f"mean |contribution|\n({self.unit})", **style.plain(self.unit))
        axis.grid(False, axis="y")

    def _points(self, axis: Axes) -> None:
        mappable = None
        for row, feature in enumerate(self.shown_):
            x = self.contributions[:, feature]
            y = row + 0.38 * _swarm(x, self.contributions[:, self.shown_])
            if self.values is None:
                axis.scatter(x, y, s=9, color=style.PALETTE[0], alpha=0.7, linewidth=0)
            else:
                colours = _ranks(self.values[:, feature])
                mappable = axis.scatter(x, y, c=colours, cmap="cividis", vmin=0, vmax=1, s=9, alpha=0.85, linewidth=0)
        axis.axvline(0, color=style.GREY, linewidth=1)
        axis.set_xlabel(f"contribution of a row\n({self.unit})", **style.plain(self.unit))
        if mappable is not None:
            bar = self.figure_.colorbar(mappable, ax=axis, ticks=[0, 1], label="value of the feature", pad=0.02)
            bar.ax.set_yticklabels(["low", "high"])
            bar.ax.tick_params(length=0)


def _swarm(x: np.ndarray, everything: np.ndarray, bins: int = 80) -> np.ndarray:
    """Return heights in [-1, 1] that keep points of a row apart: the more points are close, the further they spread."""
    low, high = everything.min(), everything.max()
    place = np.minimum(((x - low) / max(high - low, 1e-300) * bins).astype(int), bins - 1)
    heights = np.zeros(len(x))
    most = max(np.bincount(place).max(), 6)
    for each in np.unique(place):
        mine = np.flatnonzero(place == each)
        mine = mine[np.argsort(x[mine], kind="stable")]
        steps = (np.arange(len(mine)) + 1) // 2 * np.where(np.arange(len(mine)) % 2, 1, -1)
        heights[mine] = steps * 2 / most
    return np.clip(heights, -1, 1)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return values on a scale from 0 to 1 by their ranks, so that a few extreme ones do not take all colours."""
    distinct, inverse = np.unique(np.nan_to_num(values), return_inverse=True)
    return inverse / max(len(distinct) - 1, 1)
