"""What all covariance estimators share: the methods of scikit-learn's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import (
    declared,
    fitted,
)
from svnn._summary import FittedSummary, kept_edges
from svnn._types import AnyArray, DataLike, Matrix, MatrixLike
from svnn._validation import check_data
from svnn.covariance._forms import in_form, is_sparse, off_diagonal_density
from svnn.covariance._gaussian import log_likelihood, precision, squared_distances, squared_norm
from svnn.covariance._running_moments import Totals
from svnn.functional._array import is_torch, namespace, to_numpy
from svnn.functional._matrix import numpy_matrix

if TYPE_CHECKING:
    from torch import Tensor


@declared
class CovarianceEstimator(FittedSummary):
    """A covariance estimator: ``fit`` sets ``location_`` and ``covariance_``, the methods here use them."""

    covariance_: Matrix | Tensor = fitted(kind="ndarray or Tensor of shape (N, N)")
    location_: AnyArray = fitted(kind="ndarray or Tensor of shape (N,)", doc="Means of the features.")
    n_features_in_: int = fitted(kind="int")
    feature_names_in_: np.ndarray = fitted(kind="ndarray of shape (N,)", doc="Only where X has named columns.")

    def __post_init__(self) -> None:
        # skfolio takes only estimators that count as its own. Its base class is abstract, and such a class keeps a
        # list of other classes that count. Nothing happens where skfolio is not in use.
        theirs = getattr(sys.modules.get("skfolio.moments"), "BaseCovariance", None)
        if theirs is not None:
            theirs.register(type(self))

    def _summary(self) -> Mapping[str, str]:
        if not hasattr(self, "covariance_"):
            return {}
        n, sparse, of = self.covariance_.shape[0], self.covariance_, ""
        if hasattr(self, "precision_"):  # which is what is sparse then
            sparse, of = self.precision_, "the precision"
        return {"features": f"N = {n:,}", "graph": kept_edges(n, off_diagonal_density(sparse), of)}

    def get_precision(self) -> Matrix | Tensor:
        """Return the pseudo-inverse of the covariance, of the same kind as ``covariance_``.

        Raises
        ------
        ValueError
            Where a sparse ``covariance_`` links so many features that its inverse would be a huge dense matrix.
        """
        check_is_fitted(self)
        C = self.covariance_
        return in_form(precision(numpy_matrix(C)), C, is_sparse(C))

    def score(self, X: DataLike, y: object = None) -> float:
        """Return the mean log-likelihood of ``X`` under the Gaussian with this mean and covariance.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)
            With three dimensions, every sample's F values are observations of the N nodes.
        y : ignored

        Returns
        -------
        float
            Minus infinity where the covariance is not positive definite; see the parameter ``psd``.
        """
        rest = self._centred(X)
        return log_likelihood(numpy_matrix(self.covariance_), rest)

    def mahalanobis(self, X: DataLike) -> AnyArray:
        """Return the squared Mahalanobis distances of observations.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)

        Returns
        -------
        ndarray, or Tensor for a tensor, of shape (t,) or (t, F)
        """
        rest = self._centred(X)
        distances = squared_distances(numpy_matrix(self.covariance_), rest)
        shape = np.shape(X)
        distances = distances.reshape(shape[0], shape[2]) if len(shape) == 3 else distances
        return namespace(X).as_tensor(distances, device=X.device) if is_torch(X) else distances

    def error_norm(
        self, comp_cov: MatrixLike, norm: str = "frobenius", scaling: bool = True, squared: bool = True
    ) -> float:
        """Return the distance between this covariance and another one.

        Parameters
        ----------
        comp_cov : matrix of shape (N, N), operator or fitted estimator
            The covariance to compare with.
        norm : {"frobenius", "spectral"}, default="frobenius"
        scaling : bool, default=True
            Divide the squared norm by N.
        squared : bool, default=True
            Return the squared norm.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        C, other = numpy_matrix(self.covariance_), numpy_matrix(comp_cov, "comp_cov")
        if C.shape != other.shape:
            raise ValueError(f"comp_cov has shape {other.shape}, the covariance has {C.shape}; they must agree.")
        size = squared_norm(other - C, norm) / (C.shape[0] if scaling else 1)
        return size if squared else float(np.sqrt(size))

    def _centred(self, X: DataLike) -> np.ndarray:
        """Return observations, one in each row, minus the fitted mean."""
        check_is_fitted(self)
        rows = to_numpy(check_data(self, X, reset=False)).astype(np.float64)
        rows = rows if rows.ndim == 2 else np.swapaxes(rows, 1, 2).reshape(-1, rows.shape[1])
        return rows - to_numpy(self.location_)

    def _check(self, X: DataLike, *, reset: bool = True, min_samples: int = 2, lazy: bool = False) -> AnyArray:
        """Check the data; return it as a floating array or tensor of shape (t, N) or (t, N, F)."""
        return check_data(
            self,
            X,
            reset=reset,
            allow_nan=self.missing == "pairwise",
            nan_remedy='pass missing="pairwise" to use the observed pairs, or impute them first',
            min_samples=min_samples,
            lazy=lazy,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "missing", "raise") == "pairwise"
        tags.input_tags.three_d_array = True
        return tags


def totals_before(estimator: CovarianceEstimator) -> Totals | None:
    """Return the running moments that ``partial_fit`` goes on from; None where it is the first call."""
    name = type(estimator).__name__
    if estimator.missing == "pairwise":
        raise ValueError(f'{name}: partial_fit needs missing="raise"; fit all rows at once for pairwise covariances.')
    before: Totals | None = getattr(estimator, "_totals_", None)
    if before is None and hasattr(estimator, "covariance_"):
        raise ValueError(
            f"{name} was fitted without running moments (with missing values, with more than dense_limit features, or "
            "by an older svnn), so partial_fit cannot go on; fit all rows again."
        )
    return before
