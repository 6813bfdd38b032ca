"""The sample covariance, in one go or batch by batch."""

from __future__ import annotations

import math
from typing import Any, Self

from sklearn.utils import Tags

from svnn._parameters import check_parameters, declared, fitted, number, parameter
from svnn._types import AnyArray, ColumnLike, DataLike
from svnn._validation import at_once, is_dask, unless
from svnn.covariance._correlation import not_plain, see
from svnn.covariance._covariance import CovarianceEstimator, totals_before
from svnn.covariance._from_tables import moments_of_table, read_table
from svnn.covariance._running_moments import Totals, add_rows, decaying
from svnn.covariance._sparsifier import Sparsifier
from svnn.sources import as_table


def _why_not(estimator: SampleCovariance) -> str:
    return "" if estimator.correlation == "pearson" else not_plain(estimator.correlation)


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

    Newer rows count more, here the last one four times as much as the first:

    >>> SampleCovariance(halflife=1).fit(X).location_.round(3)
    array([2.857, 3.286])
    """

    ddof: float = parameter(
        default=0, rule=number(-math.inf), doc="What is taken from the number of samples; the paper divides by ``t``."
    )
    correlation: str = parameter(default=Sparsifier.correlation, like=Sparsifier)
    missing: str = parameter(default=Sparsifier.missing, like=Sparsifier)
    halflife: float | None = parameter(default=Sparsifier.halflife, like=Sparsifier)

    n_samples_: float | AnyArray = fitted(
        kind="float",
        doc=r"""Effective number of samples, :math:`(\sum w)^2/\sum w^2` with weights; an (N, N) array of the pairs'
        numbers where values are missing.""",
    )

    @at_once
    def fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``, of shape (t, N) or (t, N, F); see :meth:`HardThreshold.fit`."""
        check_parameters(self)
        table, plain = as_table(X), self.missing == "raise" and self.correlation == "pearson"
        if table is not None and plain:
            return self._set(moments_of_table(self, table, sample_weight)[0])
        if table is not None:
            data: Any = read_table(self, table)
        else:
            data = self._check_dask(X) if plain and is_dask(X) else self._check(X)
        if plain:
            return self._set(add_rows(None, data, sample_weight, self.halflife))
        weight = decaying(sample_weight, self.halflife, data)
        seen = see(data, weight, self.correlation, self.missing, ddof=self.ddof)
        self.location_, (_, self.covariance_, self.n_samples_) = seen.location, seen.moments
        return self

    @unless(_why_not)
    @at_once
    def partial_fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Add the rows of ``X`` to those seen before.

        The result is that of one ``fit`` on all rows, up to rounding, whatever the size of the batches; without a
        ``halflife`` their order does not matter either.
        """
        check_parameters(self)
        before = totals_before(self)
        data: Any = self._check(X, reset=before is None, min_samples=1)
        return self._set(add_rows(before, data, sample_weight, self.halflife))

    def _check_dask(self, X: object) -> Any:
        from svnn.covariance import _dask

        return _dask.take(self, X, lambda table: True, limit=0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _set(self, totals: Totals) -> Self:
        """Take over the totals of all rows so far, and what follows from them."""
        self.location_, self.covariance_, self.n_samples_ = totals.moments(self.ddof)
        self._totals_ = totals
        return self
