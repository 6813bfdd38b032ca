"""Tests of correlations, corrected for their number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import betainc, betaincinv

from svnn._types import FloatArray, IntArray
from svnn.functional._centring import is_constant

#: Variances below this share of the mean square have lost too many digits, and are computed from deviations.
_DIGITS = 1e-4
#: The corrections for the number of tests, as ``SignificantEdges(method=...)`` names them.
METHODS = ("bh", "by", "bonferroni")


def correlation_p_values(r: npt.ArrayLike, degrees: npt.ArrayLike) -> FloatArray:
    r"""Return the two-sided p-values of Pearson correlations, by Student's t test.

    .. math:: p = P\left(|T_\nu| \ge |r| \sqrt{\nu / (1 - r^2)}\right)

    It is exact where one of the two features is normal and independent of the other.

    Parameters
    ----------
    r : array
        Correlations, or partial correlations.
    degrees : float or array
        The degrees of freedom :math:`\nu`: t - 2 for correlations of t samples, t - 2 - k for partial ones given k
        other features. Without degrees of freedom the p-value is 1.

    Examples
    --------
    >>> correlation_p_values([0.0, 0.5], 18).round(4)
    array([1.    , 0.0248])
    """
    r = np.clip(np.abs(np.asarray(r, dtype=np.float64)), 0, 1)
    nu = np.asarray(degrees, dtype=np.float64)
    p: FloatArray = np.where(nu > 0, betainc(np.where(nu > 0, nu, 1) / 2, 0.5, (1 - r) * (1 + r)), 1.0)
    return p


def pairwise_correlations(X: npt.ArrayLike, weight: npt.ArrayLike) -> FloatArray:
    """Return the Pearson correlation of each two columns over the rows where both are known.

    It is 0 where one of the two does not vary on these rows, up to rounding.

    Parameters
    ----------
    X : array of shape (t, N)
        Missing values are NaN.
    weight : array of shape (t,)
        Weights of the rows.

    Examples
    --------
    >>> X = [[1.0, 2.0], [2.0, np.nan], [3.0, 0.0], [np.nan, 5.0], [4.0, 1.0]]
    >>> pairwise_correlations(X, np.ones(5)).round(3)
    array([[ 1.   , -0.655],
           [-0.655,  1.   ]])
    """
    X, weight = np.asarray(X), np.asarray(weight, dtype=np.float64)[:, None]
    known = ~np.isnan(X)
    Z = X.astype(np.float64)
    Z -= np.nanmedian(Z, axis=0)
    size = np.nanmax(abs(Z), axis=0)
    Z = np.where(known, Z / np.where(size > 0, size, 1), 0)
    common = np.maximum((weight * known).T @ known, np.finfo(np.float64).tiny)
    mean, square = ((weight * part).T @ known / common for part in (Z, Z**2))  # i, j: of i where j is known
    variance = square - mean**2
    exact = (square > 0) & (variance < np.maximum(_DIGITS * square, _DIGITS**5))
    spread = np.sqrt(np.where(exact | (square == 0), 0, variance))
    spread = spread * spread.T
    products = (weight * Z).T @ Z / common - mean * mean.T
    R: FloatArray = np.where(spread > 0, products / np.where(spread > 0, spread, 1), 0)
    R = np.clip((R + R.T) / 2, -1, 1)
    rows, columns = np.nonzero(np.triu(exact | exact.T, 1))
    step = max(2**20 // len(X), 1)
    for a in range(0, len(rows), step):
        i, j = rows[a : a + step], columns[a : a + step]
        R[i, j] = R[j, i] = _correlations_of(X[:, i], X[:, j], weight)
    return R


def _correlations_of(A: FloatArray, B: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the correlations of columns with columns, from deviations that lose no digits."""
    both = ~np.isnan(A) & ~np.isnan(B)
    share = weight * both / np.maximum((weight * both).sum(0), np.finfo(np.float64).tiny)
    standardised = []
    for values in (A, B):
        low, high = np.where(both, values, np.inf).min(0), np.where(both, values, -np.inf).max(0)
        rest = np.where(both, values.astype(np.float64) - low, 0)
        rest /= np.maximum(rest.max(0), np.finfo(np.float64).tiny)
        rest = np.where(both, rest - (share * rest).sum(0), 0)
        size = np.sqrt((share * rest**2).sum(0))
        standardised.append(rest * np.where(is_constant(low, high) | (size == 0), 0, 1 / np.where(size > 0, size, 1)))
    r: FloatArray = np.clip((share * standardised[0] * standardised[1]).sum(0), -1, 1)
    return r


def critical_correlation(p: float, degrees: float) -> float:
    """Return the correlation whose p-value is ``p``; see :func:`correlation_p_values`.

    Examples
    --------
    >>> round(critical_correlation(0.0248, 18), 3)
    0.5
    """
    return float(np.sqrt(1 - betaincinv(degrees / 2, 0.5, p)))


def rejection_level(alpha: float, method: str, n_tests: int) -> float:
    """Return the level for one test: a p-value of rank k is compared with k times it ("bonferroni": with it)."""
    share = alpha / max(n_tests, 1)
    return share / harmonic(n_tests) if method == "by" else share


def harmonic(n: int) -> float:
    """Return 1 + 1/2 + … + 1/n, to ten digits.

    Examples
    --------
    >>> harmonic(4)
    2.083333333333333
    """
    if n < 1000:
        return float((1 / np.arange(1, max(n, 1) + 1)).sum())
    return float(np.log(n) + np.euler_gamma + 1 / (2 * n) - 1 / (12 * float(n) ** 2))


def largest_significant(p: npt.ArrayLike, alpha: float, method: str, n_tests: int) -> float:
    r"""Return the largest significant p-value of ``n_tests`` tests, -1 where none is.

    "bh" (Benjamini & Hochberg 1995) is the largest :math:`p_{(k)} \le k \alpha / m`. It keeps the expected share of
    false discoveries at ``alpha`` for independent tests, and for those of positive dependence. "by" (Benjamini &
    Yekutieli 2001) divides by :math:`1 + 1/2 + \dots + 1/m` as well and holds under any dependence. "bonferroni"
    keeps the probability of any false discovery at ``alpha``.

    Parameters
    ----------
    p : array
        The p-values; only the smallest ones are needed.
    alpha : float
    method : {"bh", "by", "bonferroni"}
    n_tests : int
        m, the number of all tests.

    Examples
    --------
    >>> largest_significant([0.001, 0.02, 0.8], 0.05, "bh", 3)
    0.02
    >>> largest_significant([0.001, 0.02, 0.8], 0.05, "bonferroni", 3)
    0.001
    """
    ordered = np.sort(np.asarray(p, dtype=np.float64))
    level = rejection_level(alpha, method, n_tests)
    limits = level if method == "bonferroni" else level * np.arange(1, len(ordered) + 1)
    counts = np.flatnonzero(ordered <= limits)
    return float(ordered[counts[-1]]) if len(counts) else -1.0


def symmetric_matrix(rows: IntArray, columns: IntArray, values: FloatArray, n: int) -> sp.csr_array:
    """Return the (n, n) matrix of some values above its diagonal and their mirror images; zeros are stored too."""
    places = (np.concatenate([rows, columns]), np.concatenate([columns, rows]))
    return sp.csr_array((np.concatenate([values, values]), places), shape=(n, n))
