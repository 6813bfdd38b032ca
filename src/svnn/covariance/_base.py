"""What every covariance estimator shares: validation, moments, the sparse result."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from svnn._fitted import at_once
from svnn._validation import check_data
from svnn.covariance._memory import gather, memory_bytes
from svnn.functional import Moments, psd_repair, sample_moments
from svnn.functional._array import is_torch, namespace
from svnn.functional.thresholds import ENTRYWISE

_MISSING = ("raise", "pairwise")
_PSD = (None, "load", "shrink", "clip")


class CovarianceEstimator(ABC, BaseEstimator):
    """Base of the estimators: ``fit`` sets ``location_`` and ``covariance_``.

    A subclass says in ``_estimate`` what it makes of the sample moments.
    """

    missing: str
    ddof: ClassVar[float] = 0
    _min_samples: ClassVar[int] = 2

    @at_once
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Estimate the covariance of ``X``.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)
            With three dimensions, every sample's F values are observations of the N nodes.
        y : ignored
        sample_weight : array of shape (t,), optional
            Only ratios of weights matter.

        Returns
        -------
        self
        """
        self._fit(self._check(X), sample_weight)
        return self

    def _fit(self, X: Any, sample_weight: Any) -> None:
        moments = self._moments(X, sample_weight)
        self.location_ = moments.location
        self.covariance_ = self._estimate(X, moments, sample_weight)

    @abstractmethod
    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        """Return the covariance from the data and its moments."""

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        if self.missing not in _MISSING:
            raise ValueError(f"missing must be one of {_MISSING}, got {self.missing!r}.")
        return check_data(
            self,
            X,
            reset=reset,
            allow_nan=self.missing == "pairwise",
            nan_remedy='pass missing="pairwise" to use the observed pairs, or impute them first',
            min_samples=self._min_samples if min_samples is None else min_samples,
            lazy=self._is_large(X),
        )

    def _is_large(self, X: Any) -> bool:
        """Tell whether ``X`` is read in pieces, without N×N matrices."""
        return False

    def _moments(self, X: Any, sample_weight: Any) -> Moments:
        return sample_moments(X, self.ddof, sample_weight, self.missing)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "pairwise"
        tags.input_tags.three_d_array = True
        return tags


class Sparsifier(CovarianceEstimator):
    """Base of the estimators whose ``covariance_`` is sparse.

    Up to ``dense_limit`` features it is made from the N×N sample covariance, in ``_estimate``;
    beyond, in ``_estimate_large``, from tiles of it.
    """

    psd: str | None
    dense_limit: int
    memory_limit: int | str | None = None
    verbose: bool = False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Estimate the covariance of ``X``.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F), or iterator of such arrays
            With three dimensions, every sample's F values are observations of the N nodes. An
            iterator yields the rows in chunks. A ``numpy.memmap`` with more than ``dense_limit``
            features is read in pieces.
        y : ignored
        sample_weight : array of shape (t,), optional
            Only ratios of weights matter.

        Returns
        -------
        self
        """
        if isinstance(X, Iterator):
            X = gather(X, memory_bytes(self.memory_limit))
        return super().fit(X, sample_weight=sample_weight)

    def _fit(self, X: Any, sample_weight: Any) -> None:
        if X.shape[1] <= self.dense_limit:
            super()._fit(X, sample_weight)
            return
        if self.psd == "clip":
            raise ValueError(
                f'psd="clip" gives a dense matrix, of {X.shape[1]} features here, more than '
                f'dense_limit={self.dense_limit}; use psd="load" or "shrink", or raise dense_limit.'
            )
        self.covariance_ = self._estimate_large(X, sample_weight)

    @abstractmethod
    def _estimate_large(self, X: Any, sample_weight: Any) -> Any:
        """Set ``location_`` and return the covariance without forming an N×N matrix."""

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        if self.psd not in _PSD:
            raise ValueError(f"psd must be one of {_PSD}, got {self.psd!r}.")
        limit = self.dense_limit
        if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 0:
            raise ValueError(f"dense_limit must be an integer >= 0, got {self.dense_limit!r}.")
        memory_bytes(self.memory_limit)
        return super()._check(X, reset, min_samples)

    def _is_large(self, X: Any) -> bool:
        plain = is_torch(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub")
        return plain and X.ndim in (2, 3) and X.shape[1] > self.dense_limit

    def _sparse(self, C: Any) -> Any:
        """Return the sparse form of ``C``, repaired if asked for."""
        if self.psd is None:
            return to_sparse(C)
        # scipy's sparse matrices are repaired as such, tensors before they become sparse.
        return to_sparse(psd_repair(C, self.psd)) if is_torch(C) else psd_repair(to_sparse(C), self.psd)


class Thresholded(Sparsifier):
    """Base of the thresholded estimators."""

    keep_diagonal: bool

    @abstractmethod
    def _rule(self, C: Any, threshold: Any) -> Any:
        """Threshold ``C``."""

    @abstractmethod
    def _threshold(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        """Return the threshold on the covariance scale and set ``threshold_``."""

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        covariance = self._sparse(self._thresholded(X, moments, sample_weight))
        self.density_ = off_diagonal_density(covariance)
        return covariance

    def _thresholded(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        return self._rule(moments.covariance, self._threshold(X, moments, sample_weight))

    def _diagonal(self, variance: Any, rule: str, threshold: Any) -> Any:
        return variance if self.keep_diagonal else ENTRYWISE[rule](namespace(variance), variance, threshold)


def to_sparse(C: Any) -> Any:
    """Return a dense matrix as ``scipy.sparse.csr_array``, a tensor as a sparse CSR tensor."""
    if not is_torch(C):
        return sp.csr_array(C)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return C.to_sparse_csr()


def off_diagonal_density(C: Any) -> float:
    """Return the share of off-diagonal entries of a sparse matrix that are not zero."""
    n = C.shape[0]
    if n == 1:
        return 0.0
    if is_torch(C):
        coo = C.to_sparse_coo().coalesce()
        rows, columns = coo.indices()
        kept = int(((rows != columns) & (coo.values() != 0)).sum())
    else:
        kept = int(C.count_nonzero()) - int(np.count_nonzero(C.diagonal()))
    return kept / (n * (n - 1))
