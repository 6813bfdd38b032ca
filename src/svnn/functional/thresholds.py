"""Thresholding rules: which entries of a covariance are kept, and by how much they shrink; weights by distance.

The *size* of an entry is its absolute value :math:`|c_{ij}|`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from svnn._types import AnyArray, Array, Numbers, Threshold
from svnn.functional._array import (
    as_floating,
    as_matrix,
    from_upper,
    is_torch,
    like,
    namespace,
    off_diagonal,
    to_numpy,
    unit_interval,
    upper_values,
)

#: Sizes that differ by at most this relative amount are tied at a cut: sums of the same covariance in another order
#: differ by that in single precision. All dtypes use the same tolerance, so that they agree about the threshold.
_TIE = 2.0**-18


#: A rule for entries of any shape, computed with the functions of ``xp``, which is numpy or torch:
#: ``rule(xp, entries, threshold)``.
EntryRule: TypeAlias = Callable[[ModuleType, Any, Any], Any]


# -- the rules for matrices -----------------------------------------------------------------------


def hard_threshold(C: Array, threshold: Threshold, keep_diagonal: bool = True) -> Array:
    r"""Set to zero the entries whose absolute value is below ``threshold`` (Definition 2 of the paper).

    .. math:: \eta(C)_{ij} = c_{ij} \text{ if } |c_{ij}| \ge \text{threshold, else } 0

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    threshold : float or array of shape (N, N)
        :math:`\tau/\sqrt t` in the paper. An array gives each entry its own threshold.
    keep_diagonal : bool, default=True
        Never threshold the variances. False thresholds them too, as the definition in the paper does.

    Returns
    -------
    ndarray or Tensor of shape (N, N)

    Examples
    --------
    >>> import numpy as np
    >>> hard_threshold(np.array([[1.0, -0.3], [-0.3, 0.2]]), 0.25)
    array([[ 1. , -0.3],
           [-0.3,  0.2]])
    """
    return _apply(_hard, C, threshold, keep_diagonal)


def soft_threshold(C: Array, threshold: Threshold, keep_diagonal: bool = True) -> Array:
    r"""Move every entry towards zero by ``threshold``, and no further than zero (Definition 3 of the paper).

    .. math:: \eta(C)_{ij} = \operatorname{sign}(c_{ij}) \max(|c_{ij}| - \text{threshold}, 0)

    Parameters and result are those of :func:`hard_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, -0.5], [-0.5, 1.0]])
    >>> float(soft_threshold(C, 0.25)[0, 1])
    -0.25
    """
    return _apply(_soft, C, threshold, keep_diagonal)


def scad_threshold(C: Array, threshold: Threshold, keep_diagonal: bool = True, a: float = 3.7) -> Array:
    r"""Shrink small entries as :func:`soft_threshold` does, and leave large ones unchanged.

    This is the rule of the smoothly clipped absolute deviation (Fan & Li 2001): soft thresholding up to
    ``2 threshold``, linear up to ``a threshold``, the identity beyond. Parameters and result are otherwise those of
    :func:`hard_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> scad_threshold(np.array([[1.0, 0.9], [0.9, 1.0]]), 0.1)
    array([[1. , 0.9],
           [0.9, 1. ]])
    """
    return _apply(partial(_scad, a=a), C, threshold, keep_diagonal)


def adaptive_lasso_threshold(C: Array, threshold: Threshold, keep_diagonal: bool = True, eta: float = 4.0) -> Array:
    r"""Multiply every entry by :math:`(1 - |\text{threshold}/c_{ij}|^\eta)_+`, which is close to 1 for large entries.

    Parameters and result are otherwise those of :func:`hard_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.2], [0.2, 1.0]])
    >>> float(adaptive_lasso_threshold(C, 0.1)[0, 1])
    0.1875
    """
    return _apply(partial(_adaptive_lasso, eta=eta), C, threshold, keep_diagonal)


#: The rules by the names that ``AdaptiveThreshold(rule=...)`` takes.
RULES: dict[str, Callable[..., Any]] = {
    "hard": hard_threshold,
    "soft": soft_threshold,
    "scad": scad_threshold,
    "adaptive_lasso": adaptive_lasso_threshold,
}


def _apply(rule: EntryRule, C: Array, threshold: Threshold, keep_diagonal: bool) -> Array:
    C, limit = as_matrix(C), as_floating(threshold, "threshold")
    if not bool((limit >= 0).all()):
        raise ValueError("threshold must be a number >= 0 (or an array of such numbers).")
    return apply_rule(rule, C, limit, keep_diagonal)


def apply_rule(rule: EntryRule, C: Array, threshold: Threshold, keep_diagonal: bool) -> Array:
    """Return a matrix after a rule; it and the threshold have been checked."""
    xp = namespace(C)
    result = rule(xp, C, like(threshold, C))
    return xp.where(off_diagonal(C), result, C) if keep_diagonal else result


# -- the rules for entries ------------------------------------------------------------------------


def _hard(xp: ModuleType, entries: Array, threshold: Threshold) -> Array:
    return xp.where(abs(entries) >= threshold, entries, 0 * entries)


def _soft(xp: ModuleType, entries: Array, threshold: Threshold) -> Array:
    return xp.sign(entries) * xp.clip(abs(entries) - threshold, 0, None)


def _scad(xp: ModuleType, entries: Array, threshold: Threshold, a: float = 3.7) -> Array:
    if not a > 2:
        raise ValueError(f"a must be larger than 2, got {a!r}.")
    middle = ((a - 1) * entries - xp.sign(entries) * a * threshold) / (a - 2)
    return xp.where(
        abs(entries) <= 2 * threshold,
        _soft(xp, entries, threshold),
        xp.where(abs(entries) <= a * threshold, middle, entries),
    )


def _adaptive_lasso(xp: ModuleType, entries: Array, threshold: Threshold, eta: float = 4.0) -> Array:
    if not eta > 0:
        raise ValueError(f"eta must be positive, got {eta!r}.")
    divisor = xp.where(entries == 0, xp.ones_like(entries), abs(entries))
    return xp.where(abs(entries) > threshold, entries * (1 - (threshold / divisor) ** eta), 0 * entries)


#: The same rules for entries of any shape.
ENTRYWISE: dict[str, EntryRule] = {"hard": _hard, "soft": _soft, "scad": _scad, "adaptive_lasso": _adaptive_lasso}


# -- thresholds -----------------------------------------------------------------------------------


def universal_threshold(n_samples: Numbers, n_features: int, scale: float = 2.0) -> Numbers:
    r"""Return the threshold for correlations above which an entry is unlikely to be noise.

    .. math:: \text{scale} \sqrt{\log N / t}

    Parameters
    ----------
    n_samples : float or array
        The number t of samples; an array gives each pair of features its own number.
    n_features : int
        The number N of features.
    scale : float, default=2.0

    Examples
    --------
    >>> round(universal_threshold(n_samples=400, n_features=100), 3)
    0.215
    """
    if not isinstance(scale, Real) or not 0 <= scale < math.inf:
        raise ValueError(f"scale must not be negative, infinite or NaN, got {scale!r}.")
    if not n_features >= 1 or not np.all(to_numpy(n_samples) > 0):
        raise ValueError(f"n_samples must be positive and n_features at least 1, got {n_samples!r} and {n_features!r}.")
    return scale * (math.log(n_features) / n_samples) ** 0.5


def pairs_for_density(n_features: int, density: float) -> int:
    """Return ``round(density * N(N-1)/2)``, the number of off-diagonal pairs to keep.

    Examples
    --------
    >>> pairs_for_density(5, 0.25)
    2
    """
    return round(unit_interval(density, "density") * (n_features * (n_features - 1) // 2))


def threshold_for_density(C: Array, density: float) -> float:
    """Return the threshold that keeps ``round(density * N(N-1)/2)`` off-diagonal pairs.

    It lies halfway between the smallest absolute value that is kept and the next smaller one (or zero, where there is
    no smaller one). So hard and soft thresholding keep the same pairs: soft thresholding makes no kept pair zero.
    Absolute values that differ only by rounding count as equal. Pairs that are equal at the cut are kept or dropped
    together, as with any threshold; :func:`largest_pairs` breaks such ties to keep the exact number.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> threshold_for_density(C, 2 / 3)
    0.2
    """
    C = as_matrix(C)
    sizes = abs(upper_values(C))
    kept = pairs_for_density(C.shape[0], density)
    if kept == len(sizes):
        return 0.0
    if kept == 0:
        return float(np.nextafter(float(sizes.max()), np.inf)) * (1 + 1e-6)
    smallest_kept = float(_kth_largest(sizes, kept))
    smaller = sizes[sizes < clearly_below(smallest_kept)]
    return halfway(float(smaller.max()) if len(smaller) else 0.0, smallest_kept)


def clearly_below(size: Numbers) -> Numbers:
    """Return the number below which a size differs from ``size`` by more than rounding."""
    return size * (1 - _TIE)


def halfway(below: Numbers, above: Numbers) -> Numbers:
    """Return the middle of two numbers, without the overflow that their sum may have."""
    return below + (above - below) / 2


def largest_pairs(C: Array, density: float) -> Array:
    """Return a mask of the ``round(density * N(N-1)/2)`` off-diagonal pairs with the largest absolute values.

    The mask is true on the diagonal too. Ties at the cut are broken in row order, so the number of pairs is exact.

    Examples
    --------
    >>> import numpy as np
    >>> largest_pairs(np.ones((3, 3)), 1 / 3)
    array([[ True,  True, False],
           [ True,  True, False],
           [False, False,  True]])
    """
    C = as_matrix(C)
    sizes = abs(upper_values(C))
    kept = pairs_for_density(C.shape[0], density)
    if kept == 0:
        mask = sizes < 0
    else:
        cut = _kth_largest(sizes, kept)
        mask, tied = sizes > cut, sizes == cut
        # The first tied pairs fill the places that the pairs above the cut leave.
        mask = mask | (tied & (namespace(C).cumsum(tied, 0) <= kept - mask.sum()))
    return from_upper(mask, C, True)


def top_k_pairs(C: Array, k: int) -> Array:
    """Return a mask of the ``k`` off-diagonal entries of each row that have the largest absolute values.

    A pair is kept where it is among the largest ones of either of its rows, so the mask is symmetric, and a row can
    have more than ``k``. The mask is true on the diagonal too. Ties are broken in column order.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> top_k_pairs(C, 1)
    array([[ True,  True, False],
           [ True,  True,  True],
           [False,  True,  True]])
    """
    C = as_matrix(C)
    xp = namespace(C)
    # An infinite diagonal comes first in its row, ahead of the k others.
    sizes = xp.where(off_diagonal(C), abs(C), xp.inf + 0 * C)
    order: Any = np.argsort(-sizes, 1, kind="stable") if xp is np else xp.argsort(-sizes, stable=True)
    order = order[:, : check_top_k(k) + 1]
    mask: Any = ~off_diagonal(C)
    if xp is np:
        np.put_along_axis(mask, order, True, 1)
    else:
        mask.scatter_(1, order, True)
    return mask | mask.T


def top_k_thresholds(C: Array, k: int) -> Array:
    """Return for each row the threshold between its ``k`` largest off-diagonal entries and the others.

    It lies halfway between the absolute values of the last entry that is kept and of the next smaller one, as in
    :func:`threshold_for_density`. It is 0 where no entry is dropped. The threshold of a pair is the smaller one of the
    thresholds of its two rows.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> top_k_thresholds(C, 1)
    array([0.3, 0.4, 0.2])
    """
    C = as_matrix(C)
    xp = namespace(C)
    if check_top_k(k) >= len(C) - 1:
        return 0 * C.diagonal()
    sizes = xp.where(off_diagonal(C), abs(C), 0 * C)
    ordered = xp.sort(sizes, axis=1) if xp is np else xp.sort(sizes, dim=1).values
    cut = ordered[:, -k]
    smaller = xp.where(sizes < clearly_below(cut)[:, None], sizes, 0 * sizes)
    return halfway(xp.amax(smaller, 1), cut)


def check_top_k(k: object) -> int:
    """Return ``k``, a number of neighbours, as an int."""
    if isinstance(k, bool) or not isinstance(k, Integral) or int(k) < 1:
        raise ValueError(f"top_k must be an integer >= 1, got {k!r}.")
    return int(k)


def _kth_largest(values: AnyArray, k: int) -> Any:
    if is_torch(values):
        return values.kthvalue(len(values) - k + 1).values
    return np.partition(values, len(values) - k)[len(values) - k]


# -- weights by the distance of two ordered features ------------------------------------------------


def band_weights(distance: AnyArray, width: int) -> Any:
    r"""Return 1 up to a distance of ``width``, 0 beyond (Bickel & Levina 2008).

    Parameters
    ----------
    distance : array or Tensor
        :math:`|i - j|`, of any shape.
    width : int

    Examples
    --------
    >>> import numpy as np
    >>> band_weights(np.arange(5), 2)
    array([1., 1., 1., 0., 0.])
    """
    return 1.0 * (distance <= width)


def taper_weights(distance: AnyArray, width: int) -> Any:
    r"""Return weights that fall from 1 at half of ``width`` to 0 at ``width`` (Cai, Zhang & Zhou 2010).

    .. math:: w = \min(1, \max(0, 2 - 2 |i - j| / \text{width}))

    Parameters are those of :func:`band_weights`. With a width of 0 only the variances stay.

    Examples
    --------
    >>> import numpy as np
    >>> taper_weights(np.arange(6), 4)
    array([1. , 1. , 1. , 0.5, 0. , 0. ])
    """
    xp = namespace(distance)
    return xp.clip(2 - 2.0 * distance / max(width, 1), 0, 1)
