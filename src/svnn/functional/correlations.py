"""Correlations other than Pearson's: Kendall's, and transformed data whose Pearson correlation is another one.

Spearman's correlation is Pearson's of the ranks, and the biweight midcorrelation is Pearson's of deviations from the
median in which outliers have no weight. Whatever is computed from means and products of a table, at once or tile by
tile, gives these two for the transformed table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from svnn._types import Array, ColumnLike, DataLike
from svnn.functional._array import as_floating, is_torch, like, namespace
from svnn.functional.moments import check_weight, observations

#: The correlations that are Pearson's of transformed data.
TRANSFORMED = ("spearman", "biweight")
#: Deviations beyond this many median absolute deviations have no weight.
_BIWEIGHT_RANGE = 9.0
#: Sums of weights that differ by at most this share of the total are equal.
_TIED = 1e-12
#: Pairs of observations whose signs are multiplied at once. Their sums of signs are exact in single precision.
_PAIRS = 4096


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
