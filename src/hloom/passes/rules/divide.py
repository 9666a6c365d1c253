"""Value-preserving rules on divide, remainder and power: each keeps every number but for the rounding of one operation.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDivide, HandleRemainder, HandlePower).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from hloom.ir import Apply, Node, TensorType
from hloom.passes.rules.value_properties import (
    element,
    is_integer,
    is_unsigned,
    number_like,
)
from hloom.passes.rules.value_range import integer_bounds
from hloom.rewrite import (
    Builder,
    Family,
    array_value,
    constant_at,
    integers,
    number_at,
    register_builder,
    register_condition,
    scalar_integer,
)

DIVIDE = Family("divide", formerly="division")

DIVIDE.table("""
divide-by-one [3]: divide(x, 1) -> x if integer or real
    # exact, but of complex numbers, where infinite parts times 0 give NaN
divide-by-minus-one [3]: divide(x, -1) -> negate(x) if integer or real
    # exact; the smallest integer divided by -1 is itself, as is its negation
divide-unsigned-by-power-of-two [2]: divide(x, c) -> shift-right-logical(x, exponent-of(c, x))
    where unsigned, c is power-of-two-integer  # c is 2^k, and k its exponent
divide-by-float-power-of-two: divide(x, c) -> multiply(x, reciprocal(c))
    where real, x is not literal, c is exactly-invertible
    # all of c and of 1/c are powers of two: both only move the exponent
remainder-by-one [3]: remainder(x, 1) -> 0 if integer  # of floats, their fraction
remainder-of-remainder [3]: remainder(r:remainder(x, y), y) -> r  # exact, of floats too
remainder-of-unsigned-by-power-of-two [2]: remainder(x, c) -> and(x, bits-below(c, x))
    where unsigned, c is power-of-two-integer  # c is 2^k, and the bits below it 2^k - 1
remainder-by-more [3, depth 3]: remainder(x, c) -> x if c is number, within-divisor(x, c)
    # x is known to be in [0, c), as an iota does
remainder-of-sum-with-divisor [3, depth 3]: remainder(s:add(x, c), d) -> remainder(x, d)
    if d is number, same-integer(c, d), adds-without-wrapping(s, x, d)  # x is not negative
power-of-zero [3]: power(x, z) -> 1 if z is zero, real or able-to-hold-one  # also of NaN, infinity and zero
power-of-one [3]: power(x, 1) -> x if integer or real  # exact
power-of-two [2]: power(x, 2) -> multiply(x, x) if integer or real  # rounded once, and the same of NaN and infinity
integer-power-of-three [2]: power(x, 3) -> multiply(x, multiply(x, x)) if integer  # integers wrap around
power-of-minus-one [2]: power(x, -1) -> divide(1, x) if real
    # rounded once, and of zero the infinity with its sign
power-of-one-half [2, depth 3]: power(x, 0.5) -> sqrt(x) if real, x is non-negative
    # of -infinity and -0 the two differ
""")


def exponent_of_two(node: Node) -> int | None:
    """The logarithm of an integer that is the same power of two in every element."""
    value = scalar_integer(node)
    return value.bit_length() - 1 if value is not None and value > 0 and value & (value - 1) == 0 else None


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


def _is_within(node: Node, divisor: Node) -> bool:
    """Whether a value is known to be at least 0 and less than a number."""
    bounds, value = integer_bounds(node), scalar_integer(divisor)
    return bounds is not None and value is not None and 0 <= bounds[0] <= bounds[1] < value


def _is_same_integer(one: Node, other: Node) -> bool:
    return scalar_integer(one) is not None and scalar_integer(one) == scalar_integer(other)


def _adds_without_wrapping(total: Node, node: Node, amount: Node) -> bool:
    """Whether a sum is known not to wrap around, of a value that is not negative and of a positive number."""
    value, whole, bounds = scalar_integer(amount), integer_bounds(total), integer_bounds(node)
    if value is None or value <= 0 or bounds is None or bounds[0] < 0:
        return False
    return whole == (bounds[0] + value, bounds[1] + value)


def _is_exactly_invertible(constant: Node) -> bool:
    numbers = array_value(constant.operands[0] if constant.opcode == "broadcast" else constant)
    return numbers is not None and _are_powers_of_two(numbers)


def _exponent_like(build: Builder, power: Node, node: Node) -> Node:
    exponent = exponent_of_two(power)
    assert exponent is not None, "a power of two"
    return number_like(build, node, exponent)


def _bits_below(build: Builder, power: Node, node: Node) -> Node:
    exponent = exponent_of_two(power)
    assert exponent is not None, "a power of two"
    return number_like(build, node, 2**exponent - 1)


register_condition("power-of-two-integer", lambda node: exponent_of_two(node) is not None, of_operand=number_at)
register_condition("exactly-invertible", _is_exactly_invertible, of_operand=constant_at)
register_condition("able-to-hold-one", _holds_one, of_root=integers())
register_condition("within-divisor", _is_within)
register_builder("exponent-of", _exponent_like)
register_builder("bits-below", _bits_below)
register_builder("reciprocal", reciprocal)
register_condition("same-integer", _is_same_integer)
register_condition("adds-without-wrapping", _adds_without_wrapping)
