"""Value-preserving rules on maximum, minimum and clamp; NaN in any operand yields NaN, as in XLA.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleMaximum, HandleMinimum, HandleClamp).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, DTypeKind, Node, integer_range
from hloom.passes.rules.value_properties import (
    element,
    is_constant_like,
    is_integer,
    is_real,
)
from hloom.passes.rules.value_range import integer_bounds
from hloom.rewrite import (
    Builder,
    Family,
    constant_at,
    is_splat,
    number_at,
    register_condition,
    scalar_integer,
    splat_of,
)

MIN_MAX = Family("min-max", formerly="extremes")


MIN_MAX.table("""
extreme-of-the-same [3]: maximum|minimum(x, x) -> x  # neither is greater
extreme-with-the-least [3]: maximum(x, c) -> x if c is least; minimum(x, c) -> x if c is greatest
    # of floats the infinities, of integers and pred the type's least and greatest element
extreme-of-disjoint-ranges [3, depth 3, formerly extreme-of-what-lies-apart]:
    maximum(x, y) -> x if at-least(x, y); minimum(x, y) -> y if at-least(x, y)
    # by their value ranges no element of the integer y is greater
""")


MIN_MAX.table("""
extreme-of-extreme [2]: f(e:f(x, y), y) -> e; f(x, e:f(x, y)) -> e if e is in order; f(x, f(x, y)) -> f(x, y)
    where in order for f in maximum, minimum  # neither is greater
extreme-of-opposite [2]: f(x, g(x, y)) -> x
    where integer or predicate for f/g in maximum/minimum, minimum/maximum  # of floats, y may be NaN
extreme-of-constants [2]: f(f(x, c), d) -> f(x, combined(f, c, d))
    where c and d are one-signed, x is not constant for f in maximum, minimum  # zeros have signs
extremes-to-clamp: maximum(minimum(x, high), low) -> clamp(low, x, high);
    minimum(maximum(x, low), high) -> clamp(low, x, high)
    where low and high are scalar-constant, x is not constant, less(low, high), same-type(x, root)
    # NaN stays NaN in both
extreme-of-clamp [2]: maximum(c:clamp(low, x, high), low) -> c; minimum(c:clamp(low, x, high), high) -> c
    where less(low, high)  # the clamp is within its bounds, or NaN
clamp-of-clamp [3]: clamp(low, c:clamp(low, x, high), high) -> c  # what is within the bounds stays
clamp-between-constants-twice [2]: clamp(a, clamp(b, x, c), d) -> clamp(clamp(a, b, d), x, clamp(a, c, d))
    where integer, a and b and c and d are whole-number, less(a, d), less(b, c),
    same-type(a, b), same-type(a, c), same-type(a, d)  # the inner bounds are clamped at once
clamp-within-bounds [3, depth 3]: clamp(low, x, high) -> x if at-least(x, low), at-least(high, x)
    # by their value ranges the integer x is between them, as iota is of its indices
clamp-between-the-same [2]: clamp(x, y, x) -> x if integer or predicate  # of floats, y may be NaN
""")


@MIN_MAX.rewrites("clamp", benefit=3, depth=1, because="reads the number of devices in the module's header")
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


def _has_one_sign(node: Node) -> bool:
    """Whether it is a constant that is an integer, or a float that is the same and not zero in every element."""
    if is_integer(node):
        return is_constant_like(node)
    splat = splat_of(node)
    return is_real(node) and is_constant_like(node) and splat is not None and bool(splat != 0)


def _is_bound(node: Node, side: int) -> bool:
    """Whether every element is the smallest (0) or largest (1) number of its type."""
    element_type = element(node)
    if element_type is None:
        return False
    if is_real(node):
        return is_splat(node, (-np.inf, np.inf)[side])
    if element_type.kind is DTypeKind.BOOLEAN:
        splat = splat_of(node)
        return splat is not None and bool(splat) == bool(side)
    return element_type.is_integer and scalar_integer(node) == integer_range(element_type)[side]


def _reaches(node: Node, other: Node) -> bool:
    """Whether no element of an integer is less than any of another, by their value ranges."""
    first, second = integer_bounds(node), integer_bounds(other)
    return first is not None and second is not None and first[0] >= second[1]


register_condition("least", lambda node: _is_bound(node, 0), of_operand=number_at)
register_condition("greatest", lambda node: _is_bound(node, 1), of_operand=number_at)
register_condition("one-signed", _has_one_sign, of_operand=constant_at)
register_condition("whole-number", lambda node: scalar_integer(node) is not None, of_operand=number_at)
register_condition("at-least", _reaches)
