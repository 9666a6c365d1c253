"""Rules on argmax and argmin: reductions over values and indices.

The computation they recognise is the one that jax.numpy.argmax lowers to.
Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleReduce).
"""

from __future__ import annotations

import math

from hloom.ir import Apply, Graph, Node, Parameter, TensorType, TupleType, Type
from hloom.rewrite import Builder, Family, is_splat, splat_of, tensor_type

ARGMAX = Family("argmax", formerly="searching")
ARGMAX_INEXACT = Family("argmax-inexact", formerly="searching-relaxed")

_PLAIN = {"maximum": "GT", "minimum": "LT"}
_STARTS = {"GT": -math.inf, "LT": math.inf}
"""Which comparison prefers an element, and what every element is preferred to."""


@ARGMAX.rewrites("reduce", benefit=6, depth=2, because="recognises the computation of a search")
def search_of_splat(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(7), iota, -inf, 0) for the greatest and its place -> tuple(broadcast(7), broadcast(0)).

    All are equal, so the first one is found: its place is 0 along a dimension that is reduced.
    """
    if not _direction(node) or not isinstance(node.type, TupleType):
        return None
    source, indices = node.operands[:2]
    value, number = node.type.elements
    if source.opcode != "broadcast" or splat_of(source) is None or source.attributes.get("dimensions"):
        return None
    types = [
        array_type
        for operand in node.operands[:2]
        if (array_type := tensor_type(operand)) is not None and array_type.element_count
    ]
    if len(types) != 2 or indices.attributes["iota_dimension"] not in node.attributes["dimensions"]:
        return build.decline("the places are not counted along what is reduced")
    zero = build.constant(0, types[1].dtype)
    return build.op(
        "tuple", _broadcast_scalar(build, source.operands[0], value), _broadcast_scalar(build, zero, number)
    )


@ARGMAX_INEXACT.rewrites("reduce", benefit=6, depth=2, because="walks the other users of the operand")
def plain_beside_search(build: Builder, node: Apply) -> Node | None:
    """reduce(x, -inf), maximum -> get-tuple-element(search, 0), where the greatest of x is sought with its place.

    Of 0 and -0 it finds the first, where the maximum is 0.
    """
    graph: Graph | None = node.attribute("to_apply")
    root = graph.output if graph is not None else None
    if graph is None or len(node.operands) != 2 or not isinstance(root, Apply) or root.opcode not in _PLAIN:
        return None
    if set(root.operands) != set(graph.parameters):
        return None
    wanted = _PLAIN[root.opcode]
    if not is_splat(node.operands[1], _STARTS[wanted]):
        return None
    for user in node.operands[0].users:
        if user is node or not isinstance(user, Apply) or user.operands[0] is not node.operands[0]:
            continue
        if _direction(user) != wanted or user.attributes["dimensions"] != node.attributes["dimensions"]:
            continue
        if node.graph.comes_before(user, node):
            return build.get(user, 0)
    return build.decline("no search comes before")


def _broadcast_scalar(build: Builder, scalar: Node, value_type: Type) -> Node:
    assert isinstance(value_type, TensorType), f"{value_type} is not an array"
    return build.broadcast(scalar, value_type.with_layout(None)) if value_type.rank else scalar


def _direction(node: Node) -> str:
    """GT where a reduction looks for the greatest element and its place, LT for the least; else empty."""
    if not isinstance(node, Apply) or node.opcode != "reduce" or len(node.operands) != 4:
        return ""
    _, indices, start, first = node.operands
    graph: Graph | None = node.attribute("to_apply")
    if graph is None or graph.output is None or len(graph.parameters) != 4:
        return ""
    if indices.opcode != "iota" or not is_splat(first, 0):
        return ""
    directions = [direction for direction, value in _STARTS.items() if is_splat(start, value)]
    return next((direction for direction in directions if _is_search(graph.output, graph.parameters, direction)), "")


def _is_search(root: Node, parameters: list[Parameter], direction: str) -> bool:
    """Whether a computation prefers the greater or lesser element, NaN to both, and of equal ones the first."""
    value, index, other, elsewhere = parameters
    if (
        root.opcode != "tuple"
        or len(root.operands) != 2
        or any(operand.opcode != "select" for operand in root.operands)
    ):
        return False
    first, second = root.operands
    if first.operands[1:] != (value, other) or second.operands[1:] != (index, elsewhere):
        return False
    prefers_first = second.operands[0]
    if prefers_first.opcode != "or" or not _prefers(first.operands[0], value, other, direction):
        return False
    for left, right in (prefers_first.operands, prefers_first.operands[::-1]):
        if _prefers(left, value, other, direction) and right.opcode == "and":
            equal, earlier = right.operands
            if _compares(equal, value, other, "EQ") and _compares(earlier, index, elsewhere, "LT"):
                return True
    return False


def _prefers(node: Node, value: Node, other: Node, direction: str) -> bool:
    if node.opcode != "or":
        return False
    one, two = node.operands
    return any(
        _compares(left, value, other, direction) and _compares(right, value, value, "NE")
        for left, right in ((one, two), (two, one))
    )


def _compares(node: Node, left: Node, right: Node, direction: str) -> bool:
    return node.opcode == "compare" and node.operands == (left, right) and node.attributes["direction"] == direction
