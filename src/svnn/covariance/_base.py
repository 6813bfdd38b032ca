"""Base classes: the methods of every covariance estimator, and the steps from data to a sparsified covariance."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import Rule, anything, boolean, check_parameters, either, integer, memory_size, number, one_of
from svnn._summary import FittedSummary, kept_edges
from svnn._types import AnyArray, ColumnLike, DataLike, HasFit, Matrix, MatrixLike
from svnn._validation import at_once, check_data, unless
from svnn.covariance._gaussian import log_likelihood, precision, squared_distances, squared_norm
from svnn.covariance._moments import CORRELATIONS, Totals, add_rows, decaying, sample_of, why_not_incremental
from svnn.functional import LowRankPlusSparse, Moments, psd_repair
from svnn.functional._array import is_torch, namespace, to_numpy
from svnn.functional._matrix import is_sparse, numpy_matrix, stored_as, stored_like

if TYPE_CHECKING:
    from torch import Tensor

    from svnn.covariance.tiles import Tiles


class CovarianceEstimator(FittedSummary):
    """A covariance estimator: ``fit`` sets ``location_`` and ``covariance_``, the methods here use them."""

    covariance_: Any
    location_: AnyArray
    n_features_in_: int
    _totals_: Totals

    #: What each parameter may be, and the pairs of parameters of which only one may be set.
    _rules: ClassVar[dict[str, Rule]] = {}
    _exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()
    #: Whether sparse matrices and tables in files may be fitted.
    _takes_sparse: ClassVar[bool] = False

    def __init__(self) -> None:
        # skfolio only takes estimators that its abstract base class knows. Nothing happens where skfolio is not in use.
        theirs = getattr(sys.modules.get("skfolio.moments"), "BaseCovariance", None)
        if theirs is not None:
            theirs.register(type(self))

    def get_precision(self) -> Matrix | Tensor:
        """Return the pseudo-inverse of the covariance, an array, sparse array or tensor as ``covariance_`` is.

        Raises
        ------
        ValueError
            Where a sparse ``covariance_`` links so many features that its inverse would be a huge dense matrix.
        """
        check_is_fitted(self)
        C = self.covariance_
        return stored_like(precision(numpy_matrix(C)), C, is_sparse(C))

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
        rows = self._centred(X)
        return log_likelihood(numpy_matrix(self.covariance_), rows)

    def mahalanobis(self, X: DataLike) -> AnyArray:
        """Return the squared Mahalanobis distances of observations.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)

        Returns
        -------
        ndarray, or Tensor for a tensor, of shape (t,) or (t, F)
        """
        rows = self._centred(X)
        distances = squared_distances(numpy_matrix(self.covariance_), rows)
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

    def _check(self, X: DataLike, *, reset: bool = True, min_samples: int = 2, dense_limit: float = math.inf) -> Any:
        """Return checked data as a floating array or tensor; with more than ``dense_limit`` features it is unread."""
        readable = is_torch(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub")
        return check_data(
            self,
            X,
            reset=reset,
            allow_nan=self.missing == "pairwise",
            nan_remedy='pass missing="pairwise" to use the observed pairs, or impute them first',
            min_samples=min_samples,
            lazy=readable and len(X.shape) in (2, 3) and X.shape[1] > dense_limit,  # type: ignore[union-attr]
        )

    def _read(self, X: Any) -> Any:
        """Return the checked data: an array or tensor (unread where it is wide), or a table that is read in pieces."""
        limit = getattr(self, "dense_limit", math.inf)
        if type(X) is not np.ndarray and not is_torch(X):
            from svnn.covariance._tables import read_table

            table = read_table(self, X, limit, self.missing == "raise" and not why_not_incremental(self))
            if table is not None:
                return table
        return self._check(X, dense_limit=limit)

    def _with_rows(self, X: DataLike, sample_weight: ColumnLike | None) -> tuple[Any, Totals]:
        """Return new rows, checked, and the running moments of them and all rows before, for ``partial_fit``."""
        check_parameters(self)
        name, limit = type(self).__name__, getattr(self, "dense_limit", math.inf)
        if self.missing == "pairwise":
            raise ValueError(
                f'{name}: partial_fit needs missing="raise"; fit all rows at once for pairwise covariances.'
            )
        before: Totals | None = getattr(self, "_totals_", None)
        if before is None and hasattr(self, "covariance_"):
            raise ValueError(
                f"{name} was fitted without running moments (with missing values, or with more than dense_limit "
                "features), so partial_fit cannot update it; fit all rows again."
            )
        data = self._check(X, reset=before is None, min_samples=1)
        if data.shape[1] > limit:
            raise ValueError(
                f"{name}: partial_fit keeps the covariances of all pairs of its {data.shape[1]} features, more than "
                f"dense_limit={limit}; raise dense_limit if there is memory for them, or fit a window of rows again."
            )
        return data, add_rows(before, data, sample_weight, self.halflife)

    def _summary(self) -> Mapping[str, str]:
        if not hasattr(self, "covariance_"):
            return {}
        n, sparse, of = self.covariance_.shape[0], self.covariance_, ""
        if hasattr(self, "precision_"):  # which is the sparse one then
            sparse, of = self.precision_, "the precision"
        return {"features": f"N = {n:,}", "graph": kept_edges(n, off_diagonal_density(sparse), of)}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "missing", "raise") == "pairwise"
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = self._takes_sparse
        return tags


class Estimate(NamedTuple):
    """The result of a sparsifier, before negative eigenvalues are repaired.

    ``covariance`` is dense or sparse. ``learned`` holds further fitted attributes by name, without those that are None.
    ``if_diagonal`` is a warning for a result without any edge. ``too_few`` is the error of ``fit`` where there are too
    few rows; ``partial_fit`` waits for more.
    """

    covariance: Matrix | Tensor
    location: AnyArray
    learned: Mapping[str, object]
    if_diagonal: str = ""
    too_few: str = ""


class Sparsifier(CovarianceEstimator):
    """Base of the estimators that drop entries of the sample covariance.

    A subclass implements ``_from_moments`` and, where it can work without the N×N matrix, ``_from_tiles``. Both return
    an :class:`Estimate` and change nothing. The parameters are those that :class:`HardThreshold` documents.
    """

    density_: float
    _rules: ClassVar[dict[str, Rule]] = {
        "correlation": one_of(*CORRELATIONS),
        "base": anything("str, estimator or None"),
        "psd": one_of(None, "load", "shrink", "clip"),
        "missing": one_of("raise", "pairwise"),
        "halflife": either(number(above=True), None),
        "sparse_output": boolean(optional=True),
        "dense_limit": integer(0),
        "memory_limit": memory_size(),
        "verbose": boolean(),
    }
    _exclusive: ClassVar[tuple[tuple[str, str], ...]] = (("base", "correlation"),)
    _takes_sparse: ClassVar[bool] = True
    #: Whether the workers of a Dask cluster can compute the tiles; otherwise the table is brought here.
    _tiles_on_cluster: ClassVar[bool] = True

    def __init__(
        self,
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
        super().__init__()
        self.correlation = correlation
        self.base = base
        self.psd = psd
        self.missing = missing
        self.halflife = halflife
        self.sparse_output = sparse_output
        self.dense_limit = dense_limit
        self.memory_limit = memory_limit
        self.verbose = verbose

    @at_once
    def fit(self, X: DataLike | Iterator[DataLike], y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F), or iterator of such arrays
            With three dimensions, every sample's F values are observations of the N nodes. An iterator yields the rows
            in chunks. Files are read in pieces: a ``numpy.memmap``, a dataset of h5py or array of zarr, an AnnData
            object, a ``ParquetFile``; and so is a sparse matrix of scipy. See :mod:`svnn.sources`. An array or a data
            frame of Dask may be chunked in any way; where a ``distributed.Client`` is active, its workers compute.
        y : ignored
        sample_weight : array of shape (t,), optional
            Only ratios of weights matter.

        Returns
        -------
        self
        """
        check_parameters(self)
        data = self._read(X)
        weight = sample_weight if self.halflife is None else decaying(sample_weight, self.halflife, data)
        if data.shape[1] > self.dense_limit:
            return self._store(self._from_tiles(data, weight))
        if self.halflife is not None and self.base is not None:
            from svnn.covariance._resolve import resolve  # it imports all estimators, also those of this file

            if not isinstance(resolve(self.base), CovarianceEstimator):
                raise ValueError(
                    f"base={self.base!r} takes no weights, so halflife={self.halflife!r} would not make old rows count "
                    "less; use one of svnn's estimators as the base, or halflife=None."
                )
        sample = sample_of(self, data, weight)
        estimate = self._from_moments(sample.rows, sample.moments, sample.weight)
        return self._store(estimate._replace(location=sample.location), sample.totals)

    @unless(why_not_incremental)
    @at_once
    def partial_fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Add the rows of ``X`` to those seen before, and sparsify again.

        The result is that of one ``fit`` on all rows, up to rounding. Realisations of random estimators are those of
        that ``fit`` where ``random_state`` is an integer.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)
            One row is enough.
        y : ignored
        sample_weight : array of shape (t,), optional
            Ratios matter, also those to the weights of earlier rows.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            Where means and covariances are not sufficient: with ``tau="cv"`` and for `AdaptiveThreshold`, for example.
        ValueError
            With ``missing="pairwise"``, and with more than ``dense_limit`` features, whose N×N matrix is never formed.
        """
        data, totals = self._with_rows(X, sample_weight)
        return self._store(self._from_moments(data, totals.moments(), None)._replace(too_few=""), totals)

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        """Return the estimate from the data and its sample moments."""
        raise NotImplementedError

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        """Return the estimate from data with more than ``dense_limit`` features."""
        n = X.shape[1]
        raise ValueError(
            f"{type(self).__name__} looks at all pairs of its {n} features at once, more than "
            f"dense_limit={self.dense_limit}. Use HardThreshold or ACV, or raise dense_limit if there is memory for "
            f"several matrices of {n**2 * 8 / 1e9:.1f} GB."
        )

    def _needs_rows(self) -> str:
        """Return why these parameters need the rows themselves, and an alternative; "" where moments are sufficient.

        Where it is "" there is a ``partial_fit``; it gives ``_from_moments`` the newest rows only, and no weights.
        """
        return "it needs all rows, not only their means and covariances; fit them at once, or use HardThreshold"

    def _tiles(self, X: AnyArray, sample_weight: ColumnLike | None, *, correlations: bool) -> Tiles:
        """Return the tiles of wide data; raise where the parameters need a dense matrix of all its features."""
        from svnn.covariance import tiles

        n, limit = X.shape[1], tiles.memory_bytes(self.memory_limit)
        if self.base is not None or self.correlation == "kendall":
            what = 'correlation="kendall"' if self.base is None else f"base={self.base!r}"
            raise ValueError(
                f"{what} needs all pairs of its {n} features at once, more than dense_limit={self.dense_limit}; use "
                'correlation="spearman" or "biweight", or raise dense_limit.'
            )
        if self.psd == "clip":
            raise ValueError(
                f'psd="clip" gives a dense matrix, of {n} features here, more than dense_limit={self.dense_limit}; '
                'use psd="load" or "shrink", or raise dense_limit.'
            )
        size = n**2 * (4 if str(X.dtype).endswith("float32") else 8)
        if self.sparse_output is not None and not self.sparse_output and size > limit:
            raise MemoryError(
                f"sparse_output=False asks for a dense matrix of {n} features, {size / 1e9:.3g} GB, which is more "
                "than memory_limit; use sparse_output=None or a larger memory_limit."
            )
        data = tiles.read(X, sample_weight, correlations=correlations, limit=limit, kind=self.correlation)
        return tiles.over(data, limit, bool(self.verbose))

    def _store(self, estimate: Estimate, totals: Totals | None = None) -> Self:
        """Set the fitted attributes, and the running moments that ``partial_fit`` updates."""
        if estimate.too_few:
            raise ValueError(estimate.too_few)
        self.location_ = estimate.location
        self.covariance_ = self._finished(estimate.covariance)
        self.density_ = off_diagonal_density(self.covariance_)
        for name, value in {**estimate.learned, "_totals_": totals}.items():
            if value is not None:
                setattr(self, name, value)
            else:
                self.__dict__.pop(name, None)
        if estimate.if_diagonal and self.density_ == 0 and self.covariance_.shape[0] > 1:
            warnings.warn(estimate.if_diagonal, stacklevel=4)
        return self

    def _finished(self, C: Matrix | Tensor) -> Matrix | Tensor:
        """Return the matrix with its repair, dense or sparse as ``sparse_output`` asks."""
        if self.psd is not None:
            # Most entries are zero, so a solver for sparse matrices is faster; "clip" has none.
            C = psd_repair(C if is_torch(C) or self.psd == "clip" else sp.csr_array(C), self.psd)
        if C.shape[0] > self.dense_limit if self.sparse_output is None else self.sparse_output:
            return C if sp.issparse(C) else stored_as(C, sparse=True)
        dense: Any = C if isinstance(C, np.ndarray) else stored_as(C, sparse=False)
        dense += 0  # zeros have no sign then
        return dense


def off_diagonal_density(C: Matrix | Tensor) -> float:
    """Return the share of off-diagonal entries of a matrix that are not zero."""
    n = C.shape[0]
    if n == 1:
        return 0.0
    if isinstance(C, LowRankPlusSparse):
        return C.density()
    if is_torch(C) and is_sparse(C):
        coo = C.to_sparse_coo().coalesce()
        rows, columns = coo.indices()
        kept = int(((rows != columns) & (coo.values() != 0)).sum())
    else:
        nonzero = C.count_nonzero() if sp.issparse(C) else namespace(C).count_nonzero(C)  # type: ignore[union-attr]
        kept = int(nonzero) - int(namespace(C).count_nonzero(C.diagonal()))
    return kept / (n * (n - 1))
