"""Random numbers by position: the random number of a pair of features is a function of the seed and of the pair.

The numbers are not drawn one after the other, so blocks, threads and devices do not change what a pair gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from svnn._types import AnyArray, Array
from svnn.functional._array import is_torch, namespace

if TYPE_CHECKING:
    from torch import Tensor

# The constants of splitmix64 (Steele, Lea & Flood 2014).
GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@overload
def pair_uniforms(seed: int, rows: np.ndarray | int, columns: np.ndarray | int) -> np.ndarray: ...
@overload
def pair_uniforms(seed: int, rows: Tensor, columns: Tensor | int) -> Tensor: ...
@overload
def pair_uniforms(seed: int, rows: int, columns: Tensor) -> Tensor: ...
def pair_uniforms(seed: int, rows: AnyArray | int, columns: AnyArray | int) -> AnyArray:
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
