"""Rules on tuples, and on barriers of tuples. Nothing is computed: every bit is kept.

Follows XLA's xla/hlo/transforms/simplifiers/tuple_simplifier.cc (RemoveWholeTuple) and
xla/hlo/transforms/simplifiers/algebraic_simplifier.cc
(HandleGetTupleElement, HandleOptimizationBarrier, HandleCustomCall).
"""

from __future__ import annotations

from hloom.ir import Apply, Node, TupleType
from hloom.ops import may_merge
from hloom.passes.rules.dimensions import replace_if_compatible
from hloom.rewrite import Builder, Family, all_operands, operand_is, used_once

TUPLE = Family("tuple", formerly="tuples")

_MAX_DEPTH = 4
"""How many tuples in one another are looked through."""


@TUPLE.rewrites(
    "get-tuple-element", benefit=2, requires=operand_is(0, "tuple"), because="picks the operand by its number"
)
def element_of_tuple(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(tuple(x, y)), index=1 -> y"""
    inner = node.operands[0]
    if inner.opcode != "tuple" or node.attributes["index"] >= len(inner.operands):
        return None
    return replace_if_compatible(build, node, inner.operands[node.attributes["index"]])


@TUPLE.rewrites(
    "get-tuple-element",
    depth=_MAX_DEPTH,
    requires=operand_is(0, "get-tuple-element"),
    because="looks through tuples in one another",
)
def element_of_nested_tuple(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(get-tuple-element(tuple(x, tuple(y, z)), index=1), index=0) -> y

    Where what stands between has another sharding, which keeps it from going by itself.
    """
    whole, path = node.operands[0], [node.attributes["index"]]
    while whole.opcode == "get-tuple-element" and len(path) < _MAX_DEPTH:
        if whole.attributes.get("control-predecessors"):
            return build.decline("an element waits for other instructions")
        path.append(whole.attributes["index"])
        whole = whole.operands[0]
    while path:
        if whole.opcode != "tuple" or path[-1] >= len(whole.operands):
            return None
        whole = whole.operands[path.pop()]
    return replace_if_compatible(build, node, whole)


@TUPLE.rewrites("tuple", benefit=2, requires=all_operands("get-tuple-element"), because="takes any number of elements")
def tuple_of_elements(build: Builder, node: Apply) -> Node | None:
    """tuple(get-tuple-element(x, 0), get-tuple-element(x, 1)) -> x, where those are all of x"""
    if not node.operands or any(operand.opcode != "get-tuple-element" for operand in node.operands):
        return None
    source = node.operands[0].operands[0]
    if not isinstance(source.type, TupleType) or len(source.type.elements) != len(node.operands):
        return None
    for number, operand in enumerate(node.operands):
        if operand.operands[0] is not source or operand.attributes["index"] != number:
            return None
        if operand.attributes.get("control-predecessors"):
            return build.decline("an element waits for other instructions")
    return replace_if_compatible(build, node, source)


@TUPLE.rewrites("opt-barrier", effects=True, requires=operand_is(0, "tuple"), because="walks the users of a barrier")
def barrier_of_unused(build: Builder, node: Apply) -> Node | None:
    """opt-barrier(tuple(x, y)) -> tuple(get-tuple-element(opt-barrier(tuple(x)), 0), y), where nothing uses y after it

    What would live on anyway stays in the barrier: what is used elsewhere too, or has an effect.
    """
    operand = node.operands[0]
    if operand.opcode != "tuple" or node.is_output or node.attributes.get("control-predecessors"):
        return None
    if any(user.opcode != "get-tuple-element" or node not in user.operands for user in node.users):
        return build.decline("something uses the whole tuple")
    used = {user.attributes["index"] for user in node.users}
    kept = [
        number for number, element in enumerate(operand.operands) if number in used or not _would_die(element, operand)
    ]
    if len(kept) == len(operand.operands) or not kept:
        return None
    smaller = build.op("opt-barrier", build.op("tuple", *[operand.operands[number] for number in kept]))
    elements = list(operand.operands)
    for position, number in enumerate(kept):
        elements[number] = build.op("get-tuple-element", smaller, index=position)
    return build.op("tuple", *elements)


TUPLE.table("""
dynamic-slice-of-static-pad: custom-call(get-tuple-element(p:custom-call(x, custom_call_target=PadToStatic), index=0),
    get-tuple-element(p, index=1), custom_call_target=SliceToDynamic) -> in-place(x, root)  # each undoes the other
""")


def _would_die(node: Node, user: Node) -> bool:
    return used_once(node) and node.users == (user,) and may_merge(node)
