"""Thresholds that follow the uncertainty of each entry."""

from __future__ import annotations

import math

from svnn._parameters import declared, fitted, number, one_of, parameter
from svnn._types import AnyArray, ColumnLike
from svnn.covariance._correlation import needs_products
from svnn.covariance._hard_threshold import HardThreshold
from svnn.covariance._sparsifier import Estimate, Sparsifier
from svnn.functional import Moments
from svnn.functional.moments import product_deviations
from svnn.functional.thresholds import RULES


@declared
class AdaptiveThreshold(Sparsifier):
    r"""Sample covariance with a threshold for each entry that follows its own uncertainty (Cai & Liu 2011).

    .. math:: \lambda_{ij} = \delta \sqrt{\theta_{ij} \log N / t}

    with :math:`\theta_{ij}` the variance of the products :math:`(x_i-\mu_i)(x_j-\mu_j)`.

    References
    ----------
    T. Cai and W. Liu, Adaptive thresholding for sparse covariance matrix estimation, JASA 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import AdaptiveThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5)) * [1, 1, 1, 1, 100]
    >>> AdaptiveThreshold(rule="scad").fit(X).density_
    0.0
    """

    delta: float = parameter(
        default=2.0, rule=number(0), doc="Factor of the thresholds; two suits normal data, larger values keep less."
    )
    rule: str = parameter(
        default="hard", rule=one_of(*RULES), doc="What happens to the entries, see :mod:`svnn.functional`."
    )
    keep_diagonal: bool = parameter(default=HardThreshold.keep_diagonal, like=HardThreshold)

    threshold_: AnyArray = fitted(
        kind="ndarray or Tensor of shape (N, N)", doc="Not there with more than ``dense_limit`` features."
    )

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        needs_products("AdaptiveThreshold", self.correlation, self.base)
        spread = product_deviations(X, moments, sample_weight)
        threshold = self.delta * spread * (math.log(X.shape[1]) / moments.n_samples) ** 0.5
        C = RULES[self.rule](moments.covariance, threshold, self.keep_diagonal)
        return Estimate(C, moments.location, {"threshold_": threshold})

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        limit = tiles.memory_bytes(self.memory_limit)
        data = tiles.read(X, sample_weight, correlations=True, limit=limit, kind=self.correlation)
        grid = tiles.over(data, limit, bool(self.verbose))
        found = tiles.adaptive(grid, self.rule, float(self.delta), bool(self.keep_diagonal))
        return Estimate(found.matrix, found.location, {})
