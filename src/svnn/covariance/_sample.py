"""The sample covariance, in one go or batch by batch."""

from __future__ import annotations

from typing import Any, NamedTuple

from svnn._fitted import at_once
from svnn.covariance._base import CovarianceEstimator
from svnn.functional import Moments, sample_moments
from svnn.functional.moments import check_ddof, check_weight


class _Totals(NamedTuple):
    """Mean and covariance of the rows so far, the sum of their weights and of the squared weights."""

    location: Any
    covariance: Any
    weight: float
    squares: float


class SampleCovariance(CovarianceEstimator):
    r"""The sample covariance.

    .. math:: \hat C = \frac{1}{t - \text{ddof}} \sum_{i=1}^t (x_i - \hat\mu)(x_i - \hat\mu)^T

    Parameters
    ----------
    ddof : float, default=0
        The paper divides by ``t``.
    missing : {"raise", "pairwise"}, default="raise"
        What to do about NaN. "pairwise" takes each entry over the samples where both features
        are observed; the result need not be positive semidefinite.

    Attributes
    ----------
    covariance_ : ndarray or Tensor of shape (N, N)
    location_ : ndarray or Tensor of shape (N,)
    n_samples_ : float
        Effective number of samples, :math:`(\sum w)^2/\sum w^2` with weights; an (N, N) array of the
        pairs' numbers where values are missing.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,), where X has named columns

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

    _totals: _Totals

    def __init__(self, *, ddof: float = 0, missing: str = "raise") -> None:
        self.ddof = ddof  # type: ignore[misc]
        self.missing = missing

    @at_once
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SampleCovariance:
        """Estimate the covariance of ``X``; see :class:`SampleCovariance`."""
        if hasattr(self, "_totals"):
            del self._totals
        if self.missing != "pairwise":
            return self._update(self._check(X), sample_weight)
        super().fit(X, sample_weight=sample_weight)
        return self

    @at_once
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SampleCovariance:
        """Add the rows of ``X`` to those seen before.

        Exact: the result is that of one ``fit`` on all rows, whatever the order and size of the
        batches, up to rounding.
        """
        if self.missing == "pairwise":
            raise ValueError('partial_fit needs missing="raise"; fit all rows at once for pairwise covariances.')
        return self._update(self._check(X, reset=not hasattr(self, "_totals"), min_samples=1), sample_weight)

    def _update(self, X: Any, sample_weight: Any) -> SampleCovariance:
        weight = check_weight(sample_weight, X)
        location, covariance, _ = sample_moments(X, 0, weight)
        totals = _Totals(location, covariance, float(weight.sum()), float((weight**2).sum()))
        if hasattr(self, "_totals"):
            totals = _merge(self._totals, totals)
        n_samples = totals.weight**2 / totals.squares
        check_ddof(n_samples, self.ddof)
        self._totals = totals
        self.location_, self.n_samples_ = totals.location, n_samples
        self.covariance_ = totals.covariance / (1 - self.ddof / n_samples)
        return self

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        self.n_samples_ = moments.n_samples
        return moments.covariance


def _merge(a: _Totals, b: _Totals) -> _Totals:
    """Combine two batches (Chan, Golub & LeVeque 1983)."""
    weight = a.weight + b.weight
    share_a, share_b = a.weight / weight, b.weight / weight
    shift = b.location - a.location
    covariance = share_a * a.covariance + share_b * b.covariance + share_a * share_b * shift[:, None] * shift
    return _Totals(a.location + share_b * shift, covariance, weight, a.squares + b.squares)
