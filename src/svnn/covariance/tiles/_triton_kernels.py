"""Products of features fused with the selection of the large ones, as Triton kernels.

A program multiplies one tile in float16 and keeps it in registers. What may exceed its level, given the largest error
that float16 can make, leaves the tile as an index; :func:`multiply_again` and :func:`shorten` then take those few
products in float32. So memory is written for survivors only, and the result is exact.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-any-return"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _keys(
    Z, limits, sizes, slack, first_row, first_column, depth,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, ON_DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Return by how much the magnitudes of a tile may exceed their levels, as keys, and the levels of its rows.

    An entry's level is the smaller one of its row's and its column's. Its error is at most ``slack`` times both sizes.
    A key has the bits of the excess, which are ordered as positive numbers are, but the last of them hold the column:
    so the largest key of a row tells where it is, and no two are equal. Keys below ``COLUMNS`` are of no excess.
    """
    row, across = first_row + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column, k = first_column + across, tl.arange(0, DEPTH)
    left = Z + row.to(tl.int64)[:, None] * depth + k[None, :]
    right = Z + column.to(tl.int64)[None, :] * depth + k[:, None]
    products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        products = tl.dot(tl.load(left), tl.load(right), products)
        left += DEPTH
        right += DEPTH
    row_limit, column_limit = tl.load(limits + row), tl.load(limits + column)
    size = tl.load(sizes + row)[:, None] * tl.load(sizes + column)[None, :]
    excess = (tl.abs(products) + slack) * size - tl.minimum(row_limit[:, None], column_limit[None, :])
    keys = (excess.to(tl.int32, bitcast=True) & -COLUMNS) | across[None, :]
    if ON_DIAGONAL:
        keys = tl.where(column[None, :] > row[:, None], keys, -1)
    return keys, row_limit


@triton.jit
def _place(first_row, first_column, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """Return the first row and column of this program's tile; programs that run together share rows and columns."""
    program = tl.program_id(0)
    down, across = rows // ROWS, columns // COLUMNS
    group = program // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    within = program % (GROUP * across)
    return (first_row + (group * GROUP + within % height) * ROWS, first_column + within // height * COLUMNS)


@triton.jit
def list_pairs(
    Z, limits, sizes, slack, first_row, first_column, rows, columns, depth,
    found, room, row_out, column_out,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr, ON_DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Append the pairs of a rectangle that may exceed their level to lists; ``found`` counts also beyond the room."""
    row, column = _place(first_row, first_column, rows, columns, ROWS, COLUMNS, GROUP)
    if (not ON_DIAGONAL) or column + COLUMNS > row + 1:
        keys, _ = _keys(
            Z, limits, sizes, slack, row, column, depth, ROWS, COLUMNS, DEPTH, ON_DIAGONAL
        )  # fmt: skip
        best = tl.max(keys, 1)
        while tl.max(best, 0) >= COLUMNS:  # each turn takes the largest of every row
            hit = best >= COLUMNS
            number = hit.to(tl.int64)
            place = tl.atomic_add(found, tl.sum(number, 0)) + tl.cumsum(number, 0) - 1
            inside = hit & (place < room)
            tl.store(row_out + place, row + tl.arange(0, ROWS), mask=inside)
            tl.store(column_out + place, column + (best & (COLUMNS - 1)), mask=inside)
            keys = tl.where(keys == best[:, None], -1, keys)
            best = tl.max(keys, 1)


@triton.jit
def list_partners(
    Z, limits, sizes, slack, first_row, first_column, rows, columns, depth,
    counts, partners, room,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr, ON_DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Enter both features of the pairs of a rectangle into each other's list where they may exceed its level.

    ``counts`` counts also what finds no room in a list.
    """
    row, column = _place(first_row, first_column, rows, columns, ROWS, COLUMNS, GROUP)
    if (not ON_DIAGONAL) or column + COLUMNS > row + 1:
        keys, row_limit = _keys(
            Z, limits, sizes, slack, row, column, depth, ROWS, COLUMNS, DEPTH, ON_DIAGONAL
        )  # fmt: skip
        one = row + tl.arange(0, ROWS)
        ones = tl.full((ROWS,), 1, dtype=tl.int32)
        best = tl.max(keys, 1)
        while tl.max(best, 0) >= COLUMNS:
            hit = best >= COLUMNS
            partner = column + (best & (COLUMNS - 1))
            limit = tl.load(limits + partner, mask=hit, other=0.0)
            excess = (best | (COLUMNS - 1)).to(tl.float32, bitcast=True)  # rounded up
            magnitude = excess + tl.minimum(row_limit, limit)
            mine, theirs = hit & (magnitude >= row_limit), hit & (magnitude >= limit)
            slot = tl.atomic_add(counts + one, ones, mask=mine)
            tl.store(partners + one.to(tl.int64) * room + slot, partner, mask=mine & (slot < room))
            slot = tl.atomic_add(counts + partner, ones, mask=theirs)
            tl.store(partners + partner.to(tl.int64) * room + slot, one, mask=theirs & (slot < room))
            keys = tl.where(keys == best[:, None], -1, keys)
            best = tl.max(keys, 1)


@triton.jit
def multiply_again(Z, depth, size, rows, columns, values, PAIRS: tl.constexpr, DEPTH: tl.constexpr):
    """Write the products of the listed pairs, in float32."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    inside = pair < size
    row = tl.load(rows + pair, mask=inside, other=0).to(tl.int64)
    column = tl.load(columns + pair, mask=inside, other=0).to(tl.int64)
    total = tl.zeros((PAIRS,), dtype=tl.float32)
    for start in range(0, depth, DEPTH):
        k = start + tl.arange(0, DEPTH)
        part = inside[:, None] & (k < depth)[None, :]
        left = tl.load(Z + row[:, None] * depth + k[None, :], mask=part, other=0.0)
        right = tl.load(Z + column[:, None] * depth + k[None, :], mask=part, other=0.0)
        total += tl.sum(left * right, 1)
    tl.store(values + pair, total, mask=inside)


@triton.jit
def shorten(
    Z, depth, first, kept, least, shrink, counts, partners, limits, best,
    ROOM: tl.constexpr, DEPTH: tl.constexpr, REWRITE: tl.constexpr, WRITE_VALUES: tl.constexpr,
):  # fmt: skip
    """Raise a feature's level to the smallest of its ``kept`` largest magnitudes, and keep these alone.

    Lists of at most ``least`` entries stay as they are. Without REWRITE only the level changes. With WRITE_VALUES the
    products go to ``best``, the largest magnitudes first.
    """
    feature = (first + tl.program_id(0)).to(tl.int64)
    number = tl.minimum(tl.load(counts + feature), ROOM)
    if number > least:
        slot = tl.arange(0, ROOM)
        inside = slot < number
        partner = tl.load(partners + feature * ROOM + slot, mask=inside, other=0)
        total = tl.zeros((ROOM,), dtype=tl.float32)
        for start in range(0, depth, DEPTH):
            k = start + tl.arange(0, DEPTH)
            mine = tl.load(Z + feature * depth + k, mask=k < depth, other=0.0)
            part = inside[:, None] & (k < depth)[None, :]
            theirs = tl.load(Z + partner.to(tl.int64)[:, None] * depth + k[None, :], mask=part, other=0.0)
            total += tl.sum(theirs * mine[None, :], 1)
        # The magnitude, as bits that are ordered as it is, then the partner; one bit holds the sign of the product.
        bits = tl.abs(total).to(tl.int32, bitcast=True).to(tl.int64)
        keys = (bits << 32) | (partner.to(tl.int64) << 1) | (total < 0).to(tl.int64)
        keys = tl.sort(tl.where(inside, keys, 0), descending=True)
        magnitude = (keys >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        if number >= kept:
            cut = tl.sum(tl.where(slot == kept - 1, magnitude, 0.0), 0)
            tl.store(limits + feature, tl.maximum(cut * shrink, tl.load(limits + feature)))
        if REWRITE:
            number = tl.minimum(number, kept)
            tl.store(partners + feature * ROOM + slot, ((keys & 0xFFFFFFFF) >> 1).to(tl.int32), mask=slot < number)
            tl.store(counts + feature, number)
        if WRITE_VALUES:
            value = tl.where((keys & 1) == 1, -magnitude, magnitude)
            tl.store(best + feature * kept + slot, value, mask=slot < tl.minimum(number, kept))
