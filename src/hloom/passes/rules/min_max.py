"""Value-preserving rules on maximum, minimum and clamp; NaN in any operand yields NaN, as in XLA.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleMaximum, HandleMinimum, HandleClamp).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, DTypeKind, Node, integer_range
from hloom.passes.rules.value_properties import (
    combined,
    element,
    in_either_order,
    is_constant_like,
    is_integer,
    is_predicate,
    is_real,
    scalar_beneath,
)
from hloom.passes.rules.value_range import integer_bounds
from hloom.rewrite import (
    Builder,
    Family,
    integers,
    is_splat,
    operand_is,
    scalar_integer,
    some_constant,
    some_number,
    some_operand,
    splat_of,
)

MIN_MAX = Family("min-max", formerly="extremes")

_OPPOSITE = {"maximum": "minimum", "minimum": "maximum"}


@MIN_MAX.rewrites("maximum", "minimum", benefit=3, depth=1)
def extreme_of_the_same(build: Builder, node: Apply) -> Node | None:
    """maximum(x, x) -> x; the same of minimum."""
    return node.operands[0] if node.operands[0] is node.operands[1] else None


@MIN_MAX.rewrites("maximum", "minimum", benefit=3, depth=1, requires=some_number())
def extreme_with_the_least(build: Builder, node: Apply) -> Node | None:
    """maximum(x, -inf) -> x, minimum(x, inf) -> x; of integers and pred, with the type's least and greatest element."""
    for operand, bound in in_either_order(node):
        if _is_neutral(node.opcode, bound):
            return operand
    return None


@MIN_MAX.rewrites("maximum", "minimum", benefit=3, depth=3, formerly="extreme-of-what-lies-apart")
def extreme_of_disjoint_ranges(build: Builder, node: Apply) -> Node | None:
    """maximum(x, y) -> x, where by their value ranges no element of the integer y is greater; the same of minimum."""
    left, right = node.operands
    first, second = integer_bounds(left), integer_bounds(right)
    if first is None or second is None:
        return None
    if first[0] >= second[1]:
        return left if node.opcode == "maximum" else right
    if second[0] >= first[1]:
        return right if node.opcode == "maximum" else left
    return None


@MIN_MAX.rewrites("maximum", "minimum", benefit=2, requires=some_operand("maximum", "minimum"))
def extreme_of_extreme(build: Builder, node: Apply) -> Node | None:
    """maximum(maximum(x, y), y) -> maximum(x, y), maximum(y, maximum(x, y)) -> maximum(y, x); the same of minimum."""
    left, right = node.operands
    if left.opcode == node.opcode and right in left.operands:
        return left
    if right.opcode != node.opcode or left not in right.operands:
        return None
    return right if right.operands[0] is left else build.op(node.opcode, left, right.operands[0])


@MIN_MAX.rewrites("maximum", "minimum", benefit=2, requires=some_operand("maximum", "minimum"))
def extreme_of_opposite(build: Builder, node: Apply) -> Node | None:
    """maximum(x, minimum(x, y)) -> x, and with the two swapped, on integers: of floats, y may be NaN."""
    if not (is_integer(node) or is_predicate(node)):
        return None
    for inner, operand in in_either_order(node):
        if inner.opcode == _OPPOSITE[node.opcode] and operand in inner.operands:
            return operand
    return None


@MIN_MAX.rewrites("maximum", "minimum", benefit=2, requires=(some_operand("maximum", "minimum"), some_constant()))
def extreme_of_constants(build: Builder, node: Apply) -> Node | None:
    """maximum(maximum(x, c), d) -> maximum(x, maximum(c, d)); the same of minimum; not of zeros, which have signs."""
    for inner, constant in in_either_order(node):
        if inner.opcode != node.opcode or not _has_one_sign(constant):
            continue
        for operand, other in in_either_order(inner):
            if _has_one_sign(other) and not is_constant_like(operand):
                return build.op(node.opcode, operand, combined(build, node.opcode, other, constant))
    return None


@MIN_MAX.rewrites("maximum", "minimum", requires=(some_operand("maximum", "minimum"), some_constant()))
def extremes_to_clamp(build: Builder, node: Apply) -> Node | None:
    """maximum(minimum(x, high), low) -> clamp(low, x, high), and minimum(maximum(x, low), high) so too

    Where low and high are constants and low is less.
    """
    for inner, outer_bound in in_either_order(node):
        if inner.opcode != _OPPOSITE[node.opcode] or scalar_beneath(outer_bound) is None:
            continue
        for operand, inner_bound in in_either_order(inner):
            if scalar_beneath(inner_bound) is None or is_constant_like(operand):
                continue
            low, high = (outer_bound, inner_bound) if node.opcode == "maximum" else (inner_bound, outer_bound)
            if _is_less(low, high) and operand.type is node.type:
                return build.op("clamp", low, operand, high)
    return None


@MIN_MAX.rewrites("maximum", "minimum", benefit=2, requires=some_operand("clamp"))
def extreme_of_clamp(build: Builder, node: Apply) -> Node | None:
    """maximum(clamp(low, x, high), low) -> clamp(low, x, high), minimum(clamp(low, x, high), high) so too

    Where low and high are constants and low is less.
    """
    for inner, bound in in_either_order(node):
        if inner.opcode != "clamp" or not _is_less(inner.operands[0], inner.operands[2]):
            continue
        if bound is inner.operands[0 if node.opcode == "maximum" else 2]:
            return inner
    return None


@MIN_MAX.rewrites("clamp", benefit=3, requires=operand_is(1, "clamp"))
def clamp_of_clamp(build: Builder, node: Apply) -> Node | None:
    """clamp(low, clamp(low, x, high), high) -> clamp(low, x, high)."""
    low, inner, high = node.operands
    if inner.opcode != "clamp" or inner.operands[0] is not low or inner.operands[2] is not high:
        return None
    return inner


@MIN_MAX.rewrites("clamp", benefit=2, requires=(integers(), operand_is(1, "clamp")))
def clamp_between_constants_twice(build: Builder, node: Apply) -> Node | None:
    """clamp(a, clamp(b, x, c), d) -> clamp(clamp(a, b, d), x, clamp(a, c, d)), of integer constants: one clamp."""
    low, inner, high = node.operands
    if inner.opcode != "clamp" or not is_integer(node):
        return None
    numbers = [scalar_integer(bound) for bound in (low, inner.operands[0], inner.operands[2], high)]
    if None in numbers or not _is_less(low, high) or not _is_less(inner.operands[0], inner.operands[2]):
        return None
    if len({bound.type for bound in (low, high, inner.operands[0], inner.operands[2])}) > 1:
        return None
    lowest = build.op("clamp", low, inner.operands[0], high)
    return build.op("clamp", lowest, inner.operands[1], build.op("clamp", low, inner.operands[2], high))


@MIN_MAX.rewrites("clamp", benefit=3, depth=3)
def clamp_within_bounds(build: Builder, node: Apply) -> Node | None:
    """clamp(low, x, high) -> x, where the integer x is known to be between them, as iota does of its indices."""
    low, bounds, high = (integer_bounds(operand) for operand in node.operands)
    if low is None or bounds is None or high is None or not low[1] <= bounds[0] <= bounds[1] <= high[0]:
        return None
    return node.operands[1]


@MIN_MAX.rewrites("clamp", benefit=2)
def clamp_between_the_same(build: Builder, node: Apply) -> Node | None:
    """clamp(x, y, x) -> x, on integers: of floats, y may be NaN."""
    low, _, high = node.operands
    return low if low is high and (is_integer(node) or is_predicate(node)) else None


@MIN_MAX.rewrites("clamp", benefit=3, depth=1)
def clamp_of_rank(build: Builder, node: Apply) -> Node | None:
    """clamp(0, partition-id, n) -> partition-id, where the module has at most n + 1 partitions

    So too of replica-id. A count of 1 is what modules have that do not know it, as in XLA.
    """
    low, operand, high = node.operands
    counts = {"partition-id": "num_partitions", "replica-id": "replica_count"}
    if operand.opcode not in counts or scalar_integer(low) != 0:
        return None
    greatest, count = scalar_integer(high), node.graph.module.attributes.get(counts[operand.opcode])
    if greatest is None or not isinstance(count, int) or count == 1 or count > greatest + 1:
        return None
    return operand


def _is_neutral(opcode: str, bound: Node) -> bool:
    """Whether a constant changes nothing as an operand of maximum or minimum."""
    element_type = element(bound)
    if element_type is None:
        return False
    if is_real(bound):
        return is_splat(bound, -np.inf if opcode == "maximum" else np.inf)
    if element_type.kind is DTypeKind.BOOLEAN:
        splat = splat_of(bound)
        return splat is not None and bool(splat) == (opcode == "minimum")
    if not element_type.is_integer:
        return False
    return scalar_integer(bound) == integer_range(element_type)[0 if opcode == "maximum" else 1]


def _has_one_sign(node: Node) -> bool:
    """Whether it is a constant that is an integer, or a float that is the same and not zero in every element."""
    if is_integer(node):
        return is_constant_like(node)
    splat = splat_of(node)
    return is_real(node) and is_constant_like(node) and splat is not None and bool(splat != 0)


def _is_less(low: Node, high: Node) -> bool:
    """Whether two constants are one number each, and the first is less."""
    first, second = splat_of(low), splat_of(high)
    if first is None or second is None or not (is_integer(low) or is_real(low)):
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.less(first, second))
