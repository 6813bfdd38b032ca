"""The sample covariance, in one go or batch by batch."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from svnn._parameters import Rule, check_parameters, number
from svnn._types import AnyArray, ColumnLike, DataLike
from svnn._validation import at_once, unless
from svnn.covariance._base import CovarianceEstimator, Sparsifier
from svnn.covariance._moments import decaying, sample_of, why_not_incremental


class SampleCovariance(CovarianceEstimator):
    r"""The sample covariance.

    .. math:: \hat C = \frac{1}{t - \text{ddof}} \sum_{i=1}^t (x_i - \hat\mu)(x_i - \hat\mu)^T

    Parameters
    ----------
    ddof : float, default=0
        What is taken from the number of samples; the paper divides by ``t``.
    correlation, missing, halflife
        As in :class:`HardThreshold`.

    Attributes
    ----------
    n_samples_ : float
        Effective number of samples, :math:`(\sum w)^2/\sum w^2` with weights; an (N, N) array of the pairs'
        numbers where values are missing.
    covariance_ : ndarray or Tensor of shape (N, N)
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

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

    Newer rows count more, here the last one four times as much as the first:

    >>> SampleCovariance(halflife=1).fit(X).location_.round(3)
    array([2.857, 3.286])
    """

    n_samples_: float | AnyArray
    _takes_sparse = True
    _rules: ClassVar[dict[str, Rule]] = {
        "ddof": number(-math.inf),
        **{name: Sparsifier._rules[name] for name in ("correlation", "missing", "halflife")},
    }

    def __init__(
        self, *, ddof: float = 0, correlation: str = "pearson", missing: str = "raise", halflife: float | None = None
    ) -> None:
        super().__init__()
        self.ddof = ddof
        self.correlation = correlation
        self.missing = missing
        self.halflife = halflife

    @at_once
    def fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``, of shape (t, N) or (t, N, F); see :meth:`HardThreshold.fit`."""
        check_parameters(self)
        data = self._read(X)
        sample = sample_of(self, data, decaying(sample_weight, self.halflife, data), ddof=self.ddof)
        self.location_, (_, self.covariance_, self.n_samples_) = sample.location, sample.moments
        if sample.totals is not None:
            self._totals_ = sample.totals
        return self

    @unless(why_not_incremental)
    @at_once
    def partial_fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Add the rows of ``X`` to those seen before.

        The result is that of one ``fit`` on all rows, up to rounding, whatever the size of the batches; without a
        ``halflife`` their order does not matter either.
        """
        _, self._totals_ = self._with_rows(X, sample_weight)
        self.location_, self.covariance_, self.n_samples_ = self._totals_.moments(self.ddof)
        return self

    def _needs_rows(self) -> str:
        return ""
