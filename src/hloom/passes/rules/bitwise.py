"""Rules on and, or, xor, not and shifts; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAnd, HandleOr, HandleNot).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import (
    element,
    is_integer,
    is_predicate,
    is_real,
    is_signed,
    number_like,
)
from hloom.rewrite import (
    Builder,
    Family,
    register_builder,
    register_condition,
    scalar_integer,
)

BITWISE = Family("bitwise", formerly="logic")

INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
"""Comparisons that are true where others are false, but for NaN."""
_SHIFTS = ("shift-left", "shift-right-arithmetic", "shift-right-logical")


BITWISE.table("""
and-with-ones [3]: and(x, c) -> x if c is all-ones  # of integers -1, of pred true
and-with-zero [3]: and(x, z) -> z if z is zero  # of pred false
or-with-zero [3]: or(x, z) -> x if z is zero  # of pred false
or-with-ones [3]: or(x, c) -> c if c is all-ones  # of integers -1, of pred true
xor-with-zero [3]: xor(x, z) -> x if z is zero  # of pred false
xor-with-ones [2]: xor(x, c) -> not(x) if c is all-ones  # of integers -1, of pred true
logic-with-itself [3, depth 2]: and|or(x, y) -> x if in order, same-value(x, y)  # bit by bit
xor-with-itself [3, depth 2]: xor(x, y) -> 0 if in order, integer or predicate, same-value(x, y)  # bit by bit
logic-with-its-inverse [2]: and(x, not(x)) -> 0; or(x, not(x)) -> ones-like(root) where static  # bit by bit
absorbed-logic [2]: f(x, inner:f(x, y)) -> inner; f(x, g(x, y)) -> x for f/g in and/or, or/and  # bit by bit
logic-of-constants: f(f(x, c), d) -> f(x, combined(f, c, d))
    where c and d are constant, x is not constant for f in and, or, xor  # each is associative
not-of-not [3]: not(not(x)) -> x  # each bit changes twice
not-of-compare: not(c:compare(x, y)) -> inverse-of(c) if c is used once, c is invertible-comparison
    # of floats only EQ and NE, for no order holds with NaN
shift-by-zero [3]: f(x, z) -> x if z is zero; f(z, x) -> z if z is zero
    for f in shift-left, shift-right-arithmetic, shift-right-logical  # no bit moves, or none is set
shift-beyond-the-width [2]: shift-left|shift-right-logical(x, c) -> 0 if c is number, beyond-width(c, root)
    # of as many bits as there are, or of a negative number of bits
shift-of-shift: f(f(x, n), m) -> f(x, total(n, m)) if m is number, within-width(n, m, root)
    for f in shift-left, shift-right-arithmetic, shift-right-logical  # the sum is less than the number of bits
""")


def is_total_order(compare: Apply) -> bool:
    """Whether a comparison takes floats in the order of their bits, in which NaN has a place."""
    return compare.attribute("type") == "TOTALORDER" and all(is_real(operand) for operand in compare.operands)


def ones_like(build: Builder, node: Node) -> Node:
    """An array like a node in which every bit is set."""
    element_type = element(node)
    assert element_type is not None, "a static array"
    return number_like(build, node, 1 if is_predicate(node) else -1 if is_signed(node) else 2**element_type.bits - 1)


def _is_beyond_width(amount: Node, node: Node) -> bool:
    number, element_type = scalar_integer(amount), element(node)
    return number is not None and element_type is not None and not 0 <= number < element_type.bits


def _is_within_width(first: Node, second: Node, node: Node) -> bool:
    """Whether two amounts are numbers of bits, together less than an element has."""
    one, other, element_type = scalar_integer(first), scalar_integer(second), element(node)
    if one is None or other is None or element_type is None:
        return False
    return one >= 0 and other >= 0 and one + other < element_type.bits


def _total(build: Builder, first: Node, second: Node) -> Node:
    """The sum of two integers, as an array like the second."""
    one, other = scalar_integer(first), scalar_integer(second)
    assert one is not None and other is not None, "two integers"
    return number_like(build, second, one + other)


register_condition("beyond-width", _is_beyond_width)
register_condition("within-width", _is_within_width)
register_builder("total", _total)
register_builder("ones-like", ones_like)


def _is_invertible(compare: Apply) -> bool:
    """Whether the inverse comparison is true where one is false, with NaN too."""
    ordered = all(is_integer(operand) or is_predicate(operand) for operand in compare.operands)
    return ordered or compare.attributes["direction"] in ("EQ", "NE") or is_total_order(compare)


def _inverse_of(build: Builder, compare: Apply) -> Node:
    return build.like(compare, *compare.operands, direction=INVERSE[compare.attributes["direction"]])


register_condition("invertible-comparison", _is_invertible)
register_builder("inverse-of", _inverse_of)
