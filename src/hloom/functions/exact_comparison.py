"""Exact comparisons of Python's integers with floats: neither is rounded to the other's type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.autodiff import Emitter
from hloom.functions.values import AbstractValue, Array, Const
from hloom.ir import DType, Node, TensorType, dtype

PREDICATE = dtype("pred")
DIRECTIONS = {"==": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
REFLECTED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BELOW = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
"""What a comparison with an integer is with the float just below it."""
_ABOVE = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}


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
