"""A few factors, and a sparse covariance of what they leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from svnn._parameters import Rule, either, integer, number, one_of, seed
from svnn._summary import kept_edges
from svnn._types import AnyArray, ColumnLike, HasFit, RandomState
from svnn.covariance._base import Estimate, Sparsifier, off_diagonal_density
from svnn.covariance._moments import needs_products
from svnn.covariance._thresholds import CV_FEATURES, HardThreshold, cross_validated_tau
from svnn.functional import LowRankPlusSparse, Moments
from svnn.functional._array import generator, like, namespace, off_diagonal, to_numpy
from svnn.functional._matrix import is_sparse, plain_values
from svnn.functional.moments import check_weight, observations
from svnn.functional.spectrum import NO_RESIDUAL, candidate_factors, growth_ratio_factors
from svnn.functional.thresholds import RULES


class FactorThreshold(Sparsifier):
    r"""Leading principal components, plus a thresholded covariance of the residuals (POET, Fan, Liao & Mincheva 2013).

    .. math:: \tilde C = B B^T + \eta(\hat C - B B^T), \qquad B = D V_r \Lambda_r^{1/2}

    with :math:`V_r, \Lambda_r` the r leading eigenvectors and eigenvalues of the sample correlations, :math:`D` the
    standard deviations and :math:`\eta` the thresholding rule, which leaves the diagonal alone. For features that move
    together (a market, a global signal, the size of a head) and are sparse beside that: no threshold alone finds a
    sparse matrix there.

    Parameters
    ----------
    n_factors : int or "auto", default="auto"
        r, the number of components. "auto" counts them.
    rule : {"hard", "soft", "scad", "adaptive_lasso"}, default="hard"
        What happens to the residual covariances, see :mod:`svnn.functional`.
    tau : float, "universal" or "cv", default="universal"
        The threshold of the residuals, as ``tau`` of :class:`HardThreshold`: a number applies to their
        covariances, "universal" and "cv" to their correlations.
    scale, n_splits, random_state, correlation, base
        As in :class:`HardThreshold`.
    psd : {None, "load", "shrink", "clip"}, default=None
        Repair of negative eigenvalues of ``residual_covariance_``; the factors have none.
    missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    n_factors_ : int
        Number of factors, r.
    loadings_ : ndarray or Tensor of shape (N, r)
        B: the covariances of features and factors.
    factors_ : ndarray or Tensor of shape (t, r)
        The factors, of variance 1, in the observations of positive weight; those of (t, N, F) data stand one
        after the other. Not there where values are missing.
    residual_covariance_ : ndarray or Tensor of shape (N, N)
        What is added to the factors; sparse where ``covariance_`` is.
    threshold_, tau_, density_
        As in :class:`HardThreshold`.
    covariance_ : ndarray or Tensor of shape (N, N)
        A ``LowRankPlusSparse`` of numpy arrays with more than ``dense_limit`` features, or with
        ``sparse_output=True``.
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    See Also
    --------
    HardThreshold : the same without factors.

    Notes
    -----
    The components are those of the correlations, so that units do not matter; of standardised data they are the ones of
    the paper [1]_. It takes a threshold for each entry; here one threshold applies to all residual correlations.

    "auto" counts the factors by the growth ratio [2]_, :func:`svnn.functional.growth_ratio_factors`. It can be zero.

    With more than ``dense_limit`` features the N×N matrix is never formed: ``covariance_`` is a
    :class:`svnn.functional.LowRankPlusSparse` then, which holds ``loadings_`` and a sparse ``residual_covariance_``.
    For any number of features :func:`svnn.as_operator` of the fitted estimator is a
    :class:`svnn.operators.SumOperator`, whose shift costs ``2 N r + nnz``.

    A table of Dask with more than ``dense_limit`` features is brought here, into a temporary file where it is large:
    the components and what they leave need all of it.

    References
    ----------
    .. [1] J. Fan, Y. Liao and M. Mincheva, Large covariance estimation by thresholding principal orthogonal
       complements, JRSS B 2013.
    .. [2] S. Ahn and A. Horenstein, Eigenvalue ratio test for the number of factors, Econometrica 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import FactorThreshold
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 1)) + rng.standard_normal((300, 40))
    >>> X[:, :2] += rng.standard_normal((300, 1))
    >>> fitted = FactorThreshold().fit(X)
    >>> fitted.n_factors_, fitted.loadings_.shape
    (1, (40, 1))
    >>> np.argwhere(np.triu(fitted.residual_covariance_, 1))
    array([[0, 1]])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "n_factors": either(integer(0), "auto"),
        "rule": one_of(*RULES),
        "tau": either(number(0), "universal", "cv"),
        "scale": number(0),
        "n_splits": integer(1),
        "random_state": seed(),
        **Sparsifier._rules,
    }

    def __init__(
        self,
        *,
        n_factors: int | str = "auto",
        rule: str = "hard",
        tau: float | str = "universal",
        scale: float = 2.0,
        n_splits: int = 10,
        random_state: RandomState = None,
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
        self.n_factors = n_factors
        self.rule = rule
        self.tau = tau
        self.scale = scale
        self.n_splits = n_splits
        self.random_state = random_state

    _tiles_on_cluster = False

    @property
    def parts_(self) -> LowRankPlusSparse:
        """The covariance as factors and a sparse rest, whatever ``covariance_`` is."""
        return LowRankPlusSparse(to_numpy(self.loadings_), sp.csr_array(plain_values(self.residual_covariance_)))

    def _summary(self) -> Mapping[str, str]:
        if not hasattr(self, "residual_covariance_"):
            return {}
        n, r = len(self.loadings_), self.n_factors_
        edges = kept_edges(n, off_diagonal_density(self.residual_covariance_), "the residuals")
        return {"features": f"N = {n:,}", "factors": f"{r} factor{'s' * (r != 1)}", "graph": edges}

    def _from_moments(self, X: Any, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        needs_products(self)
        C = moments.covariance
        xp, n = namespace(C), len(C)
        sd = xp.clip(C.diagonal(), 0, None) ** 0.5
        divisor = xp.where(sd > 0, sd, 1 + 0 * sd)
        values, vectors = xp.linalg.eigh(C / divisor[:, None] / divisor)
        n_samples = float(to_numpy(moments.n_samples).max())
        r = self._count(to_numpy(values)[::-1], float(to_numpy(sd > 0).sum()), n_samples)
        best = list(range(n - 1, n - 1 - r, -1))
        values, vectors = values[best], vectors[:, best]
        loadings = sd[:, None] * vectors * values**0.5
        rest = C - _symmetric(loadings @ loadings.T)
        left = rest.diagonal() > NO_RESIDUAL * C.diagonal()
        rest = xp.where((left[:, None] & left) | ~off_diagonal(C), rest, 0 * rest)
        factors, residuals = None, X
        if not bool(xp.isnan(X).any()):
            weight = check_weight(sample_weight, X)
            rows, _ = observations(X, weight)
            factors = (rows - moments.location) / divisor @ (vectors / values**0.5)
            residuals = _like_data(rows - moments.location - factors @ loadings.T, X)
            sample_weight = weight[weight > 0]
        elif self.tau == "cv":
            raise ValueError('tau="cv" of FactorThreshold needs data without NaN; use tau="universal" or impute first.')
        sparse = self._threshold()._from_moments(residuals, moments._replace(covariance=rest), sample_weight)
        return self._estimate(loadings, factors, sparse)

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        grid = self._tiles(X, sample_weight, correlations=True)
        data = grid.data
        n, size = data.n_features, round(1 / data.scale)
        most = candidate_factors(n, data.n_samples) + 1 if self.n_factors == "auto" else int(self.n_factors)
        leading = tiles.leading_factors(data, min(most, size - 1, n))
        r = self._count(leading.eigenvalues, float((data.variance > 0).sum()), data.n_samples)
        vectors = leading.vectors[:, :r]
        correlations = isinstance(self.tau, str)
        loadings, data = tiles.without_factors(data, vectors, correlations=correlations)
        root = data.weight.double().repeat_interleave(data.n_values).sqrt()
        factors = vectors[:size] * size**0.5 / root[:, None]
        if self.tau == "cv":
            chosen = np.arange(n)
            if n > CV_FEATURES:
                chosen = np.sort(generator(self.random_state).choice(n, CV_FEATURES, replace=False))
            rows = (data.Z[chosen, :size].double() / root).T
            shape = X if X.ndim == 2 else X[: len(data.weight)]
            tau = cross_validated_tau(self._threshold(), _like_data(rows, shape), data.weight)
        else:
            tau = self._threshold()._chosen_tau(X, None)
        grid = tiles.over(data, grid.limit, grid.verbose)
        location, matrix, cut = tiles.above_threshold(grid, self.rule, tau / data.n_samples**0.5)
        B, F = (part.to(data.dtype) if data.as_tensor else part.to(data.dtype).numpy() for part in (loadings, factors))
        learned = {"threshold_": cut, "tau_": tau if self.tau == "cv" else None}
        return self._estimate(B, F, Estimate(matrix, location, learned))

    def _threshold(self) -> HardThreshold:
        """Return the estimator that thresholds the residuals."""
        threshold = HardThreshold(
            tau=self.tau,
            scale=self.scale,
            n_splits=self.n_splits,
            random_state=self.random_state,
            missing=self.missing,
            dense_limit=self.dense_limit,
        )
        threshold._rule = self.rule
        return threshold

    def _count(self, eigenvalues: np.ndarray, total: float, n_samples: float) -> int:
        """Return the number of factors among descending eigenvalues of correlations that sum to ``total``."""
        if self.n_factors == "auto":
            most = candidate_factors(int(total), n_samples)
            return growth_ratio_factors(eigenvalues[: most + 1], total, min(total, n_samples))
        wanted, positive = int(self.n_factors), int((eigenvalues > 1e-6 * max(total, 1)).sum())
        if wanted > positive:
            raise ValueError(
                f"n_factors={wanted} is more than the {positive} components that the data has; use a smaller number or "
                '"auto".'
            )
        return wanted

    def _estimate(self, loadings: Any, factors: Any, sparse: Estimate) -> Estimate:
        """Return the sum of the factors and the sparse residual covariance, which is repaired first."""
        residual = super()._finished(sparse.covariance)
        covariance: Any = None
        sign = _signs(to_numpy(loadings))
        loadings = loadings * like(sign, loadings)
        if is_sparse(residual):
            covariance = LowRankPlusSparse(to_numpy(loadings), sp.csr_array(plain_values(residual)))
        else:
            covariance = _symmetric(loadings @ loadings.T) + residual
        learned = {
            **sparse.learned,
            "n_factors_": loadings.shape[1],
            "loadings_": loadings,
            "factors_": None if factors is None else factors * like(sign, factors),
            "residual_covariance_": residual,
        }
        return Estimate(covariance, sparse.location, learned)

    def _finished(self, C: Any) -> Any:
        return C  # the residuals are repaired and converted before the factors are added


def _symmetric(C: Any) -> Any:
    return 0.5 * C + 0.5 * C.T


def _signs(loadings: np.ndarray) -> np.ndarray:
    """Return the signs that make the largest loading of every factor positive."""
    largest = np.argmax(np.abs(loadings), axis=0)
    signs: np.ndarray = np.where(loadings[largest, np.arange(loadings.shape[1])] < 0, -1.0, 1.0)
    return signs


def _like_data(rows: Any, X: AnyArray) -> Any:
    """Return a table of observations in the shape (t, N) or (t, N, F) of the data that they come from."""
    if X.ndim == 2:
        return rows
    return namespace(rows).swapaxes(rows.reshape(-1, X.shape[2], rows.shape[1]), 1, 2)
