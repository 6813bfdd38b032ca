"""Thresholded covariances: hard, soft, and with entrywise (adaptive) thresholds."""

from __future__ import annotations

import math
from typing import Any

from svnn.covariance._base import Thresholded
from svnn.covariance._global_threshold import COMMON_DOC, GlobalThreshold
from svnn.functional import Moments, hard_threshold, soft_threshold
from svnn.functional._array import non_negative
from svnn.functional.moments import product_deviations
from svnn.functional.thresholds import RULES


class HardThreshold(GlobalThreshold):
    __doc__ = (
        """Sample covariance without its small entries (Def. 2): keeps ``c`` where ``|c| >= tau/sqrt(t)``.
"""
        + COMMON_DOC
        + """
    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import HardThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> X[:, 1] += X[:, 0]
    >>> HardThreshold().fit(X).covariance_.toarray().round(1)
    array([[0.8, 0.8, 0. , 0. , 0. ],
           [0.8, 1.8, 0. , 0. , 0. ],
           [0. , 0. , 0.9, 0. , 0. ],
           [0. , 0. , 0. , 1.1, 0. ],
           [0. , 0. , 0. , 0. , 1. ]])
    """
    )

    _name = "hard"

    def _rule(self, C: Any, threshold: Any) -> Any:
        return hard_threshold(C, threshold, self.keep_diagonal)


class SoftThreshold(GlobalThreshold):
    __doc__ = (
        """Sample covariance with every entry moved towards zero by ``tau/sqrt(t)`` (Def. 3).
"""
        + COMMON_DOC
        + """
    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import SoftThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> SoftThreshold(density=0.2).fit(X).density_
    0.2
    """
    )

    _name = "soft"

    def _rule(self, C: Any, threshold: Any) -> Any:
        return soft_threshold(C, threshold, self.keep_diagonal)


class AdaptiveThreshold(Thresholded):
    r"""Thresholds that follow each entry's own uncertainty (Cai & Liu 2011).

    .. math:: \lambda_{ij} = \delta \sqrt{\theta_{ij} \log N / t}

    with :math:`\theta_{ij}` the variance of the products :math:`(x_i-\mu_i)(x_j-\mu_j)`.

    Parameters
    ----------
    delta : float, default=2.0
    rule : {"hard", "soft", "scad", "adaptive_lasso"}, default="hard"
    keep_diagonal : bool, default=True
    psd : {None, "load", "shrink", "clip"}, default=None
    missing : {"raise", "pairwise"}, default="raise"
    dense_limit : int, default=4096
        Up to so many features the N×N sample covariance is formed. With more, tiles of it are, in
        single precision, and only what survives is kept: the same result up to the rounding of
        float32, in the precision of ``X``.
    memory_limit : int or str, optional
        Bytes, or a text such as "1.5GB", that the large-N path may use beside ``X``: data that does
        not fit goes to a temporary file, a result that does not fit is a MemoryError. By default
        half of the memory of the machine or, if that is less, of the container.
    verbose : bool, default=False
        Show a progress bar on a terminal while the tiles are computed.

    Attributes
    ----------
    covariance_ : csr_array (or sparse CSR tensor) of shape (N, N)
    threshold_ : ndarray or Tensor of shape (N, N)
        Not there with more than ``dense_limit`` features.
    density_ : float
    location_ : ndarray or Tensor of shape (N,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,), where X has named columns

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

    def __init__(
        self,
        *,
        delta: float = 2.0,
        rule: str = "hard",
        keep_diagonal: bool = True,
        psd: str | None = None,
        missing: str = "raise",
        dense_limit: int = 4096,
        memory_limit: int | str | None = None,
        verbose: bool = False,
    ) -> None:
        self.delta = delta
        self.rule = rule
        self.keep_diagonal = keep_diagonal
        self.psd = psd
        self.missing = missing
        self.dense_limit = dense_limit
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {tuple(RULES)}, got {self.rule!r}.")
        non_negative(self.delta, "delta")
        return super()._check(X, reset, min_samples)

    def _rule(self, C: Any, threshold: Any) -> Any:
        return RULES[self.rule](C, threshold, self.keep_diagonal)

    def _threshold(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        spread = product_deviations(X, moments, sample_weight)
        self.threshold_ = self.delta * spread * (math.log(X.shape[1]) / moments.n_samples) ** 0.5
        return self.threshold_

    def _estimate_large(self, X: Any, sample_weight: Any) -> Any:
        from svnn.covariance import _large as large

        self.__dict__.pop("threshold_", None)  # of an earlier fit
        tiles = large.prepare(self, X, sample_weight, correlation=True)
        upper = large.adaptive(tiles, self.rule, self.delta)
        self.density_ = large.density(upper)
        diagonal = self._diagonal(tiles.data.variance, self.rule, large.adaptive_diagonal(tiles, self.delta))
        return large.finish(tiles, upper, diagonal, self.psd)
