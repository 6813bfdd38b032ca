"""Thresholding rules: which entries of a covariance survive, and by how much they shrink."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from svnn._types import Array
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

#: Moduli that differ by at most this share are tied at a cut: by so much the same one differs where it is summed in
#: another order in single precision. It is the same for all dtypes, so that they agree about the threshold.
_TIE = 2.0**-18


def hard_threshold(C: Array, threshold: Any, keep_diagonal: bool = True) -> Array:
    r"""Set the entries smaller than ``threshold`` in modulus to zero (Def. 2).

    .. math:: \eta(C)_{ij} = c_{ij} \text{ if } |c_{ij}| \ge \text{threshold, else } 0

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    threshold : float or array of shape (N, N)
        The paper's :math:`\tau/\sqrt t`; an array gives each entry its own.
    keep_diagonal : bool, default=True
        Never threshold the variances. False is the paper's literal definition.

    Returns
    -------
    Array like ``C``

    Examples
    --------
    >>> import numpy as np
    >>> hard_threshold(np.array([[1.0, -0.3], [-0.3, 0.2]]), 0.25)
    array([[ 1. , -0.3],
           [-0.3,  0.2]])
    """
    return _apply(_hard, C, threshold, keep_diagonal)


def soft_threshold(C: Array, threshold: Any, keep_diagonal: bool = True) -> Array:
    r"""Move every entry towards zero by ``threshold``, stopping there (Def. 3).

    .. math:: \eta(C)_{ij} = \operatorname{sign}(c_{ij}) \max(|c_{ij}| - \text{threshold}, 0)

    Parameters and result are those of :func:`hard_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> soft_threshold(np.array([[1.0, -0.5], [-0.5, 1.0]]), 0.25)
    array([[ 1.  , -0.25],
           [-0.25,  1.  ]])
    """
    return _apply(_soft, C, threshold, keep_diagonal)


def scad_threshold(C: Array, threshold: Any, keep_diagonal: bool = True, a: float = 3.7) -> Array:
    r"""Smoothly clipped absolute deviation: soft for small entries, the identity for large ones.

    Soft up to ``2 threshold``, linear up to ``a threshold``, unchanged beyond (Fan & Li 2001).
    Parameters and result are those of :func:`hard_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> scad_threshold(np.array([[1.0, 0.9], [0.9, 1.0]]), 0.1)
    array([[1. , 0.9],
           [0.9, 1. ]])
    """
    if not a > 2:
        raise ValueError(f"a must be larger than 2, got {a!r}.")
    return _apply(lambda xp, c, s: _scad(xp, c, s, a), C, threshold, keep_diagonal)


def adaptive_lasso_threshold(C: Array, threshold: Any, keep_diagonal: bool = True, eta: float = 4.0) -> Array:
    r"""Shrink by a share that fades for large entries: :math:`c\,(1 - |\text{threshold}/c|^\eta)_+`.

    Parameters and result are those of :func:`hard_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> adaptive_lasso_threshold(np.array([[1.0, 0.2], [0.2, 1.0]]), 0.1)
    array([[1.    , 0.1875],
           [0.1875, 1.    ]])
    """
    if not eta > 0:
        raise ValueError(f"eta must be positive, got {eta!r}.")
    return _apply(lambda xp, c, s: _adaptive_lasso(xp, c, s, eta), C, threshold, keep_diagonal)


#: The rules by the names that ``AdaptiveThreshold(rule=...)`` takes.
RULES: dict[str, Callable[..., Any]] = {
    "hard": hard_threshold,
    "soft": soft_threshold,
    "scad": scad_threshold,
    "adaptive_lasso": adaptive_lasso_threshold,
}


def universal_threshold(n_samples: Any, n_features: int, scale: float = 2.0) -> Any:
    r"""Threshold for correlations above which an entry is unlikely to be noise.

    .. math:: \text{scale} \sqrt{\log N / t}

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

    It lies halfway between the smallest kept modulus and the next smaller one (zero where there is
    none), so that hard and soft thresholding keep the same pairs and no kept one becomes zero.
    Moduli that differ by rounding only are one. Pairs tied at the cut stay together, as with any
    threshold; :func:`largest_pairs` breaks ties to keep the exact number.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> threshold_for_density(C, 2 / 3)
    0.2
    """
    C = as_matrix(C)
    moduli = abs(upper_values(C))
    kept = pairs_for_density(C.shape[0], density)
    if kept == len(moduli):
        return 0.0
    if kept == 0:
        return float(np.nextafter(float(moduli.max()), np.inf)) * (1 + 1e-6)
    smallest_kept = float(_kth_largest(moduli, kept))
    smaller = moduli[moduli < clearly_below(smallest_kept)]
    return halfway(float(smaller.max()) if len(smaller) else 0.0, smallest_kept)


def clearly_below(modulus: Any) -> Any:
    """Return what a number has to be below to differ from ``modulus`` by more than rounding."""
    return modulus * (1 - _TIE)


def halfway(below: Any, above: Any) -> Any:
    """Return the middle of two numbers; it does not overflow."""
    return below + (above - below) / 2


def largest_pairs(C: Array, density: float) -> Array:
    """Return the mask of exactly the ``round(density * N(N-1)/2)`` largest pairs, and the diagonal.

    Ties at the cut are broken in row order.

    Examples
    --------
    >>> import numpy as np
    >>> largest_pairs(np.ones((3, 3)), 1 / 3)
    array([[ True,  True, False],
           [ True,  True, False],
           [False, False,  True]])
    """
    C = as_matrix(C)
    moduli = abs(upper_values(C))
    kept = pairs_for_density(C.shape[0], density)
    if kept == 0:
        mask = moduli < 0
    else:
        cut = _kth_largest(moduli, kept)
        mask, tied = moduli > cut, moduli == cut
        # The first tied pairs fill what the strictly larger ones leave free.
        mask = mask | (tied & (namespace(C).cumsum(tied, 0) <= kept - mask.sum()))
    return from_upper(mask, C, True)


def top_k_pairs(C: Array, k: int) -> Array:
    """Return the mask of each row's ``k`` largest off-diagonal entries, and the diagonal.

    A pair is kept where it is among the largest of either of its rows, so the mask is symmetric
    and a row can have more than ``k``. Ties are broken in column order.

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
    # The diagonal comes first in its row, ahead of the k others.
    moduli = xp.where(off_diagonal(C), abs(C), xp.inf + 0 * C)
    order: Any = np.argsort(-moduli, 1, kind="stable") if xp is np else xp.argsort(-moduli, stable=True)
    mask: Any = ~off_diagonal(C)
    order = order[:, : check_top_k(k) + 1]
    if xp is np:
        np.put_along_axis(mask, order, True, 1)
    else:
        mask.scatter_(1, order, True)
    return mask | mask.T


def top_k_thresholds(C: Array, k: int) -> Array:
    """Return for each row the threshold between its ``k`` largest off-diagonal moduli and the rest.

    It lies halfway between the last kept modulus and the next smaller one, as in
    :func:`threshold_for_density`, and is 0 where none is dropped. The threshold of a pair is the
    smaller one of its two rows.

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
    moduli = xp.where(off_diagonal(C), abs(C), 0 * C)
    ordered = xp.sort(moduli, axis=1) if xp is np else xp.sort(moduli, dim=1).values
    cut = ordered[:, -k]
    smaller = xp.where(moduli < clearly_below(cut)[:, None], moduli, 0 * moduli)
    return halfway(xp.amax(smaller, 1), cut)


def check_top_k(k: Any) -> int:
    """Return ``k`` where it is a number of neighbours."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"top_k must be an integer >= 1, got {k!r}.")
    return int(k)


def _apply(rule: Callable[..., Any], C: Array, threshold: Any, keep_diagonal: bool) -> Array:
    C = as_matrix(C)
    xp = namespace(C)
    threshold = like(as_floating(threshold, "threshold"), C)
    if not bool((threshold >= 0).all()):
        raise ValueError("threshold must be a number >= 0 (or an array of such numbers).")
    result = rule(xp, C, threshold)
    return xp.where(off_diagonal(C), result, C) if keep_diagonal else result


def _hard(xp: Any, c: Any, s: Any) -> Any:
    return xp.where(abs(c) >= s, c, 0 * c)


def _soft(xp: Any, c: Any, s: Any) -> Any:
    return xp.sign(c) * xp.clip(abs(c) - s, 0, None)


def _scad(xp: Any, c: Any, s: Any, a: float) -> Any:
    middle = ((a - 1) * c - xp.sign(c) * a * s) / (a - 2)
    return xp.where(abs(c) <= 2 * s, _soft(xp, c, s), xp.where(abs(c) <= a * s, middle, c))


def _adaptive_lasso(xp: Any, c: Any, s: Any, eta: float) -> Any:
    modulus = xp.where(c == 0, xp.ones_like(c), abs(c))
    return xp.where(abs(c) > s, c * (1 - (s / modulus) ** eta), 0 * c)


#: The rules on entries of any shape: ``rule(namespace, entries, thresholds)``.
ENTRYWISE: dict[str, Callable[..., Any]] = {
    "hard": _hard,
    "soft": _soft,
    "scad": lambda xp, c, s: _scad(xp, c, s, 3.7),
    "adaptive_lasso": lambda xp, c, s: _adaptive_lasso(xp, c, s, 4.0),
}


def _kth_largest(values: Any, k: int) -> Any:
    if is_torch(values):
        return values.kthvalue(len(values) - k + 1).values
    return np.partition(values, len(values) - k)[len(values) - k]
