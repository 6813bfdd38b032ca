"""One threshold for all entries: what hard and soft thresholding share."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from svnn._types import RandomState
from svnn.covariance._base import Thresholded
from svnn.covariance._cv import cross_validated_tau
from svnn.functional import (
    Moments,
    largest_pairs,
    pairs_for_density,
    threshold_for_density,
    top_k_pairs,
    top_k_thresholds,
    universal_threshold,
)
from svnn.functional._array import as_floating, generator, namespace, to_numpy, unit_interval
from svnn.functional.thresholds import check_top_k

#: Features that tau="cv" looks at when there are more than dense_limit.
_CV_FEATURES = 1024


class GlobalThreshold(Thresholded):
    """Base of the hard and the soft threshold."""

    _name: ClassVar[str]
    threshold_: Any

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
        top_k: int | None = None,
        dense_limit: int = 4096,
        memory_limit: int | str | None = None,
        verbose: bool = False,
    ) -> None:
        self.tau = tau
        self.density = density
        self.keep_diagonal = keep_diagonal
        self.scale = scale
        self.psd = psd
        self.missing = missing
        self.n_splits = n_splits
        self.random_state = random_state
        self.top_k = top_k
        self.dense_limit = dense_limit
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        named = isinstance(self.tau, str)
        if named and self.tau not in ("universal", "cv"):
            raise ValueError(f'tau must be a number, "universal" or "cv", got {self.tau!r}.')
        if not named and (isinstance(self.tau, bool) or not isinstance(self.tau, Real) or not 0 <= self.tau < math.inf):
            raise ValueError(f'tau must be a number >= 0, "universal" or "cv", got {self.tau!r}.')
        universal_threshold(2, 2, self.scale)  # says what is wrong with a scale
        if self.density is not None:
            unit_interval(self.density, "density")
        if self.density is not None and self.tau != "universal":
            raise ValueError(
                f"tau={self.tau!r} and density={self.density!r} both choose the threshold; give only one of them."
            )
        if self.top_k is not None:
            check_top_k(self.top_k)
            if self.density is not None or self.tau != "universal":
                other = f"tau={self.tau!r}" if self.density is None else f"density={self.density!r}"
                raise ValueError(f"top_k={self.top_k} and {other} both choose the pairs; give only one of them.")
        return super()._check(X, reset, min_samples)

    def _thresholded(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        C, xp = moments.covariance, namespace(moments.covariance)
        # The masks break ties at the threshold, so that the number of pairs is exact.
        if self.density is not None:
            self.threshold_ = threshold_for_density(C, self.density)
            return xp.where(largest_pairs(C, self.density), self._rule(C, self.threshold_), 0 * C)
        if self.top_k is not None:
            self.threshold_ = top_k_thresholds(C, self.top_k)
            pair = xp.minimum(self.threshold_[:, None], self.threshold_)
            return xp.where(top_k_pairs(C, self.top_k), self._rule(C, pair), 0 * C)
        return super()._thresholded(X, moments, sample_weight)

    def _threshold(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        self._set_threshold(X, moments.n_samples, sample_weight)
        if isinstance(self.tau, Real):
            return self.threshold_
        sd = namespace(X).clip(moments.covariance.diagonal(), 0, None) ** 0.5
        return self.threshold_ * (sd[:, None] * sd)

    def _set_threshold(self, X: Any, t: Any, sample_weight: Any) -> None:
        self.__dict__.pop("tau_", None)  # of an earlier fit
        if isinstance(self.tau, Real):
            self.threshold_ = self.tau / t**0.5
        elif self.tau == "cv":
            self.tau_ = cross_validated_tau(
                X, self._rule, self.n_splits, self.random_state, sample_weight, self.missing
            )
            self.threshold_ = self.tau_ / t**0.5
        else:
            self.threshold_ = universal_threshold(t, X.shape[1], self.scale)

    def _fit(self, X: Any, sample_weight: Any) -> None:
        super()._fit(X, sample_weight)
        if isinstance(self.tau, Real) and self.density_ == 0 and X.shape[1] > 1:
            warnings.warn(
                f"tau={self.tau:g} leaves no edge: every covariance is below tau/sqrt(t) = "
                f"{to_numpy(self.threshold_).max():.3g}. The result is diagonal; use a smaller tau.",
                stacklevel=4,
            )

    def _estimate_large(self, X: Any, sample_weight: Any) -> Any:
        from svnn.covariance import _large as large

        named = self.density is None and self.top_k is None and not isinstance(self.tau, Real)
        tiles = large.prepare(self, X, sample_weight, correlation=named)
        if self.density is not None:
            kept = pairs_for_density(X.shape[1], self.density)
            upper, self.threshold_ = large.at_density(tiles, self._name, kept)
            diagonal_threshold: Any = self.threshold_
        elif self.top_k is not None:
            upper, diagonal_threshold = large.top_k(tiles, self._name, self.top_k)
            self.threshold_ = diagonal_threshold if tiles.data.as_tensor else diagonal_threshold.numpy()
        else:
            self._set_threshold(self._cv_features(X), tiles.data.n_samples, sample_weight)
            upper = large.above_threshold(tiles, self._name, self.threshold_)
            diagonal_threshold = self.threshold_ * (tiles.data.variance if named else 1)
        self.density_ = large.density(upper)
        diagonal = self._diagonal(tiles.data.variance, self._name, diagonal_threshold)
        return large.finish(tiles, upper, diagonal, self.psd)

    def _cv_features(self, X: Any) -> Any:
        """Return the features that the choice of tau looks at."""
        if self.tau != "cv":
            return X
        if X.shape[1] <= _CV_FEATURES:
            return as_floating(X)
        chosen = np.sort(generator(self.random_state).choice(X.shape[1], _CV_FEATURES, replace=False))
        return as_floating(X[:, chosen])


#: The docstring of both, between their summaries and their examples.
COMMON_DOC = """
    Parameters
    ----------
    tau : float, "universal" or "cv", default="universal"
        A number is the paper's :math:`\\tau`; the threshold is :math:`\\tau/\\sqrt t`.
        "universal" takes :math:`\\text{scale}\\sqrt{\\log N/t}` on the scale of correlations, so that
        units do not matter. "cv" chooses :math:`\\tau` on that scale by sample splitting
        (Bickel & Levina 2008).
    density : float in [0, 1], optional
        Keep exactly the ``round(density * N(N-1)/2)`` largest off-diagonal pairs instead (all that
        are not zero, where these are fewer); what the paper calls thresholding 'at p'. Of equal
        ones at the cut the first are kept, and none of them becomes zero, see
        :func:`svnn.functional.threshold_for_density`. Not together with a ``tau``.
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
    top_k : int, optional
        Keep the pairs that are among the ``top_k`` largest covariances of either feature instead,
        see :func:`svnn.functional.top_k_pairs`. Not together with a ``tau`` or a ``density``.
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
    threshold_ : float
        The threshold applied: to correlations with a named ``tau``, to covariances otherwise. An
        (N, N) array where missing values make t differ between pairs; an (N,) array with ``top_k``,
        where the threshold of a pair is the smaller one of its two.
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

    With more than ``dense_limit`` features, ``tau="cv"`` looks at 1024 of them, drawn at random, and
    missing values are an error. Tensors on a GPU are multiplied there, in the precision that
    ``torch.set_float32_matmul_precision`` chooses.
"""
