"""The two passes of a filter bank over the rows of a CSR matrix, as C functions that threads share.

``krylov`` turns signals x (B, N, F) into [x, Cx, …, C^K x] of shape (B, N, K+1, F); ``horner``, its
adjoint, turns (B, N, K+1, F) into the sum over k of C^k u_k. Samples go in groups whose values
lie side by side in a buffer of N rows of whole 64-byte vectors, which stays in cache for all K shifts.
Where a node has few values, ``krylov`` can mix them by the weights of a filter bank as well.

Importing this module compiles it, or reads what was compiled before from disk.

numba turns a loop over 32 floats into scalar code. These intrinsics emit LLVM vectors instead
(``<16 x float>`` or ``<8 x double>``), which LLVM maps to whatever the processor has: AVX-512, AVX2
or NEON. Memory is named by addresses (int64), so that nothing is boxed or counted.

The same passes as plain loops of numba take 2 to 4 times as long with 32 values per node, and 12 to 60 times with
8 values or one; torch's sparse product takes 1.7 to 3.4 times as long (300 and 2000 nodes, densities of 0.01 to 0.1,
one core of an x86 server).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from svnn._jit import cached_cfunc

# -- vector code: rows of a sparse product, 64 bytes at a time --------------------------------------

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_FAST = ("fast",)  # lets a product and a sum become one fused multiply-add


def pointer(builder, address, kind, index=None):
    """Make a pointer to the number or vector at ``address``, or to the ``index``-th one from there."""
    first = builder.inttoptr(address, kind.as_pointer())
    return first if index is None else builder.gep(first, [index])


def read_vector(builder, vector, base, index: int):
    """Load the ``index``-th vector at the address ``base``, which need not be a multiple of its size."""
    value = builder.load(pointer(builder, base, vector, ir.Constant(_I64, index)))
    value.align = 64 // vector.count
    return value


def write_vector(builder, value, base, index: int, streamed: bool = False) -> None:
    """Store ``value`` as the ``index``-th vector at the address ``base``; past the caches needs a multiple of 64."""
    made = builder.store(value, pointer(builder, base, value.type, ir.Constant(_I64, index)))
    made.align = 64 if streamed else 64 // value.type.count
    if streamed:
        made.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_I32, 1)]))


def spread(builder, vector, number):
    """Make a vector of one number many times."""
    undefined = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(undefined, number, ir.Constant(_I32, 0))
    return builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count))


def plus(builder, a, b):
    """Make the sum of two vectors."""
    return builder.fadd(a, b, flags=_FAST)


def multiply_add(builder, slot, a, b) -> None:
    """Add the product of two vectors to the one in ``slot``."""
    builder.store(plus(builder, builder.load(slot), builder.fmul(a, b, flags=_FAST)), slot)


@intrinsic
def fetch_add(typing, address, amount):
    """Add to the integer at ``address`` as one atomic step; return what it was before."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", pointer(builder, args[0], _I64), args[1], "monotonic")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def load_int(typing, address, index):
    """Return the ``index``-th int64 at ``address``."""

    def codegen(context, builder, signature, args):
        return builder.load(pointer(builder, args[0], _I64, args[1]))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def load(typing, zero, address, index):
    """Return the ``index``-th number at ``address``, of the type of ``zero``."""

    def codegen(context, builder, signature, args):
        return builder.load(pointer(builder, args[1], context.get_value_type(zero), args[2]))

    return zero(zero, types.int64, types.int64), codegen


@intrinsic
def store(typing, value, address, index):
    """Write ``value`` as the ``index``-th number at ``address``."""

    def codegen(context, builder, signature, args):
        builder.store(args[0], pointer(builder, args[1], context.get_value_type(value), args[2]))
        return context.get_dummy_value()

    return types.void(value, types.int64, types.int64), codegen


@intrinsic
def copy_vector(typing, source, target):
    """Copy 64 bytes."""

    def codegen(context, builder, signature, args):
        kind = ir.VectorType(_I32, 16)
        value = builder.load(pointer(builder, args[0], kind))
        value.align = 4
        builder.store(value, pointer(builder, args[1], kind)).align = 4
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def _row(n_vectors: int, unroll: int):
    """Make the intrinsic for ``n_vectors`` columns of vectors, ``unroll`` entries in flight."""

    @intrinsic
    def row(
        typing, zero, values, columns, lo, hi, src, stride,
        add, dst, copy,
    ):  # fmt: skip
        def codegen(context, builder, signature, args):
            _, values, columns, lo, hi, src, stride, add, dst, copy = args
            number = context.get_value_type(zero)
            lanes = 16 if zero == types.float32 else 8
            vector = ir.VectorType(number, lanes)
            nothing = ir.Constant(vector, [0.0] * lanes)

            # Memory slots in name only: LLVM keeps them in registers.
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(n_vectors)] for _ in range(unroll)]
            for slots in sums:
                for slot in slots:
                    builder.store(nothing, slot)

            def entry(e, slots: list) -> None:
                value = builder.load(pointer(builder, values, number, e))
                column = builder.zext(builder.load(pointer(builder, columns, _I32, e)), _I64)
                base = builder.add(src, builder.mul(column, stride))
                factor = spread(builder, vector, value)
                for v, slot in enumerate(slots):
                    multiply_add(builder, slot, factor, read_vector(builder, vector, base, v))

            step = ir.Constant(_I64, unroll)
            count = builder.sub(hi, lo)
            middle = builder.add(lo, builder.sub(count, builder.srem(count, step)))
            with cgutils.for_range_slice(builder, lo, middle, step, _I64) as (e, _):
                for r in range(unroll):
                    entry(builder.add(e, ir.Constant(_I64, r)), sums[r])
            with cgutils.for_range_slice(builder, middle, hi, ir.Constant(_I64, 1), _I64) as (e, _):
                entry(e, sums[0])
            for v, slot in enumerate(sums[0]):
                parts = [builder.load(slots[v]) for slots in sums]
                while len(parts) > 1:  # pairwise, so that no sum waits for all others; unroll is a power of two
                    parts = [plus(builder, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
                builder.store(parts[0], slot)
            null = ir.Constant(_I64, 0)
            with builder.if_then(builder.icmp_signed("!=", add, null)):
                for v, slot in enumerate(sums[0]):
                    builder.store(plus(builder, builder.load(slot), read_vector(builder, vector, add, v)), slot)
            for target in (dst, copy):
                with builder.if_then(builder.icmp_signed("!=", target, null)):
                    for v, slot in enumerate(sums[0]):
                        write_vector(builder, builder.load(slot), target, v)
            return context.get_dummy_value()

        return types.void(zero, *[types.int64] * 9), codegen

    return row


# Eight sums in flight hide the latency of a multiply-add.
_row1, _row2, _row4 = _row(1, 4), _row(2, 4), _row(4, 2)


@njit
def _past(address, offset):
    return address + offset if address != 0 else address


@njit
def shift_row(zero, values, columns, lo, hi, src, stride, add, dst, copy, vectors):
    """Write ``sum_e values[e] src[columns[e]] + add`` to ``dst`` and ``copy``; 0 stands for none."""
    v = 0
    while v < vectors:
        o = 64 * v
        if vectors - v >= 4:
            _row4(zero, values, columns, lo, hi, src + o, stride, _past(add, o), _past(dst, o), _past(copy, o))
            v += 4
        elif vectors - v >= 2:
            _row2(zero, values, columns, lo, hi, src + o, stride, _past(add, o), _past(dst, o), _past(copy, o))
            v += 2
        else:
            _row1(zero, values, columns, lo, hi, src + o, stride, _past(add, o), _past(dst, o), _past(copy, o))
            v += 1


def _mix(n_rows: int, streamed: bool):
    """Make the intrinsic for two vectors of outputs of ``n_rows`` rows, all in registers."""

    @intrinsic
    def mix(typing, zero, values, row_step, plane_step, planes, per_plane, weight, bias, out, out_step):
        def codegen(context, builder, signature, args):
            _, values, row_step, plane_step, planes, per_plane, weight, bias, out, out_step = args
            number = context.get_value_type(zero)
            vector = ir.VectorType(number, 16 if zero == types.float32 else 8)

            def at(base, count, step):
                return builder.add(base, builder.mul(count, step))

            # Memory slots in name only: LLVM keeps them in registers.
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(2)] for _ in range(n_rows)]
            for v in range(2):
                start = read_vector(builder, vector, bias, v)
                for slots in sums:
                    builder.store(start, slots[v])
            with (
                cgutils.for_range(builder, planes, intp=_I64) as plane,
                cgutils.for_range(builder, per_plane, intp=_I64) as place,
            ):
                base = at(values, plane.index, plane_step)
                own = at(weight, at(place.index, plane.index, per_plane), out_step)
                weights = [read_vector(builder, vector, own, v) for v in range(2)]
                for r, slots in enumerate(sums):
                    row = pointer(builder, at(base, ir.Constant(_I64, r), row_step), number, place.index)
                    value = spread(builder, vector, builder.load(row))
                    for w, slot in zip(weights, slots, strict=True):
                        multiply_add(builder, slot, value, w)
            for r, slots in enumerate(sums):
                for v, slot in enumerate(slots):
                    write_vector(builder, builder.load(slot), at(out, ir.Constant(_I64, r), out_step), v, streamed)
            return context.get_dummy_value()

        return types.void(zero, *[types.int64] * 9), codegen

    return mix


# Eight sums at once hide the latency of a multiply-add, and use every vector of weights four times.
_one, _four, _four_streamed = _mix(1, False), _mix(4, False), _mix(4, True)


@njit
def mix_rows(zero, values, row_step, plane_step, planes, per_plane, weight, bias, out, out_step, rows, streamed):
    """Write ``bias + sum over planes p and places c of values[p, i, c] weight[p, c]`` to ``rows`` rows i of ``out``.

    Steps are in bytes. A row of ``out``, or of ``weight``, has ``out_step`` bytes, a multiple of 128. What is
    ``streamed`` goes past the caches, and starts at a multiple of 64.
    """
    for column in range(0, out_step, 128):
        w, b = weight + column, bias + column
        i = 0
        while i < rows:
            v, o = values + i * row_step, out + i * out_step + column
            if i + 4 > rows:
                _one(zero, v, row_step, plane_step, planes, per_plane, w, b, o, out_step)
                i += 1
            elif streamed:
                _four_streamed(zero, v, row_step, plane_step, planes, per_plane, w, b, o, out_step)
                i += 4
            else:
                _four(zero, v, row_step, plane_step, planes, per_plane, w, b, o, out_step)
                i += 4


# -- passes -----------------------------------------------------------------------------------------

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
    """Return whether a group is one sample of whole vectors, which is shifted where it lies."""
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
