"""Batch norm and a rectifier in two passes over the data each way, as C functions that threads share.

Importing this module compiles it, or reads it from numba's cache on disk.
"""

from __future__ import annotations

import numpy as np
from numba import carray, cfunc, njit, types

from svnn.operators._cpu.vectors import fetch_add, load, store

# The fields of a job, an array of int64: the next block of rows and what to do with it, shapes, addresses.
NEXT, MODE, ROWS, F, BLOCK, SIZE = range(6)
Y, GRADIENT, OUT, FACTORS, SUMS = range(6, 11)
FIELDS = 11

#: What to do. FACTORS holds rows of F values: slope, scale, offset, pivot, and three for the gradient. All
#: formulas are in y - pivot, which loses no digits to a large mean.
MOMENTS, APPLY, GRADIENT_SUMS, GRADIENT_APPLY = range(4)


@njit
def _block(zero, job, item):
    f, mode = job[F], job[MODE]
    y, g, out, factors = job[Y], job[GRADIENT], job[OUT], job[FACTORS]
    first, second = job[SUMS] + 2 * item * f * job[SIZE], job[SUMS] + (2 * item + 1) * f * job[SIZE]
    for row in range(item * job[BLOCK], min((item + 1) * job[BLOCK], job[ROWS])):
        at = row * f
        if mode == MOMENTS:
            for c in range(f):
                d = load(zero, y, at + c) - load(zero, factors, 3 * f + c)
                store(load(zero, first, c) + d, first, c)
                store(load(zero, second, c) + d * d, second, c)
        elif mode == APPLY:
            for c in range(f):
                d = load(zero, y, at + c) - load(zero, factors, 3 * f + c)
                v = load(zero, factors, f + c) * d + load(zero, factors, 2 * f + c)
                store(v if v > zero else v * load(zero, factors, c), out, at + c)
        elif mode == GRADIENT_SUMS:
            for c in range(f):
                d = load(zero, y, at + c) - load(zero, factors, 3 * f + c)
                v = load(zero, factors, f + c) * d + load(zero, factors, 2 * f + c)
                h = load(zero, g, at + c)
                h = h if v > zero else h * load(zero, factors, c)
                store(load(zero, first, c) + h, first, c)
                store(load(zero, second, c) + h * d, second, c)
        else:
            for c in range(f):
                d = load(zero, y, at + c) - load(zero, factors, 3 * f + c)
                v = load(zero, factors, f + c) * d + load(zero, factors, 2 * f + c)
                h = load(zero, g, at + c)
                h = h if v > zero else h * load(zero, factors, c)
                linear = load(zero, factors, 5 * f + c) * d
                store(load(zero, factors, 4 * f + c) * h + linear + load(zero, factors, 6 * f + c), out, at + c)


@njit
def _work(zero, job, address):
    blocks = -(-job[ROWS] // job[BLOCK])
    while True:
        item = fetch_add(address + 8 * NEXT, 1)
        if item >= blocks:
            return
        _block(zero, job, item)


@cfunc(types.void(types.CPointer(types.int64)), cache=True)
def work32(pointer):
    """Work on a job in single precision."""
    job = carray(pointer, (FIELDS,))
    _work(np.float32(0), job, job.ctypes.data)


@cfunc(types.void(types.CPointer(types.int64)), cache=True)
def work64(pointer):
    """Work on a job in double precision."""
    job = carray(pointer, (FIELDS,))
    _work(np.float64(0), job, job.ctypes.data)
