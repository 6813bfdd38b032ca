"""Tests of correlations, and how many of many tests count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import betainc, betaincinv

from svnn._types import FloatArray, IntArray

#: How many tests are corrected for: the procedures by the names that ``SignificantEdges(method=...)`` takes.
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
        other features.

    Examples
    --------
    >>> correlation_p_values([0.0, 0.5], 18).round(4)
    array([1.    , 0.0248])
    """
    r = np.clip(np.abs(np.asarray(r, dtype=np.float64)), 0, 1)
    p: FloatArray = betainc(np.asarray(degrees) / 2, 0.5, (1 - r) * (1 + r))
    return p


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
    r"""Return the largest p-value that counts among ``n_tests`` tests, -1 where none does.

    "bh" (Benjamini & Hochberg 1995) is the largest :math:`p_{(k)} \le k \alpha / m`. It keeps the expected share of
    false discoveries at ``alpha`` for independent tests, and for those of positive dependence. "by" (Benjamini &
    Yekutieli 2001) divides by :math:`1 + 1/2 + \dots + 1/m` as well and holds under any dependence. "bonferroni"
    keeps the probability of any false discovery at ``alpha``.

    Parameters
    ----------
    p : array
        The p-values; only the smallest ones are needed, as many as may count.
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
