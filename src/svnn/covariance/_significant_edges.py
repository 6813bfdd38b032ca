"""Edges that a test finds significant."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning

from svnn._parameters import Rule, boolean, number, one_of
from svnn._types import AnyArray, BoolArray, ColumnLike, FloatArray, HasFit
from svnn.covariance._base import Estimate, Sparsifier
from svnn.covariance._moments import needs_products
from svnn.functional import Moments
from svnn.functional._array import like, namespace, off_diagonal, to_numpy
from svnn.functional.correlations import (
    METHODS,
    correlation_p_values,
    largest_significant,
    pairwise_correlations,
    symmetric_matrix,
)
from svnn.functional.moments import check_weight, observations


class SignificantEdges(Sparsifier):
    r"""Sample covariance of the pairs of features whose correlation is significant.

    .. math:: \tilde c_{ij} = \hat c_{ij} \text{ if } p_{ij} \le p^*, \text{ else } 0

    with :math:`p_{ij}` the p-value of Student's t test of the correlation of features i and j, with t - 2 degrees of
    freedom, and :math:`p^*` the largest p-value that counts when all pairs are tested at once. ``alpha`` is a
    statement about the edges that stay: with ``method="bh"`` the share of them that should not be there is at most
    ``alpha`` in the mean.

    Parameters
    ----------
    alpha : float in (0, 1), default=0.05
        The level of all tests together.
    method : {"bh", "by", "bonferroni"}, default="bh"
        What ``alpha`` bounds: the share of false edges among those kept, by the procedure of Benjamini and
        Hochberg ("bh") or that of Benjamini and Yekutieli ("by"), or the probability of one or more ("bonferroni").
    partial : bool, default=False
        Test partial correlations; see the notes.
    rule : {"and", "or"}, default="and"
        With ``partial`` and t <= N: whether both features of an edge must choose each other, or one of
        them.
    correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    p_values_ : csr_array of shape (N, N)
        The p-values of the edges that were kept; not there where a lasso chose them.
    density_, covariance_, location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    See Also
    --------
    HardThreshold : asks for a threshold instead of a level.
    GraphicalLasso : partial correlations by a penalty.

    Notes
    -----
    The test assumes samples that are independent of each other and features that are about normal. With weights, t is
    the effective number of samples; for data of shape (t, N, F) it is the number of samples, not of values, which is
    cautious. With missing values a pair is tested on the rows where both features are known, as
    ``scipy.stats.pearsonr`` does. "bh" is proved for tests of positive dependence [1]_, and holds well for those of
    correlations; "by" holds for any [2]_. Ranks and biweight deviations (``correlation``) get the same test, which is
    close unless samples are very few.

    With ``partial=True`` an edge means that two features are related when all others are held fixed. With more
    samples than features (t > N) that is the test of the partial correlations, from the inverse of the sample
    covariance, with t - N degrees of freedom. Otherwise each feature is predicted from the others by a lasso
    (neighbourhood selection [3]_), whose penalty

    .. math:: \lambda = \frac{\hat\sigma}{\sqrt t} \Phi^{-1}\left(1 - \frac{\alpha}{2 N^2}\right)

    for sparse graphs links two features that no path connects with a probability of at most ``alpha`` in all; there
    are no p-values then. Both need all N features at once: the inverse takes N³ operations, the N lassos N² t in each
    of some dozen rounds (5 to 9 seconds for 200 samples of 1000 features, 10 to 21 for 2000, on one core of an x86
    server). More than ``dense_limit`` features are an error. Without ``partial`` these are tested on tiles, in two
    passes.

    References
    ----------
    .. [1] Y. Benjamini and Y. Hochberg, Controlling the false discovery rate, JRSS B 1995.
    .. [2] Y. Benjamini and D. Yekutieli, The control of the false discovery rate in multiple testing under dependency,
       Annals of Statistics 2001.
    .. [3] N. Meinshausen and P. Bühlmann, High-dimensional graphs and variable selection with the lasso, Annals of
       Statistics 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import SignificantEdges
    >>> X = np.random.default_rng(0).standard_normal((200, 4))
    >>> X[:, 1] += X[:, 0]
    >>> X[:, 2] += X[:, 1]
    >>> fitted = SignificantEdges().fit(X)
    >>> (fitted.covariance_ != 0).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 0],
           [1, 1, 1, 0],
           [0, 0, 0, 1]])

    Features 0 and 2 are related through feature 1 only:

    >>> (SignificantEdges(partial=True).fit(X).covariance_ != 0).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 0],
           [0, 0, 0, 1]])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "alpha": number(0, 1, above=True),
        "method": one_of(*METHODS),
        "partial": boolean(),
        "rule": one_of("and", "or"),
        **Sparsifier._rules,
    }

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        method: str = "bh",
        partial: bool = False,
        rule: str = "and",
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
        self.alpha = alpha
        self.method = method
        self.partial = partial
        self.rule = rule

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        needs_products(self)
        C: FloatArray = to_numpy(moments.covariance).astype(np.float64)
        sd = np.sqrt(np.clip(C.diagonal(), 0, None))
        varies = sd > 0
        n_samples = to_numpy(moments.n_samples)
        if n_samples.ndim:  # values are missing
            if self.partial:
                raise ValueError(
                    "SignificantEdges(partial=True) needs data without NaN; impute first, or partial=False."
                )
            table = to_numpy(X)
            R = pairwise_correlations(*observations(table, check_weight(sample_weight, table)))
        else:
            R = C / np.where(varies, sd, 1)[:, None] / np.where(varies, sd, 1)
        p_values = None
        if self.partial and float(n_samples) <= varies.sum():
            table = to_numpy(X)
            rows, weight = observations(table, check_weight(sample_weight, table))
            tested = np.flatnonzero(varies)
            Z = (rows - to_numpy(moments.location))[:, tested] / sd[tested]
            kept = np.zeros(C.shape, dtype=bool)
            share = np.sqrt(weight / weight.mean())[:, None]
            kept[np.ix_(tested, tested)] = neighbourhoods(Z * share, float(n_samples), self.alpha, self.rule)
        else:
            if self.partial:
                R, degrees = _partial_correlations(R, varies), n_samples - varies.sum()
            else:
                degrees = n_samples - 2
            above = np.triu(varies[:, None] & varies, 1)
            p = correlation_p_values(R, degrees)
            kept = above & (p <= largest_significant(p[above], self.alpha, self.method, int(above.sum())))
            i, j = np.nonzero(kept)
            p_values = symmetric_matrix(i, j, p[i, j], len(C))
            kept = kept | kept.T
        xp = namespace(moments.covariance)
        mask = like(kept, moments.covariance) > 0
        S: Any = moments.covariance
        S = xp.where(mask | ~off_diagonal(S), S, 0 * S)
        return Estimate(S, moments.location, {"p_values_": p_values}, too_few=_too_few(n_samples))

    def _needs_rows(self) -> str:
        if not self.partial:
            return ""
        return (
            "partial=True needs all rows, not only their means and covariances; fit them at once, or use partial=False"
        )

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        if self.partial:
            raise ValueError(
                f"partial=True looks at all {X.shape[1]} features at once, more than dense_limit={self.dense_limit}; "
                "use partial=False, fewer features, or raise dense_limit if there is time for N³ operations."
            )
        from svnn.covariance import tiles

        grid = self._tiles(X, sample_weight, correlations=True)
        n_samples = grid.data.n_samples
        if too_few := _too_few(np.asarray(n_samples)):
            raise ValueError(too_few)
        (location, matrix, _), p_values = tiles.significant(grid, float(self.alpha), self.method, n_samples - 2)
        return Estimate(matrix, location, {"p_values_": p_values})


def _too_few(n_samples: FloatArray) -> str:
    """Return why no correlation can be tested; "" where one can be."""
    if float(n_samples.max()) > 2:
        return ""
    return (
        f"SignificantEdges needs more than 2 samples to test a correlation, got {float(n_samples.max()):g} "
        "(the effective number, where rows are weighted)."
    )


def _partial_correlations(R: FloatArray, varies: np.ndarray) -> FloatArray:
    """Return the correlations of the features that vary given all others of them, 0 for the rest."""
    tested = np.ix_(varies, varies)
    inverse = np.linalg.pinv(R[tested], hermitian=True)
    size = np.sqrt(np.clip(inverse.diagonal(), np.finfo(np.float64).tiny, None))
    partial = np.zeros(R.shape)
    partial[tested] = -inverse / size[:, None] / size
    return partial


def neighbourhoods(Z: FloatArray, n_samples: float, alpha: float, rule: str) -> BoolArray:
    """Select neighbourhoods (Meinshausen & Bühlmann 2006): return a symmetric (N, N) matrix of the pairs.

    ``Z`` holds standardised features (rows, N). Each feature is predicted from the others with the same penalty. With
    the rule "and" two features are neighbours where each needs the other, with "or" where one does.
    """
    from sklearn.linear_model import Lasso  # slow to import

    n = Z.shape[1]
    penalty = float(-ndtri(alpha / (2 * n**2))) / n_samples**0.5
    chosen = np.zeros((n, n), dtype=bool)
    table = np.asfortranarray(Z, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the support is settled long before the coefficients
        for i in range(n):
            target = table[:, i].copy()
            table[:, i] = 0.0  # then it gets no coefficient
            lasso = Lasso(alpha=penalty, fit_intercept=False, max_iter=300, copy_X=False).fit(table, target)
            table[:, i] = target
            chosen[i] = lasso.coef_ != 0
    return chosen & chosen.T if rule == "and" else chosen | chosen.T
