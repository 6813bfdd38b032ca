"""What every covariance estimator shares: validation, moments, the sparse result."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import scipy.sparse as sp
from sklearn.base import BaseEstimator

from svnn._validation import check_data
from svnn.functional import Moments, psd_repair, sample_moments
from svnn.functional._array import is_torch

_MISSING = ("raise", "pairwise")
_PSD = (None, "load", "shrink", "clip")


class CovarianceEstimator(ABC, BaseEstimator):
    """Base of the estimators: ``fit`` sets ``location_`` and ``covariance_``.

    A subclass says in ``_estimate`` what it makes of the sample moments.
    """

    missing: str
    ddof: ClassVar[float] = 0
    _min_samples: ClassVar[int] = 2

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
        X = self._check(X)
        moments = self._moments(X, sample_weight)
        self.location_ = moments.location
        self.covariance_ = self._estimate(X, moments, sample_weight)
        return self

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
        )

    def _moments(self, X: Any, sample_weight: Any) -> Moments:
        return sample_moments(X, self.ddof, sample_weight, self.missing)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "pairwise"
        tags.input_tags.three_d_array = True
        return tags


class Sparsifier(CovarianceEstimator):
    """Base of the estimators whose ``covariance_`` is sparse."""

    psd: str | None

    def _check(self, X: Any, reset: bool = True, min_samples: int | None = None) -> Any:
        if self.psd not in _PSD:
            raise ValueError(f"psd must be one of {_PSD}, got {self.psd!r}.")
        return super()._check(X, reset, min_samples)

    def _sparse(self, C: Any) -> Any:
        """Return the sparse form of ``C``, repaired if asked for."""
        if self.psd is None:
            return to_sparse(C)
        # scipy's sparse matrices are repaired as such, tensors before they become sparse.
        return to_sparse(psd_repair(C, self.psd)) if is_torch(C) else psd_repair(to_sparse(C), self.psd)


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
        coo = C.tocoo()
        kept = int(((coo.row != coo.col) & (coo.data != 0)).sum())
    return kept / (n * (n - 1))
