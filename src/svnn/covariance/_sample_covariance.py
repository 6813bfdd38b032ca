"""The sample covariance, in one go or batch by batch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from svnn._parameters import check_parameters, declared, fitted, number, parameter
from svnn._types import AnyArray, Array, ColumnLike, DataLike
from svnn._validation import at_once
from svnn.covariance._correlation import see
from svnn.covariance._covariance import CovarianceEstimator, Sparsifier
from svnn.functional._array import namespace
from svnn.functional._centring import check_variances, is_constant
from svnn.functional.moments import check_ddof, relative_weight, weighted_moments


class _Totals(NamedTuple):
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


@declared
class SampleCovariance(CovarianceEstimator):
    r"""The sample covariance.

    .. math:: \hat C = \frac{1}{t - \text{ddof}} \sum_{i=1}^t (x_i - \hat\mu)(x_i - \hat\mu)^T

    See Also
    --------
    HardThreshold, SoftThreshold : for truths that are sparse.
    ACV, RCV : random dropping, for truths that are not.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import SampleCovariance
    >>> X = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]])
    >>> SampleCovariance().fit(X).covariance_.round(3)
    array([[2.667, 1.333],
           [1.333, 2.667]])

    Batches give the same result as all rows at once:

    >>> SampleCovariance().partial_fit(X[:2]).partial_fit(X[2:]).covariance_.round(3)
    array([[2.667, 1.333],
           [1.333, 2.667]])
    """

    ddof: float = parameter(
        default=0, rule=number(-math.inf), doc="What is taken from the number of samples; the paper divides by ``t``."
    )
    correlation: str = parameter(default=Sparsifier.correlation, like=Sparsifier)
    missing: str = parameter(default=Sparsifier.missing, like=Sparsifier)

    n_samples_: float | AnyArray = fitted(
        kind="float",
        doc=r"""Effective number of samples, :math:`(\sum w)^2/\sum w^2` with weights; an (N, N) array of the pairs'
        numbers where values are missing.""",
    )

    @at_once
    def fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``, of shape (t, N) or (t, N, F); see :meth:`HardThreshold.fit`."""
        check_parameters(self)
        data: Any = self._check(X)
        if self.missing == "raise" and self.correlation == "pearson":
            return self._set(_totals(data, sample_weight))
        seen = see(data, sample_weight, self.correlation, self.missing, ddof=self.ddof)
        self.location_, (_, self.covariance_, self.n_samples_) = seen.location, seen.moments
        return self

    @at_once
    def partial_fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Add the rows of ``X`` to those seen before.

        The result is that of one ``fit`` on all rows, up to rounding, whatever the order and size of the batches.
        """
        check_parameters(self)
        if self.correlation != "pearson":
            raise ValueError(
                'partial_fit needs correlation="pearson": new rows change the ranks and medians of earlier ones; '
                f"fit all rows at once for correlation={self.correlation!r}."
            )
        if self.missing == "pairwise":
            raise ValueError('partial_fit needs missing="raise"; fit all rows at once for pairwise covariances.')
        before: _Totals | None = getattr(self, "_totals_", None)
        data: Any = self._check(X, reset=before is None, min_samples=1)
        batch = _totals(data, sample_weight)
        return self._set(batch if before is None else _merge(before, batch))

    def _set(self, totals: _Totals) -> Self:
        """Take over the totals of all rows so far, and what follows from them."""
        low: Any = totals.low  # arrays or tensors, all of the same kind
        high: Any = totals.high
        variance: Any = totals.covariance.diagonal()
        n_samples = totals.weight**2 / totals.squares
        check_ddof(n_samples, self.ddof)
        constant = is_constant(low, high)
        check_variances(variance, constant)
        covariance = totals.covariance / (1 - self.ddof / n_samples)
        varies = ~constant
        self.covariance_ = namespace(covariance).where(varies[:, None] & varies, covariance, 0 * covariance)
        self.location_, self.n_samples_, self._totals_ = totals.location, n_samples, totals
        return self


def _totals(X: Array, sample_weight: ColumnLike | None) -> _Totals:
    weight, largest = relative_weight(sample_weight, X)
    centred, covariance = weighted_moments(X, weight)
    sums = float(weight.sum()), float((weight**2).sum())
    return _Totals(centred.location, covariance, centred.low, centred.high, *sums, largest)


def _merge(a: _Totals, b: _Totals) -> _Totals:
    """Combine two batches (Chan, Golub & LeVeque 1983)."""
    largest = max(a.largest, b.largest)
    weight_a, weight_b = a.weight * (a.largest / largest), b.weight * (b.largest / largest)
    weight = weight_a + weight_b
    share_a, share_b = weight_a / weight, weight_b / weight
    shift = b.location - a.location
    with np.errstate(over="ignore", invalid="ignore"):  # said when the variances are checked
        between = (share_a * shift)[:, None] * (share_b * shift)
        covariance = share_a * a.covariance + share_b * b.covariance + between
    squares = a.squares * (a.largest / largest) ** 2 + b.squares * (b.largest / largest) ** 2
    xp = namespace(shift)
    return _Totals(
        a.location + share_b * shift,
        covariance,
        xp.minimum(a.low, b.low),
        xp.maximum(a.high, b.high),
        weight,
        squares,
        largest,
    )
