"""Batch norm, a rectifier and a weighted sum over the nodes, as passes over the data that threads share.

With ``d = y - pivot`` and ``v = scale d + offset``, the layer's output is :math:`u = \\max(v, slope\\, v)` and its
readout :math:`p_{bh} = \\sum_j a_{bhj} u_{bj}`. Gradients come for u, or for p: then that of u is made on the way.

Importing this module compiles it, or reads what was compiled before from disk.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types

from svnn._jit import cached_cfunc
from svnn.operators._cpu.elementwise import dot, formula
from svnn.operators._cpu.vectors import fetch_add, store

# The fields of a job, an array of int64: the next block of samples and what to do with it, shapes, addresses.
NEXT, MODE, B, N, F, H, BLOCK, SIZE, POOL_STEP = range(9)
Y, GRADIENT, OUT, FACTORS, SUMS, POOL, POOL_GRADIENT = range(9, 16)  # POOL: (B, H, N), or (H, N) and POOL_STEP 0
FIELDS = 16

#: What to do. FACTORS holds rows of F values: slope, scale, offset, pivot, and three for the gradient. All
#: formulas are in y - pivot, which loses no digits to a large mean.
MOMENTS, APPLY, POOLED, GRADIENT_SUMS, GRADIENT_APPLY = range(5)

#: Rows of F values that a block has in SUMS: two sums, and the output or the gradient of a node.
ROWS = 3


@formula
def _moments(at, y, pivot, first, second):
    d = at.subtract(at.read(y), at.read(pivot))
    at.write(at.add(at.read(first), d), first)
    at.write(at.add(at.read(second), at.multiply(d, d)), second)


def _linear(at, y, scale, offset, pivot):
    """Return d and v."""
    d = at.subtract(at.read(y), at.read(pivot))
    return d, at.add(at.multiply(at.read(scale), d), at.read(offset))


@formula
def _output(at, y, slope, scale, offset, pivot, out):
    _, v = _linear(at, y, scale, offset, pivot)
    at.write(at.where_positive(v, v, at.multiply(v, at.read(slope))), out)


def _inner_gradient(at, g, v, slope):
    g = at.read(g)
    return at.where_positive(v, g, at.multiply(g, at.read(slope)))


@formula
def _gradient_sums(at, y, slope, scale, offset, pivot, g, first, second):
    d, v = _linear(at, y, scale, offset, pivot)
    h = _inner_gradient(at, g, v, slope)
    at.write(at.add(at.read(first), h), first)
    at.write(at.add(at.read(second), at.multiply(h, d)), second)


@formula
def _gradient_apply(at, y, slope, scale, offset, pivot, of_h, of_d, of_one, g, out):
    d, v = _linear(at, y, scale, offset, pivot)
    h = _inner_gradient(at, g, v, slope)
    linear = at.add(at.multiply(at.read(of_d), d), at.read(of_one))
    at.write(at.add(at.multiply(at.read(of_h), h), linear), out)


@formula
def _times(at, row, out):
    at.write(at.multiply(at.constant(), at.read(row)), out)


@formula
def _add_times(at, row, total):
    at.write(at.add(at.read(total), at.multiply(at.constant(), at.read(row))), total)


@njit
def _readout_gradient(zero, f, size, heads, step, side, weights, row):
    """Write the gradient of a node's output to ``row``, from that of the readout at ``side``."""
    _times(zero, f, size, (side, row), weights)
    for h in range(1, heads):
        _add_times(zero, f, size, (side + h * f * size, row), weights + h * step)


@njit
def _block(zero, job, lo, hi, sums):
    """Do what is to be done with samples ``lo`` to ``hi``."""
    # In local variables: after every store the compiler would have to read the job again.
    mode, n, f, heads, size = job[MODE], job[N], job[F], job[H], job[SIZE]
    data, gradient, out, slope, pool = job[Y], job[GRADIENT], job[OUT], job[FACTORS], job[POOL]
    pool_step, pool_gradient = job[POOL_STEP] * size, job[POOL_GRADIENT]
    width, step = f * size, n * size  # step: from one head's weights to the next one's
    scale, offset, pivot = slope + width, slope + 2 * width, slope + 3 * width
    of_h, of_d, of_one = slope + 4 * width, slope + 5 * width, slope + 6 * width
    first, second, row = sums, sums + width, sums + 2 * width
    for b in range(lo, hi):
        y, last = data + b * n * width, data + (b + 1) * n * width
        at = b * n * width
        weights = pool + b * pool_step
        side = gradient + b * heads * width
        if mode == MOMENTS:
            while y < last:
                _moments(zero, f, size, (y, pivot, first, second))
                y += width
        elif mode == APPLY:
            while y < last:
                _output(zero, f, size, (y, slope, scale, offset, pivot, out + at))
                y += width
                at += width
        elif mode == POOLED:
            while y < last:
                _output(zero, f, size, (y, slope, scale, offset, pivot, row))
                for h in range(heads):
                    _add_times(zero, f, size, (row, out + (b * heads + h) * width), weights + h * step)
                y += width
                weights += size
        elif mode == GRADIENT_SUMS:
            g = row if pool else gradient + at
            while y < last:
                if pool:
                    _readout_gradient(zero, f, size, heads, step, side, weights, row)
                _gradient_sums(zero, f, size, (y, slope, scale, offset, pivot, g, first, second))
                y += width
                g += 0 if pool else width
                weights += size
        else:
            g = row if pool else gradient + at
            for j in range(n):
                if pool_gradient:
                    _output(zero, f, size, (y, slope, scale, offset, pivot, row))
                    for h in range(heads):
                        store(dot(zero, f, row, side + h * width), pool_gradient, (b * heads + h) * n + j)
                if pool:
                    _readout_gradient(zero, f, size, heads, step, side, weights, row)
                _gradient_apply(zero, f, size, (y, slope, scale, offset, pivot, of_h, of_d, of_one, g, out + at))
                y += width
                at += width
                g += 0 if pool else width
                weights += size


@njit
def _work(zero, job, address):
    blocks = -(-job[B] // job[BLOCK])
    while True:
        item = fetch_add(address + 8 * NEXT, 1)
        if item >= blocks:
            return
        sums = job[SUMS] + ROWS * item * job[F] * job[SIZE]
        _block(zero, job, item * job[BLOCK], min((item + 1) * job[BLOCK], job[B]), sums)


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
