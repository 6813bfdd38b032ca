"""Correlations other than Pearson's, and tests of correlations, corrected for their number.

Spearman's correlation is Pearson's of the ranks, and the biweight midcorrelation is Pearson's of deviations from the
median in which outliers have no weight. Whatever is computed from means and products of a table, at once or tile by
tile, gives these two for the transformed table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import betainc, betaincinv

from svnn._types import Array, ColumnLike, DataLike, FloatArray, IntArray
from svnn.functional._array import as_floating, is_torch, like, namespace
from svnn.functional._centring import is_constant
from svnn.functional.moments import check_weight, observations

#: The correlations that are Pearson's of transformed data.
TRANSFORMED = ("spearman", "biweight")
#: Deviations beyond this many median absolute deviations have no weight.
_BIWEIGHT_RANGE = 9.0
#: Sums of weights that differ by at most this share of the total are equal.
_TIED = 1e-12
#: Pairs of observations whose signs are multiplied at once. Their sums of signs are exact in single precision.
_PAIRS = 4096
#: Variances below this share of the mean square have lost too many digits, and are computed from deviations.
_DIGITS = 1e-4
#: The corrections for the number of tests, as ``SignificantEdges(method=...)`` names them.
METHODS = ("bh", "by", "bonferroni")


def kendall_tau(X: DataLike, sample_weight: ColumnLike | None = None) -> Any:
    r"""Return Kendall's :math:`\tau_b` of all pairs of features, of shape (N, N).

    .. math:: \tau_{ij} = \frac{\sum_{k<l} s_{kl,i}\, s_{kl,j}}{\sqrt{\sum_{k<l} s_{kl,i}^2 \sum_{k<l} s_{kl,j}^2}},
        \quad s_{kl,i} = \operatorname{sign}(x_{ki} - x_{li})

    Parameters
    ----------
    X : ndarray or Tensor of shape (t, N) or (t, N, F)
        Where values are missing (NaN), each pair of features is compared over the observations where both are known.
    sample_weight : array of shape (t,), optional
        A pair of observations counts with the product of both weights.

    Notes
    -----
    It takes :math:`t^2 N^2` operations, all of them in matrix products. A feature without two different values has a
    :math:`\tau` of zero.

    References
    ----------
    M. G. Kendall, The treatment of ties in ranking problems, Biometrika 1945.

    Examples
    --------
    >>> import numpy as np
    >>> kendall_tau(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])).round(3)
    array([[1.   , 0.333],
           [0.333, 1.   ]])
    """
    sample: Any = as_floating(X)
    xp = namespace(sample)
    rows, weight = observations(sample, check_weight(sample_weight, sample))
    known = ~xp.isnan(rows)
    complete, dtype = bool(known.all()), "float32" if sample_weight is None else "float64"
    weight = _cast(weight, dtype)
    nothing = _cast(known[:0], "float64")
    agree = untied = nothing.T @ nothing
    for earlier, later in _pairs_of_observations(len(rows)):
        with np.errstate(over="ignore", invalid="ignore"):
            signs = xp.sign(rows[later] - rows[earlier])
        both = known[later] & known[earlier]
        signs = _cast(signs if complete else xp.where(both, signs, xp.zeros_like(signs)), dtype)
        # A copy even where all weights are one, for the reason given in weighted_moments.
        weighted = signs * (weight[later] * weight[earlier])[:, None]
        agree = agree + weighted.T @ signs
        if not complete:  # entry i, j: differences of feature i where j is known
            untied = untied + abs(weighted).T @ _cast(both, dtype)
    size = agree.diagonal()
    squares = size[:, None] * size if complete else untied * untied.T
    varies = squares > 0
    tau = xp.where(varies, agree / xp.where(varies, squares, 1 + 0 * squares) ** 0.5, 0 * squares)
    return like(xp.clip((tau + tau.T) / 2, -1, 1), sample)


def _pairs_of_observations(t: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the positions of all pairs of observations in batches."""
    height = max(_PAIRS // t, 1)
    for start in range(0, t - 1, height):
        ends = np.arange(start, min(start + height, t - 1))
        earlier = np.repeat(ends, t - 1 - ends)
        yield earlier, np.concatenate([np.arange(end + 1, t) for end in ends])


def _cast(values: Array, dtype: str) -> Array:
    """Return the values in the dtype of this name."""
    wanted: Any = getattr(namespace(values), dtype)
    return values.to(wanted) if is_torch(values) else values.astype(wanted)


# -- transformed data: features are rows, observations columns, all in float64; missing values have weight 0


class Transformed(NamedTuple):
    """Locations, and values of weighted mean zero whose weighted variance is the squared scale of their feature."""

    location: Any
    values: Any


def transformed_rows(rows: Array, weight: Array, kind: str, location: Array, deviation: Array) -> Transformed:
    r"""Return features whose Pearson correlation is Spearman's or the biweight correlation of ``rows``.

    Parameters
    ----------
    rows : ndarray or Tensor of shape (n, m)
        A feature in every row.
    weight : ndarray or Tensor of shape (m,) or (n, m)
        Weights of the observations, or of every value.
    kind : {"spearman", "biweight"}
    location, deviation : ndarray or Tensor of shape (n,)
        Means and standard deviations of the rows. Features of deviation zero are constant and become zeros.

    Notes
    -----
    Spearman: the average ranks :math:`r`, scaled to the standard deviation of the values. With weights, the rank of a
    value is the weight of the smaller ones and half the weight of the equal ones.

    Biweight: with the median :math:`M` and the median absolute deviation MAD,

    .. math:: \tilde x = (x - M)(1 - u^2)^2 \text{ where } |u| < 1, \text{ else } 0, \quad u = (x - M)/(9\,\text{MAD})

    scaled to the biweight midvariance
    :math:`t \sum (x-M)^2 (1-u^2)^4 / [\sum (1-u^2)(1-5u^2)]^2`, both sums over :math:`|u| < 1`. Where MAD is zero, most
    values are equal and outliers cannot be identified: such a feature is not changed.
    """
    xp = namespace(rows)
    share = weight / weight.sum(-1)[..., None]
    if kind == "spearman":
        values = average_ranks(rows, weight)
    else:
        values, location, deviation = _biweight(rows, share, location, deviation)
    values = values - (share * values).sum(-1)[:, None]
    spread = (share * values**2).sum(-1) ** 0.5
    varies = (spread > 0) & (deviation > 0)
    factor = xp.where(varies, deviation / xp.where(varies, spread, xp.ones_like(spread)), 0 * spread)
    factor = xp.where(xp.isfinite(deviation), factor, xp.nan + 0 * spread)  # the caller rejects NaN and infinity
    return Transformed(location, values * factor[:, None])


def average_ranks(rows: Array, weight: Array) -> Array:
    """Return for every value of a row the weight of the smaller values and half the weight of the equal ones.

    With weights of one that is the usual average rank minus 1/2.

    Examples
    --------
    >>> import numpy as np
    >>> average_ranks(np.array([[10.0, 30.0, 20.0, 30.0]]), np.ones(4))
    array([[0.5, 3. , 1.5, 3. ]])
    """
    xp = namespace(rows)
    order: Any = xp.argsort(rows, -1)
    ordered, part = _take(rows, order), _take(xp.broadcast_to(weight, rows.shape), order)
    upto = xp.cumsum(part, -1)
    middle = upto - part / 2
    begins = ordered[:, 1:] != ordered[:, :-1]
    if not bool(begins.all()):
        # Of equal values, the first has the weight below them, the last the weight up to and including them.
        below, above = xp.zeros_like(upto), xp.full_like(upto, xp.inf)
        below[:, 1:] = xp.where(begins, upto[:, :-1], 0 * upto[:, 1:])
        above[:, :-1] = xp.where(begins, upto[:, :-1], above[:, 1:])
        above[:, -1] = upto[:, -1]
        middle = (_running_maximum(below) - _running_maximum(-_backwards(above), backwards=True)) / 2
    return _put(order, middle)


def weighted_median(rows: Array, weight: Array) -> Array:
    """Return the median of every row; between two middle values it is halfway.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_median(np.array([[1.0, 2.0, 30.0]]), np.array([1.0, 1.0, 2.0]))
    array([16.])
    """
    xp = namespace(rows)
    order: Any = xp.argsort(rows, -1)
    ordered = _take(rows, order)
    upto = xp.cumsum(_take(xp.broadcast_to(weight, rows.shape), order), -1)
    half, slack = upto[:, -1:] / 2, _TIED * upto[:, -1:]
    low: Any = (upto < half - slack).sum(-1)[:, None]
    high: Any = (upto <= half + slack).sum(-1)[:, None]
    low, high = _take(ordered, low)[:, 0], _take(ordered, high)[:, 0]
    return low + (high - low) / 2


def _biweight(rows: Array, share: Array, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Return deviations from the medians without outliers, the medians, and the roots of the midvariances."""
    xp = namespace(rows)
    median = weighted_median(rows, share)
    rest = rows - median[:, None]
    mad = weighted_median(abs(rest), share)
    usable = (mad > 0) & (deviation > 0)
    u = rest / (_BIWEIGHT_RANGE * xp.where(usable, mad, xp.ones_like(mad)))[:, None]
    u = xp.where(usable[:, None] & (abs(u) < 1), u, xp.ones_like(u)) ** 2
    values = rest * (1 - u) ** 2
    slope = (share * (1 - u) * (1 - 5 * u)).sum(-1)
    midvariance = (share * values**2).sum(-1) / xp.where(usable, slope, xp.ones_like(slope)) ** 2
    plain = ~usable
    values = xp.where(plain[:, None], rows - mean[:, None], values)
    return values, xp.where(plain, mean, median), xp.where(plain, deviation, midvariance**0.5)


# -- operations that numpy and torch spell differently --------------------------------------------------------


def _take(values: Array, places: Array) -> Array:
    return values.gather(-1, places) if is_torch(values) else np.take_along_axis(values, places, -1)


def _put(places: Array, values: Array) -> Array:
    """Return an array with ``values`` at the positions ``places``."""
    if is_torch(values):
        return namespace(values).empty_like(values).scatter_(-1, places, values)
    result = np.empty_like(values)
    np.put_along_axis(result, places, values, -1)
    return result


def _backwards(values: Array) -> Array:
    return values.flip(-1) if is_torch(values) else values[:, ::-1]


def _running_maximum(values: Array, backwards: bool = False) -> Array:
    """Return the cumulative maximum along the last axis; ``backwards`` reverses its result."""
    largest: Any = values.cummax(-1).values if is_torch(values) else np.maximum.accumulate(values, -1)
    return _backwards(largest) if backwards else largest


# -- tests ------------------------------------------------------------------------------------------


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
