"""One shift of a batch of signals by a CSR matrix, as a Triton kernel."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def shift_rows(
    values, columns, row_starts, src, add, dst, batch, width,
    src_batch, src_node, add_batch, add_node, dst_batch, dst_node,
    EVEN: tl.constexpr, HAS_ADD: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_F: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Write ``sum_e values[e] src[b, columns[e], :] + add[b, i, :]`` to ``dst[b, i, :]``.

    Every row and tile has a program of its own.

    EVEN says that the tiles cover the signals exactly, so that nothing has to be masked.
    """
    i = tl.program_id(0).to(tl.int64)
    b = (tl.program_id(1) * BLOCK_B + tl.arange(0, BLOCK_B)).to(tl.int64)
    f = tl.program_id(2) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = (b < batch)[:, None] & (f < width)[None, :]
    at = src + b[:, None] * src_batch + f[None, :]
    start = tl.load(row_starts + i)
    stop = tl.load(row_starts + i + 1)
    unrolled = start + (stop - start) // UNROLL * UNROLL
    total = tl.zeros((BLOCK_B, BLOCK_F), dtype=dst.dtype.element_ty)
    for e in range(start, unrolled, UNROLL):
        for u in tl.static_range(UNROLL):
            place = at + tl.load(columns + e + u).to(tl.int64) * src_node
            signal = tl.load(place) if EVEN else tl.load(place, mask=inside, other=0.0)
            total += tl.load(values + e + u) * signal
    for e in range(unrolled, stop):
        place = at + tl.load(columns + e).to(tl.int64) * src_node
        signal = tl.load(place) if EVEN else tl.load(place, mask=inside, other=0.0)
        total += tl.load(values + e) * signal
    if HAS_ADD:
        total += tl.load(add + b[:, None] * add_batch + i * add_node + f[None, :], mask=inside, other=0.0)
    tl.store(dst + b[:, None] * dst_batch + i * dst_node + f[None, :], total, mask=inside)
