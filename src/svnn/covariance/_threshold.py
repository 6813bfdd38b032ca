"""Thresholded covariances: hard, soft, and with entrywise (adaptive) thresholds."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from numbers import Real
from typing import Any

from svnn.covariance._base import Sparsifier, off_diagonal_density
from svnn.covariance._cv import cross_validated_tau
from svnn.functional import (
    Moments,
    hard_threshold,
    largest_pairs,
    product_variances,
    soft_threshold,
    threshold_for_density,
    universal_threshold,
)
from svnn.functional._array import RandomState, namespace, to_numpy
from svnn.functional.thresholds import RULES


class _Thresholded(Sparsifier):
    keep_diagonal: bool
    density: float | None

    @abstractmethod
    def _rule(self, C: Any, threshold: Any) -> Any:
        """Threshold ``C``."""

    @abstractmethod
    def _threshold(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        """Return the threshold on the covariance scale and set ``threshold_``."""

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        C = moments.covariance
        if self.density is None:
            thresholded = self._rule(C, self._threshold(X, moments, sample_weight))
        else:
            self.threshold_ = threshold_for_density(C, self.density)
            kept = self._rule(C, self.threshold_)
            # The mask breaks ties at the threshold, so that the number of pairs is exact.
            thresholded = namespace(C).where(largest_pairs(C, self.density), kept, 0 * C)
        covariance = self._sparse(thresholded)
        self.density_ = off_diagonal_density(covariance)
        return covariance


class _GlobalThreshold(_Thresholded):
    """One threshold for all entries: shared by hard and soft."""

    def __init__(
        self,
        *,
        tau: float | str = "universal",
        density: float | None = None,
        keep_diagonal: bool = True,
        scale: float = 2.0,
        psd: str | None = None,
        missing: str = "raise",
        n_splits: int = 10,
        random_state: RandomState = None,
    ) -> None:
        self.tau = tau
        self.density = density
        self.keep_diagonal = keep_diagonal
        self.scale = scale
        self.psd = psd
        self.missing = missing
        self.n_splits = n_splits
        self.random_state = random_state

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        named = isinstance(self.tau, str)
        if named and self.tau not in ("universal", "cv"):
            raise ValueError(f'tau must be a number, "universal" or "cv", got {self.tau!r}.')
        if not named and (not isinstance(self.tau, Real) or not self.tau >= 0 or math.isinf(self.tau)):
            raise ValueError(f'tau must be a number >= 0, "universal" or "cv", got {self.tau!r}.')
        if self.density is not None and self.tau != "universal":
            raise ValueError(
                f"tau={self.tau!r} and density={self.density!r} both choose the threshold; give only one of them."
            )
        return super()._check(X, reset, min_samples)

    def _threshold(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        t = moments.n_samples
        self.__dict__.pop("tau_", None)  # of an earlier fit
        if isinstance(self.tau, Real):
            self.threshold_ = self.tau / t**0.5
            return self.threshold_
        if self.tau == "cv":
            self.tau_ = cross_validated_tau(
                X, self._rule, self.n_splits, self.random_state, sample_weight, self.missing
            )
            self.threshold_ = self.tau_ / t**0.5
        else:
            self.threshold_ = universal_threshold(t, X.shape[1], self.scale)
        sd = namespace(X).clip(moments.covariance.diagonal(), 0, None) ** 0.5
        return self.threshold_ * (sd[:, None] * sd)

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        covariance = super()._estimate(X, moments, sample_weight)
        if isinstance(self.tau, Real) and self.density_ == 0 and X.shape[1] > 1:
            warnings.warn(
                f"tau={self.tau:g} leaves no edge: every covariance is below tau/sqrt(t) = "
                f"{to_numpy(self.threshold_).max():.3g}. The result is diagonal; use a smaller tau.",
                stacklevel=3,
            )
        return covariance


_COMMON_DOC = """
    Parameters
    ----------
    tau : float, "universal" or "cv", default="universal"
        A number is the paper's :math:`\\tau`; the threshold is :math:`\\tau/\\sqrt t`.
        "universal" takes :math:`\\text{scale}\\sqrt{\\log N/t}` on the scale of correlations, so that
        units do not matter. "cv" chooses :math:`\\tau` on that scale by sample splitting
        (Bickel & Levina 2008).
    density : float in [0, 1], optional
        Keep exactly the ``round(density * N(N-1)/2)`` largest off-diagonal pairs instead; what
        the paper calls thresholding 'at p'. Not together with a ``tau``.
    keep_diagonal : bool, default=True
        Never threshold variances. False is the paper's literal definition.
    scale : float, default=2.0
        Factor of the universal threshold.
    psd : {None, "load", "shrink", "clip"}, default=None
        Repair of negative eigenvalues, see :func:`svnn.functional.psd_repair`.
    missing : {"raise", "pairwise"}, default="raise"
        What to do about NaN. With "pairwise", t is the number of samples of each pair.
    n_splits : int, default=10
        Number of random splits for ``tau="cv"``.
    random_state : int, Generator or None
        Seed of those splits.

    Attributes
    ----------
    covariance_ : csr_array (or sparse CSR tensor) of shape (N, N)
    threshold_ : float
        The threshold applied: to correlations with a named ``tau``, to covariances otherwise. An
        (N, N) array where missing values make t differ between pairs.
    tau_ : float
        The chosen value, with ``tau="cv"``.
    density_ : float
        Share of off-diagonal entries that are not zero.
    location_ : ndarray or Tensor of shape (N,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,), where X has named columns

    Notes
    -----
    A ``tau`` so large that no edge survives leaves a diagonal matrix, with a warning.
"""


class HardThreshold(_GlobalThreshold):
    __doc__ = (
        """Sample covariance without its small entries (Def. 2): keeps ``c`` where ``|c| >= tau/sqrt(t)``.
"""
        + _COMMON_DOC
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

    def _rule(self, C: Any, threshold: Any) -> Any:
        return hard_threshold(C, threshold, self.keep_diagonal)


class SoftThreshold(_GlobalThreshold):
    __doc__ = (
        """Sample covariance with every entry moved towards zero by ``tau/sqrt(t)`` (Def. 3).
"""
        + _COMMON_DOC
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

    def _rule(self, C: Any, threshold: Any) -> Any:
        return soft_threshold(C, threshold, self.keep_diagonal)


class AdaptiveThreshold(_Thresholded):
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

    Attributes
    ----------
    covariance_ : csr_array (or sparse CSR tensor) of shape (N, N)
    threshold_ : ndarray or Tensor of shape (N, N)
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

    density = None

    def __init__(
        self,
        *,
        delta: float = 2.0,
        rule: str = "hard",
        keep_diagonal: bool = True,
        psd: str | None = None,
        missing: str = "raise",
    ) -> None:
        self.delta = delta
        self.rule = rule
        self.keep_diagonal = keep_diagonal
        self.psd = psd
        self.missing = missing

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {tuple(RULES)}, got {self.rule!r}.")
        if not isinstance(self.delta, Real) or not self.delta >= 0:
            raise ValueError(f"delta must be a number >= 0, got {self.delta!r}.")
        return super()._check(X, reset, min_samples)

    def _rule(self, C: Any, threshold: Any) -> Any:
        return RULES[self.rule](C, threshold, self.keep_diagonal)

    def _threshold(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        theta = product_variances(X, moments, sample_weight)
        self.threshold_ = self.delta * (theta * (math.log(X.shape[1]) / moments.n_samples)) ** 0.5
        return self.threshold_
