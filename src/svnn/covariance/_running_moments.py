"""Incremental moments: the totals of all rows so far, and their update by new rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from svnn._types import AnyArray, Array, ColumnLike
from svnn.functional import Moments
from svnn.functional._array import namespace
from svnn.functional._centring import check_variances, is_constant
from svnn.functional.moments import check_ddof, relative_weight, weighted_moments


class Totals(NamedTuple):
    """Mean, covariance, smallest and largest values of the rows so far, and the sums of their weights and squares.

    Weights are in units of ``largest``, the largest of them.
    """

    location: AnyArray
    covariance: AnyArray
    low: AnyArray
    high: AnyArray
    weight: float
    squares: float
    largest: float

    def moments(self, ddof: float = 0) -> Moments:
        """Return the sample moments of the rows so far; constant features have covariances of exactly zero."""
        low: Any = self.low  # arrays or tensors, all of the same kind
        high: Any = self.high
        variance: Any = self.covariance.diagonal()
        n_samples = self.weight**2 / self.squares
        check_ddof(n_samples, ddof)
        constant = is_constant(low, high)
        check_variances(variance, constant)
        covariance = self.covariance / (1 - ddof / n_samples)
        if bool(constant.any()):
            varies = ~constant
            covariance = namespace(covariance).where(varies[:, None] & varies, covariance, 0 * covariance)
        return Moments(self.location, covariance, n_samples)


def decaying(sample_weight: ColumnLike | None, halflife: float | None, X: Any) -> ColumnLike | None:
    r"""Return weights times :math:`2^{-a/h}`, with ``a`` the age of a row: the last one has age 0, the first ``t - 1``.

    Without a half-life the weights come back as they are. A factor below the square of the rounding unit, relative to
    the newest row of some weight, is zero: such a row's part of a covariance is lost in rounding.

    Examples
    --------
    >>> import numpy as np
    >>> decaying(None, 1, np.zeros((3, 2)))
    array([0.25, 0.5 , 1.  ])
    """
    if halflife is None:
        return sample_weight
    t = X.shape[0]
    given, largest = relative_weight(sample_weight, np.empty((t, 1)))
    newest = int(np.flatnonzero(given)[-1])
    factor = 0.5 ** (np.maximum(newest - np.arange(t), 0) / float(halflife))
    single = str(X.dtype).endswith("float32")
    factor[factor < np.finfo(np.float32 if single else np.float64).eps ** 2] = 0
    if np.count_nonzero(given) > 1 == np.count_nonzero(given * factor):
        raise ValueError(
            f"halflife={halflife!r} rows leaves only the newest one of {t}, of which there is no covariance; use a "
            "larger number."
        )
    # Rows of weight zero may be newer, so many that the decay factor of all others underflows.
    left = max(largest * 0.5 ** ((t - 1 - newest) / float(halflife)), np.finfo(np.float64).tiny)
    return given * factor * left


def totals(X: Any, sample_weight: ColumnLike | None, halflife: float | None = None) -> Totals:
    """Return the totals of a table (t, N) or (t, N, F)."""
    weight, largest = relative_weight(decaying(sample_weight, halflife, X), X)
    centred, covariance = weighted_moments(X, weight)
    sums = float(weight.sum()), float((weight**2).sum())
    return Totals(centred.location, covariance, centred.low, centred.high, *sums, largest)


def merge(a: Totals, b: Totals, decay: float = 1.0) -> Totals:
    """Combine two batches, the second one newer (Chan, Golub & LeVeque 1983).

    ``decay`` multiplies the weights of the first.
    A feature that varied long ago and is constant since becomes constant when its remaining spread is rounding:
    deviations of the first batch shrink with the root of ``decay``, as they do in the variance.
    """
    first = a.largest * decay
    largest = max(first, b.largest)
    weight_a, weight_b = a.weight * (first / largest), b.weight * (b.largest / largest)
    weight = weight_a + weight_b
    share_a, share_b = weight_a / weight, weight_b / weight
    shift = b.location - a.location
    with np.errstate(over="ignore", invalid="ignore"):  # reported when the variances are checked
        between = (share_a * shift)[:, None] * (share_b * shift)
        covariance = share_a * a.covariance + share_b * b.covariance + between
    squares = a.squares * (first / largest) ** 2 + b.squares * (b.largest / largest) ** 2
    location, low, high = a.location + share_b * shift, a.low, a.high
    if decay < 1:
        left = decay**0.5
        low, high = location - (location - low) * left, location + (high - location) * left
    xp = namespace(shift)
    return Totals(location, covariance, xp.minimum(low, b.low), xp.maximum(high, b.high), weight, squares, largest)


def add_rows(
    before: Totals | None, X: Array, sample_weight: ColumnLike | None, halflife: float | None = None
) -> Totals:
    """Return the totals of the rows so far and of new ones; every row makes those before it count less."""
    batch = totals(X, sample_weight, halflife)
    if before is None:
        return batch
    return merge(before, batch, 1.0 if halflife is None else 0.5 ** (X.shape[0] / float(halflife)))
