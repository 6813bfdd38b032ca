"""Kendall's rank correlation of all pairs of features, as products of signs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from svnn._types import Array, ColumnLike, DataLike
from svnn.functional._array import as_floating, is_torch, like, namespace
from svnn.functional.moments import check_weight, observations

#: Pairs of observations whose signs are multiplied at once. Their sums of signs are exact in single precision.
_PAIRS = 4096


def kendall_tau(X: DataLike, sample_weight: ColumnLike | None = None) -> Any:
    r"""Return Kendall's :math:`\tau_b` of all pairs of features, of shape (N, N).

    .. math:: \tau_{ij} = \frac{\sum_{k<l} s_{kl,i}\, s_{kl,j}}{\sqrt{\sum_{k<l} s_{kl,i}^2 \sum_{k<l} s_{kl,j}^2}},
        \quad s_{kl,i} = \operatorname{sign}(x_{ki} - x_{li})

    Parameters
    ----------
    X : ndarray or Tensor of shape (t, N) or (t, N, F)
        Where values are missing (NaN), each pair of features is compared over the observations where both are known.
    sample_weight : array of shape (t,), optional
        A pair of observations counts with the product of both weights.

    Notes
    -----
    It takes :math:`t^2 N^2` operations, all of them in matrix products. A feature without two different values has a
    :math:`\tau` of zero.

    References
    ----------
    M. G. Kendall, The treatment of ties in ranking problems, Biometrika 1945.

    Examples
    --------
    >>> import numpy as np
    >>> kendall_tau(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])).round(3)
    array([[1.   , 0.333],
           [0.333, 1.   ]])
    """
    sample: Any = as_floating(X)
    xp = namespace(sample)
    rows, weight = observations(sample, check_weight(sample_weight, sample))
    known = ~xp.isnan(rows)
    complete, dtype = bool(known.all()), "float32" if sample_weight is None else "float64"
    weight = _cast(weight, dtype)
    nothing = _cast(known[:0], "float64")
    agree = untied = nothing.T @ nothing
    for earlier, later in _pairs_of_observations(len(rows)):
        with np.errstate(over="ignore", invalid="ignore"):
            signs = xp.sign(rows[later] - rows[earlier])
        both = known[later] & known[earlier]
        signs = _cast(signs if complete else xp.where(both, signs, xp.zeros_like(signs)), dtype)
        # Another array also where all weights are one, for the reason given in weighted_moments.
        weighted = signs * (weight[later] * weight[earlier])[:, None]
        agree = agree + weighted.T @ signs
        if not complete:  # entry i, j: differences of feature i where j is known
            untied = untied + abs(weighted).T @ _cast(both, dtype)
    size = agree.diagonal()
    squares = size[:, None] * size if complete else untied * untied.T
    varies = squares > 0
    tau = xp.where(varies, agree / xp.where(varies, squares, 1 + 0 * squares) ** 0.5, 0 * squares)
    return like(xp.clip((tau + tau.T) / 2, -1, 1), sample)


def _pairs_of_observations(t: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the places of all pairs of observations, some thousands at a time."""
    height = max(_PAIRS // t, 1)
    for start in range(0, t - 1, height):
        ends = np.arange(start, min(start + height, t - 1))
        earlier = np.repeat(ends, t - 1 - ends)
        yield earlier, np.concatenate([np.arange(end + 1, t) for end in ends])


def _cast(values: Array, dtype: str) -> Array:
    """Return the values in a precision, given by its name."""
    wanted: Any = getattr(namespace(values), dtype)
    return values.to(wanted) if is_torch(values) else values.astype(wanted)
