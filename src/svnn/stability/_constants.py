"""How steep a frequency response is: Lipschitz, integral Lipschitz and generalised constants, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import comb

from svnn.stability import _inputs
from svnn.stability._responses import frequency_response

#: Pieces into which an interval is cut at most to bound the gain of a bank.
_MAX_PIECES = 4096


def lipschitz(h: Any, interval: tuple[float, float]) -> float:
    r"""Return the Lipschitz constant of a filter's frequency response on an interval (Def. 1).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter or of a bank.
    interval : pair (a, b)
        Must cover the spectra of all matrices that are compared. Sparsified covariances can have
        negative eigenvalues: the paper's :math:`[0, \lambda_{\max}]` is then too short.

    Returns
    -------
    float
        :math:`P = \sup |h'(\lambda)|`; for a bank :math:`\sup \|W'(\lambda)\|_F`.

    Notes
    -----
    Exact: :math:`|h'|` is largest at an end or at a real root of :math:`h''`; for a bank the polynomial
    :math:`\|W'(\lambda)\|_F^2` takes the place of h'. For symmetric matrices with spectra in the interval
    :math:`\|h(A) - h(B)\|_F \le P \|A - B\|_F`; see
    :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> lipschitz([0.0, 0.0, 1.0], (0.0, 1.0)), lipschitz([0.0, 0.0, 1.0], (-2.0, 1.0))
    (2.0, 4.0)
    """
    return _sup_norm(derivative(_inputs.coefficients(h)), _inputs.interval(interval))


def integral_lipschitz(h: Any, interval: tuple[float, float]) -> float:
    r"""Return the integral Lipschitz constant of a filter on an interval.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    interval : pair (a, b)

    Returns
    -------
    float
        :math:`\sup |\lambda h'(\lambda)|`; for a bank :math:`\sup \|\lambda W'(\lambda)\|_F`.

    Notes
    -----
    Exact, from the ends and the roots of :math:`(\lambda h')'`.

    Examples
    --------
    >>> integral_lipschitz([0.0, 0.0, 1.0], (0.0, 3.0))
    18.0
    """
    h = _inputs.coefficients(h)
    powers = np.arange(len(h)).reshape(-1, *[1] * (h.ndim - 1))
    return _sup_norm(powers * h, _inputs.interval(interval))


def generalized_lipschitz(h: Any, interval: tuple[float, float]) -> float:
    r"""Return the generalised integral Lipschitz constant :math:`P_{gi}` of a filter (Def. 8).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,)
    interval : pair (a, b)
        Must cover the spectra of all realisations, negative eigenvalues included.

    Returns
    -------
    float
        The larger of :math:`\sup \|\nabla_L h\|` and :math:`\sup \|\lambda_1 \odot \nabla_L h\|`, both of
        :math:`(\lambda_1, \lambda_2)` over :math:`[a, b]^K \times [a, b]^K`.

    Notes
    -----
    Component r of the Lipschitz gradient (Def. 7) is the partial derivative at
    :math:`\lambda^{(r)} = (\lambda_{21}, …, \lambda_{2r}, \lambda_{1,r+1}, …, \lambda_{1K})`,

    .. math:: [\nabla_L h]_r = \prod_{j<r} \lambda_{2j}\; q_r, \qquad q_K = h_K, \quad
              q_r = h_r + \lambda_{1,r+1}\, q_{r+1}.

    Its square grows with every :math:`|\lambda_{2j}|`, so these sit at the end of larger modulus, and is
    convex in each coordinate of :math:`\lambda_1`, as is :math:`(\lambda_{1r} q_r)^2`, so these sit at a or b: the
    supremum is the maximum over the vertices :math:`\{a, b\}^K`. They are gone through from K down to 1. What
    the steps still to come add is a convex function of :math:`q_r`, so of all pairs (:math:`q_r`, sum so far) only
    the upper hull can lead to the maximum; the rest is dropped, and high orders stay cheap.

    Examples
    --------
    >>> generalized_lipschitz([0.0, 0.0, 1.0], (0.0, 1.0))
    1.4142135623730951
    """
    h = _inputs.filter_coefficients(h)
    a, b = _inputs.interval(interval)
    size = np.abs(h[1:]).max(initial=0.0)
    if size == 0:
        return 0.0
    h = h / size  # squares neither overflow nor vanish
    reach = max(abs(a), abs(b))
    ends = np.array([[a], [b]])
    plain, weighted = np.array([h[-1]]), (ends * h[-1]).ravel()
    sums = [reach ** (2 * len(h) - 4) * plain**2, reach ** (2 * len(h) - 4) * weighted**2]
    for r in range(len(h) - 2, 0, -1):
        weight = reach ** (2 * r - 2)
        plain, sums[0] = (h[r] + ends * plain).ravel(), np.tile(sums[0], 2)
        weighted, sums[1] = (ends * (h[r] + weighted)).ravel(), np.tile(sums[1], 2)
        plain, sums[0] = _upper_hull(plain, sums[0] + weight * plain**2)
        weighted, sums[1] = _upper_hull(weighted, sums[1] + weight * weighted**2)
    return float(size * np.sqrt(max(s.max() for s in sums)))


def gain(h: Any, interval: tuple[float, float], rtol: float = 1e-3) -> float:
    r"""Return the largest gain of a filter or bank on an interval, :math:`\sup \|W(\lambda)\|_2`.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    interval : pair (a, b)
    rtol : float, default=1e-3
        By how much the result may exceed the supremum, in relative terms. A filter, and a bank
        with one input or one output, are exact.

    Returns
    -------
    float
        Never below the supremum. It bounds the norm of the filter bank on any symmetric matrix
        whose spectrum is in the interval.

    Notes
    -----
    On a piece of length d the bank differs from its linear interpolant by at most
    :math:`\tfrac{d^2}{8} \sup \|W''\|_F`, and the norm of the interpolant is largest at an end of the piece
    (norms are convex). So the largest norm on a grid plus that term is a bound, and pieces small
    enough make it tight.

    Examples
    --------
    >>> gain([1.0, -1.0], (0.0, 3.0))
    2.0
    """
    h = _inputs.coefficients(h)
    a, b = _inputs.interval(interval)
    if h.ndim == 1 or min(h.shape[1:]) == 1:
        return _sup_norm(h, (a, b))
    bend = (b - a) ** 2 / 8 * _sup_norm(derivative(derivative(h)), (a, b))
    largest = spectral_norms(h, np.array([a, (a + b) / 2, b])).max()
    if bend == 0 or largest == 0:
        return float(largest + bend)
    pieces = int(np.clip(np.ceil(np.sqrt(bend / (rtol * largest))), 1, _MAX_PIECES))
    return float(spectral_norms(h, np.linspace(a, b, pieces + 1)).max() + bend / pieces**2)


def spectral_norms(h: np.ndarray, lam: np.ndarray) -> np.ndarray:
    r"""Return :math:`\|W(\lambda)\|_2` for each eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> spectral_norms(np.array([[[3.0, 0.0], [0.0, 1.0]]]), np.array([0.0, 1.0]))
    array([3., 3.])
    """
    response = frequency_response(h, lam)
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


def _sup_norm(h: np.ndarray, interval: tuple[float, float]) -> float:
    """Return the largest Frobenius norm of a (matrix) polynomial on an interval."""
    a, b = interval
    middle, radius = (a + b) / 2, (b - a) / 2
    size = np.abs(h).max()
    if size == 0:
        return 0.0
    h = h / size  # squares of coefficients neither overflow nor vanish
    # In units of the interval the coefficients say what matters on it; what rounding leaves is dropped.
    local = recentred(h, middle, radius).reshape(len(h), -1)
    products = local @ local.T
    squares = [np.trace(products[::-1], i) for i in range(1 - len(h), len(h))]  # the antidiagonals' sums
    objective = Polynomial(local[:, 0] if h.ndim == 1 else squares)
    slope = objective.deriv()
    slope = slope.trim(1e-14 * np.abs(slope.coef).max())
    # The real parts of all roots: a point too many does no harm, and double roots come as complex pairs.
    points = np.concatenate([[-1.0, 1.0], np.clip(slope.roots().real, -1, 1)])
    response = frequency_response(h, middle + radius * points)
    norms = np.abs(response) if h.ndim == 1 else np.sqrt((response**2).sum((-2, -1)))
    return float(size * norms.max())


def _upper_hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the upper hull of the points (x, y)."""
    order = np.lexsort((y, x))
    hull: list[tuple[float, float]] = []
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        while len(hull) > 1 and _below(hull[-2], hull[-1], point):
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            hull.pop()
        hull.append(point)
    corners = np.array(hull)
    return corners[:, 0], corners[:, 1]


def _below(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Say whether the middle point is not above the line from left to right."""
    return (right[0] - left[0]) * (middle[1] - left[1]) <= (middle[0] - left[0]) * (right[1] - left[1])
