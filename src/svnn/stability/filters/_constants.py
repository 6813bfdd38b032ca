"""How steep a frequency response is: Lipschitz, integral Lipschitz and generalised constants, exactly."""

from __future__ import annotations

import numpy as np

from svnn.stability import _inputs
from svnn.stability._inputs import FilterLike, Interval
from svnn.stability._polynomials import derivative, largest_norm


def lipschitz(h: FilterLike, interval: Interval) -> float:
    r"""Return the Lipschitz constant of a filter's frequency response on an interval (Def. 1).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter or of a bank.
    interval : pair (a, b)
        Must cover the eigenvalues of all matrices that are compared. Sparsified covariances can have negative ones:
        the interval :math:`[0, \lambda_{\max}]` of the paper's Def. 1 is then too short.

    Returns
    -------
    float
        :math:`P = \sup |h'(\lambda)|`; for a bank :math:`\sup \|W'(\lambda)\|_F`.

    Notes
    -----
    The result is exact: :math:`|h'|` is largest at an end of the interval or at a real root of :math:`h''`; for a bank
    the polynomial :math:`\|W'(\lambda)\|_F^2` takes the place of h'. For symmetric matrices with eigenvalues in the
    interval :math:`\|h(A) - h(B)\|_F \le P \|A - B\|_F`; see :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> lipschitz([0.0, 0.0, 1.0], (0.0, 1.0)), lipschitz([0.0, 0.0, 1.0], (-2.0, 1.0))
    (2.0, 4.0)
    """
    return largest_norm(derivative(_inputs.coefficients(h)), _inputs.interval(interval))


def integral_lipschitz(h: FilterLike, interval: Interval) -> float:
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
    The result is exact: it is the largest value at the ends of the interval and at the roots of
    :math:`(\lambda h')'`.

    Examples
    --------
    >>> integral_lipschitz([0.0, 0.0, 1.0], (0.0, 3.0))
    18.0
    """
    h = _inputs.coefficients(h)
    powers = np.arange(len(h)).reshape(-1, *[1] * (h.ndim - 1))
    return largest_norm(powers * h, _inputs.interval(interval))


def generalized_lipschitz(h: FilterLike, interval: Interval) -> float:
    r"""Return the generalised integral Lipschitz constant :math:`P_{gi}` of a filter (Def. 8).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,)
    interval : pair (a, b)
        Must cover the eigenvalues of all realisations, the negative ones included.

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

    Its square grows with every :math:`|\lambda_{2j}|`, so at the supremum these are the end of the interval with the
    larger absolute value. It is convex in each coordinate of :math:`\lambda_1`, as is :math:`(\lambda_{1r} q_r)^2`, so
    at the supremum these are a or b: the supremum is the maximum over the corners :math:`\{a, b\}^K`. The coordinates
    are gone through from K down to 1. What the steps still to come add is a convex function of :math:`q_r`, so of all
    pairs (:math:`q_r`, sum so far) only those on the upper hull can lead to the maximum. The others are dropped, and
    high orders stay cheap.

    Examples
    --------
    >>> generalized_lipschitz([0.0, 0.0, 1.0], (0.0, 1.0))
    1.4142135623730951
    """
    taps = _inputs.coefficients(h)
    if taps.ndim != 1:
        raise ValueError(f"h must be the coefficients (K + 1,) of one filter, got shape {taps.shape}.")
    a, b = _inputs.interval(interval)
    size = np.abs(taps[1:]).max(initial=0.0)
    if size == 0:
        return 0.0
    taps = taps / size  # squares neither overflow nor vanish
    reach = max(abs(a), abs(b))
    ends = np.array([[a], [b]])
    plain, weighted = np.array([taps[-1]]), (ends * taps[-1]).ravel()
    sums = [reach ** (2 * len(taps) - 4) * plain**2, reach ** (2 * len(taps) - 4) * weighted**2]
    for r in range(len(taps) - 2, 0, -1):
        weight = reach ** (2 * r - 2)
        plain, sums[0] = (taps[r] + ends * plain).ravel(), np.tile(sums[0], 2)
        weighted, sums[1] = (ends * (taps[r] + weighted)).ravel(), np.tile(sums[1], 2)
        plain, sums[0] = _upper_hull(plain, sums[0] + weight * plain**2)
        weighted, sums[1] = _upper_hull(weighted, sums[1] + weight * weighted**2)
    return float(size * np.sqrt(max(s.max() for s in sums)))


def _upper_hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the upper hull of the points (x, y)."""
    order = np.lexsort((y, x))
    hull: list[tuple[float, float]] = []
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        while len(hull) > 1 and _is_below(hull[-2], hull[-1], point):
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            hull.pop()
        hull.append(point)
    corners = np.array(hull)
    return corners[:, 0], corners[:, 1]


def _is_below(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Say whether the middle point is not above the line from left to right."""
    return (right[0] - left[0]) * (middle[1] - left[1]) <= (middle[0] - left[0]) * (right[1] - left[1])
