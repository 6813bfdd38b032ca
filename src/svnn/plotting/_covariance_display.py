"""The covariance before and after sparsification, similar features side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from svnn.covariance._base import off_diagonal_density
from svnn.functional._matrix import numpy_matrix
from svnn.plotting import _style as style
from svnn.plotting._matrices import correlation, dense, sample_correlation, shown_matrix, similar_side_by_side

if TYPE_CHECKING:
    from svnn._types import DataLike, Matrix, MatrixLike
    from svnn.plotting._style import Axes, AxesLike

#: Features whose names have room beside the matrix.
_MOST_NAMES = 70
#: Names of smaller letters, in points, cannot be read and are left out.
_SMALLEST_LETTERS = 4.5
#: Where all correlations are larger than this, the colours begin at the smallest of them.
_ALIKE = 0.5


class CovarianceDisplay(style.Display):
    """Correlations before and after sparsification as two heat maps, with similar features side by side.

    Features are ordered by hierarchical clustering of the correlations before (average linkage on 1 - r, optimal order
    of the leaves), in both pictures alike. Pairs that were dropped are grey.

    Parameters
    ----------
    before : ndarray of shape (N, N)
        Correlations before sparsification.
    after : ndarray of shape (N, N), optional
        Correlations after it; without them there is one picture.
    names : sequence of str, optional
    n_features : int, optional
        The number of features of the model, where not all of them are shown.
    density : float, optional
        The share of the pairs of all features that were kept; by default that of ``after``.

    Attributes
    ----------
    order_ : ndarray of shape (N,)
        The features in the order of rows and columns.
    ax_ : matplotlib Axes, or ndarray of two
    figure_ : matplotlib Figure

    See Also
    --------
    GraphDisplay : the pairs that were kept as a graph.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import HardThreshold
    >>> from svnn.plotting import CovarianceDisplay
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> display = CovarianceDisplay.from_estimator(HardThreshold(tau=0.1).fit(X), X)
    >>> len(display.ax_), sorted(display.order_.tolist())
    (2, [0, 1, 2, 3, 4, 5])
    """

    def __init__(
        self,
        before: np.ndarray,
        after: np.ndarray | None = None,
        names: Sequence[str] | None = None,
        *,
        n_features: int | None = None,
        density: float | None = None,
    ) -> None:
        self.before, self.after = before, after
        self.names = style.feature_names(len(before), names)
        self.n_features = len(before) if n_features is None else n_features
        self.density = off_diagonal_density(after) if after is not None and density is None else density

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: DataLike,
        *,
        names: Sequence[str] | None = None,
        max_features: int = 500,
        ax: AxesLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the sample correlations of ``X`` beside those of a fitted S-VNN, blend or covariance estimator.

        Parameters
        ----------
        estimator : fitted estimator with ``covariance_``, or blend
        X : array or data frame of shape (t, N) or (t, N, F)
        names : sequence of str, optional
            Names of the features; by default those that the estimator saw in ``fit``.
        max_features : int, default=500
            With more features, those with the largest sums of absolute correlations after sparsification are shown.
        ax : matplotlib Axes, or two of them, optional
        **kwargs : see :meth:`plot`
        """
        after = correlation(shown_matrix(estimator, covariance=True))
        n = after.shape[0]
        if np.ndim(X) < 2 or np.shape(X)[1] != n:
            raise ValueError(f"X has shape {np.shape(X)}, but the covariance has {n} features; they must agree.")
        called = style.feature_names(n, names, estimator, X)
        density, shown = off_diagonal_density(after), _strongest(after, max_features)
        after = dense(after[shown][:, shown])
        before = sample_correlation(np.asarray(X)[:, shown])
        chosen = [called[i] for i in shown]
        return cls(before, after, chosen, n_features=n, density=density).plot(ax, **kwargs)

    @classmethod
    def from_matrix(
        cls,
        before: MatrixLike,
        after: MatrixLike | None = None,
        *,
        names: Sequence[str] | None = None,
        ax: AxesLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw one or two covariances, each divided by its standard deviations."""
        first = dense(correlation(numpy_matrix(before)))
        second = None if after is None else dense(correlation(numpy_matrix(after)))
        if second is not None and first.shape != second.shape:
            raise ValueError("before and after must be covariances of the same features.")
        return cls(first, second, names).plot(ax, **kwargs)

    def plot(self, ax: AxesLike | None = None, *, names: bool | None = None) -> Self:
        """Draw the matrices.

        Parameters
        ----------
        ax : matplotlib Axes, or two of them, optional
            Two axes get a matrix each. A single one gets both: before below the diagonal, after above it.
        names : bool, optional
            Whether to write the names of the features; by default up to 70 of them are. They are never written where
            there is no room for them.

        Returns
        -------
        self
        """
        self.order_ = similar_side_by_side(self.before)
        with style.context():
            panels = 1 if self.after is None else 2
            shown = len(self.names) <= _MOST_NAMES if names is None else names
            height = float(np.clip(0.095 * len(self.names), 4.4, 7.0)) if shown else 4.6
            axes = self._start(ax, (panels * (height - 0.55) + (1.9 if shown else 1.0), height), panels)
            before = self.before[np.ix_(self.order_, self.order_)]
            if self.after is None:
                pictures = [(before, "correlations")]
            else:
                after = self.after[np.ix_(self.order_, self.order_)]
                after = np.ma.masked_where((after == 0) & ~np.eye(len(after), dtype=bool), after)
                kept = f"{100 * (self.density or 0):.3g} % of the pairs kept"
                pictures = [(before, "before"), (after, f"after: {kept}")]
                if len(axes) == 1:
                    lower = np.tri(len(before), dtype=bool)
                    both = np.ma.where(lower, before, after)
                    pictures = [(both, f"below the diagonal before, above it after:\n{kept}")]
            for axis, (matrix, title) in zip(axes, pictures, strict=True):
                image = self._draw(axis, matrix, shown)
                style.note(axis, title)
            self.figure_.colorbar(image, ax=axes, label="correlation", shrink=0.8)
        return self

    def _draw(self, axis: Axes, matrix: np.ndarray, shown: bool) -> Any:
        style.dress(axis, grid=False)
        n = len(self.names)
        low = min(float(self.before.min()), 1.0)  # which rounding can exceed
        negative = low < _ALIKE
        colours = style.colours(negative=negative)
        image = axis.imshow(matrix, cmap=colours, vmin=-1 if negative else low, vmax=1, interpolation="nearest")
        what = f"{n} features" if n == self.n_features else f"the {n} best connected of {self.n_features} features"
        axis.set_xlabel(f"{what}, similar ones side by side")
        axis.set_xticks([])
        axis.set_yticks([])
        if shown and axis is np.ravel(self.ax_)[0]:
            room = axis.get_window_extent().height * 72 / self.figure_.dpi  # in points
            size = min(0.9 * room / n, 9.0)
            if size < _SMALLEST_LETTERS:
                return image
            labels = style.short_names(self.names)
            axis.set_yticks(np.arange(n), [labels[i] for i in self.order_], fontsize=size, **style.plain(*labels))
            axis.tick_params(axis="y", length=0, pad=2)
        return image


def _strongest(R: Matrix, most: int) -> np.ndarray:
    """Return at most ``most`` features, those with the largest sums of absolute values, in the order of the data."""
    strength = np.asarray(abs(R).sum(0)).ravel() - abs(R.diagonal())
    return np.sort(np.argsort(-strength, kind="stable")[:most])
