"""Banding and tapering: covariances of features that stand close to each other, for features that have an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from svnn._parameters import Rule, either, integer, seed
from svnn._types import AnyArray, ColumnLike, HasFit, RandomState
from svnn.covariance._base import Estimate, Sparsifier
from svnn.covariance._moments import held_out_correlations, transformed_table
from svnn.covariance._thresholds import CV_FEATURES
from svnn.functional import Moments
from svnn.functional._array import as_floating, generator, like, to_numpy
from svnn.functional.thresholds import band_weights, taper_weights

#: Widths up to here are all compared by width="cv", wider ones at steps of a tenth.
_NARROW = 32


class Banding(Sparsifier):
    r"""Sample covariance of features that are at most ``width`` columns apart (Bickel & Levina 2008).

    .. math:: \tilde c_{ij} = \hat c_{ij} \text{ if } |i - j| \le \text{width}, \text{ else } 0

    For columns that have an order: places along a line, wavelengths, points in time.

    Parameters
    ----------
    width : int or "cv", default="cv"
        How far apart two features may be; "cv" finds it by splitting the samples.
    n_splits : int, default=10
        Number of random splits for ``width="cv"``.
    random_state : int, Generator, RandomState or None, default=None
        Seed of those splits.
    correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    width_ : int
        The width that was used.
    density_, covariance_, location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    See Also
    --------
    Tapering : lets the weights fall from 1 to 0.

    Notes
    -----
    ``width="cv"`` takes the width whose banded correlations best predict those of held-out rows, in the splits that
    :class:`HardThreshold` uses for its ``tau``. With more than ``dense_limit`` features it looks at 1024 neighbours,
    from a random place on.

    With more than ``dense_limit`` features only the band is computed, in N · width · t operations. That is little, so
    a table of Dask is brought here for it, into a temporary file where it is large.

    References
    ----------
    P. Bickel and E. Levina, Regularized estimation of large covariance matrices, Annals of Statistics 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import Banding
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=1)
    >>> Banding(width=1).fit(X).covariance_.round(1)
    array([[0.9, 1. , 0. , 0. ],
           [1. , 1.9, 2. , 0. ],
           [0. , 2. , 3.1, 3.1],
           [0. , 0. , 3.1, 4.3]])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "width": either(integer(0), "cv"),
        "n_splits": integer(1),
        "random_state": seed(),
        **Sparsifier._rules,
    }

    def __init__(
        self,
        *,
        width: int | str = "cv",
        n_splits: int = 10,
        random_state: RandomState = None,
        correlation: str = "pearson",
        base: str | HasFit | None = None,
        psd: str | None = None,
        missing: str = "raise",
        halflife: float | None = None,
        sparse_output: bool | None = None,
        dense_limit: int = 4096,
        memory_limit: float | str | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose)
        self.width = width
        self.n_splits = n_splits
        self.random_state = random_state

    _tiles_on_cluster = False

    #: The weight of a covariance, as a function of the distance and the width.
    _weights: ClassVar[Callable[[Any, int], Any]] = staticmethod(band_weights)

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        C, width = moments.covariance, self._chosen(X, sample_weight)
        place = np.arange(len(C))
        weights = like(type(self)._weights(abs(place - place[:, None]), width), C)
        return Estimate(C * weights, moments.location, {"width_": width})

    def _needs_rows(self) -> str:
        if self.width != "cv":
            return ""
        return 'width="cv" splits all rows, not only their means and covariances; use a number for width'

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        grid, width = self._tiles(X, sample_weight, correlations=False), self._chosen(X, sample_weight)
        location, matrix, _ = tiles.near_diagonal(grid, width, lambda distance: type(self)._weights(distance, width))
        return Estimate(matrix, location, {"width_": width})

    def _chosen(self, X: AnyArray, sample_weight: ColumnLike | None) -> int:
        """Return the width, the one of least risk on held-out rows where that is asked for."""
        n = X.shape[1]
        if self.width != "cv":
            return int(self.width)
        if n == 1:
            return 0
        tiled = n > self.dense_limit
        if tiled and n > CV_FEATURES:
            start = int(generator(self.random_state).integers(n - CV_FEATURES + 1))
            X, n = X[:, start : start + CV_FEATURES], CV_FEATURES
        rows: Any = as_floating(X)
        if tiled and self.correlation != "pearson":  # up to dense_limit features the table is transformed already
            rows, sample_weight, _ = transformed_table(rows, sample_weight, self.correlation)
        # The risk is the sum over distances d of w_d² a_d - 2 w_d b_d, and a term without the weights w.
        squares, products = np.zeros(n), np.zeros(n)
        for train, _, test in held_out_correlations(self, rows, sample_weight, 'width="cv"', "a number for width"):
            first, second = (to_numpy(part).astype(np.float64) for part in (train, test))
            squares += [float((first.diagonal(d) ** 2).sum()) for d in range(n)]
            products += [float((first.diagonal(d) * second.diagonal(d)).sum()) for d in range(n)]
        widths = _candidates(n)
        weights = [type(self)._weights(np.arange(n), width) for width in widths]
        risks = [float((w**2 * squares - 2 * w * products).sum()) for w in weights]
        return widths[int(np.argmin(risks))]


class Tapering(Banding):
    r"""Sample covariance with weights that fall from 1 to 0 with the distance of two columns.

    .. math:: \tilde c_{ij} = \hat c_{ij} \min(1, \max(0, 2 - 2 |i - j| / \text{width}))

    Entries up to half of ``width`` off the diagonal are kept as they are, those from ``width`` on are zero. Among
    matrices whose entries fade out with the distance no estimator has a better rate than this one with the right width
    (Cai, Zhang & Zhou 2010). The notes of :class:`Banding` apply.

    Parameters
    ----------
    width : int or "cv", default="cv"
        The distance at which the weights reach 0; "cv" finds it by splitting the samples.
    n_splits, random_state, correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`Banding`.

    Attributes
    ----------
    width_, density_, covariance_, location_, n_features_in_, feature_names_in_
        As in :class:`Banding`.

    See Also
    --------
    Banding : keeps or drops, without weights between.

    References
    ----------
    T. Cai, C. Zhang and H. Zhou, Optimal rates of convergence for covariance matrix estimation, Annals of Statistics
    2010.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import Tapering
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=1)
    >>> Tapering(width=4).fit(X).covariance_.round(1)
    array([[0.9, 1. , 1. , 0.5],
           [1. , 1.9, 2. , 2. ],
           [1. , 2. , 3.1, 3.1],
           [0.5, 2. , 3.1, 4.3]])
    """

    _weights: ClassVar[Callable[[Any, int], Any]] = staticmethod(taper_weights)


def _candidates(n: int) -> list[int]:
    """Return the widths to compare: all narrow ones, then some, up to all features and to a taper over them."""
    steps = int(10 * np.log(max(n / _NARROW, 1)))
    wider = {int(width) for width in np.geomspace(_NARROW, max(n - 1, _NARROW), steps)}
    return sorted({*range(min(_NARROW, n)), *(width for width in wider if width < n), n - 1, 2 * (n - 1)})
