"""Thresholding: with one threshold for all pairs, also chosen by cross-validation, and with one for each entry."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from svnn._parameters import Rule, boolean, either, integer, number, one_of, seed, share
from svnn._types import AnyArray, Array, ColumnLike, HasFit, RandomState
from svnn.covariance._base import Estimate, Sparsifier
from svnn.covariance._moments import held_out_correlations, held_out_size, needs_products, transformed_table
from svnn.functional import (
    Moments,
    largest_pairs,
    pairs_for_density,
    threshold_for_density,
    top_k_pairs,
    top_k_thresholds,
)
from svnn.functional._array import as_floating, generator, namespace
from svnn.functional.moments import check_weight, product_deviations
from svnn.functional.thresholds import ENTRYWISE, RULES, apply_rule

#: Features on which cross-validation runs when there are more than dense_limit.
CV_FEATURES = 1024
_NO_EDGE = "tau={:g} leaves no edge: every covariance is below tau/sqrt(t). The result is diagonal; use a smaller tau."
#: Values of tau that tau="cv" compares.
_GRID_POINTS = 41


class SingleThreshold(Sparsifier):
    """Base of :class:`HardThreshold` and :class:`SoftThreshold`, which have the same parameters."""

    _rules: ClassVar[dict[str, Rule]] = {
        "tau": either(number(0), "universal", "cv"),
        "density": either(share(), None),
        "top_k": either(integer(1), None),
        "keep_diagonal": boolean(),
        "scale": number(0),
        "n_splits": integer(1),
        "random_state": seed(),
        **Sparsifier._rules,
    }
    _exclusive: ClassVar[tuple[tuple[str, str], ...]] = (
        ("top_k", "density"),
        ("top_k", "tau"),
        ("density", "tau"),
        *Sparsifier._exclusive,
    )
    #: The rule of ``svnn.functional.thresholds.RULES`` that is applied.
    _rule: str = "hard"

    def __init__(
        self,
        *,
        tau: float | str = "universal",
        density: float | None = None,
        top_k: int | None = None,
        keep_diagonal: bool = True,
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
        self.tau = tau
        self.density = density
        self.top_k = top_k
        self.keep_diagonal = keep_diagonal
        self.scale = scale
        self.n_splits = n_splits
        self.random_state = random_state

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        C: Any = moments.covariance
        xp, tau, pairs = namespace(C), None, None
        threshold: Any
        if self.density is not None:
            threshold = of_pairs = threshold_for_density(C, self.density)
            pairs = largest_pairs(C, self.density)  # breaks ties at the threshold, so that their number is exact
        elif self.top_k is not None:
            threshold = top_k_thresholds(C, self.top_k)
            of_pairs = xp.minimum(threshold[:, None], threshold)
            pairs = top_k_pairs(C, self.top_k)
        else:
            tau = self._chosen_tau(X, sample_weight)
            threshold = of_pairs = tau / moments.n_samples**0.5
            if isinstance(self.tau, str):  # applies to correlations
                sd = xp.clip(C.diagonal(), 0, None) ** 0.5
                of_pairs = threshold * (sd[:, None] * sd)
        C = apply_rule(ENTRYWISE[self._rule], C, of_pairs, self.keep_diagonal)
        C = C if pairs is None else xp.where(pairs, C, 0 * C)
        learned = {"threshold_": threshold, "tau_": tau if self.tau == "cv" else None}
        return Estimate(C, moments.location, learned, _NO_EDGE.format(self.tau) if isinstance(self.tau, Real) else "")

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        tau, keep_diagonal = None, bool(self.keep_diagonal)
        correlations = self.density is None and self.top_k is None and isinstance(self.tau, str)
        grid = self._tiles(X, sample_weight, correlations=correlations)
        if self.density is not None:
            kept = tiles.at_density(grid, self._rule, pairs_for_density(X.shape[1], self.density), keep_diagonal)
        elif self.top_k is not None:
            kept = tiles.top_k(grid, self._rule, self.top_k, keep_diagonal)
        else:
            tau = self._chosen_tau(X, sample_weight)
            kept = tiles.above_threshold(grid, self._rule, tau / grid.data.n_samples**0.5, keep_diagonal)
        learned = {"threshold_": kept.threshold, "tau_": tau if self.tau == "cv" else None}
        no_edge = _NO_EDGE.format(self.tau) if isinstance(self.tau, Real) else ""
        return Estimate(kept.matrix, kept.location, learned, no_edge)

    def _chosen_tau(self, X: Any, sample_weight: ColumnLike | None) -> float:
        """Return the tau of the threshold tau/sqrt(t); ``X`` is the data itself where there are many features."""
        if not isinstance(self.tau, str):
            return float(self.tau)
        n = X.shape[1]
        if self.tau == "universal":
            return self.scale * math.sqrt(math.log(n))
        if n > self.dense_limit:  # then the correlations of all would not fit
            if n > CV_FEATURES:
                X = X[:, np.sort(generator(self.random_state).choice(n, CV_FEATURES, replace=False))]
            X = as_floating(X)
            if self.correlation != "pearson":  # up to dense_limit features the table is transformed already
                X, sample_weight, _ = transformed_table(X, sample_weight, self.correlation)
        return cross_validated_tau(self, X, sample_weight)

    def _needs_rows(self) -> str:
        if self.density is not None or self.top_k is not None or self.tau != "cv":
            return ""
        return (
            'tau="cv" splits all rows, not only their means and covariances; use tau="universal" or a number (such as '
            "the tau_ of an earlier fit), or fit them at once"
        )


class HardThreshold(SingleThreshold):
    r"""Sample covariance without its small entries.

    .. math:: \tilde c_{ij} = \hat c_{ij} \text{ if } |\hat c_{ij}| \ge \tau / \sqrt t, \text{ else } 0

    which is Definition 2 of the paper. Variances are kept, unless ``keep_diagonal`` is False.

    Parameters
    ----------
    tau : float, "universal" or "cv", default="universal"
        A number is the tau of the paper: the threshold :math:`\tau/\sqrt t` applies to covariances. "universal"
        takes :math:`\text{scale}\sqrt{\log N/t}`, and "cv" finds the best tau by splitting the samples (Bickel & Levina
        2008). These two apply to correlations, so that units do not matter.
    density : float in [0, 1] or None, default=None
        Keep exactly the ``round(density * N(N-1)/2)`` largest off-diagonal pairs instead (all that are not zero,
        where these are fewer); the paper calls that thresholding "at p". Of equal ones at the cut the first are kept,
        and none of them becomes zero, see :func:`svnn.functional.threshold_for_density`. Not together with a
        ``tau``.
    top_k : int or None, default=None
        Keep the pairs that are among the ``top_k`` largest covariances of either feature instead, see
        :func:`svnn.functional.top_k_pairs`. Not together with a ``tau`` or a ``density``.
    keep_diagonal : bool, default=True
        Never threshold the variances. False is the definition of the paper, word by word.
    scale : float, default=2.0
        Factor of the universal threshold.
    n_splits : int, default=10
        Number of random splits for ``tau="cv"``.
    random_state : int, Generator, RandomState or None, default=None
        Seed of those splits.
    correlation : {"pearson", "spearman", "kendall", "biweight"}, default="pearson"
        The correlations R of the covariance :math:`D R D`, with D the standard deviations; thresholds for correlations
        apply to R. "pearson" is the usual covariance. "spearman" correlates ranks; equal values share their average
        rank. "kendall" is :math:`\sin(\frac\pi2 \tau_b)`, the correlation behind normal data and monotone functions of
        it. "biweight" correlates deviations from the median, in which outliers have no weight; D holds the roots of the
        biweight midvariances then, and ``location_`` the medians. See :func:`svnn.functional.kendall_tau` and
        :mod:`svnn.functional.correlations`.
    base : str, estimator or None, default=None
        The covariance to sparsify in place of the sample covariance: a name such as "tyler", or any estimator with
        ``fit`` and ``covariance_``; see :func:`svnn.covariance.resolve`. Not together with a ``correlation``, and up to
        ``dense_limit`` features.
    psd : {None, "load", "shrink", "clip"}, default=None
        Repair of negative eigenvalues, see :func:`svnn.functional.psd_repair`.
    missing : {"raise", "pairwise"}, default="raise"
        Treatment of NaN. "pairwise" takes each entry over the t samples where both features are observed; the result
        need not be positive semidefinite. Ranks and medians of a feature are those of its observed values.
    halflife : float or None, default=None
        Number of rows after which a row counts half as much; the last row is the newest. None counts all rows alike.
    sparse_output : bool or None, default=None
        Whether ``covariance_`` is sparse: a ``csr_array``, or a sparse CSR tensor for tensors. None makes it sparse
        with more than ``dense_limit`` features. False with more features is an error where the dense matrix takes more
        than ``memory_limit``.
    dense_limit : int, default=4096
        The most features for which the N×N sample covariance is formed. With more, it is computed in tiles, in single
        precision, and only the entries that are kept are stored: the same result up to the rounding of float32, in the
        precision of ``X``.
    memory_limit : int, str or None, default=None
        Bytes, or a text such as "1.5GB", that may be used beside ``X`` with more than ``dense_limit`` features:
        data that does not fit goes to a temporary file, a result that does not fit is a MemoryError. By default half of
        the memory of the machine or, if that is less, of the container.
    verbose : bool, default=False
        Show the progress while tiles are computed: a bar on a terminal, lines elsewhere.

    Attributes
    ----------
    threshold_ : float or array
        The threshold that was applied: to correlations with ``tau="universal"`` and "cv", to covariances
        otherwise. It is an (N, N) array where missing values make t differ between pairs, and an (N,) array with
        ``top_k``, where the threshold of a pair is the smaller one of its two.
    tau_ : float
        The value that was chosen, with ``tau="cv"`` only.
    density_ : float
        Share of off-diagonal entries of ``covariance_`` that are not zero.
    covariance_ : ndarray or Tensor of shape (N, N)
        A ``csr_array`` or sparse CSR tensor with more than ``dense_limit`` features; see ``sparse_output``.
    location_ : ndarray or Tensor of shape (N,)
        Means of the features.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,)
        Only where X has named columns.

    See Also
    --------
    SoftThreshold : also shrinks what it keeps.
    AdaptiveThreshold : a separate threshold for every entry.

    Notes
    -----
    A ``tau`` so large that no edge survives leaves a diagonal matrix, with a warning.

    With more than ``dense_limit`` features, ``tau="cv"`` looks at 1024 of them, drawn at random, and missing values are
    an error. Tensors on a GPU are multiplied there: in half precision first, and again in single precision where the
    result may count, so that it is that of single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import HardThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> X[:, 1] += X[:, 0]
    >>> HardThreshold().fit(X).covariance_.round(1)
    array([[0.8, 0.8, 0. , 0. , 0. ],
           [0.8, 1.8, 0. , 0. , 0. ],
           [0. , 0. , 0.9, 0. , 0. ],
           [0. , 0. , 0. , 1.1, 0. ],
           [0. , 0. , 0. , 0. , 1. ]])
    """


class SoftThreshold(SingleThreshold):
    r"""Sample covariance with every entry moved towards zero.

    .. math:: \tilde c_{ij} = \operatorname{sign}(\hat c_{ij}) \max(|\hat c_{ij}| - \tau / \sqrt t, 0)

    which is Definition 3 of the paper. Variances are kept, unless ``keep_diagonal`` is False. The notes of
    :class:`HardThreshold` apply.

    Parameters
    ----------
    tau, density, top_k, keep_diagonal, scale, n_splits, random_state
        As in :class:`HardThreshold`.
    correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    threshold_, tau_, density_, covariance_, location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import SoftThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> SoftThreshold(density=0.2).fit(X).density_
    0.2
    """

    _rule = "soft"


def cross_validated_tau(estimator: SingleThreshold, X: Array, sample_weight: ColumnLike | None) -> float:
    r"""Return the :math:`\tau` whose thresholded estimate best predicts held-out correlations (Bickel & Levina 2008).

    The rows are split at random into :math:`t(1 - 1/\log t)` and :math:`t/\log t`; the risk of :math:`\tau` is the mean
    of :math:`\|\eta_{\tau/\sqrt{t_1}}(R_1) - R_2\|_F^2` over the splits.
    """
    t, n = int((check_weight(sample_weight, X) > 0).sum()), X.shape[1]
    highest = min(4 * math.sqrt(math.log(max(n, 2))), math.sqrt(max(t - held_out_size(t), 1)))
    grid = np.linspace(0, highest, _GRID_POINTS)
    risk = np.zeros(_GRID_POINTS)
    for train, t1, test in held_out_correlations(estimator, X, sample_weight, 'tau="cv"', 'tau="universal"'):
        for i, tau in enumerate(grid):
            thresholded = apply_rule(ENTRYWISE[estimator._rule], train, tau / t1**0.5, estimator.keep_diagonal)
            risk[i] += float(((thresholded - test) ** 2).sum())
    return float(grid[np.argmin(risk)])


class AdaptiveThreshold(Sparsifier):
    r"""Sample covariance with a threshold for each entry that follows its uncertainty (Cai & Liu 2011).

    .. math:: \lambda_{ij} = \delta \sqrt{\theta_{ij} \log N / t}

    with :math:`\theta_{ij}` the variance of the products :math:`(x_i-\mu_i)(x_j-\mu_j)`.

    Parameters
    ----------
    delta : float, default=2.0
        Factor of the thresholds; two suits normal data, larger values keep less.
    rule : {"hard", "soft", "scad", "adaptive_lasso"}, default="hard"
        What happens to the entries, see :mod:`svnn.functional`.
    keep_diagonal, correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    threshold_ : ndarray or Tensor of shape (N, N)
        Not there with more than ``dense_limit`` features.
    density_, covariance_, location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

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
        needs_products(self)
        spread = product_deviations(X, moments, sample_weight)
        threshold = self.delta * spread * (math.log(X.shape[1]) / moments.n_samples) ** 0.5
        C = apply_rule(ENTRYWISE[self.rule], moments.covariance, threshold, self.keep_diagonal)
        return Estimate(C, moments.location, {"threshold_": threshold})

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        grid = self._tiles(X, sample_weight, correlations=True)
        location, matrix, _ = tiles.adaptive(grid, self.rule, float(self.delta), bool(self.keep_diagonal))
        return Estimate(matrix, location, {})
