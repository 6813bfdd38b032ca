"""Random numbers by position: the uniform of a pair of features is a function of the seed and the pair.

Nothing is drawn in order, so blocks, threads and devices do not change what a pair gets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn.functional._array import is_torch, namespace

# The constants of splitmix64 (Steele, Lea & Flood 2014).
GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def pair_uniforms(seed: int, rows: Any, columns: Any) -> Any:
    r"""Return a number in [0, 1) for each pair (row, column), the same wherever it is asked for.

    With splitmix64's mixing function :math:`h` and constant :math:`\gamma`, the upper 53 bits of

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
    rows, columns = _integers(rows, columns), _integers(columns, rows)
    keys = _mix(rows * _signed(GOLDEN) + _signed(seed + GOLDEN))
    bits = _mix(keys + columns * _signed(GOLDEN) + _signed(GOLDEN))
    # 2^-53 times an integer below 2^53 is exact.
    return namespace(bits).asarray(_shift(bits, 11), dtype=namespace(bits).float64) * 2.0**-53


def _mix(z: Any) -> Any:
    z = (z ^ _shift(z, 30)) * _signed(MIX_1)
    z = (z ^ _shift(z, 27)) * _signed(MIX_2)
    return z ^ _shift(z, 31)


def _shift(z: Any, by: int) -> Any:
    """Shift to the right without the sign: torch multiplies signed integers only."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    """Return the int64 of the same 64 bits; products wrap around alike."""
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value


def _integers(index: Any, other: Any) -> Any:
    if is_torch(index) or is_torch(other):
        torch = namespace(index if is_torch(index) else other)
        device = index.device if is_torch(index) else other.device
        return torch.atleast_1d(torch.as_tensor(index, dtype=torch.int64, device=device))
    return np.atleast_1d(np.asarray(index, dtype=np.int64))
