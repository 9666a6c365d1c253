"""Elementwise ops: tables of their functions by kind of element, compare, clamp and select.

Floats below f32 are computed in f32 and rounded back, as XLA's CPU does. Denormals are kept, which XLA's CPU takes for
zeros in f32, bf16 and f64.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from hloom.evaluator.complex_numbers import COMPLEX, joined
from hloom.evaluator.conversion import narrowed, widened
from hloom.evaluator.integers import INTEGER, PREDICATE, WIDTH
from hloom.evaluator.sort import total_order_keys
from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, pointwise
from hloom.ir import Apply, Constant, DTypeKind, Node, Trait, dtype_of
from hloom.ops import with_trait
from hloom.text import Unsupported

Function = Callable[..., np.ndarray]


def _maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NaN where either is; 0 is greater than -0."""
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))


def _minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NaN where either is; -0 is less than 0."""
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))


def _sign(x: np.ndarray) -> np.ndarray:
    """1 or -1; signed zeros and NaNs are themselves."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones((), x.dtype), x))


def _round_away(x: np.ndarray) -> np.ndarray:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    is_further = np.abs(x - whole) >= 0.5
    return np.copysign(whole + np.where(is_further, np.copysign(np.ones((), x.dtype), x), np.zeros((), x.dtype)), x)


def _imaginary(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


def in_double(function: Function) -> Function:
    """A function computed in f64."""
    return lambda *operands: function(*(operand.astype(np.float64) for operand in operands))


def _error(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(number) for number in x.ravel().tolist()], np.float64).reshape(x.shape)


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _reciprocal_root(x: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(x)


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """As C's pow: where one exponent of 0.5 is for all, numpy takes the square root, of which -inf has none."""
    is_edge = (y == 0.5) & (np.isinf(x) | (x == 0))
    return np.where(is_edge, np.abs(x), np.power(x, y))


_TRANSCENDENTAL: dict[str, Function] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": _error,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": _logistic,
    "power": _power,
    "rsqrt": _reciprocal_root,
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}

REAL: dict[str, Function] = {
    "abs": np.abs,
    "add": np.add,
    "ceil": np.ceil,
    "divide": np.divide,
    "floor": np.floor,
    "imag": _imaginary,
    "is-finite": np.isfinite,
    "maximum": _maximum,
    "minimum": _minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "real": np.positive,
    "remainder": np.fmod,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "sign": _sign,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    **{opcode: in_double(function) for opcode, function in _TRANSCENDENTAL.items()},
}
"""Functions of f32 or f64, which yield either."""


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


@pointwise(*(opcode for opcode in _OPCODES if opcode != "power"))
def _elementwise(node: Apply, operands: Values, run: Runner) -> Value:
    arrays = arrays_of(operands)
    return narrowed(applied(node.opcode, arrays), array_type(node).dtype)


@pointwise("power")
def _power_or_reciprocal(node: Apply, operands: Values, run: Runner) -> Value:
    """A power; of integers to a constant -1 what 1 divided by them is, which differs of zero.

    So XLA has it, which folds constants, and then divides (HandlePower, algebraic_simplifier.cc).
    """
    base, exponent = arrays_of(operands)
    is_signed = dtype_of(base.dtype).kind is DTypeKind.SIGNED
    if is_signed and np.all(exponent == -1) and _is_of_constants(node.operands[1]):
        ones = np.ones(np.broadcast_shapes(base.shape, exponent.shape), base.dtype)
        return narrowed(applied("divide", [ones, base]), array_type(node).dtype)
    return narrowed(applied("power", [base, exponent]), array_type(node).dtype)


def _is_of_constants(node: Node) -> bool:
    """Whether a value is computed of constants alone, element by element or as a broadcast."""
    pending, seen = [node], {node}
    while pending:
        value = pending.pop()
        if isinstance(value, Constant):
            continue
        if not isinstance(value, Apply) or value.opcode not in _FOLDED_BY_XLA:
            return False
        pending += [operand for operand in value.operands if operand not in seen]
        seen.update(value.operands)
    return True


_FOLDED_BY_XLA = with_trait(Trait.ELEMENTWISE) | {"broadcast", "reshape"}


def applied(opcode: str, arrays: list[np.ndarray]) -> np.ndarray:
    """The wide values of an opcode on arrays of one element type; raises Unsupported where that has no such opcode."""
    dtype = dtype_of(arrays[0].dtype)
    wide = [widened(array) for array in arrays]
    if opcode in WIDTH and dtype.is_integer:
        return WIDTH[opcode](dtype.bits, *wide)
    function = FUNCTIONS[dtype.kind].get(opcode)
    if function is None:
        raise Unsupported(f"there is not one of {dtype}")
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
