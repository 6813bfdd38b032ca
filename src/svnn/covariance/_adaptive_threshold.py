"""Thresholds that follow the uncertainty of each entry."""

from __future__ import annotations

import math
from typing import ClassVar

from svnn._parameters import Rule, boolean, number, one_of
from svnn._types import AnyArray, ColumnLike, HasFit
from svnn.covariance._base import Estimate, Sparsifier
from svnn.covariance._moments import needs_products
from svnn.functional import Moments
from svnn.functional.moments import product_deviations
from svnn.functional.thresholds import RULES


class AdaptiveThreshold(Sparsifier):
    r"""Sample covariance with a threshold for each entry that follows its own uncertainty (Cai & Liu 2011).

    .. math:: \lambda_{ij} = \delta \sqrt{\theta_{ij} \log N / t}

    with :math:`\theta_{ij}` the variance of the products :math:`(x_i-\mu_i)(x_j-\mu_j)`.

    Parameters
    ----------
    delta : float, default=2.0
        Factor of the thresholds; two suits normal data, larger values keep less.
    rule : {"hard", "soft", "scad", "adaptive_lasso"}, default="hard"
        What happens to the entries, see :mod:`svnn.functional`.
    keep_diagonal : bool, default=True
        Never threshold the variances. False is the definition of the paper, word by word.
    correlation : {"pearson", "spearman", "kendall", "biweight"}, default="pearson"
        The correlations R of the covariance :math:`D R D`; see :class:`HardThreshold`.
    base : str, estimator or None, default=None
        The covariance to sparsify in place of the sample covariance; see :class:`HardThreshold`.
    psd : {None, "load", "shrink", "clip"}, default=None
        Repair of negative eigenvalues, see :func:`svnn.functional.psd_repair`.
    missing : {"raise", "pairwise"}, default="raise"
        Treatment of NaN. "pairwise" takes each entry over the samples where both features are observed.
    halflife : float or None, default=None
        Number of rows after which a row counts half as much. None counts all rows alike.
    sparse_output : bool or None, default=None
        Whether ``covariance_`` is sparse. None makes it sparse with more than ``dense_limit`` features.
    dense_limit : int, default=4096
        The most features for which the N×N sample covariance is formed; with more, it is computed in tiles.
    memory_limit : int, str or None, default=None
        Bytes, or a text such as "1.5GB", that the tiles may use. By default half of the memory.
    verbose : bool, default=False
        Show the progress while tiles are computed.

    Attributes
    ----------
    threshold_ : ndarray or Tensor of shape (N, N)
        Not there with more than ``dense_limit`` features.
    density_ : float
        Share of off-diagonal entries of ``covariance_`` that are not zero.
    covariance_ : ndarray or Tensor of shape (N, N)
        A ``csr_array`` or sparse CSR tensor with more than ``dense_limit`` features; see ``sparse_output``.
    location_ : ndarray or Tensor of shape (N,)
        Means of the features.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,)
        Only where X has named columns.

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

    _rules: ClassVar[dict[str, Rule]] = {
        "delta": number(0),
        "rule": one_of(*RULES),
        "keep_diagonal": boolean(),
        **Sparsifier._rules,
    }

    def __init__(
        self,
        *,
        delta: float = 2.0,
        rule: str = "hard",
        keep_diagonal: bool = True,
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
        self.delta = delta
        self.rule = rule
        self.keep_diagonal = keep_diagonal

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
