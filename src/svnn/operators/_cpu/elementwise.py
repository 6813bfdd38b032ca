"""Formulas on rows of numbers for numba, written once: for 64 bytes at a time, and for the numbers left over.

numba would check for every row whether its arrays overlap before it dares to use vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from svnn.operators._cpu.vectors import load

_FAST = ("fast",)


class Values:
    """The operations a formula is made of, on a vector or on a single number."""

    def __init__(self, builder: Any, number: Any, size: int, lanes: int, offset: Any, factor: Any) -> None:
        self.builder, self.number, self.size, self.lanes = builder, number, size, lanes
        self.offset, self.factor = offset, factor
        self.kind = ir.VectorType(number, lanes) if lanes > 1 else number

    def _place(self, address: Any) -> Any:
        return self.builder.inttoptr(self.builder.add(address, self.offset), self.kind.as_pointer())

    def read(self, row: Any) -> Any:
        """Return values of a row."""
        value = self.builder.load(self._place(row))
        value.align = self.size
        return value

    def write(self, value: Any, row: Any) -> None:
        """Set values of a row."""
        self.builder.store(value, self._place(row)).align = self.size

    def constant(self) -> Any:
        """Return the formula's one number for every value."""
        value = self.builder.load(self.builder.inttoptr(self.factor, self.number.as_pointer()))
        if self.lanes == 1:
            return value
        undefined = ir.Constant(self.kind, ir.Undefined)
        single = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, undefined, first)

    def zero(self) -> Any:
        return ir.Constant(self.kind, [0.0] * self.lanes if self.lanes > 1 else 0.0)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FAST)

    def subtract(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b, flags=_FAST)

    def multiply(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FAST)

    def where_positive(self, v: Any, a: Any, b: Any) -> Any:
        """Return a where v > 0 and b elsewhere."""
        return self.builder.select(self.builder.fcmp_ordered(">", v, self.zero()), a, b)


def formula(body: Callable[..., None]) -> Any:
    """Compile ``body(values, *rows)`` to a function ``(zero, count, size, rows, constant)`` on addresses.

    ``rows`` is a tuple of the addresses of ``count`` numbers of ``size`` bytes, of the type of ``zero``;
    ``constant`` that of one number, or 0 where the formula has none.
    """
    wide, single = _step(body, vector=True), _step(body, vector=False)

    @njit
    def apply(zero, count, size, rows, constant=0):
        end, o = count * size, 0
        while o + 64 <= end:
            wide(zero, o, rows, constant)
            o += 64
        while o < end:
            single(zero, o, rows, constant)
            o += size

    return apply


def _step(body: Callable[..., None], vector: bool) -> Any:
    @intrinsic
    def step(typing: Any, zero: Any, offset: Any, rows: Any, constant: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = 4 if zero == types.float32 else 8
            number = context.get_value_type(zero)
            values = Values(builder, number, size, 64 // size if vector else 1, args[1], args[3])
            body(values, *(builder.extract_value(args[2], i) for i in range(len(rows))))
            return context.get_dummy_value()

        return types.void(zero, types.int64, rows, types.int64), codegen

    return step


@njit(fastmath=True)
def dot(zero, count, a, b):
    """Return the sum of the products of two rows."""
    total = zero
    for c in range(count):
        total += load(zero, a, c) * load(zero, b, c)
    return total
