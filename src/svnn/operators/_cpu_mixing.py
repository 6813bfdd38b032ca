"""Vector code for numba: products of a few shifted values per node with a small matrix of weights.

Such a product, of shape (B N, 3) by (3, 32) say, does little but write its result. Here the sums stay in registers,
those of several rows at once, until they are written: bias and all, straight from the buffers of the shifts.
:mod:`svnn.operators._cpu_vectors` says how the vectors work.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from svnn.operators._cpu_vectors import multiply_add, pointer, read_vector, spread, write_vector

_I64 = ir.IntType(64)


def _mix(n_rows: int, n_vectors: int):
    """Make the intrinsic for ``n_rows`` rows of ``n_vectors`` vectors of outputs, all in registers."""

    @intrinsic
    def mix(typing, zero, values, row_step, plane_step, planes, per_plane, weight, bias, out, out_step):
        def codegen(context, builder, signature, args):
            _, values, row_step, plane_step, planes, per_plane, weight, bias, out, out_step = args
            number = context.get_value_type(zero)
            vector = ir.VectorType(number, 16 if zero == types.float32 else 8)

            def at(base, count, step):
                return builder.add(base, builder.mul(count, step))

            # Memory slots in name only: LLVM keeps them in registers.
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(n_vectors)] for _ in range(n_rows)]
            for v in range(n_vectors):
                start = read_vector(builder, vector, bias, v)
                for slots in sums:
                    builder.store(start, slots[v])
            with (
                cgutils.for_range(builder, planes, intp=_I64) as plane,
                cgutils.for_range(builder, per_plane, intp=_I64) as place,
            ):
                base = at(values, plane.index, plane_step)
                own = at(weight, at(place.index, plane.index, per_plane), out_step)
                weights = [read_vector(builder, vector, own, v) for v in range(n_vectors)]
                for r, slots in enumerate(sums):
                    row = pointer(builder, at(base, ir.Constant(_I64, r), row_step), number, place.index)
                    value = spread(builder, vector, builder.load(row))
                    for w, slot in zip(weights, slots, strict=True):
                        multiply_add(builder, slot, value, w)
            for r, slots in enumerate(sums):
                for v, slot in enumerate(slots):
                    write_vector(builder, builder.load(slot), at(out, ir.Constant(_I64, r), out_step), v)
            return context.get_dummy_value()

        return types.void(zero, *[types.int64] * 9), codegen

    return mix


def _rows(at_once: int, n_vectors: int):
    """Make the function that mixes any number of rows, ``at_once`` of them as long as there are so many."""
    several, one = _mix(at_once, n_vectors), _mix(1, n_vectors)

    @njit
    def mix(zero, values, row_step, plane_step, planes, per_plane, weight, bias, out, out_step, rows):
        i = 0
        while i + at_once <= rows:
            v, o = values + i * row_step, out + i * out_step
            several(zero, v, row_step, plane_step, planes, per_plane, weight, bias, o, out_step)
            i += at_once
        while i < rows:
            v, o = values + i * row_step, out + i * out_step
            one(zero, v, row_step, plane_step, planes, per_plane, weight, bias, o, out_step)
            i += 1

    return mix


# Eight sums at once hide the latency of a multiply-add, and use every vector of weights more than once.
_rows1, _rows2, _rows4 = _rows(8, 1), _rows(4, 2), _rows(2, 4)


@njit
def mix_rows(zero, values, row_step, plane_step, planes, per_plane, weight, bias, out, vectors, rows):
    """Write ``bias + sum over planes p and places c of values[p, i, c] weight[p, c]`` to ``rows`` rows i of ``out``.

    Steps are in bytes. A row of ``out`` and one of ``weight`` have ``vectors`` times 64 bytes.
    """
    step = vectors * 64
    v = 0
    while v < vectors:
        w, b, o = weight + 64 * v, bias + 64 * v, out + 64 * v
        if vectors - v >= 4:
            _rows4(zero, values, row_step, plane_step, planes, per_plane, w, b, o, step, rows)
            v += 4
        elif vectors - v >= 2:
            _rows2(zero, values, row_step, plane_step, planes, per_plane, w, b, o, step, rows)
            v += 2
        else:
            _rows1(zero, values, row_step, plane_step, planes, per_plane, w, b, o, step, rows)
            v += 1
