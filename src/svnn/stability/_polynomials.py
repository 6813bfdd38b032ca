r"""Polynomials :math:`W(\lambda) = \sum_k W_k \lambda^k` whose coefficients are numbers or matrices: their values,
derivatives, and largest norms on an interval.

``h`` has shape (K + 1,) for a filter and (K + 1, in, out) for a bank of filters.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import comb

from svnn.stability import _inputs
from svnn.stability._inputs import FilterLike, Interval

#: An interval is cut into at most so many pieces to bound the gain of a bank.
_MAX_PIECES = 4096


def values(h: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Return the values at ``lam``, of shape ``lam.shape`` for a filter, ``lam.shape + (in, out)`` for a bank.

    Examples
    --------
    >>> import numpy as np
    >>> values(np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0]))
    array([1., 3., 9.])
    """
    result = np.zeros(lam.shape + h.shape[1:])
    lam = lam.reshape(lam.shape + (1,) * (h.ndim - 1))
    for tap in h[::-1]:
        result = result * lam + tap
    return result


def spectral_norms(h: np.ndarray, lam: np.ndarray) -> np.ndarray:
    r"""Return :math:`\|W(\lambda)\|_2` for each eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> spectral_norms(np.array([[[3.0, 0.0], [0.0, 1.0]]]), np.array([0.0, 1.0]))
    array([3., 3.])
    """
    response = values(h, lam)
    if h.ndim == 1:
        return np.abs(response)
    if min(h.shape[1:]) == 1:
        return np.sqrt((response**2).sum((-2, -1)))
    return np.linalg.norm(response, ord=2, axis=(-2, -1))


def derivative(h: np.ndarray) -> np.ndarray:
    """Return the coefficients of the derivative; a single zero for a constant.

    Examples
    --------
    >>> import numpy as np
    >>> derivative(np.array([5.0, 1.0, 3.0]))
    array([1., 6.])
    """
    if len(h) == 1:
        return np.zeros_like(h)
    return h[1:] * np.arange(1, len(h)).reshape(-1, *[1] * (h.ndim - 1))


def recentred(h: np.ndarray, middle: float, radius: float = 1.0) -> np.ndarray:
    """Return the coefficients of s -> h(middle + radius s).

    Examples
    --------
    >>> import numpy as np
    >>> recentred(np.array([0.0, 0.0, 1.0]), 3.0, 2.0)
    array([ 9., 12.,  4.])
    """
    k = np.arange(len(h))
    shift = comb(k, k[:, None]) * float(middle) ** np.maximum(k - k[:, None], 0) * float(radius) ** k[:, None]
    return np.tensordot(shift, h, 1)


def largest_norm(h: np.ndarray, interval: Interval) -> float:
    """Return the largest absolute value (of a bank: Frobenius norm) on an interval, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> largest_norm(np.array([-1.0, 0.0, 1.0]), (-1.2, 1.2))
    1.0
    """
    a, b = interval
    middle, radius = (a + b) / 2, (b - a) / 2
    size = np.abs(h).max()
    if size == 0:
        return 0.0
    h = h / size  # squares of coefficients neither overflow nor vanish
    # In units of the interval the coefficients say what matters on it; what rounding leaves is dropped.
    local = recentred(h, middle, radius).reshape(len(h), -1)
    products = local @ local.T
    squares = [np.trace(products[::-1], i) for i in range(1 - len(h), len(h))]  # the sums of the antidiagonals
    objective = Polynomial(local[:, 0] if h.ndim == 1 else squares)
    slope = objective.deriv()
    slope = slope.trim(1e-14 * np.abs(slope.coef).max())
    # The real parts of all roots: a point too many does no harm, and double roots come as complex pairs.
    points = np.concatenate([[-1.0, 1.0], np.clip(slope.roots().real, -1, 1)])
    response = values(h, middle + radius * points)
    norms = np.abs(response) if h.ndim == 1 else np.sqrt((response**2).sum((-2, -1)))
    return float(size * norms.max())


def gain(h: FilterLike, interval: Interval, rtol: float = 1e-3) -> float:
    r"""Return the largest gain of a filter or bank on an interval, :math:`\sup \|W(\lambda)\|_2`.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    interval : pair (a, b)
    rtol : float, default=1e-3
        By how much the result may exceed the supremum, in relative terms. The result is exact for a filter, and for a
        bank with one input or one output.

    Returns
    -------
    float
        Never below the supremum. It bounds the norm of the filter bank on any symmetric matrix whose eigenvalues are
        in the interval.

    Notes
    -----
    On a piece of length d the bank differs from the straight line between its ends by at most
    :math:`\tfrac{d^2}{8} \sup \|W''\|_F`, and the norm along that line is largest at one of the ends (norms are
    convex). So the largest norm on a grid plus that term is a bound, and short pieces make it tight.

    Examples
    --------
    >>> gain([1.0, -1.0], (0.0, 3.0))
    2.0
    """
    h = _inputs.coefficients(h)
    a, b = _inputs.interval(interval)
    if h.ndim == 1 or min(h.shape[1:]) == 1:
        return largest_norm(h, (a, b))
    bend = (b - a) ** 2 / 8 * largest_norm(derivative(derivative(h)), (a, b))
    largest = spectral_norms(h, np.array([a, (a + b) / 2, b])).max()
    if bend == 0 or largest == 0:
        return float(largest + bend)
    pieces = int(np.clip(np.ceil(np.sqrt(bend / (rtol * largest))), 1, _MAX_PIECES))
    return float(spectral_norms(h, np.linspace(a, b, pieces + 1)).max() + bend / pieces**2)
