"""The sample covariance, in one go or batch by batch."""

from __future__ import annotations

from typing import Any

from svnn.covariance._base import CovarianceEstimator
from svnn.functional import Moments, sample_moments
from svnn.functional._array import namespace

#: Moments of the rows so far, the sum of their weights, and of the squared weights.
_Totals = tuple[Moments, float, float]


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
        Effective number of samples, :math:`(\sum w)^2/\sum w^2` with weights.
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SampleCovariance:
        """Estimate the covariance of ``X``; see :class:`SampleCovariance`."""
        if hasattr(self, "_totals"):
            del self._totals
        if self.missing != "pairwise":
            return self._update(self._check(X), sample_weight)
        super().fit(X, sample_weight=sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SampleCovariance:
        """Add the rows of ``X`` to those seen before.

        Exact: the result is that of one ``fit`` on all rows, whatever the order and size of the
        batches, up to rounding.
        """
        if self.missing == "pairwise":
            raise ValueError('partial_fit needs missing="raise"; fit all rows at once for pairwise covariances.')
        return self._update(self._check(X, reset=not hasattr(self, "_totals"), min_samples=1), sample_weight)

    def _update(self, X: Any, sample_weight: Any) -> SampleCovariance:
        batch = sample_moments(X, 0, sample_weight)
        total, squares = _weight_totals(X, sample_weight)
        if hasattr(self, "_totals"):
            batch, total, squares = _merge(self._totals, (batch, total, squares))
        self._totals = (batch, total, squares)
        self.location_ = batch.location
        self.n_samples_ = total**2 / squares
        if self.n_samples_ <= self.ddof:
            raise ValueError(f"ddof={self.ddof} needs more than {self.ddof} samples, got {self.n_samples_:g}.")
        self.covariance_ = batch.covariance / (1 - self.ddof / self.n_samples_)
        return self

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        self.n_samples_ = moments.n_samples
        return moments.covariance


def _weight_totals(X: Any, sample_weight: Any) -> tuple[float, float]:
    if sample_weight is None:
        return float(len(X)), float(len(X))
    weight = namespace(X).asarray(sample_weight)
    return float(weight.sum()), float((weight**2).sum())


def _merge(a: _Totals, b: _Totals) -> _Totals:
    """Combine two batches (Chan, Golub & LeVeque 1983)."""
    (first, weight_a, squares_a), (second, weight_b, squares_b) = a, b
    total = weight_a + weight_b
    share_a, share_b = weight_a / total, weight_b / total
    shift = second.location - first.location
    covariance = share_a * first.covariance + share_b * second.covariance
    covariance = covariance + share_a * share_b * shift[:, None] * shift
    location = first.location + share_b * shift
    return Moments(location, covariance, total), total, squares_a + squares_b
