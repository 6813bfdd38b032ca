"""The two passes of a filter bank over the rows of a CSR matrix, as C functions that threads share.

``krylov`` turns signals x (B, N, F) into [x, Cx, …, C^K x] of shape (B, N, K+1, F); ``horner``, its
adjoint, turns (B, N, K+1, F) into the sum over k of C^k u_k. Samples go in groups whose values
lie side by side in a buffer of N rows of whole 64-byte vectors, which stays in cache for all K shifts.
Where a node has few values, ``krylov`` can mix them by the weights of a filter bank as well.

Importing this module compiles it, or reads what was compiled before from disk.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types

from svnn._jit import cached_cfunc
from svnn.operators._cpu_vectors import (
    copy_vector,
    fetch_add,
    load,
    load_int,
    mix_rows,
    shift_row,
    store,
)

# The fields of a job, an array of int64: counters that the threads advance and what to do, the shapes
# of the signals and of their groups, the addresses of the arrays.
NEXT, SLOT, ITEMS, HORNER, ROW_BLOCK, STEP = range(6)
B, N, F, K, GROUP, LANES, SIZE = range(6, 13)
VALUES, COLUMNS, ROWS, IN, OUT, SCRATCH = range(13, 19)
# Of a pass that mixes: weights (K+1, F, out), a bias, the result (B, N, out), the bytes of a row of it, and
# whether it is written past the caches.
WEIGHT, BIAS, MIXED, WIDTH, STREAMED = range(19, 24)
FIELDS = 24

#: Rows that are mixed for one sample after the other: their buffers should still be in the nearest cache.
MIXED_ROWS = 64


@njit
def _is_whole(job):
    """Say whether a group is one sample of whole vectors, which is shifted where it lies."""
    return job[GROUP] == 1 and job[LANES] == job[F]


@njit
def _pack(zero, job, group, lo, hi, buffers, array, planes, inwards):
    """Copy rows of ``planes`` buffers, the group's samples side by side, from an array (B, N, planes, F) or to it."""
    n, f, lanes, size = job[N], job[F], job[LANES], job[SIZE]
    first = group * job[GROUP]
    m = min(job[GROUP], job[B] - first)
    for block in range(lo, hi, 16):  # few enough rows for all samples' cache lines
        for s in range(m):
            for i in range(block, min(block + 16, hi)):
                at = ((first + s) * n + i) * planes * f
                for p in range(planes):
                    row = buffers + (p * n + i) * lanes * size
                    for c in range(f):
                        if inwards:
                            store(load(zero, array, at + p * f + c), row, s * f + c)
                        else:
                            store(load(zero, row, s * f + c), array, at + p * f + c)
        if inwards and m * f < lanes:
            for i in range(block, min(block + 16, hi)):
                for p in range(planes):
                    for c in range(m * f, lanes):
                        store(zero, buffers + (p * n + i) * lanes * size, c)


@njit
def _begin(zero, job, group, lo, hi, buffers):
    """Bring rows ``lo`` to ``hi`` of a group into its buffers."""
    n, f, size, order = job[N], job[F], job[SIZE], job[K]
    horner = job[HORNER] != 0
    if not _is_whole(job):
        _pack(zero, job, group, lo, hi, buffers, job[IN], order + 1 if horner else 1, True)
        return
    for i in range(lo, hi):
        row = group * n + i
        source = job[IN] + ((row * (order + 1) + order) if horner else row) * f * size
        for v in range(0, f * size, 64):
            copy_vector(source + v, buffers + i * f * size + v)
            if not horner:
                copy_vector(source + v, job[OUT] + row * (order + 1) * f * size + v)


@njit
def _shift(zero, job, group, step, lo, hi, buffers):
    """Shift rows ``lo`` to ``hi`` of a group.

    Packed groups have a buffer for every power. Krylov fills the next one; Horner adds to the one before.
    A whole sample needs two in turn, since its powers are read from the input or written to the output.
    """
    n, order, width = job[N], job[K], job[LANES] * job[SIZE]
    buffer = n * width
    horner = job[HORNER] != 0
    k = order - 1 - step if horner else step + 1
    last = step == order - 1
    vectors = width // 64
    for i in range(lo, hi):
        add = to = copy = 0
        if not _is_whole(job):
            src = buffers + (k + 1 if horner else k - 1) * buffer
            to = buffers + k * buffer + i * width
            add = to if horner else 0
        else:
            src = buffers + (step % 2) * buffer
            to = buffers + ((step + 1) % 2) * buffer + i * width
            plane = ((group * n + i) * (order + 1) + k) * width
            if horner:
                add = job[IN] + plane
                to = job[OUT] + (group * n + i) * width if last else to
            else:
                copy = job[OUT] + plane
                to = 0 if last else to
        start, stop = load_int(job[ROWS], i), load_int(job[ROWS], i + 1)
        shift_row(zero, job[VALUES], job[COLUMNS], start, stop, src, width, add, to, copy, vectors)


@njit
def _mix(zero, job, group, lo, hi, buffers):
    """Write the products of all shifted values with the weights for rows of a group."""
    n, f, width, out_width, streamed = job[N], job[F], job[LANES] * job[SIZE], job[WIDTH], job[STREAMED] != 0
    first, taps = group * job[GROUP], job[K] + 1
    for block in range(lo, hi, MIXED_ROWS):
        rows = min(MIXED_ROWS, hi - block)
        for s in range(min(job[GROUP], job[B] - first)):
            values = buffers + block * width + s * f * job[SIZE]
            out = job[MIXED] + ((first + s) * n + block) * out_width
            mix_rows(zero, values, width, n * width, taps, f, job[WEIGHT], job[BIAS], out, out_width, rows, streamed)


@njit
def _finish(zero, job, group, lo, hi, buffers):
    """Bring rows of a packed group from its buffers to the output, if that is wanted, and mix them, if that is."""
    if _is_whole(job):
        return
    if job[OUT] != 0:
        _pack(zero, job, group, lo, hi, buffers, job[OUT], 1 if job[HORNER] != 0 else job[K] + 1, False)
    if job[MIXED] != 0:
        _mix(zero, job, group, lo, hi, buffers)


@njit
def _pass(zero, job, group, buffers):
    """Make all shifts of a group."""
    _begin(zero, job, group, 0, job[N], buffers)
    for step in range(job[K]):
        _shift(zero, job, group, step, 0, job[N], buffers)
    _finish(zero, job, group, 0, job[N], buffers)


@njit
def _stage(zero, job, block, buffers):
    """Make one block of rows of one stage of the only group: for batches too small to share out by groups."""
    lo = block * job[ROW_BLOCK]
    hi = min(lo + job[ROW_BLOCK], job[N])
    if job[STEP] < 0:
        _begin(zero, job, 0, lo, hi, buffers)
    elif job[STEP] < job[K]:
        _shift(zero, job, 0, job[STEP], lo, hi, buffers)
    else:
        _finish(zero, job, 0, lo, hi, buffers)


@njit
def _work(zero, job, address):
    """Take items, groups or blocks of rows, until none is left. Every thread runs this, on buffers of its own."""
    by_rows = job[ROW_BLOCK] > 0
    buffers = job[SCRATCH]
    if not by_rows:
        count = 2 if _is_whole(job) else job[K] + 1
        buffers += count * job[N] * job[LANES] * job[SIZE] * fetch_add(address + 8 * SLOT, 1)
    while True:
        item = fetch_add(address + 8 * NEXT, 1)
        if item >= job[ITEMS]:
            return
        if by_rows:
            _stage(zero, job, item, buffers)
        else:
            _pass(zero, job, item, buffers)


@cached_cfunc(types.void(types.CPointer(types.int64)))
def work32(pointer):
    """Work on a job in single precision."""
    job = carray(pointer, (FIELDS,))
    _work(np.float32(0), job, job.ctypes.data)


@cached_cfunc(types.void(types.CPointer(types.int64)))
def work64(pointer):
    """Work on a job in double precision."""
    job = carray(pointer, (FIELDS,))
    _work(np.float64(0), job, job.ctypes.data)
