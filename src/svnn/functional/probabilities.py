"""Keep-probabilities of the stochastic sparsifiers: one per pair of features."""

from __future__ import annotations

import numpy as np

from svnn._types import Array, RandomState
from svnn.functional._array import as_matrix, from_upper, generator, like, namespace, unit_interval, upper_values
from svnn.functional._spread import power_of_two


def acv_probabilities(C: Array, density: float | None = None, max_over: str = "all") -> Array:
    r"""Absolute covariance values: keep an entry with a probability proportional to its modulus.

    .. math:: p_{ij} = |c_{ij}| / \max|c|, \qquad p_{ii} = 1

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    density : float in [0, 1], optional
        Use :math:`p_{ij} = \min(1, a|c_{ij}|)` instead, with ``a`` solved exactly so that the mean
        off-diagonal probability is ``density``. Where fewer pairs are non-zero than that, all of
        them are kept.
    max_over : {"all", "offdiagonal"}, default="all"
        Where the maximum is taken. Over all entries, as in the paper, it is the largest variance
        of a positive semidefinite matrix: a single feature in large units then makes every other
        edge vanish. "offdiagonal" (or standardised data) avoids that.

    Returns
    -------
    Array like ``C``, symmetric, with ones on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> acv_probabilities(np.array([[1.0, -0.4], [-0.4, 0.5]]))
    array([[1. , 0.4],
           [0.4, 1. ]])
    """
    C = as_matrix(C)
    slope = acv_slope(C, density, max_over)
    moduli = abs(upper_values(C))
    xp = namespace(C)
    if np.isinf(slope):
        probabilities = xp.where(moduli > 0, xp.ones_like(moduli), xp.zeros_like(moduli))
    else:
        probabilities = xp.clip(slope * moduli, None, 1)
    return from_upper(probabilities, C, 1)


def acv_slope(C: Array, density: float | None = None, max_over: str = "all") -> float:
    r"""Return the slope ``a`` of :math:`p_{ij} = \min(1, a|c_{ij}|)`; see :func:`acv_probabilities`.

    Infinite where ``density`` asks for every non-zero entry, zero where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> acv_slope(np.array([[4.0, -0.4], [-0.4, 0.5]]))
    0.25
    """
    C = as_matrix(C)
    check_max_over(max_over)
    moduli = abs(upper_values(C))
    if density is not None:
        return _slope_for_density(moduli, unit_interval(density, "density"))
    pool = abs(C) if max_over == "all" else moduli
    return slope_for_maximum(float(pool.max()) if len(pool) else 0.0)


def slope_for_maximum(largest: float) -> float:
    """Return the slope at which the largest modulus has probability one."""
    return 1 / largest if largest > 0 else 0.0


def check_max_over(max_over: str) -> None:
    """Raise for anything but the two pools."""
    if max_over not in ("all", "offdiagonal"):
        raise ValueError(f'max_over must be "all" or "offdiagonal", got {max_over!r}.')


def _slope_for_density(moduli: Array, density: float) -> float:
    """Solve ``mean(min(1, a * moduli)) = density`` for ``a``, exactly.

    If the ``m`` largest values are clipped, ``m + a * (sum of the rest) = target``. Clipping is
    right for the smallest ``m`` at which the next value stays below one.
    """
    xp = namespace(moduli)
    target = density * len(moduli)
    unit = float(power_of_two(moduli.max())) if len(moduli) else 1.0  # sums of very large moduli are no numbers
    moduli = moduli / unit
    ascending = np.sort(moduli).astype(np.float64) if xp is np else xp.sort(moduli).values.double()
    descending = xp.flip(ascending, (0,))
    n_positive = int((descending > 0).sum())
    if target >= n_positive:
        return np.inf
    descending = descending[:n_positive]
    # rest[m] sums the values after the m largest, smallest first to lose no digits.
    rest = xp.flip(xp.cumsum(xp.flip(descending, (0,)), 0), (0,))
    clipped = xp.cumsum(xp.ones_like(rest), 0) - 1
    slopes = (target - clipped) / rest
    first = int(xp.nonzero(slopes * descending <= 1)[0][0])
    return max(float(slopes[first]), 0.0) / unit


def rcv_probabilities(C: Array, p: float, random_state: RandomState = None) -> Array:
    r"""Ranked covariance values: the larger the entry, the larger its share of drawn probabilities.

    ``N(N-1)/2`` values are drawn from :math:`\mathcal N(p, \sigma)` with the standard deviation
    :math:`\sigma = \min((1-p)/3, p/3)`, clipped to [0, 1], sorted, and given to the pairs in the
    order of their modulus (ties in row order).

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    p : float in [0, 1]
        Mean keep-probability.
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
    moduli = abs(upper_values(C))
    sd = min((1 - p) / 3, p / 3)
    drawn = np.sort(np.clip(generator(random_state).normal(p, sd, len(moduli)), 0, 1))
    xp = namespace(C)
    order = np.argsort(moduli, kind="stable") if xp is np else xp.argsort(moduli, stable=True)
    probabilities = xp.zeros_like(moduli)
    probabilities[order] = like(drawn, moduli)
    return from_upper(probabilities, C, 1)
