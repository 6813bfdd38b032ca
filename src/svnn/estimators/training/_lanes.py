"""Vector code for the compiled training: operations on the values of 32 samples that lie side by side.

numba turns a loop over 32 floats into scalar code. These intrinsics emit LLVM vectors, which LLVM maps to whatever the
processor has. Every operand is an address (int64) of single precision numbers; ``row`` k of an operand begins 32
numbers after row k - 1. The same training step with plain loops of numba takes about 6 times as long (68 nodes, one
core of an x86 server).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

#: Samples side by side.
LANES = 32
_WIDTH = 16  # numbers of a vector: 64 bytes
_PARTS = LANES // _WIDTH
_I32, _I64, _NUMBER = ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_NUMBER, _WIDTH)
_INTEGERS = ir.VectorType(_I32, _WIDTH)
_ADDRESS = types.int64
_FAST = ("fast",)
#: 2^f for |f| <= 1/2 as a polynomial, to the precision of a float.
_POWER_SERIES = [math.log(2) ** k / math.factorial(k) for k in range(7)]
_LARGEST = 87.0  # the largest whole number whose exponential is a float


class _Lanes:
    """Emits operations on the lanes: a value is a list of vectors."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, value: float) -> list[Any]:
        return [ir.Constant(_VECTOR, [float(value)] * _WIDTH)] * _PARTS

    def load(self, address: Any, row: Any = None) -> list[Any]:
        found = []
        for place in self._places(address, row):
            value = self.builder.load(place)
            value.align = 4
            found.append(value)
        return found

    def store(self, values: list[Any], address: Any, row: Any = None) -> None:
        for value, place in zip(values, self._places(address, row), strict=True):
            self.builder.store(value, place).align = 4

    def _places(self, address: Any, row: Any) -> list[Any]:
        base = self.builder.inttoptr(address, _VECTOR.as_pointer())
        first = ir.Constant(_I64, 0) if row is None else self.builder.mul(row, ir.Constant(_I64, _PARTS))
        return [self.builder.gep(base, [self.builder.add(first, ir.Constant(_I64, part))]) for part in range(_PARTS)]

    def spread(self, address: Any, index: Any) -> list[Any]:
        """Return the ``index``-th number at an address in all lanes."""
        return self.same(self.builder.load(self.builder.gep(self._numbers(address), [index])))

    def same(self, value: Any) -> list[Any]:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        single = self.builder.insert_element(undefined, value, ir.Constant(_I32, 0))
        return [self.builder.shuffle_vector(single, undefined, ir.Constant(_INTEGERS, [0] * _WIDTH))] * _PARTS

    def _numbers(self, address: Any) -> Any:
        return self.builder.inttoptr(address, _NUMBER.as_pointer())

    def add(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [self.builder.fadd(x, y, flags=_FAST) for x, y in zip(a, b, strict=True)]

    def subtract(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [self.builder.fsub(x, y, flags=_FAST) for x, y in zip(a, b, strict=True)]

    def multiply(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [self.builder.fmul(x, y, flags=_FAST) for x, y in zip(a, b, strict=True)]

    def divide(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [self.builder.fdiv(x, y, flags=_FAST) for x, y in zip(a, b, strict=True)]

    def clamp(self, a: list[Any], least: float, most: float) -> list[Any]:
        for limit, kind in ((least, ">"), (most, "<")):
            bound = self.number(limit)
            a = [
                self.builder.select(self.builder.fcmp_ordered(kind, x, y), x, y) for x, y in zip(a, bound, strict=True)
            ]
        return a

    def positive(self, a: list[Any], yes: list[Any], no: list[Any]) -> list[Any]:
        zero = ir.Constant(_VECTOR, [0.0] * _WIDTH)
        return [
            self.builder.select(self.builder.fcmp_ordered(">", x, zero), y, n)
            for x, y, n in zip(a, yes, no, strict=True)
        ]

    def exponential(self, a: list[Any]) -> list[Any]:
        """Return e^a for |a| up to 87: a power of two, made from the bits of its exponent, times a polynomial."""
        power = self.multiply(a, self.number(1 / math.log(2)))
        half, minus_half = self.number(0.5), self.number(-0.5)
        bias, places = (ir.Constant(_INTEGERS, [value] * _WIDTH) for value in (127, 23))
        result = []
        for part, nearest in zip(power, self.add(power, self.positive(power, half, minus_half)), strict=True):
            whole = self.builder.fptosi(nearest, _INTEGERS)  # cuts off what follows the point
            rest = self.builder.fsub(part, self.builder.sitofp(whole, _VECTOR))
            series = ir.Constant(_VECTOR, [_POWER_SERIES[-1]] * _WIDTH)
            for factor in _POWER_SERIES[-2::-1]:
                constant = ir.Constant(_VECTOR, [factor] * _WIDTH)
                series = self.builder.fadd(self.builder.fmul(series, rest, flags=_FAST), constant, flags=_FAST)
            bits = self.builder.shl(self.builder.add(whole, bias), places)
            result.append(self.builder.fmul(series, self.builder.bitcast(bits, _VECTOR)))
        return result

    def total(self, values: list[Any]) -> Any:
        """Return the sum over all lanes."""
        while len(values) > 1:
            values = [*map(self.builder.fadd, values[::2], values[1::2])]
        vector, width = values[0], _WIDTH
        while width > 1:  # halves on halves, always in the same order
            width //= 2
            kind = ir.VectorType(_I32, width)
            low, high = (ir.Constant(kind, list(range(at, at + width))) for at in (0, width))
            halves = (self.builder.shuffle_vector(vector, vector, part) for part in (low, high))
            vector = self.builder.fadd(*halves)
        return self.builder.extract_element(vector, ir.Constant(_I32, 0))

    def slots(self, values: list[Any]) -> list[Any]:
        """Return variables that begin as ``values``; LLVM keeps them in registers."""
        found = [cgutils.alloca_once(self.builder, _VECTOR) for _ in values]
        for value, slot in zip(values, found, strict=True):
            self.builder.store(value, slot)
        return found


def _operation(n_arguments: int, emit: Callable[..., Any], result: Any = types.void) -> Any:
    """Make an intrinsic of ``n_arguments`` integers (addresses and counts) from a function that emits its code."""
    names = [f"argument{i}" for i in range(n_arguments)]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = emit(_Lanes(builder), builder, *args)
        return context.get_dummy_value() if found is None else found

    # numba asks for a function of named arguments.
    namespace: dict[str, Any] = {"answer": (result(*[_ADDRESS] * n_arguments), codegen)}
    exec(f"def operation(typing, {', '.join(names)}): return answer", namespace)
    return intrinsic(namespace["operation"])


def _loop(builder: Any, count: Any) -> Any:
    return cgutils.for_range(builder, count, intp=_I64)


def _combine(lanes: _Lanes, builder: Any, factors: Any, count: Any, rows: Any, start: Any, target: Any) -> None:
    slots = lanes.slots(lanes.spread(start, ir.Constant(_I64, 0)))
    with _loop(builder, count) as loop:
        factor = lanes.spread(factors, loop.index)
        product = lanes.multiply(factor, lanes.load(rows, loop.index))
        for slot, value in zip(slots, lanes.add([builder.load(s) for s in slots], product), strict=True):
            builder.store(value, slot)
    lanes.store([builder.load(s) for s in slots], target)


def _spread(lanes: _Lanes, builder: Any, factors: Any, count: Any, source: Any, rows: Any) -> None:
    values = lanes.load(source)
    with _loop(builder, count) as loop:
        product = lanes.multiply(lanes.spread(factors, loop.index), values)
        lanes.store(lanes.add(lanes.load(rows, loop.index), product), rows, loop.index)


def _accumulate(lanes: _Lanes, builder: Any, source: Any, count: Any, others: Any, rows: Any) -> None:
    values = lanes.load(source)
    with _loop(builder, count) as loop:
        product = lanes.multiply(values, lanes.load(others, loop.index))
        lanes.store(lanes.add(lanes.load(rows, loop.index), product), rows, loop.index)


def _scale_rows(lanes: _Lanes, builder: Any, factor: Any, count: Any, rows: Any) -> None:
    values = lanes.spread(factor, ir.Constant(_I64, 0))
    with _loop(builder, count) as loop:
        lanes.store(lanes.multiply(values, lanes.load(rows, loop.index)), rows, loop.index)


def _multiply_rows(lanes: _Lanes, builder: Any, others: Any, count: Any, rows: Any) -> None:
    with _loop(builder, count) as loop:
        lanes.store(lanes.multiply(lanes.load(others, loop.index), lanes.load(rows, loop.index)), rows, loop.index)


def _add_row(lanes: _Lanes, builder: Any, source: Any, target: Any) -> None:
    lanes.store(lanes.add(lanes.load(target), lanes.load(source)), target)


def _clear(lanes: _Lanes, builder: Any, count: Any, rows: Any) -> None:
    with _loop(builder, count) as loop:
        lanes.store(lanes.number(0), rows, loop.index)


def _silu(lanes: _Lanes, builder: Any, values: Any, scale: Any, rates: Any) -> None:
    x, factor, one = lanes.load(values), lanes.load(scale), lanes.number(1)
    e = lanes.exponential(lanes.clamp(x, -_LARGEST, _LARGEST))
    sigmoid = lanes.divide(e, lanes.add(one, e))
    value = lanes.multiply(x, sigmoid)
    rate = lanes.add(sigmoid, lanes.multiply(value, lanes.subtract(one, sigmoid)))
    lanes.store(lanes.multiply(value, factor), values)
    lanes.store(lanes.multiply(rate, factor), rates)


def _lines(lanes: _Lanes, builder: Any, slope: Any, values: Any, scale: Any, rates: Any) -> None:
    x, factor = lanes.load(values), lanes.load(scale)
    line = lanes.positive(x, lanes.number(1), lanes.spread(slope, ir.Constant(_I64, 0)))
    line = lanes.multiply(line, factor)
    lanes.store(lanes.multiply(x, line), values)
    lanes.store(line, rates)


def _total(lanes: _Lanes, builder: Any, row: Any) -> Any:
    return lanes.total(lanes.load(row))


def _dots(lanes: _Lanes, builder: Any, row: Any, count: Any, others: Any, target: Any) -> None:
    values = lanes.load(row)
    place = builder.inttoptr(target, _NUMBER.as_pointer())
    with _loop(builder, count) as loop:
        found = lanes.total(lanes.multiply(values, lanes.load(others, loop.index)))
        at = builder.gep(place, [loop.index])
        builder.store(builder.fadd(builder.load(at), found), at)


#: combine(factors, count, rows, start, target): target = start[0] + Σ_k factors[k] rows[k].
combine = _operation(5, _combine)
#: spread(factors, count, source, rows): rows[k] += factors[k] source.
spread = _operation(4, _spread)
#: accumulate(source, count, others, rows): rows[k] += source others[k].
accumulate = _operation(4, _accumulate)
#: scale_rows(factor, count, rows): rows[k] *= factor[0].
scale_rows = _operation(3, _scale_rows)
#: multiply_rows(others, count, rows): rows[k] *= others[k].
multiply_rows = _operation(3, _multiply_rows)
#: add_row(source, target): target += source.
add_row = _operation(2, _add_row)
#: clear(count, rows): rows[k] = 0.
clear = _operation(2, _clear)
#: silu(values, scale, rates): values = scale SiLU(values), rates = scale SiLU'(values).
silu = _operation(3, _silu)
#: lines(slope, values, scale, rates): the same for the function that is x on the right and slope[0] x on the left.
lines = _operation(4, _lines)
#: total(row): the sum over the lanes.
total = _operation(1, _total, types.float32)
#: dots(row, count, others, target): target[k] += the sum over the lanes of row others[k].
dots = _operation(4, _dots)
