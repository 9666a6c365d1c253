"""Rules on and, or, xor, not and shifts; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAnd, HandleOr, HandleNot).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import (
    combined,
    element,
    has_all_bits,
    in_either_order,
    is_constant_like,
    is_integer,
    is_predicate,
    is_real,
    is_same_value,
    is_signed,
    is_zero,
    number_like,
)
from hloom.rewrite import (
    Builder,
    Family,
    number_at,
    operand_is,
    scalar_integer,
    some_constant,
    some_number,
    some_operand,
    used_once,
)

BITWISE = Family("bitwise", formerly="logic")

INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
"""Comparisons that are true where others are false, but for NaN."""
_SHIFTS = ("shift-left", "shift-right-arithmetic", "shift-right-logical")


@BITWISE.rewrites("and", benefit=3, depth=1, requires=some_number())
def and_with_ones(build: Builder, node: Apply) -> Node | None:
    """and(x, true) -> x; of integers, and(x, all ones) -> x."""
    return next((operand for operand, ones in in_either_order(node) if has_all_bits(ones)), None)


@BITWISE.rewrites("and", benefit=3, depth=1, requires=some_number(0))
def and_with_zero(build: Builder, node: Apply) -> Node | None:
    """and(x, false) -> false; of integers, and(x, 0) -> 0."""
    return next((zero for _, zero in in_either_order(node) if is_zero(zero)), None)


@BITWISE.rewrites("or", benefit=3, depth=1, requires=some_number(0))
def or_with_zero(build: Builder, node: Apply) -> Node | None:
    """or(x, false) -> x; of integers, or(x, 0) -> x."""
    return next((operand for operand, zero in in_either_order(node) if is_zero(zero)), None)


@BITWISE.rewrites("or", benefit=3, depth=1, requires=some_number())
def or_with_ones(build: Builder, node: Apply) -> Node | None:
    """or(x, true) -> true; of integers, or(x, all ones) -> all ones."""
    return next((ones for _, ones in in_either_order(node) if has_all_bits(ones)), None)


@BITWISE.rewrites("xor", benefit=3, depth=1, requires=some_number(0))
def xor_with_zero(build: Builder, node: Apply) -> Node | None:
    """xor(x, false) -> x; of integers, xor(x, 0) -> x."""
    return next((operand for operand, zero in in_either_order(node) if is_zero(zero)), None)


@BITWISE.rewrites("xor", benefit=2, depth=1, requires=some_number())
def xor_with_ones(build: Builder, node: Apply) -> Node | None:
    """xor(x, true) -> not(x); of integers, xor(x, all ones) -> not(x)."""
    return next((build.op("not", operand) for operand, ones in in_either_order(node) if has_all_bits(ones)), None)


@BITWISE.rewrites("and", "or", benefit=3, depth=2)
def logic_with_itself(build: Builder, node: Apply) -> Node | None:
    """and(x, x) -> x, or(x, x) -> x."""
    left, right = node.operands
    return left if is_same_value(left, right) else None


@BITWISE.rewrites("xor", benefit=3, depth=2)
def xor_with_itself(build: Builder, node: Apply) -> Node | None:
    """xor(x, x) -> 0; of pred, false."""
    left, right = node.operands
    if not is_same_value(left, right) or not (is_integer(node) or is_predicate(node)):
        return None
    return number_like(build, node, 0)


@BITWISE.rewrites("and", "or", benefit=2, requires=some_operand("not"))
def logic_with_its_inverse(build: Builder, node: Apply) -> Node | None:
    """and(x, not(x)) -> false, or(x, not(x)) -> true; of integers, 0 and all ones."""
    for operand, inverted in in_either_order(node):
        if inverted.opcode == "not" and inverted.operands[0] is operand:
            return _bits_like(build, node, node.opcode == "or")
    return None


@BITWISE.rewrites("and", "or", benefit=2, requires=some_operand("and", "or"))
def absorbed_logic(build: Builder, node: Apply) -> Node | None:
    """and(x, and(x, y)) -> and(x, y) and and(x, or(x, y)) -> x; the same with or and and swapped."""
    other = "or" if node.opcode == "and" else "and"
    for operand, inner in in_either_order(node):
        if inner.opcode == node.opcode and operand in inner.operands:
            return inner
        if inner.opcode == other and operand in inner.operands:
            return operand
    return None


@BITWISE.rewrites("and", "or", "xor", requires=(some_operand("and", "or", "xor"), some_constant()))
def logic_of_constants(build: Builder, node: Apply) -> Node | None:
    """and(and(x, c), d) -> and(x, and(c, d)); the same of or and xor."""
    for inner, constant in in_either_order(node):
        if inner.opcode != node.opcode or not is_constant_like(constant):
            continue
        for operand, other in in_either_order(inner):
            if is_constant_like(other) and not is_constant_like(operand):
                return build.op(node.opcode, operand, combined(build, node.opcode, other, constant))
    return None


@BITWISE.rewrites("not", benefit=3, requires=operand_is(0, "not"))
def not_of_not(build: Builder, node: Apply) -> Node | None:
    """not(not(x)) -> x."""
    inner = node.operands[0]
    return inner.operands[0] if inner.opcode == "not" else None


@BITWISE.rewrites("not", requires=operand_is(0, "compare"))
def not_of_compare(build: Builder, node: Apply) -> Node | None:
    """not(compare(x, y)) -> the inverse comparison; of floats only EQ and NE, for no order holds with NaN."""
    inner = node.operands[0]
    if not isinstance(inner, Apply) or inner.opcode != "compare" or not used_once(inner):
        return None
    direction = inner.attributes["direction"]
    ordered = all(is_integer(operand) or is_predicate(operand) for operand in inner.operands)
    if not ordered and direction not in ("EQ", "NE") and not is_total_order(inner):
        return None
    return build.like(inner, *inner.operands, direction=INVERSE[direction])


@BITWISE.rewrites(*_SHIFTS, benefit=3, depth=1, requires=some_number(0))
def shift_by_zero(build: Builder, node: Apply) -> Node | None:
    """shift(x, 0) -> x, and shift(0, x) -> 0."""
    operand, amount = node.operands
    return operand if is_zero(amount) or is_zero(operand) else None


@BITWISE.rewrites("shift-left", "shift-right-logical", benefit=2, depth=1, requires=number_at(1))
def shift_beyond_the_width(build: Builder, node: Apply) -> Node | None:
    """shift(x, n) -> 0, where n is at least the number of bits, or negative."""
    amount, element_type = scalar_integer(node.operands[1]), element(node)
    if amount is None or element_type is None or 0 <= amount < element_type.bits:
        return None
    return number_like(build, node, 0)


@BITWISE.rewrites(*_SHIFTS, requires=(operand_is(0, *_SHIFTS), number_at(1)))
def shift_of_shift(build: Builder, node: Apply) -> Node | None:
    """shift(shift(x, n), m) -> shift(x, n + m), where the sum is less than the number of bits."""
    inner, element_type = node.operands[0], element(node)
    if inner.opcode != node.opcode or element_type is None:
        return None
    first, second = scalar_integer(inner.operands[1]), scalar_integer(node.operands[1])
    if first is None or second is None or first < 0 or second < 0 or first + second >= element_type.bits:
        return None
    return build.op(node.opcode, inner.operands[0], number_like(build, node.operands[1], first + second))


def is_total_order(compare: Apply) -> bool:
    """Whether a comparison takes floats in the order of their bits, in which NaN has a place."""
    return compare.attribute("type") == "TOTALORDER" and all(is_real(operand) for operand in compare.operands)


def _bits_like(build: Builder, node: Apply, are_set: bool) -> Node | None:
    element_type = element(node)
    if element_type is None:
        return None
    ones = 1 if is_predicate(node) else -1 if is_signed(node) else 2**element_type.bits - 1
    return number_like(build, node, ones if are_set else 0)
