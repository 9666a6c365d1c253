"""Value-preserving rules on divide, remainder and power: each keeps every number but for the rounding of one operation.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDivide, HandleRemainder, HandlePower).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from hloom.ir import Apply, Node, TensorType
from hloom.passes.rules.value_properties import (
    element,
    in_either_order,
    is_constant,
    is_integer,
    is_non_negative,
    is_one,
    is_real,
    is_unsigned,
    is_zero,
    number_like,
)
from hloom.passes.rules.value_range import integer_bounds
from hloom.rewrite import (
    Builder,
    Family,
    array_value,
    constant_at,
    floats,
    integers,
    is_splat,
    number_at,
    operand_is,
    scalar_integer,
)

DIVIDE = Family("divide", formerly="division")


@DIVIDE.rewrites("divide", benefit=3, depth=1, requires=number_at(1, 1))
def divide_by_one(build: Builder, node: Apply) -> Node | None:
    """divide(x, 1) -> x: exact, but of complex numbers, where infinite parts times 0 give NaN."""
    if not (is_integer(node) or is_real(node)):
        return None
    return node.operands[0] if is_one(node.operands[1]) else None


@DIVIDE.rewrites("divide", benefit=3, depth=1, requires=number_at(1, -1))
def divide_by_minus_one(build: Builder, node: Apply) -> Node | None:
    """divide(x, -1) -> negate(x): exact; the least integer over -1 is itself, as its negation is."""
    if not is_splat(node.operands[1], -1) or not (is_integer(node) or is_real(node)):
        return None
    return build.op("negate", node.operands[0])


@DIVIDE.rewrites("divide", benefit=2, depth=1, requires=(integers(), number_at(1)))
def divide_unsigned_by_power_of_two(build: Builder, node: Apply) -> Node | None:
    """divide(x, 2^k) -> shift-right-logical(x, k), on unsigned integers."""
    exponent = exponent_of_two(node.operands[1])
    if exponent is None or not is_unsigned(node):
        return None
    return build.op("shift-right-logical", node.operands[0], number_like(build, node.operands[0], exponent))


@DIVIDE.rewrites("divide", depth=1, requires=(floats(), constant_at(1)))
def divide_by_float_power_of_two(build: Builder, node: Apply) -> Node | None:
    """divide(x, c) -> multiply(x, 1/c), where all of c and of 1/c are powers of two: both only move the exponent."""
    constant = node.operands[1]
    source = constant.operands[0] if constant.opcode == "broadcast" else constant
    numbers = array_value(source)
    if numbers is None or not is_real(node) or is_constant(node.operands[0]) or not _are_powers_of_two(numbers):
        return None
    return build.op("multiply", node.operands[0], reciprocal(build, constant))


@DIVIDE.rewrites("remainder", benefit=3, depth=1, requires=(integers(), number_at(1, 1)))
def remainder_by_one(build: Builder, node: Apply) -> Node | None:
    """remainder(x, 1) -> 0, on integers."""
    return number_like(build, node, 0) if is_integer(node) and is_one(node.operands[1]) else None


@DIVIDE.rewrites("remainder", benefit=3, requires=operand_is(0, "remainder"))
def remainder_of_remainder(build: Builder, node: Apply) -> Node | None:
    """remainder(remainder(x, y), y) -> remainder(x, y): exact, of floats too."""
    inner, divisor = node.operands
    return inner if inner.opcode == "remainder" and inner.operands[1] is divisor else None


@DIVIDE.rewrites("remainder", benefit=2, depth=1, requires=(integers(), number_at(1)))
def remainder_of_unsigned_by_power_of_two(build: Builder, node: Apply) -> Node | None:
    """remainder(x, 2^k) -> and(x, 2^k - 1), on unsigned integers."""
    exponent = exponent_of_two(node.operands[1])
    if exponent is None or not is_unsigned(node):
        return None
    return build.op("and", node.operands[0], number_like(build, node.operands[0], 2**exponent - 1))


@DIVIDE.rewrites("remainder", benefit=3, depth=3, requires=number_at(1))
def remainder_by_more(build: Builder, node: Apply) -> Node | None:
    """remainder(x, c) -> x, where x is known to be in [0, c), as an iota does."""
    bounds, divisor = integer_bounds(node.operands[0]), scalar_integer(node.operands[1])
    if bounds is None or divisor is None or not 0 <= bounds[0] <= bounds[1] < divisor:
        return None
    return node.operands[0]


@DIVIDE.rewrites("remainder", benefit=3, depth=3, requires=(operand_is(0, "add"), number_at(1)))
def remainder_of_sum_with_divisor(build: Builder, node: Apply) -> Node | None:
    """remainder(add(x, c), c) -> remainder(x, c), where x is not negative and the sum does not wrap around."""
    inner, divisor = node.operands
    value, whole = scalar_integer(divisor), integer_bounds(inner)
    if inner.opcode != "add" or value is None or value <= 0 or whole is None:
        return None
    for operand, constant in in_either_order(inner):
        bounds = integer_bounds(operand)
        if scalar_integer(constant) != value or bounds is None or bounds[0] < 0:
            continue
        if whole == (bounds[0] + value, bounds[1] + value):  # what wraps around may be any number
            return build.op("remainder", operand, divisor)
    return None


@DIVIDE.rewrites("power", benefit=3, depth=1, requires=number_at(1, 0))
def power_of_zero(build: Builder, node: Apply) -> Node | None:
    """power(x, 0) -> 1: also of NaN, infinity and zero."""
    if not is_zero(node.operands[1]) or not (is_real(node) or _holds_one(node)):
        return None
    return number_like(build, node, 1)


@DIVIDE.rewrites("power", benefit=3, depth=1, requires=number_at(1, 1))
def power_of_one(build: Builder, node: Apply) -> Node | None:
    """power(x, 1) -> x: exact."""
    return node.operands[0] if is_one(node.operands[1]) and (is_integer(node) or is_real(node)) else None


@DIVIDE.rewrites("power", benefit=2, depth=1, requires=number_at(1, 2))
def power_of_two(build: Builder, node: Apply) -> Node | None:
    """power(x, 2) -> multiply(x, x): rounded once, and the same of NaN and infinity."""
    base, exponent = node.operands
    if not is_splat(exponent, 2) or not (is_integer(node) or is_real(node)):
        return None
    return build.op("multiply", base, base)


@DIVIDE.rewrites("power", benefit=2, depth=1, requires=(integers(), number_at(1, 3)))
def integer_power_of_three(build: Builder, node: Apply) -> Node | None:
    """power(x, 3) -> multiply(x, multiply(x, x)), on integers: they wrap around."""
    return cube(build, node) if is_integer(node) else None


@DIVIDE.rewrites("power", benefit=2, depth=1, requires=(floats(), number_at(1, -1)))
def power_of_minus_one(build: Builder, node: Apply) -> Node | None:
    """power(x, -1) -> divide(1, x), on floats: rounded once, and of zero the infinity with its sign."""
    base, exponent = node.operands
    if not is_splat(exponent, -1) or not is_real(node):
        return None
    return build.op("divide", number_like(build, base, 1), base)


@DIVIDE.rewrites("power", benefit=2, depth=3, requires=(floats(), number_at(1, 0.5)))
def power_of_one_half(build: Builder, node: Apply) -> Node | None:
    """power(x, 0.5) -> sqrt(x), where x is known to be non-negative: of -infinity and -0 the two differ."""
    base, exponent = node.operands
    if not is_real(node) or not is_splat(exponent, 0.5) or not is_non_negative(base):
        return None
    return build.op("sqrt", base)


def exponent_of_two(node: Node) -> int | None:
    """The logarithm of an integer that is the same power of two in every element."""
    value = scalar_integer(node)
    return value.bit_length() - 1 if value is not None and value > 0 and value & (value - 1) == 0 else None


def cube(build: Builder, node: Apply) -> Node | None:
    """power(x, 3) as multiply(x, multiply(x, x))."""
    base, exponent = node.operands
    return build.op("multiply", base, build.op("multiply", base, base)) if is_splat(exponent, 3) else None


def reciprocal(build: Builder, constant: Node) -> Node:
    """One over the numbers of a constant, or of the constant that a broadcast repeats."""
    if constant.opcode == "broadcast":
        assert isinstance(constant, Apply)
        return build.like(constant, reciprocal(build, constant.operands[0]), type=constant.type)
    numbers, node_type = array_value(constant), constant.type
    assert numbers is not None and isinstance(node_type, TensorType)
    with np.errstate(all="ignore"):
        inverse = (np.ones((), numbers.dtype) / numbers).astype(numbers.dtype)
    return build.constant(inverse, node_type.dtype)


def _holds_one(node: Node) -> bool:
    """Whether it is of integers, but for those of one signed bit, which are 0 and -1."""
    element_type = element(node)
    return element_type is not None and is_integer(node) and (element_type.bits > 1 or is_unsigned(node))


def _are_powers_of_two(numbers: np.ndarray) -> bool:
    """Whether all are plus or minus a power of two whose reciprocal is an ordinary number, too."""
    wide = numbers.astype(np.float64)
    if not wide.size or not np.isfinite(wide).all() or (wide == 0).any():
        return False
    with np.errstate(all="ignore"):
        smallest = float(ml_dtypes.finfo(numbers.dtype).smallest_normal)
        inverse = (1 / wide).astype(numbers.dtype).astype(np.float64)
    mantissas = np.abs(np.frexp(wide)[0])
    ordinary = (np.abs(wide) >= smallest) & (np.abs(inverse) >= smallest) & np.isfinite(inverse)
    return bool((mantissas == 0.5).all() and ordinary.all())
