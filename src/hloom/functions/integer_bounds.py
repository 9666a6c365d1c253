"""Python's integers beside floats and beside integer arrays: compared by value, checked in arithmetic (NEP 50).

    np.array([1, 2], np.uint8) < 300    [True, True]
    np.array([1, 2], np.uint8) + 300    OverflowError: Python integer 300 out of bounds for uint8
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from hloom.autodiff import Emitter
from hloom.functions.symbols import COMPARISONS, DIRECTIONS, REFLECTED
from hloom.functions.values import PREDICATE, AbstractValue, Array, Const
from hloom.ir import DType, Node, TensorType, dtype

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

S64, U64 = dtype("s64"), dtype("u64")
_BELOW = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
"""What a comparison with an integer is with the float just below it."""
_ABOVE = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
HOLDS_FOR_SMALLER = {"==": False, "!=": True, "<": True, "<=": True, ">": False, ">=": False}
"""The result of a comparison if the left side is smaller than any possible right side."""


def bounds(element: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    info = np.iinfo(element.numpy) if element.numpy.kind in "iu" else ml_dtypes.iinfo(element.numpy)
    return int(info.min), int(info.max)


def check_bounds(interpreter: Interpreter, values: Sequence[AbstractValue], element: DType) -> None:
    """Raise OverflowError if a Python integer does not fit the type of the array it is combined with."""
    low, high = bounds(element)
    name = element.numpy.name
    for value in values:
        number = _python_integer(value)
        if number is not None and not low <= number <= high:
            interpreter.raise_error(OverflowError, f"Python integer {number} out of bounds for {name}")
        if not (isinstance(value, Array) and value.weak and value.dtype.is_integer and value.dtype is not element):
            continue
        emitter, (least, most) = interpreter.emitter, bounds(value.dtype)
        for opcode, bound, is_needed in (("GE", low, low > least), ("LE", high, high < most)):
            if is_needed:
                fits = emitter.compare(opcode, value.node, emitter.like(bound, value.node))
                interpreter.check(fits, OverflowError, f"Python integer out of bounds for {name}")


def compared_integers(
    interpreter: Interpreter, symbol: str, left: AbstractValue, right: AbstractValue
) -> AbstractValue | None:
    """A comparison of integers that no one type of theirs holds; None for others, which are compared in one type."""
    for value, other, sign in ((left, right, symbol), (right, left, REFLECTED[symbol])):
        number = _python_integer(other)
        if number is not None and isinstance(value, Array) and value.dtype.is_integer:
            low, high = bounds(value.dtype)
            if low <= number <= high:
                return None
            holds = HOLDS_FOR_SMALLER[sign] if number > high else HOLDS_FOR_SMALLER[REFLECTED[sign]]
            return Array(interpreter.emitter.constant(holds, TensorType(PREDICATE, value.dims)), value.weak)
    arrays = [_integers(interpreter, value) for value in (left, right)]
    a, b = arrays
    if a is None or b is None or a.dtype is b.dtype or (a.weak and b.weak):
        return None
    (x, y) = _spread(interpreter, a, b)
    if U64 not in (a.dtype, b.dtype):
        convert = interpreter.numbers.convert
        return Array(interpreter.emitter.compare(DIRECTIONS[symbol], convert(x, S64), convert(y, S64)))
    if a.dtype is not U64:
        x, y, symbol = y, x, REFLECTED[symbol]
    return Array(_compared_with_unsigned(interpreter, symbol, x, y))


def _compared_with_unsigned(interpreter: Interpreter, symbol: str, unsigned: Node, other: Node) -> Node:
    """A comparison of a number of 64 bits without a sign with one of another type, which may be negative."""
    emitter = interpreter.emitter
    compared = emitter.compare(DIRECTIONS[symbol], unsigned, interpreter.numbers.convert(other, U64))
    if bounds(other.type.dtype)[0] >= 0:  # type: ignore[union-attr]
        return compared
    is_negative = emitter.compare("LT", other, emitter.like(0, other))
    return emitter.select(is_negative, emitter.like(HOLDS_FOR_SMALLER[REFLECTED[symbol]], compared), compared)


def _spread(interpreter: Interpreter, a: Array, b: Array) -> tuple[Node, Node]:
    numbers = interpreter.numbers
    dims = numbers.common_dims([a.dims, b.dims])
    return numbers.broadcast(a.node, dims), numbers.broadcast(b.node, dims)


def _integers(interpreter: Interpreter, value: AbstractValue) -> Array | None:
    """A value as an array of integers; None where it is of another type."""
    if isinstance(value, Const) and isinstance(value.value, np.integer):
        value = interpreter.numbers.array(value)
    return value if isinstance(value, Array) and value.dtype.is_integer else None


def _python_integer(value: AbstractValue) -> int | None:
    """One of Python's integers that is known now."""
    is_integer = isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool)
    return value.value if is_integer else None  # type: ignore[attr-defined]


def is_beyond_exact(number: float, element: DType) -> bool:
    """Whether integers near a float may round to it."""
    return math.isfinite(number) and abs(number) >= 2.0 ** (53 if element.name == "f64" else 24)


def compared_with_integer(emitter: Emitter, symbol: str, left: Array, right: int) -> AbstractValue | None:
    """A number of the run beside an integer that its type does not hold; None where it holds that."""
    if left.dtype.numpy.kind in "iu":
        limits = np.iinfo(left.dtype.numpy)
        if limits.min <= right <= limits.max:
            return None
        return _known(emitter, COMPARISONS[symbol](0, right), left)
    if not left.dtype.is_float:
        return None
    try:
        near = float(left.dtype.numpy.type(right))
    except OverflowError:
        near = math.inf if right > 0 else -math.inf
    if near == right:
        return None
    if symbol in ("==", "!="):
        return _known(emitter, symbol == "!=", left)
    sign = (_BELOW if near < right else _ABOVE)[symbol]
    return Array(emitter.compare(DIRECTIONS[sign], left.node, emitter.like(near, left.node)), True)


def _known(emitter: Emitter, answer: bool, like: Array) -> AbstractValue:
    return Array(emitter.constant(answer, TensorType(PREDICATE, like.dims)), True) if like.dims else Const(answer)


def compared_with_float(emitter: Emitter, symbol: str, integer: Node, number: Node) -> AbstractValue:
    """An integer beside a float, both of the run.

    Rounding keeps the order, so that only where the rounded integer is the float the float as an integer decides; the
    one float that is the limit of the integers is above them all.
    """
    integer_type, number_type = integer.type, number.type
    assert isinstance(integer_type, TensorType) and isinstance(number_type, TensorType)
    direction = DIRECTIONS[symbol]
    rounded = emitter.convert(integer, number_type.dtype)
    by_rounding = emitter.compare(direction, rounded, number)
    by_integer = emitter.compare(direction, integer, emitter.convert(number, integer_type.dtype))
    limit = 2.0 ** (integer_type.dtype.bits - 1)
    is_limit = emitter.compare("GE", number, emitter.like(limit, number))
    above = emitter.like(COMPARISONS[symbol](0, 1), by_integer)
    exact = emitter.select(is_limit, above, by_integer)
    return Array(emitter.select(emitter.compare("EQ", rounded, number), exact, by_rounding), True)
