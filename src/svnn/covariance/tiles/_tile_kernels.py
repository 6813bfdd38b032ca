"""The loops over every tile, compiled by numba. Only :func:`svnn._compiled.load` imports this file."""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-any-return"

from __future__ import annotations

import numpy as np

from svnn._jit import cached_njit
from svnn.covariance.tiles._observations import CHUNK
from svnn.functional.masks import GOLDEN, MIX_1, MIX_2

_STEP = CHUNK  # entries tested at once
_WITHOUT_SIGN = np.int32(0x7FFFFFFF)  # all bits of a float32 but the sign
_GOLDEN, _MIX_1, _MIX_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)


@cached_njit(nogil=True, inline="always")
def _excess(bits, level, levels):
    """Return a positive number where the bits of some magnitude exceed the smaller one of both levels' bits.

    Positive floats are ordered as their bits are, and loops over integers become vector code.
    """
    excess = np.int32(0)
    for b in range(_STEP):
        excess = max(excess, (bits[b] & _WITHOUT_SIGN) - min(level, levels[b]))
    return excess


@cached_njit(nogil=True)
def compress(tile, bits, row_levels, column_levels, counts, columns, values):
    """Write the entries above their level, row by row, and their number in each row; return how many there are.

    An entry's level is the smaller one of its row's and its column's. Where there are more entries
    than room, nothing beyond it is written. Entries and levels come as the bits of float32.
    """
    found, room = 0, len(columns)
    for a in range(tile.shape[0]):
        before, level = found, row_levels[a]
        for first in range(0, tile.shape[1], _STEP):
            run, levels = bits[a, first : first + _STEP], column_levels[first : first + _STEP]
            if _excess(run, level, levels) == 0:
                continue
            for b in range(_STEP):
                if run[b] & _WITHOUT_SIGN > min(level, levels[b]):
                    if found < room:
                        columns[found] = first + b
                        values[found] = tile[a, first + b]
                    found += 1
        counts[a] = found - before
    return found


@cached_njit(nogil=True)
def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@cached_njit(nogil=True)
def draw(tile, first_row, first_column, slope, floor, seed):
    """Set the entries to zero whose uniform is not below ``max(slope * |entry|, floor)``."""
    for a in range(tile.shape[0]):
        key = _mix(np.uint64(seed) + _GOLDEN * np.uint64(first_row + a + 1))
        for b in range(tile.shape[1]):
            bits = _mix(key + _GOLDEN * np.uint64(first_column + b + 1))
            uniform = np.float64(np.int64(bits >> np.uint64(11))) * 2.0**-53
            if uniform >= max(slope * np.float64(abs(tile[a, b])), floor):
                tile[a, b] = 0


@cached_njit(nogil=True)
def histogram(tile, bits, counts, sums):
    """Count the magnitudes by the upper 16 of their 31 bits, and add them up."""
    for a in range(tile.shape[0]):
        for b in range(tile.shape[1]):
            bin_ = (bits[a, b] & _WITHOUT_SIGN) >> 15
            counts[bin_] += 1
            sums[bin_] += abs(tile[a, b])


@cached_njit(nogil=True)
def histogram_inside(bits, low, high, counts):
    """Count the magnitudes in two bins of :func:`histogram` by their remaining 15 bits."""
    for a in range(bits.shape[0]):
        for b in range(bits.shape[1]):
            magnitude = bits[a, b] & _WITHOUT_SIGN
            if magnitude >> 15 == low:
                counts[0, magnitude & 0x7FFF] += 1
            elif magnitude >> 15 == high:
                counts[1, magnitude & 0x7FFF] += 1


@cached_njit(nogil=True)
def _replace_smallest(heap, value):
    """Put ``value`` in the place of the smallest one, which a heap has first."""
    at, size = 0, len(heap)
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@cached_njit(nogil=True)
def largest(bits, first_row, first_column, heaps, smallest):
    """Enter the magnitudes into the heaps of their row's and of their column's largest ones, all as bits."""
    for a in range(bits.shape[0]):
        i = first_row + a
        for first in range(0, bits.shape[1], _STEP):
            run = bits[a, first : first + _STEP]
            others = smallest[first_column + first : first_column + first + _STEP]
            if _excess(run, smallest[i], others) == 0:
                continue
            for b in range(_STEP):
                magnitude, j = run[b] & _WITHOUT_SIGN, first_column + first + b
                if magnitude > smallest[i]:
                    _replace_smallest(heaps[i], magnitude)
                    smallest[i] = heaps[i, 0]
                if magnitude > smallest[j]:
                    _replace_smallest(heaps[j], magnitude)
                    smallest[j] = heaps[j, 0]


@cached_njit(nogil=True)
def symmetric(counts, columns, values, diagonal, unit, starts, indices, data):
    """Write the CSR arrays of the symmetric matrix with these entries above its diagonal.

    Rows are read in order, so a row's entries left of the diagonal arrive sorted and before its own turn.
    """
    n = len(counts)
    following = np.zeros(n, np.int64)
    for j in columns:
        following[j] += 1
    starts[0] = 0
    for i in range(n):
        starts[i + 1] = starts[i] + following[i] + (diagonal[i] != 0) + counts[i]
        following[i] = starts[i]
    k = 0
    for i in range(n):
        at = following[i]
        if diagonal[i] != 0:
            indices[at] = i
            data[at] = diagonal[i]
            at += 1
        for _ in range(counts[i]):
            j = columns[k]
            value = values[k] * unit[i] * unit[j]
            indices[at] = j
            data[at] = value
            at += 1
            indices[following[j]] = i
            data[following[j]] = value
            following[j] += 1
            k += 1
