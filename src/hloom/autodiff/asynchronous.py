"""async-start, async-update and async-done: the called computation is differentiated at the start."""

from __future__ import annotations

from typing import Any

from hloom.autodiff.activity import leaf_count
from hloom.autodiff.emitter import Emitter
from hloom.autodiff.linearize import STRUCTURES, Task, Walk, flattened
from hloom.ir import TOKEN, Apply, Node, TensorType, TupleType


def start(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> Task:
    """The tuple ((operands), results, context), its results computed."""
    value_type = node.type
    assert isinstance(value_type, TupleType), "async-start yields a tuple"
    taken = sum(leaf_count(operand.type) for operand in node.operands)
    graph = next(iter(node.called_graphs))
    own = flattened(node, tangents)
    wanted = (needed >> taken) & ((1 << leaf_count(value_type.elements[1])) - 1)
    value, result = yield walk.graph(graph, operands, own, wanted)
    rest = [_placeholder(walk.emitter, element) for element in value_type.elements[2:]]
    made = walk.emitter.tuple([walk.emitter.tuple(operands), value, *rest])
    after = [None] * sum(leaf_count(element) for element in value_type.elements[2:])
    return made, [*own, *result, *after]


def update(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    return operands[0], tangents[0]


def done(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    value = operands[0]
    assert isinstance(value.type, TupleType), "async-done takes a tuple"
    begin = leaf_count(value.type.elements[0])
    result = list(tangents[0][begin : begin + leaf_count(node.type)])
    return walk.emitter.element(value, 1), result if isinstance(node.type, TupleType) else result[0]


def _placeholder(emitter: Emitter, value_type: Any) -> Node:
    if isinstance(value_type, TensorType):
        return emitter.zeros(value_type)
    return emitter.op("after-all") if value_type is TOKEN else emitter.tuple([])


STRUCTURES["async-start"] = start
STRUCTURES["async-update"] = update
STRUCTURES["async-done"] = done
