"""The way from data to a sparsified matrix, which all sparsifiers share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags

from svnn._parameters import (
    anything,
    boolean,
    check_parameters,
    declared,
    either,
    fitted,
    integer,
    memory_size,
    number,
    one_of,
    parameter,
)
from svnn._types import AnyArray, ColumnLike, DataLike, HasFit, Matrix
from svnn._validation import at_once, is_dask, unless
from svnn.covariance._correlation import CORRELATIONS, DOC, not_plain, see
from svnn.covariance._covariance import CovarianceEstimator, totals_before
from svnn.covariance._forms import off_diagonal_density, repaired, to_dense, to_sparse
from svnn.covariance._from_tables import moments_of_table, read_table
from svnn.covariance._running_moments import Totals, add_rows, decaying, totals
from svnn.functional import Moments
from svnn.functional._array import is_torch
from svnn.sources import Table, as_table

if TYPE_CHECKING:
    from torch import Tensor


class Estimate(NamedTuple):
    """What a sparsifier makes of data.

    ``covariance`` has no repairs yet and may be dense or sparse. ``learned`` holds the fitted attributes that not every
    estimator has, by their names; those that are None stay away. ``if_diagonal`` is the warning to give where no
    covariance is left. ``too_few`` is the error of ``fit`` where rows are too few; after ``partial_fit`` more may come.
    """

    covariance: Matrix | Tensor
    location: AnyArray
    learned: Mapping[str, object]
    if_diagonal: str = ""
    too_few: str = ""


def is_plain(estimator: Sparsifier) -> bool:
    """Tell whether it is the sample covariance that is sparsified."""
    return estimator.correlation == "pearson" and estimator.base is None


def _why_not(estimator: Sparsifier) -> str:
    return estimator._needs_rows() if is_plain(estimator) else not_plain(estimator.correlation)


@declared
class Sparsifier(CovarianceEstimator):
    """Base of the estimators that drop entries of the sample covariance.

    A subclass implements ``_from_moments``. Where it also works without the N×N matrix, it implements ``_from_tiles``.
    Both return an :class:`Estimate` and change nothing; ``fit`` stores what they return.
    """

    correlation: str = parameter(default="pearson", rule=one_of(*CORRELATIONS), doc=DOC)
    base: str | HasFit | None = parameter(
        default=None,
        rule=anything("str, estimator or None"),
        doc="""Another covariance to sparsify than the sample covariance: a name such as "tyler", or any estimator with
        ``fit`` and ``covariance_``; see :func:`svnn.covariance.resolve`. Not together with a ``correlation``, and up to
        ``dense_limit`` features.""",
        instead_of=("correlation",),
    )
    psd: str | None = parameter(
        default=None,
        rule=one_of(None, "load", "shrink", "clip"),
        doc="Repair of negative eigenvalues, see :func:`svnn.functional.psd_repair`.",
    )
    missing: str = parameter(
        default="raise",
        rule=one_of("raise", "pairwise"),
        doc="""What to do about NaN. "pairwise" takes each entry over the t samples where both features are observed;
        the result need not be positive semidefinite. Ranks and medians of a feature are those of its observed
        values.""",
    )
    halflife: float | None = parameter(
        default=None,
        rule=either(number(above=True), None),
        doc="""Number of rows after which a row counts half as much; the last row is the newest. None counts all rows
        alike.""",
    )
    sparse_output: bool | None = parameter(
        default=None,
        rule=boolean(optional=True),
        doc="""Whether ``covariance_`` is sparse: a ``csr_array``, or a sparse CSR tensor for tensors. None means that
        it is sparse with more than ``dense_limit`` features. False with more features is an error where the dense
        matrix takes more than ``memory_limit``.""",
    )
    dense_limit: int = parameter(
        default=4096,
        rule=integer(0),
        doc="""Up to so many features the N×N sample covariance is formed. With more, tiles of it are, in single
        precision, and only what survives is kept: the same result up to the rounding of float32, in the precision of
        ``X``.""",
    )
    memory_limit: float | str | None = parameter(
        default=None,
        rule=memory_size(),
        doc="""Bytes, or a text such as "1.5GB", that may be used beside ``X`` with more than ``dense_limit`` features:
        data that does not fit goes to a temporary file, a result that does not fit is a MemoryError. By default half of
        the memory of the machine or, if that is less, of the container.""",
    )
    verbose: bool = parameter(
        default=False,
        rule=boolean(),
        doc="Show the progress while tiles are computed: a bar on a terminal, lines elsewhere.",
    )

    covariance_: Matrix | Tensor = fitted(
        kind="ndarray or Tensor of shape (N, N)",
        doc="""A ``csr_array`` or sparse CSR tensor with more than ``dense_limit`` features; see ``sparse_output``.""",
    )
    density_: float = fitted(kind="float", doc="Share of off-diagonal entries of ``covariance_`` that are not zero.")

    #: Whether the workers of a Dask cluster can do the tiles; otherwise they are computed here.
    _tiles_on_cluster: ClassVar[bool] = True

    @at_once
    def fit(self, X: DataLike | Iterator[DataLike], y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F), or iterator of such arrays
            With three dimensions, every sample's F values are observations of the N nodes. An iterator yields the rows
            in chunks. What is in a file is read in pieces: a ``numpy.memmap``, a dataset of h5py or array of zarr, an
            AnnData object, a ``ParquetFile``; and so is a sparse matrix of scipy. See :mod:`svnn.sources`. An array or
            a data frame of Dask may be chunked in any way; where a ``distributed.Client`` is active, its workers
            compute.
        y : ignored
        sample_weight : array of shape (t,), optional
            Only ratios of weights matter.

        Returns
        -------
        self
        """
        table = as_table(X)
        if table is not None and self._streams(table):
            return self._take_totals(*moments_of_table(self, table, sample_weight))
        data: Any = self._checked(X if table is None else table)
        weight = decaying(sample_weight, self.halflife, data)
        if data.shape[1] > self.dense_limit:
            return self._take(self._from_tiles(data, weight))
        if self.missing == "pairwise" or not is_plain(self):
            seen = see(data, weight, self.correlation, self.missing, self.base)
            return self._take(self._from_moments(*seen[:3])._replace(location=seen.location))
        return self._take_totals(totals(data, weight), data, weight)

    @unless(_why_not)
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
            Where means and covariances do not say enough: with ``tau="cv"`` and for `AdaptiveThreshold`, for example.
        ValueError
            With ``missing="pairwise"``, and with more than ``dense_limit`` features, whose N×N matrix is never formed.
        """
        check_parameters(self)
        name, before = type(self).__name__, totals_before(self)
        data: Any = self._check(X, reset=before is None, min_samples=1)
        if data.shape[1] > self.dense_limit:
            raise ValueError(
                f"{name}: partial_fit keeps the covariances of all pairs of its {data.shape[1]} features, more than "
                f"dense_limit={self.dense_limit}; raise dense_limit if there is memory for them, or fit a window of "
                "rows again."
            )
        found = add_rows(before, data, sample_weight, self.halflife)
        self._take(self._from_moments(data, found.moments(), None)._replace(too_few=""))
        self._totals_ = found
        return self

    def _streams(self, table: Table) -> bool:
        """Tell whether the moments of a table are enough, so that its rows need not be held."""
        check_parameters(self)
        return table.shape[1] <= self.dense_limit and self.missing == "raise" and not _why_not(self)

    def _take_totals(self, found: Totals, rows: Any, sample_weight: ColumnLike | None = None) -> Self:
        """Store what follows from running moments, and these, so that ``partial_fit`` can go on."""
        self._take(self._from_moments(rows, found.moments(), sample_weight), stacklevel=5)
        self._totals_ = found
        return self

    def _take(self, found: Estimate, stacklevel: int = 4) -> Self:
        """Store what was found; ``stacklevel`` is how far the caller of ``fit`` is from here, for a warning."""
        if found.too_few:
            raise ValueError(found.too_few)
        self.location_ = found.location
        self.covariance_ = self._finished(found.covariance)
        self.density_ = off_diagonal_density(self.covariance_)
        for name, value in found.learned.items():
            if value is not None:
                setattr(self, name, value)
            else:
                self.__dict__.pop(name, None)
        if found.if_diagonal and self.density_ == 0 and self.covariance_.shape[0] > 1:
            warnings.warn(found.if_diagonal, stacklevel=stacklevel)
        return self

    def _needs_rows(self) -> str:
        """Say why these parameters need the rows themselves, and the way out; "" where ``_from_moments`` does not.

        There is a ``partial_fit`` then; it gives ``_from_moments`` the newest rows only, and no weights.
        """
        return "it needs all rows, not only their means and covariances; fit them at once, or use HardThreshold"

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        """Return what the estimator makes of the data and its sample moments."""
        raise NotImplementedError

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        """Return what the estimator makes of data with more than ``dense_limit`` features."""
        n = X.shape[1]
        raise ValueError(
            f"{type(self).__name__} looks at all pairs of its {n} features at once, more than "
            f"dense_limit={self.dense_limit}. Use HardThreshold or ACV, or raise dense_limit if there is memory for "
            f"several matrices of {n**2 * 8 / 1e9:.1f} GB."
        )

    def _checked(self, X: DataLike | Iterator[DataLike] | Table) -> AnyArray:
        """Check the parameters and the data. Large arrays come back unread: the tiles read them in pieces."""
        check_parameters(self)
        if isinstance(X, Iterator):
            from svnn.covariance import tiles

            X = tiles.gather(X, tiles.memory_bytes(self.memory_limit))
        if isinstance(X, Table):
            data = read_table(self, X, self.dense_limit, self.memory_limit)
        else:
            data = self._check_dask(X) if is_dask(X) else self._check_unread(X)
        n = data.shape[1]
        if n > self.dense_limit and (self.base is not None or self.correlation == "kendall"):
            what = 'correlation="kendall"' if self.base is None else f"base={self.base!r}"
            raise ValueError(
                f"{what} needs all pairs of its {n} features at once, more than dense_limit={self.dense_limit}; use "
                'correlation="spearman" or "biweight", or raise dense_limit.'
            )
        if self.halflife is not None and self.base is not None:
            from svnn.covariance._resolve import resolve  # it knows all estimators, also those of this file

            if not isinstance(resolve(self.base), CovarianceEstimator):
                raise ValueError(
                    f"base={self.base!r} takes no weights, so halflife={self.halflife!r} would not make old rows count "
                    "less; use one of svnn's estimators as the base, or halflife=None."
                )
        if n > self.dense_limit and self.psd == "clip":
            raise ValueError(
                f'psd="clip" gives a dense matrix, of {n} features here, more than dense_limit={self.dense_limit}; '
                'use psd="load" or "shrink", or raise dense_limit.'
            )
        if n > self.dense_limit and self.sparse_output is not None and not self.sparse_output:
            from svnn.covariance import tiles

            size = n**2 * (4 if str(data.dtype).endswith("float32") else 8)
            if size > tiles.memory_bytes(self.memory_limit):
                raise MemoryError(
                    f"sparse_output=False asks for a dense matrix of {n} features, {size / 1e9:.3g} GB, which is more "
                    "than memory_limit; use sparse_output=None or a larger memory_limit."
                )
        return data

    def _check_unread(self, X: Any) -> Any:
        unread = is_torch(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub")
        shape: tuple[int, ...] = np.shape(X) if unread else ()
        return self._check(X, lazy=len(shape) in (2, 3) and shape[1] > self.dense_limit)

    def _check_dask(self, X: Any) -> Any:
        """Check a table of Dask; it stays unread where moments are enough, and where a cluster has the tiles."""
        from svnn.covariance import _dask, tiles

        def stays(table: tiles.DaskTable) -> bool:
            if table.shape[1] > self.dense_limit:
                return table.client is not None and self._tiles_on_cluster
            return self.missing == "raise" and is_plain(self) and not self._needs_rows()

        data: Any = _dask.take(self, X, stays, tiles.memory_bytes(self.memory_limit))
        if isinstance(data, tiles.DaskTable):
            return data
        names = getattr(self, "feature_names_in_", None)
        data = self._check_unread(data)
        if names is not None:
            self.feature_names_in_ = names
        return data

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _finished(self, C: Matrix | Tensor) -> Matrix | Tensor:
        """Return the matrix with its repair, dense or sparse as ``sparse_output`` says."""
        if self.psd is not None:
            C = repaired(C, self.psd)
        if C.shape[0] > self.dense_limit if self.sparse_output is None else self.sparse_output:
            return C if sp.issparse(C) else to_sparse(C)
        dense = C if isinstance(C, np.ndarray) else to_dense(C)
        dense += 0  # zeros have no sign then
        return dense
