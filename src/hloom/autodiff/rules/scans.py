"""Scans, expressed as a loop: each iteration takes a slice of every input and writes one of every output."""

from __future__ import annotations

from typing import Any

from hloom.autodiff.emitter import S32, Emitter, array_type
from hloom.autodiff.loop_state import loop
from hloom.autodiff.rules.combiners import expanded
from hloom.autodiff.table import expansion
from hloom.ir import Apply, Graph, Node, TensorType, TupleType


@expansion("scan")
def scan(session: Any, node: Apply) -> Graph:
    """A loop with the carries, inputs and outputs in its state."""
    return expanded(session, node, lambda emitter, given: _loop(session, emitter, node, given))


def _loop(session: Any, emitter: Emitter, node: Apply, given: list[Node]) -> Node | list[Node]:
    carries = node.attributes["num_carries"]
    inputs, states = given[: len(given) - carries], given[len(given) - carries :]
    (along,) = node.attributes["dimensions"]
    is_reverse = bool(node.attributes.get("is_reverse"))
    types = list(node.type.elements) if isinstance(node.type, TupleType) else [node.type]
    outputs = [item for item in types[: len(types) - carries] if isinstance(item, TensorType)]
    steps = array_type(inputs[0]).dims[along] if inputs else outputs[0].dims[along]
    graph: Graph = node.attributes["to_apply"]

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(steps, S32))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        index = state[0]
        held = state[1 : 1 + carries]
        taken = state[1 + carries : 1 + carries + len(inputs)]
        written = state[1 + carries + len(inputs) :]
        position = inner.sub(inner.constant(steps - 1, S32), index) if is_reverse else index
        slices = [_slice(inner, item, position, along) for item in taken]
        root = inner.copy_graph(graph, [*slices, *held])
        made = [inner.element(root, n) for n in range(len(types))] if isinstance(root.type, TupleType) else [root]
        after = [
            _update(inner, item, value, position, along)
            for item, value in zip(written, made[: len(outputs)], strict=True)
        ]
        return [inner.add(index, inner.constant(1, S32)), *made[len(outputs) :], *taken, *after]

    buffers = [emitter.zeros(output) for output in outputs]
    done = loop(emitter, node.name, [emitter.constant(0, S32), *states, *inputs, *buffers], condition, body)
    session.trips[done[0].operands[0]] = steps
    results = [*done[1 + carries + len(inputs) :], *done[1 : 1 + carries]]
    return results if isinstance(node.type, TupleType) else results[0]


def _starts(emitter: Emitter, position: Node, along: int, rank: int) -> list[Node]:
    zero = emitter.constant(0, S32)
    return [position if dim == along else zero for dim in range(rank)]


def _slice(emitter: Emitter, node: Node, position: Node, along: int) -> Node:
    dims = array_type(node).dims
    sizes = tuple(1 if dim == along else size for dim, size in enumerate(dims))
    piece = emitter.op("dynamic-slice", node, *_starts(emitter, position, along, len(dims)), dynamic_slice_sizes=sizes)
    return emitter.reshape(piece, [size for dim, size in enumerate(dims) if dim != along])


def _update(emitter: Emitter, node: Node, value: Node, position: Node, along: int) -> Node:
    dims = array_type(node).dims
    row = emitter.reshape(value, [1 if dim == along else size for dim, size in enumerate(dims)])
    return emitter.op("dynamic-update-slice", node, row, *_starts(emitter, position, along, len(dims)))
