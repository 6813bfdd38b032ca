"""The probabilities with which the stochastic sparsifiers keep the entries of a covariance: one per pair of features.

The *size* of an entry is its absolute value :math:`|c_{ij}|`.
"""

from __future__ import annotations

import numpy as np

from svnn._types import Array, RandomState
from svnn.functional._array import as_matrix, from_upper, generator, like, namespace, unit_interval, upper_values
from svnn.functional._centring import power_of_two


def acv_probabilities(C: Array, density: float | None = None, max_over: str = "all") -> Array:
    r"""Absolute covariance values: keep an entry with a probability proportional to its absolute value.

    .. math:: p_{ij} = |c_{ij}| / \max|c|, \qquad p_{ii} = 1

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    density : float in [0, 1], optional
        Use :math:`p_{ij} = \min(1, a|c_{ij}|)` instead, with ``a`` solved exactly so that the mean
        off-diagonal probability is ``density``. Where fewer pairs than that are not zero, all of
        them are kept.
    max_over : {"all", "offdiagonal"}, default="all"
        Where the maximum is taken. Over all entries, as in the paper, it is the largest variance
        of a positive semidefinite matrix: a single feature in large units then makes every other
        edge vanish. "offdiagonal" (or standardised data) avoids that.

    Returns
    -------
    Symmetric array like ``C``; the diagonal is 1.

    Examples
    --------
    >>> import numpy as np
    >>> acv_probabilities(np.array([[1.0, -0.4], [-0.4, 0.5]]))
    array([[1. , 0.4],
           [0.4, 1. ]])
    """
    return probabilities_with_slope(C, acv_slope(C, density, max_over))


def probabilities_with_slope(C: Array, slope: float) -> Array:
    """Return ``min(1, slope * |c_ij|)``, and 1 on the diagonal; with an infinite slope 1 for all that is not zero."""
    C = as_matrix(C)
    xp = namespace(C)
    sizes = abs(upper_values(C))
    if np.isinf(slope):
        probabilities = xp.where(sizes > 0, xp.ones_like(sizes), xp.zeros_like(sizes))
    else:
        probabilities = xp.clip(slope * sizes, None, 1)
    return from_upper(probabilities, C, 1)


def acv_slope(C: Array, density: float | None = None, max_over: str = "all") -> float:
    r"""Return the slope ``a`` of :math:`p_{ij} = \min(1, a|c_{ij}|)`; see :func:`acv_probabilities`.

    It is infinite where ``density`` asks for every non-zero entry, and zero where all entries are zero.

    Examples
    --------
    >>> import numpy as np
    >>> acv_slope(np.array([[4.0, -0.4], [-0.4, 0.5]]))
    0.25
    """
    C = as_matrix(C)
    check_max_over(max_over)
    sizes = abs(upper_values(C))
    if density is not None:
        return _slope_for_density(sizes, unit_interval(density, "density"))
    pool = abs(C) if max_over == "all" else sizes
    return slope_for_maximum(float(pool.max()) if len(pool) else 0.0)


def slope_for_maximum(largest: float) -> float:
    """Return the slope at which the entry of size ``largest`` has probability one."""
    return 1 / largest if largest > 0 else 0.0


def check_max_over(max_over: object) -> None:
    """Raise an error unless ``max_over`` is one of its two possible values."""
    if max_over not in ("all", "offdiagonal"):
        raise ValueError(f'max_over must be "all" or "offdiagonal", got {max_over!r}.')


def _slope_for_density(sizes: Array, density: float) -> float:
    """Solve ``mean(min(1, a * sizes)) = density`` for ``a``, exactly.

    If the ``m`` largest values are clipped to 1, then ``m + a * (sum of the others) = target``. The right ``m`` is the
    smallest one at which the next value stays below 1.
    """
    xp = namespace(sizes)
    target = density * len(sizes)
    unit = float(power_of_two(sizes.max())) if len(sizes) else 1.0  # the sum of very large sizes would overflow
    sizes = sizes / unit
    ascending = np.sort(sizes).astype(np.float64) if xp is np else xp.sort(sizes).values.double()
    descending = xp.flip(ascending, (0,))
    n_positive = int((descending > 0).sum())
    if target >= n_positive:
        return np.inf
    descending = descending[:n_positive]
    # others[m] sums the values after the m largest ones, the smallest first, which loses the fewest digits.
    others = xp.flip(xp.cumsum(xp.flip(descending, (0,)), 0), (0,))
    clipped = xp.cumsum(xp.ones_like(others), 0) - 1
    slopes = (target - clipped) / others
    first = int(xp.nonzero(slopes * descending <= 1)[0][0])
    return max(float(slopes[first]), 0.0) / unit


def rcv_probabilities(C: Array, p: float, random_state: RandomState = None) -> Array:
    r"""Ranked covariance values: draw probabilities at random, and give the larger ones to the larger entries.

    ``N(N-1)/2`` values are drawn from :math:`\mathcal N(p, \sigma)` with the standard deviation
    :math:`\sigma = \min((1-p)/3, p/3)`, clipped to [0, 1], sorted, and given to the pairs in the
    order of their absolute values (ties in row order).

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    p : float in [0, 1]
        The mean probability of keeping an entry.
    random_state : int, Generator or None

    Returns
    -------
    Array like ``C``, symmetric, with ones on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> P = rcv_probabilities(C, p=0.5, random_state=0)
    >>> bool(P[0, 1] >= P[1, 2] >= P[0, 2])
    True
    """
    C = as_matrix(C)
    p = unit_interval(p, "p")
    sizes = abs(upper_values(C))
    sd = min((1 - p) / 3, p / 3)
    drawn = np.sort(np.clip(generator(random_state).normal(p, sd, len(sizes)), 0, 1))
    xp = namespace(C)
    order = np.argsort(sizes, kind="stable") if xp is np else xp.argsort(sizes, stable=True)
    probabilities = xp.zeros_like(sizes)
    probabilities[order] = like(drawn, sizes)
    return from_upper(probabilities, C, 1)
