"""Rules on select; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSelect).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import has_all_bits, is_integer, is_predicate, is_zero
from hloom.rewrite import (
    Builder,
    Family,
    either,
    integers_or_predicates,
    number_at,
    operand_is,
    predicates,
    some_operand,
    tensor_type,
    used_once,
)

SELECT = Family("select", formerly="selection")


@SELECT.rewrites("select", "tuple-select", benefit=3, depth=1)
def select_between_the_same(build: Builder, node: Apply) -> Node | None:
    """select(p, x, x) -> x."""
    return node.operands[1] if node.operands[1] is node.operands[2] else None


@SELECT.rewrites("select", "tuple-select", benefit=3, depth=1, requires=number_at(0))
def select_by_constant(build: Builder, node: Apply) -> Node | None:
    """select(true, x, y) -> x, select(false, x, y) -> y."""
    predicate, on_true, on_false = node.operands
    if has_all_bits(predicate):
        return on_true
    return on_false if is_zero(predicate) else None


@SELECT.rewrites("select", benefit=2, requires=operand_is(0, "not"))
def select_by_not(build: Builder, node: Apply) -> Node | None:
    """select(not(p), x, y) -> select(p, y, x)."""
    predicate, on_true, on_false = node.operands
    if predicate.opcode != "not":
        return None
    return build.op("select", predicate.operands[0], on_false, on_true)


@SELECT.rewrites("select", benefit=3, depth=1, requires=(predicates(), number_at(1), number_at(2)))
def select_truths(build: Builder, node: Apply) -> Node | None:
    """select(p, true, false) -> p, select(p, false, true) -> not(p)."""
    predicate, on_true, on_false = node.operands
    if not is_predicate(node) or tensor_type(predicate) is None:
        return None
    if has_all_bits(on_true) and is_zero(on_false):
        return predicate
    return build.op("not", predicate) if is_zero(on_true) and has_all_bits(on_false) else None


@SELECT.rewrites("select", benefit=2, depth=1, requires=(predicates(), either(number_at(1), number_at(2, 0))))
def select_one_truth(build: Builder, node: Apply) -> Node | None:
    """select(p, true, q) -> or(p, q), select(p, q, false) -> and(p, q)."""
    predicate, on_true, on_false = node.operands
    if not is_predicate(node) or predicate.type is not node.type:
        return None
    if has_all_bits(on_true):
        return build.op("or", predicate, on_false)
    return build.op("and", predicate, on_true) if is_zero(on_false) else None


@SELECT.rewrites("select", benefit=2, requires=(integers_or_predicates(), operand_is(0, "compare")))
def select_the_compared(build: Builder, node: Apply) -> Node | None:
    """select(compare(x, y), x, y) -> maximum(x, y) for GT and GE, minimum(x, y) for LT and LE, y for EQ, x for NE

    On integers; of pred, or and and. Floats have two zeros that are equal, and NaN.
    """
    compared, on_true, on_false = node.operands
    if not isinstance(compared, Apply) or compared.opcode != "compare" or compared.operands != (on_true, on_false):
        return None
    if not (is_integer(node) or is_predicate(node)):
        return None
    direction = compared.attributes["direction"]
    if direction in ("EQ", "NE"):
        return on_false if direction == "EQ" else on_true
    greater, lesser = ("or", "and") if is_predicate(node) else ("maximum", "minimum")
    return build.op(greater if direction in ("GT", "GE") else lesser, on_true, on_false)


@SELECT.rewrites("select", benefit=2, requires=either(operand_is(1, "select"), operand_is(2, "select")))
def select_of_select(build: Builder, node: Apply) -> Node | None:
    """select(p, select(p, x, y), z) -> select(p, x, z), select(p, x, select(p, y, z)) -> select(p, x, z)."""
    predicate, on_true, on_false = node.operands
    if on_true.opcode == "select" and on_true.operands[0] is predicate:
        return build.op("select", predicate, on_true.operands[1], on_false)
    if on_false.opcode == "select" and on_false.operands[0] is predicate:
        return build.op("select", predicate, on_true, on_false.operands[2])
    return None


@SELECT.rewrites("select", requires=some_operand("dynamic-update-slice"))
def select_around_update(build: Builder, node: Apply) -> Node | None:
    """select(p, x, dynamic-update-slice(x, u, i)) ->
    dynamic-update-slice(x, select(dynamic-slice(p, i), dynamic-slice(x, i), u), i)

    So too with the update on the other side: outside of the slice both alternatives are x.
    """
    predicate, on_true, on_false = node.operands
    for update, whole, is_left in ((on_false, on_true, True), (on_true, on_false, False)):
        if update.opcode == "dynamic-update-slice" and update.operands[0] is whole and used_once(update):
            return _update_by(build, predicate, update, is_left)
    return None


def _update_by(build: Builder, predicate: Node, update: Node, is_left: bool) -> Node | None:
    whole, part, *starts = update.operands
    array_type, choice = tensor_type(part), tensor_type(predicate)
    if array_type is None or choice is None or tensor_type(whole) is None:
        return None
    sizes = array_type.dims
    if choice.rank:
        predicate = build.op("dynamic-slice", predicate, *starts, dynamic_slice_sizes=sizes)
    before = build.op("dynamic-slice", whole, *starts, dynamic_slice_sizes=sizes)
    chosen = build.op("select", predicate, *((before, part) if is_left else (part, before)))
    return build.op("dynamic-update-slice", whole, chosen, *starts)
