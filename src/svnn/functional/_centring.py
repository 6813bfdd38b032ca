"""Centring without overflow, and the rule that defines constant features.

The rounding of a sum depends on its order: on threads, on the processor, on the size of a block. The largest and the
smallest value of a feature are exact. So they alone decide whether a feature is constant, and by which power of two its
values are divided before they are squared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

import numpy as np

from svnn._types import Array
from svnn.functional._array import like, namespace, to_numpy

if TYPE_CHECKING:
    import torch
    from numpy.typing import DTypeLike

#: A feature is constant where its smallest and largest values differ by at most this many rounding units of the larger
#: one. A constant that was computed in a few steps, differently for every row (a unit converted there and back, a sum
#: in another order), is off by one or two units in either direction. Data that really varies so little takes five
#: values at most: rounding has left none of its digits.
_UNITS = 4
#: Numbers between this and its inverse are squared, and their squares multiplied, without rescaling.
_ORDINARY = 2.0**20
#: A variance is at most the largest number divided by this: sums of variances, and quotients of them by small
#: probabilities, do not overflow then.
_ROOM = 2.0**20


def is_constant(low: Array, high: Array, eps: float | None = None) -> Array:
    """Return which features are constant, from their smallest and largest values.

    ``eps`` is the rounding unit of the data; by default it is that of the dtype of ``low``.

    Examples
    --------
    >>> import numpy as np
    >>> is_constant(np.array([3.3, 1.0]), np.array([3.3, 1.0 + 1e-9]))
    array([ True, False])
    """
    xp = namespace(low)
    eps = float(xp.finfo(low.dtype).eps) if eps is None else eps
    largest = xp.maximum(abs(low), abs(high))
    with np.errstate(over="ignore", invalid="ignore"):
        gap = high - low
        return (gap <= _UNITS * eps * largest) & (gap < np.inf)


def power_of_two(size: Array) -> Array:
    """Return the largest powers of two that do not exceed some sizes, and 1 for sizes of an ordinary magnitude.

    Dividing by a power of two rounds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> power_of_two(np.array([0.0, 3.0, 2.0**100 + 1e20])) == [1, 1, 2.0**100]
    array([ True,  True,  True])
    """
    xp = namespace(size)
    unusual = xp.isfinite(size) & (size > 0) & ((size < 1 / _ORDINARY) | (size > _ORDINARY))
    if not bool(unusual.any()):
        return xp.ones_like(size)
    values, chosen = to_numpy(size).astype(np.float64), to_numpy(unusual)
    exponent = np.frexp(np.where(chosen, values, 2.0))[1] - 1
    return like(np.where(chosen, np.ldexp(1.0, exponent), 1.0), size)


class Centred(NamedTuple, Generic[Array]):
    """Observations without their mean: ``row - location = unit * rest``.

    ``rest`` is exactly zero for constant features. ``unit`` holds a power of two for every column, 1 for ordinary data.
    ``low`` and ``high`` are the smallest and the largest value of every column.
    """

    location: Array
    rest: Array
    unit: Array
    constant: Array
    low: Array
    high: Array


def centre(rows: Array, share: Array) -> Centred[Array]:
    """Subtract from the columns of ``rows`` their weighted means.

    ``share`` holds the weight of every row, or of every value, as a share: the weights of a column sum to 1. Rows of
    weight zero must not be among ``rows``, since their values would count as smallest and largest ones.
    """
    xp = namespace(rows)
    low, high = xp.amin(rows, 0), xp.amax(rows, 0)
    if not bool((xp.isfinite(low) & xp.isfinite(high)).all()):
        raise ValueError("X contains inf; remove infinite values first.")
    constant = is_constant(low, high)
    unit = power_of_two(xp.maximum(abs(low), abs(high)))
    if bool((unit != 1).any()):
        rows = rows / unit
    least, most = low / unit, high / unit
    location = xp.clip(_weighted_mean(share, rows), least, most)
    rest = rows - location
    # The mean of large numbers is rounded; the mean of the small deviations is the rounding error.
    error = _weighted_mean(share, rest)
    rest = rest - error
    if bool(constant.any()):
        rest = xp.where(constant, 0 * rest, rest)
    return Centred(xp.clip(location + error, least, most) * unit, rest, unit, constant, low, high)


def deviation(centred: Centred[Array], share: Array) -> Array:
    """Return the standard deviations of centred columns; ``share`` is as in :func:`centre`."""
    return _weighted_mean(share, centred.rest**2) ** 0.5 * centred.unit


def _weighted_mean(share: Array, rows: Array) -> Array:
    return share @ rows if share.ndim == 1 else (share * rows).sum(0)


def scaled(values: Array, a: Array, b: Array) -> Array:
    """Return ``a * values * b`` for values of an ordinary magnitude.

    The larger factor comes first: no product underflows early, and exchanging a and b changes nothing.
    """
    xp = namespace(values)
    with np.errstate(over="ignore", under="ignore"):
        return values * xp.maximum(a, b) * xp.minimum(a, b)


def in_units(C: Array, unit: Array) -> Array:
    """Return the matrix with entries ``unit_i c_ij unit_j``."""
    return scaled(C, unit[:, None], unit) if bool((unit != 1).any()) else C


def check_variances(variance: Array, constant: Array, dtype: DTypeLike | torch.dtype | None = None) -> None:
    """Raise an error where a feature varies, but its variance is too small or too large for ``dtype``.

    ``dtype`` is by default that of ``variance``.
    """
    limits = namespace(variance).finfo(dtype or variance.dtype)
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
