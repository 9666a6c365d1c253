"""async-start, async-update and async-done: the computation that they call, done where it starts."""

from __future__ import annotations

from typing import Any

from hloom.autodiff.activity import leaf_count
from hloom.autodiff.emitter import Emitter
from hloom.autodiff.linearize import STRUCTURES, Walk, flattened
from hloom.ir import TOKEN, Apply, Node, TensorType, TupleType


def start(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    """The tuple ((operands), results, context), its results computed."""
    kind = node.type
    assert isinstance(kind, TupleType), "async-start yields a tuple"
    taken = sum(leaf_count(operand.type) for operand in node.inputs)
    graph = next(iter(node.called_graphs))
    own = flattened(node, tangents)
    wanted = (needed >> taken) & ((1 << leaf_count(kind.elements[1])) - 1)
    value, found = walk.graph(graph, operands, own, wanted)
    rest = [_placeholder(walk.emitter, each) for each in kind.elements[2:]]
    made = walk.emitter.tuple([walk.emitter.tuple(operands), value, *rest])
    after = [None] * sum(leaf_count(each) for each in kind.elements[2:])
    return made, [*own, *found, *after]


def update(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    return operands[0], tangents[0]


def done(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    value = operands[0]
    assert isinstance(value.type, TupleType), "async-done takes a tuple"
    begin = leaf_count(value.type.elements[0])
    found = list(tangents[0][begin : begin + leaf_count(node.type)])
    return walk.emitter.element(value, 1), found if isinstance(node.type, TupleType) else found[0]


def _placeholder(emitter: Emitter, kind: Any) -> Node:
    if isinstance(kind, TensorType):
        return emitter.zeros(kind)
    return emitter.op("after-all") if kind is TOKEN else emitter.tuple([])


STRUCTURES["async-start"] = start
STRUCTURES["async-update"] = update
STRUCTURES["async-done"] = done
