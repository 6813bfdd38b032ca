"""Tables that stand in for the data: ranks, and deviations without outliers.

Spearman's correlation is Pearson's of the ranks, and the biweight midcorrelation is Pearson's of deviations from the
median in which outliers have no weight. So whatever is computed from means and products of a table, all at once or
tile by tile, serves these two as well: it gets another table.

Here features are rows and observations are columns. All values are float64, and missing ones have weight zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from svnn._types import Array
from svnn.functional._array import is_torch, namespace

#: The correlations that are Pearson's of another table.
STAND_INS = ("spearman", "biweight")
#: Deviations beyond so many median absolute deviations have no weight.
_BIWEIGHT_RANGE = 9.0
#: Sums of weights that differ by at most this share of the total are equal.
_TIED = 1e-12


class StandIn(NamedTuple):
    """Locations, and values of weighted mean zero whose weighted variance is the squared scale of their feature."""

    location: Any
    values: Any


def stand_in(rows: Array, weight: Array, kind: str, location: Array, deviation: Array) -> StandIn:
    r"""Return what stands in for features of shape (n, m).

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
    values are equal and nothing tells outliers from the rest: that feature is left as it is.
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
    factor = xp.where(xp.isfinite(deviation), factor, xp.nan + 0 * spread)  # NaN and infinity are found by the caller
    return StandIn(location, values * factor[:, None])


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
        # The first of some equal values knows the weight below them, the last one that of all up to them.
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


# -- what numpy and torch spell differently --------------------------------------------------------


def _take(values: Array, places: Array) -> Array:
    return values.gather(-1, places) if is_torch(values) else np.take_along_axis(values, places, -1)


def _put(places: Array, values: Array) -> Array:
    """Return an array whose entries at ``places`` are ``values``."""
    if is_torch(values):
        return namespace(values).empty_like(values).scatter_(-1, places, values)
    result = np.empty_like(values)
    np.put_along_axis(result, places, values, -1)
    return result


def _backwards(values: Array) -> Array:
    return values.flip(-1) if is_torch(values) else values[:, ::-1]


def _running_maximum(values: Array, backwards: bool = False) -> Array:
    """Return the largest value so far; the result of values in reverse order is put in order again."""
    largest: Any = values.cummax(-1).values if is_torch(values) else np.maximum.accumulate(values, -1)
    return _backwards(largest) if backwards else largest
