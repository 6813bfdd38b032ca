"""Stochastic sparsification: the probabilities of keeping entries (ACV, RCV), and random realisations (Definition 4).

The *size* of an entry is its absolute value :math:`|c_{ij}|`. Random numbers are functions of a seed and of the pair of
features, not drawn one after the other, so that blocks, threads and devices do not change them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn._types import AnyArray, Array, RandomState
from svnn.functional._array import (
    as_matrix,
    from_upper,
    generator,
    is_torch,
    like,
    namespace,
    unit_interval,
    upper_indices,
    upper_values,
)
from svnn.functional._centring import power_of_two

#: Smallest probability of keeping a non-zero entry where kept entries are divided by it, so that they stay finite.
PROBABILITY_FLOOR = 1e-3
# The constants of splitmix64 (Steele, Lea & Flood 2014).
GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


# -- probabilities ----------------------------------------------------------------------------------


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
    """Return ``min(1, slope * |c_ij|)``, and 1 on the diagonal; with an infinite slope 1 for all non-zero entries."""
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

    It is infinite where ``density`` requires every non-zero entry, and zero where all entries are zero.

    Examples
    --------
    >>> import numpy as np
    >>> acv_slope(np.array([[4.0, -0.4], [-0.4, 0.5]]))
    0.25
    """
    C = as_matrix(C)
    if max_over not in ("all", "offdiagonal"):
        raise ValueError(f'max_over must be "all" or "offdiagonal", got {max_over!r}.')
    sizes = abs(upper_values(C))
    if density is not None:
        return _slope_for_density(sizes, unit_interval(density, "density"))
    pool = abs(C) if max_over == "all" else sizes
    return slope_for_maximum(float(pool.max()) if len(pool) else 0.0)


def slope_for_maximum(largest: float) -> float:
    """Return the slope at which the entry of size ``largest`` has probability one."""
    return 1 / largest if largest > 0 else 0.0


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
    # others[m] sums the values after the m largest ones, the smallest first, which rounds least.
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


# -- realisations -----------------------------------------------------------------------------------


def floor_probabilities(probabilities: Array, floor: float = PROBABILITY_FLOOR) -> Array:
    """Raise probabilities that are below ``floor`` to ``floor``; unbiased sparsification divides by them.

    Examples
    --------
    >>> import numpy as np
    >>> floor_probabilities(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[1.   , 0.001],
           [0.001, 1.   ]])
    """
    return namespace(probabilities).clip(probabilities, floor, None)


def mask_seed(random_state: RandomState) -> int:
    """Draw the seed from which the random numbers of one realisation follow."""
    return int(generator(random_state).integers(2**63))


def sparsify(C: Array, probabilities: Array, random_state: RandomState = None, unbiased: bool = False) -> Array:
    r"""Draw one realisation of the stochastically sparsified covariance (Definition 4 of the paper).

    .. math:: \tilde C = M \odot C, \quad m_{ij} = m_{ji} \sim \text{Bernoulli}(p_{ij}), \quad m_{ii} = 1

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    probabilities : array like ``C``
        The probability of keeping each entry, symmetric. The diagonal is always kept.
    random_state : int, Generator or None
        The same seed gives the same mask for numpy and torch, on every device: the draws are
        :func:`svnn.functional.pair_uniforms` of a seed that is drawn once.
    unbiased : bool, default=False
        Divide each off-diagonal entry that is kept by its probability, so that the mean over realisations is ``C``.
        Small probabilities are raised first, see :func:`floor_probabilities`.

    Returns
    -------
    Array like ``C``, symmetric

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> sparsify(C, np.array([[1.0, 0.0], [0.0, 1.0]]), random_state=0)
    array([[1., 0.],
           [0., 1.]])
    """
    C = as_matrix(C)
    probabilities = as_matrix(probabilities, "probabilities")
    if probabilities.shape != C.shape:
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)}, C has {tuple(C.shape)}; they must agree."
        )
    if not bool(((probabilities >= 0) & (probabilities <= 1)).all()):
        raise ValueError("probabilities must lie between 0 and 1.")
    keep = upper_values(probabilities)
    if unbiased:
        keep = floor_probabilities(keep)
    # The draws stay in double precision: rounded to the dtype of C, a draw could reach 1, and an entry of probability 1
    # would be dropped.
    kept = pair_uniforms(mask_seed(random_state), *upper_indices(C)) < keep
    weights = kept / keep if unbiased else kept
    return from_upper(namespace(C).asarray(weights, dtype=C.dtype), C, 1) * C


# -- random numbers by position ---------------------------------------------------------------------


def pair_uniforms(seed: int, rows: AnyArray | int, columns: AnyArray | int) -> Any:
    r"""Return a random number in [0, 1) for each pair (row, column), the same for every call with this seed.

    With splitmix64's mixing function :math:`h` and constant :math:`\gamma`, the number is made of the upper 53 bits of

    .. math:: h\big(h(\text{seed} + \gamma (i + 1)) + \gamma (j + 1)\big)

    Parameters
    ----------
    seed : int
        Taken modulo :math:`2^{64}`.
    rows, columns : integer ndarrays or Tensors, or ints
        Broadcast against each other. For a symmetric matrix ask for :math:`i < j`.

    Returns
    -------
    ndarray or Tensor of float64

    Examples
    --------
    >>> import numpy as np
    >>> pair_uniforms(0, 3, np.arange(4)).round(3)
    array([0.305, 0.64 , 0.556, 0.902])
    >>> pair_uniforms(0, 3, 2).round(3)
    array([0.556])
    """
    i: Any = _integers(rows, columns)
    j: Any = _integers(columns, rows)
    keys = _mix(i * _signed(GOLDEN) + _signed(seed + GOLDEN))
    bits = _mix(keys + j * _signed(GOLDEN) + _signed(GOLDEN))
    # 2^-53 times an integer below 2^53 is exact.
    return namespace(bits).asarray(_shift(bits, 11), dtype=namespace(bits).float64) * 2.0**-53


def _mix(z: Array) -> Array:
    """Return splitmix64's mixing function h of 64-bit integers."""
    z = (z ^ _shift(z, 30)) * _signed(MIX_1)
    z = (z ^ _shift(z, 27)) * _signed(MIX_2)
    return z ^ _shift(z, 31)


def _shift(z: Array, by: int) -> Array:
    """Shift the bits to the right and fill up with zeros; ``>>`` alone would fill up with the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    """Return the signed integer of the same 64 bits; torch multiplies only these, and products wrap around alike."""
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value


def _integers(index: AnyArray | int, other: AnyArray | int) -> AnyArray:
    """Return ``index`` as 64-bit integers, as a tensor where either of the two is one."""
    tensor = index if is_torch(index) else other
    if is_torch(tensor):
        torch = namespace(tensor)
        return torch.atleast_1d(torch.as_tensor(index, dtype=torch.int64, device=tensor.device))
    return np.atleast_1d(np.asarray(index, dtype=np.int64))
