"""The two passes of a filter bank over the rows of a matrix, CSR or dense, as C functions that threads share.

``krylov`` turns signals x (B, N, F) into [x, Cx, …, C^K x] of shape (B, N, K+1, F); ``horner``, its
adjoint, turns (B, N, K+1, F) into the sum over k of C^k u_k. Samples go in groups whose values
lie side by side in a buffer of N rows of whole 64-byte vectors, which stays in cache for all K shifts.

Importing this module compiles it, or reads it from numba's cache on disk.
"""

from __future__ import annotations

import numpy as np
from numba import carray, cfunc, njit, types

from svnn.operators._cpu.vectors import (
    copy_vector,
    fetch_add,
    load,
    load_int,
    shift_block,
    shift_row,
    store,
)

# The fields of a job, an array of int64: counters that the threads advance and what to do, the shapes
# of the signals and of their groups, the addresses of the arrays.
NEXT, SLOT, ITEMS, HORNER, ROW_BLOCK, STEP = range(6)
B, N, F, K, GROUP, LANES, SIZE = range(6, 13)
VALUES, COLUMNS, ROWS, IN, OUT, SCRATCH = range(13, 19)  # a dense matrix has neither COLUMNS nor ROWS: 0
FIELDS = 19


@njit
def _read_group(zero, job, group, plane, planes, buffer):
    """Copy ``in[b, :, plane, :]`` of the group's samples side by side into the buffer's rows."""
    n, f, lanes, size = job[N], job[F], job[LANES], job[SIZE]
    first = group * job[GROUP]
    m = min(job[GROUP], job[B] - first)
    for i in range(n):
        if m == 1 and lanes == f:
            source = job[IN] + ((first * n + i) * planes + plane) * f * size
            for v in range(0, f * size, 64):
                copy_vector(source + v, buffer + i * lanes * size + v)
        else:
            for s in range(m):
                start = (((first + s) * n + i) * planes + plane) * f
                for c in range(f):
                    store(load(zero, job[IN], start + c), buffer, i * lanes + s * f + c)
            for c in range(m * f, lanes):
                store(zero, buffer, i * lanes + c)


@njit
def _keep_input(zero, job, group):
    """Copy the input to plane 0 of a Krylov result."""
    n, f, size, planes = job[N], job[F], job[SIZE], job[K] + 1
    first = group * job[GROUP]
    for row in range(first * n, min(first + job[GROUP], job[B]) * n):
        if f * size % 64 == 0:
            for v in range(0, f * size, 64):
                copy_vector(job[IN] + row * f * size + v, job[OUT] + row * planes * f * size + v)
        else:
            for c in range(f):
                store(load(zero, job[IN], row * f + c), job[OUT], row * planes * f + c)


@njit
def _rows_times(zero, job, i, n_rows, src, stride, add, add_stride, dst, dst_stride, copy, copy_stride):
    """Write rows ``i`` to ``i + n_rows`` of the matrix times ``src``, plus ``add``, to ``dst`` and ``copy``."""
    vectors = job[LANES] * job[SIZE] // 64
    if job[ROWS] == 0:
        shift_block(
            zero, job[VALUES], job[N], i, n_rows, src, stride, add, add_stride, dst, dst_stride, copy, copy_stride,
            vectors,
        )  # fmt: skip
    else:
        start, stop = load_int(job[ROWS], i), load_int(job[ROWS], i + 1)
        shift_row(zero, job[VALUES], job[COLUMNS], start, stop, src, stride, add, dst, copy, vectors)


@njit
def _shift(zero, job, group, k, lo, hi, src, stride, dst):
    """Shift rows ``lo`` to ``hi`` of a group: the k-th step of either pass."""
    n, f, lanes, size, order = job[N], job[F], job[LANES], job[SIZE], job[K]
    planes, width = order + 1, lanes * size
    first = group * job[GROUP]
    horner = job[HORNER] != 0
    last = k == 0 if horner else k == order
    whole = job[GROUP] == 1 and lanes == f  # one sample of whole vectors: no need to gather or scatter
    i = lo
    while i < hi:
        rows = 4 if job[ROWS] == 0 and i + 4 <= hi else 1
        row = dst + i * width
        plane = ((first * n + i) * planes + k) * f * size
        if whole and horner:
            to = job[OUT] + (first * n + i) * width if last else row
            _rows_times(zero, job, i, rows, src, stride, job[IN] + plane, planes * width, to, width, 0, 0)
        elif whole:
            to = 0 if last else row
            _rows_times(zero, job, i, rows, src, stride, 0, 0, to, width, job[OUT] + plane, planes * width)
        else:
            _rows_times(zero, job, i, rows, src, stride, 0, 0, row, width, 0, 0)
            for r in range(i, i + rows):
                _scatter(zero, job, group, k, r, dst + r * width, last)
        i += rows


@njit
def _scatter(zero, job, group, k, i, row, last):
    """Bring the row of a group, its samples side by side, to where it belongs; for Horner, add the input first."""
    n, f, planes = job[N], job[F], job[K] + 1
    first = group * job[GROUP]
    for s in range(min(job[GROUP], job[B] - first)):
        at = (((first + s) * n + i) * planes + k) * f
        for c in range(f):
            value = load(zero, row, s * f + c)
            if job[HORNER] == 0:
                store(value, job[OUT], at + c)
            elif last:
                store(value + load(zero, job[IN], at + c), job[OUT], ((first + s) * n + i) * f + c)
            else:
                store(value + load(zero, job[IN], at + c), row, s * f + c)


@njit
def _pass(zero, job, group, a, b):
    """Make all shifts of a group."""
    n, lanes, size, order = job[N], job[LANES], job[SIZE], job[K]
    if job[HORNER] != 0:
        _read_group(zero, job, group, order, order + 1, a)
    else:
        _keep_input(zero, job, group)
        _read_group(zero, job, group, 0, 1, a)
    for step in range(order):
        k = order - 1 - step if job[HORNER] != 0 else step + 1
        _shift(zero, job, group, k, 0, n, a, lanes * size, b)
        a, b = b, a


@njit
def _rows(zero, job, item, a, b):
    """Make one block of rows of one shift of the first group: for batches too small to share out."""
    n, lanes, size, order, step = job[N], job[LANES], job[SIZE], job[K], job[STEP]
    if step % 2:
        a, b = b, a
    k = order - 1 - step if job[HORNER] != 0 else step + 1
    lo = item * job[ROW_BLOCK]
    _shift(zero, job, 0, k, lo, min(lo + job[ROW_BLOCK], n), a, lanes * size, b)


@njit
def _read_first(zero, job, a):
    if job[HORNER] != 0:
        _read_group(zero, job, 0, job[K], job[K] + 1, a)
    else:
        _keep_input(zero, job, 0)
        _read_group(zero, job, 0, 0, 1, a)


@njit
def _work(zero, job, address):
    """Take items until none is left. Every thread runs this; a slot of scratch is its own."""
    buffer = job[N] * job[LANES] * job[SIZE]
    by_rows = job[ROW_BLOCK] > 0
    a = job[SCRATCH]
    if not by_rows:
        a += 2 * buffer * fetch_add(address + 8 * SLOT, 1)
    if by_rows and job[STEP] < 0:
        if fetch_add(address + 8 * NEXT, 1) == 0:
            _read_first(zero, job, a)
        return
    while True:
        item = fetch_add(address + 8 * NEXT, 1)
        if item >= job[ITEMS]:
            return
        if by_rows:
            _rows(zero, job, item, a, a + buffer)
        else:
            _pass(zero, job, item, a, a + buffer)


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
