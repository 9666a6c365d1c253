"""Ops that work element by element: the tables of their functions by kind of element, compare, clamp and select.

Floats below f32 are computed in f32 and rounded back, as XLA's CPU does. Denormals are kept, which XLA's CPU takes for
zeros in f32, bf16 and f64.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from hloom.evaluate.complex_numbers import COMPLEX, joined
from hloom.evaluate.floats import REAL
from hloom.evaluate.integers import INTEGER, PREDICATE, WIDTH
from hloom.evaluate.promotion import narrowed, widened
from hloom.evaluate.sort import total_order_keys
from hloom.evaluate.table import Runner, Value, Values, array_type, arrays_of, pointwise
from hloom.ir import Apply, DTypeKind, dtype_of
from hloom.text import Unsupported

FUNCTIONS: dict[DTypeKind, dict[str, Callable[..., np.ndarray]]] = {
    DTypeKind.BOOLEAN: PREDICATE,
    DTypeKind.SIGNED: INTEGER,
    DTypeKind.UNSIGNED: INTEGER,
    DTypeKind.FLOAT: REAL,
    DTypeKind.COMPLEX: COMPLEX,
}
"""What each opcode computes on arrays of at least a byte, by kind of element."""
_OPCODES = sorted(set().union(*FUNCTIONS.values(), WIDTH))
_DIRECTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}


@pointwise(*_OPCODES)
def _elementwise(node: Apply, operands: Values, run: Runner) -> Value:
    arrays = arrays_of(operands)
    return narrowed(applied(node.opcode, arrays), array_type(node).dtype)


def applied(opcode: str, arrays: list[np.ndarray]) -> np.ndarray:
    """The wide values of an opcode on arrays of one element type; raises Unsupported where that has no such opcode."""
    dtype = dtype_of(arrays[0].dtype)
    wide = [widened(array) for array in arrays]
    if opcode in WIDTH and dtype.is_integer:
        return WIDTH[opcode](dtype.bits, *wide)
    function = FUNCTIONS[dtype.kind].get(opcode)
    if function is None:
        raise Unsupported(f"there is none of {dtype}")
    return function(*wide)


@pointwise("complex")
def _complex(node: Apply, operands: Values, run: Runner) -> Value:
    real, imaginary = arrays_of(operands)
    return joined(real, imaginary)


@pointwise("compare")
def _compare(node: Apply, operands: Values, run: Runner) -> Value:
    """An order in which NaN is unequal to all, itself included; or the total order of the bits."""
    left, right = arrays_of(operands)
    dtype = dtype_of(left.dtype)
    direction = node.attribute("direction")
    if dtype.is_complex and direction not in ("EQ", "NE"):
        raise Unsupported("complex numbers have no order")
    is_total = node.attribute("type") == "TOTALORDER" and dtype.is_float
    sides = (total_order_keys(left), total_order_keys(right)) if is_total else (widened(left), widened(right))
    return _DIRECTIONS[direction](*sides)


@pointwise("clamp")
def _clamp(node: Apply, operands: Values, run: Runner) -> Value:
    """The lesser of the upper bound and the greater of the lower bound and the operand; NaN where any of them is."""
    low, operand, high = arrays_of(operands)
    raised = narrowed(applied("maximum", [low, operand]), array_type(node).dtype)
    return narrowed(applied("minimum", [np.asarray(raised), high]), array_type(node).dtype)


@pointwise("select")
def _select(node: Apply, operands: Values, run: Runner) -> Value:
    predicate, on_true, on_false = arrays_of(operands)
    if on_true.dtype != on_false.dtype:
        on_true, on_false = widened(on_true), widened(on_false)
    return narrowed(np.where(predicate, on_true, on_false), array_type(node).dtype)
