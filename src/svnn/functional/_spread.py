"""The spread of a feature: the one rule for constants, and centring that neither overflows nor loses small numbers.

Sums are rounded, and how depends on their order: on threads, on the processor, on the size of a block. The largest and
the smallest value of a feature are exact. So they alone decide whether a feature is constant, and in what unit its
squares are summed.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from svnn.functional._array import like, namespace, to_numpy

#: A feature is constant where its ends agree up to so many rounding units of the larger one. A number computed in a few
#: steps, in another way for every row (a unit converted there and back, a sum in another order), is off by one or two
#: of them in either direction. Data that truly varies so little takes five values at most: it has no digit left.
_UNITS = 4
#: Numbers between this and its inverse are squared, and their squares multiplied, without a change of unit.
_ORDINARY = 2.0**20
#: Room for sums of variances, and for quotients by small probabilities.
_ROOM = 2.0**20


def is_constant(low: Any, high: Any, eps: float | None = None) -> Any:
    """Tell which features are constant, from their smallest and largest values.

    ``eps`` is the rounding unit of the data, by default that of the ends themselves.

    Examples
    --------
    >>> import numpy as np
    >>> is_constant(np.array([3.3, 1.0]), np.array([3.3, 1.0 + 1e-9]))
    array([ True, False])
    """
    eps = limits_of(low).eps if eps is None else eps
    largest = namespace(low).maximum(abs(low), abs(high))
    with np.errstate(over="ignore", invalid="ignore"):
        gap = high - low
        return (gap <= _UNITS * eps * largest) & (gap < np.inf)


def power_of_two(size: Any) -> Any:
    """Return the powers of two next below sizes, and 1 where they are ordinary: to divide by them is exact.

    Examples
    --------
    >>> import numpy as np
    >>> power_of_two(np.array([0.0, 3.0, 2.0**100 + 1e20])) == [1, 1, 2.0**100]
    array([ True,  True,  True])
    """
    values = to_numpy(size).astype(np.float64)
    unusual = np.isfinite(values) & (values > 0) & ((values < 1 / _ORDINARY) | (values > _ORDINARY))
    exponent = np.frexp(np.where(unusual, values, 2.0))[1] - 1
    return like(np.where(unusual, np.ldexp(1.0, exponent), 1.0), size)


class Centred(NamedTuple):
    """Observations without their mean, ``row - location = unit * rest``; ``rest`` is exactly zero for constants.

    ``unit`` holds powers of two, all of them 1 for ordinary data; ``low`` and ``high`` the ends of each column.
    """

    location: Any
    rest: Any
    unit: Any
    constant: Any
    low: Any
    high: Any


def centre(rows: Any, share: Any) -> Centred:
    """Centre the columns of ``rows``, all finite, on their means.

    ``share`` holds the weights of the rows, or of all values, that sum to 1 in every column; rows of weight zero have
    to be left out before.
    """
    xp = namespace(rows)
    ends = low, high = xp.amin(rows, 0), xp.amax(rows, 0)
    if not bool((xp.isfinite(low) & xp.isfinite(high)).all()):
        raise ValueError("X contains inf; remove infinite values first.")
    constant = is_constant(low, high)
    unit = power_of_two(xp.maximum(abs(low), abs(high)))
    if bool((unit != 1).any()):
        rows, low, high = rows / unit, low / unit, high / unit
    location = _between(low, _mean(share, rows), high)
    rest = rows - location
    # The mean of large numbers is rounded. What it missed is the mean of small ones.
    missed = _mean(share, rest)
    rest = rest - missed
    if bool(constant.any()):
        rest = xp.where(constant, 0 * rest, rest)
    return Centred(_between(low, location + missed, high) * unit, rest, unit, constant, *ends)


def deviation(centred: Centred, share: Any) -> Any:
    """Return the standard deviations of centred columns."""
    return _mean(share, centred.rest**2) ** 0.5 * centred.unit


def scaled(values: Any, a: Any, b: Any) -> Any:
    """Return ``a * values * b`` of moderate values, the same with a and b exchanged; nothing is lost on the way."""
    xp = namespace(values)
    with np.errstate(over="ignore", under="ignore"):
        return values * xp.maximum(a, b) * xp.minimum(a, b)


def in_units(C: Any, unit: Any) -> Any:
    """Return ``unit_i c_ij unit_j``."""
    return scaled(C, unit[:, None], unit) if bool((unit != 1).any()) else C


def check_variances(variance: Any, constant: Any, dtype: Any = None) -> None:
    """Raise where a feature varies, but its variance is no ordinary number of its dtype (or of the one given)."""
    limits = limits_of(variance if dtype is None else dtype)
    wrong = ~constant & ~((variance >= limits.tiny) & (variance <= limits.max / _ROOM))
    if not bool(wrong.any()):
        return
    feature = int(namespace(variance).nonzero(wrong)[0][0])
    size = "small" if float(variance[feature]) < 1 else "large"
    wider = ", or pass float64 data" if limits.eps > 1e-10 else ""
    raise ValueError(
        f"feature {feature} of X has values too {size} for their variance, a square, to be a number of {limits.dtype}; "
        f"rescale it, for example to standard deviation 1{wider}."
    )


def limits_of(array: Any) -> Any:
    """Return the limits of the floating dtype of an array or tensor, or of a dtype."""
    dtype = getattr(array, "dtype", array)
    return sys.modules["torch"].finfo(dtype) if type(dtype).__module__ == "torch" else np.finfo(dtype)


def _mean(share: Any, rows: Any) -> Any:
    return share @ rows if share.ndim == 1 else (share * rows).sum(0)


def _between(low: Any, value: Any, high: Any) -> Any:
    xp = namespace(low)
    return xp.minimum(xp.maximum(value, low), high)
