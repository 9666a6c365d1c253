"""Rules on compare, and on conjunctions of comparisons; they are exact, with NaN too.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleCompare, HandleAnd).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import numpy as np

from hloom.ir import Apply, Node
from hloom.passes.rules.bitwise import is_total_order
from hloom.passes.rules.value_properties import (
    is_integer,
    is_predicate,
    is_real,
    number_like,
)
from hloom.passes.rules.value_range import integer_bounds
from hloom.rewrite import (
    Builder,
    Family,
    all_operands,
    register_condition,
    scalar_integer,
    some_number,
    some_operand,
    splat_of,
    tensor_type,
)

COMPARE = Family("compare", formerly="comparison")

MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
"""What each comparison is with its operands swapped."""
_OPERATORS: dict[str, Callable] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "GT": operator.gt,
    "LE": operator.le,
    "GE": operator.ge,
}


COMPARE.table("""
compare-with-itself [3]: compare(x, x, direction=EQ|GE|LE) -> true; compare(x, x) -> false
    where x is integer or predicate  # of floats, NaN is not equal to itself
compare-within-bounds [3, depth 3]: compare(x, y, direction=d) -> true if holds-for-all(d, x, y);
    compare(x, y, direction=d) -> false if holds-for-none(d, x, y) where static
    # by the value ranges of integers: an unsigned one is never less than 0, an iota of 8 elements always less than 8
compare-with-zero [3, depth 3]: compare(x, z, direction=LT) -> false if x is real, z is zero, x is at-least-zero;
    compare(z, x, direction=GT) -> false if x is real, z is zero, x is at-least-zero
    where not total-order  # x may be NaN
""")


@COMPARE.rewrites(
    "compare", benefit=2, depth=1, requires=some_number(), because="evaluates the comparison for both truths"
)
def compare_with_truth(build: Builder, node: Apply) -> Node | None:
    """compare(p, true), direction=EQ -> p; and all else that compares pred with true or false is p or not(p)."""
    for operand_index, (operand, constant) in enumerate((node.operands, node.operands[::-1])):
        truth = splat_of(constant)
        if truth is None or not is_predicate(operand) or not is_predicate(constant):
            continue
        direction = node.attributes["direction"] if operand_index == 0 else MIRRORED[node.attributes["direction"]]
        compared = _OPERATORS[direction]
        return _chosen(build, node, operand, bool(compared(1, int(truth))), bool(compared(0, int(truth))))
    return None


@COMPARE.rewrites(
    "compare",
    benefit=2,
    requires=(some_number(), some_operand("select", "convert")),
    because="evaluates the comparison for both numbers",
)
def compare_of_select(build: Builder, node: Apply) -> Node | None:
    """compare(select(p, 1, 0), 0), direction=NE -> p; whatever the constants are, it is p, not(p), true or false.

    The same of compare(convert(p), c).
    """
    for operand_index, (operand, constant) in enumerate((node.operands, node.operands[::-1])):
        number, alternatives = splat_of(constant), _alternatives(operand)
        if number is None or alternatives is None or not (is_integer(operand) or is_real(operand)):
            continue
        if is_total_order(node):
            return None
        direction = node.attributes["direction"] if operand_index == 0 else MIRRORED[node.attributes["direction"]]
        predicate, on_true, on_false = alternatives
        with np.errstate(all="ignore"):
            first, second = _OPERATORS[direction](on_true, number), _OPERATORS[direction](on_false, number)
        return _chosen(build, node, predicate, bool(first), bool(second))
    return None


COMPARE.table("""
compare-of-extreme: compare(maximum(x, y), x, direction=GT) -> like(root, y, x);
    compare(minimum(x, y), x, direction=LT) -> like(root, y, x);
    compare(x, minimum(x, y), direction=GT) -> like(root, x, y);
    compare(x, maximum(x, y), direction=LT) -> like(root, x, y) where not total-order
    # where x or y is NaN, both are false
""")


@COMPARE.rewrites(
    "and",
    "or",
    benefit=2,
    requires=all_operands("compare"),
    because="mirrors comparisons, and picks the narrower or wider of two",
)
def comparisons_with_constants(build: Builder, node: Apply) -> Node | None:
    """and(compare(x, 5), compare(x, 7)), both direction=LT -> compare(x, 5), direction=LT

    The narrower one where both must hold and the wider one where either may, of integers and of one direction.
    """
    one, other = _threshold(node.operands[0]), _threshold(node.operands[1])
    if one is None or other is None or one[:2] != other[:2]:
        return None
    operand, direction, first = one
    takes_least = (direction in ("LT", "LE")) == (node.opcode == "and")
    chosen = (min if takes_least else max)(first, other[2])
    for comparison, number in ((node.operands[0], first), (node.operands[1], other[2])):
        if number == chosen and comparison.operands[0] is operand:
            return comparison
    return build.op("compare", operand, number_like(build, operand, chosen), direction=direction)


def _truth(build: Builder, node: Apply, value: bool) -> Node | None:
    return None if tensor_type(node) is None else number_like(build, node, value)


def _is_decided(truth: bool, direction: str, left: Node, right: Node) -> bool:
    """Whether the value ranges of two integers give a comparison this truth."""
    one, other = integer_bounds(left), integer_bounds(right)
    return one is not None and other is not None and _compare_bounds(direction, one, other) is truth


def _compare_bounds(direction: str, left: tuple[int, int], right: tuple[int, int]) -> bool | None:
    """Whether a comparison holds for all numbers within the bounds, or for none; None where for some."""
    if direction in ("GT", "GE"):
        return _compare_bounds(MIRRORED[direction], right, left)
    if direction == "LT":
        return True if left[1] < right[0] else False if left[0] >= right[1] else None
    if direction == "LE":
        return True if left[1] <= right[0] else False if left[0] > right[1] else None
    is_apart = left[1] < right[0] or right[1] < left[0]
    is_one = left[0] == left[1] == right[0] == right[1]
    equal = True if is_one else False if is_apart else None
    return equal if equal is None or direction == "EQ" else not equal


def _chosen(build: Builder, node: Apply, predicate: Node, on_true: bool, on_false: bool) -> Node | None:
    """What a predicate decides between two truths."""
    if on_true == on_false:
        return _truth(build, node, on_true)
    return predicate if on_true else build.op("not", predicate)


def _alternatives(node: Node) -> tuple[Node, object, object] | None:
    """A predicate and the numbers that it chooses between, each the same in every element."""
    if node.opcode == "convert" and is_predicate(node.operands[0]):
        return node.operands[0], 1, 0
    if node.opcode != "select":
        return None
    on_true, on_false = splat_of(node.operands[1]), splat_of(node.operands[2])
    return None if on_true is None or on_false is None else (node.operands[0], on_true, on_false)


def _threshold(node: Node) -> tuple[Node, str, int] | None:
    """An integer that is compared with a constant, the direction, and the constant."""
    if not isinstance(node, Apply) or node.opcode != "compare" or node.attributes["direction"] in ("EQ", "NE"):
        return None
    left, right = node.operands
    direction = node.attributes["direction"]
    if scalar_integer(right) is not None and scalar_integer(left) is None:
        return left, direction, scalar_integer(right) or 0
    if scalar_integer(left) is not None and scalar_integer(right) is None:
        return right, MIRRORED[direction], scalar_integer(left) or 0
    return None


register_condition("total-order", is_total_order)
register_condition("holds-for-all", partial(_is_decided, True))
register_condition("holds-for-none", partial(_is_decided, False))
