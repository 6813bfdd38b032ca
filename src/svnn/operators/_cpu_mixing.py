"""Vector code for numba: products of a few shifted values per node with a small matrix of weights.

Such a product, of shape (B N, 3) by (3, 32) say, does little but write its result. Here the sums stay in registers,
those of several rows at once, until they are written: bias and all, straight from the buffers of the shifts. A large
result is written past the caches, which would read its old values first. :mod:`svnn.operators._cpu_vectors` says how
the vectors work.

The reference is ``mix`` in :mod:`svnn.operators._shift_bank`, by torch's products. The forward pass takes 0.4 to 0.75
of the time that it takes with that, forward and backward 0.87 to 0.97 (68 to 20,000 nodes, 1 to 5 values to 32). Of
that, writing past the caches is 0.4 to 0.75 (8 to 41 MB), 0.6 to 1.0 with a pass over the result behind it. All on one
core of an x86 server.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from svnn.operators._cpu_vectors import multiply_add, pointer, read_vector, spread, write_vector

_I64 = ir.IntType(64)


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
