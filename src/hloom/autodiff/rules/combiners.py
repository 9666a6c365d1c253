"""Scalar computations of reductions and scatters, applied to whole arrays; and graphs that express an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.autodiff.emitter import Emitter, array_type, ordered
from hloom.ir import Apply, Graph, Node, TensorType, Trait, TupleType, without_layout
from hloom.ops import INLINABLE
from hloom.text import Unsupported


def expanded(session: Any, node: Apply, make: Callable[[Emitter, list[Node]], Node | Sequence[Node]]) -> Graph:
    """A graph of a node's operands; `make` appends its instructions and says what it yields."""
    graph = session.module.add_graph(f"autodiff.{node.opcode}")
    emitter = Emitter(graph)
    emitter.metadata = node.raw_metadata
    operands = [
        graph.add_parameter(None if operand.type is None else without_layout(operand.type), f"operand_{number}")
        for number, operand in enumerate(node.operands)
    ]
    made = make(emitter, operands)
    graph.set_output(made if isinstance(made, Node) else emitter.tuple(made))
    return graph


def on_arrays(emitter: Emitter, graph: Graph, arguments: Sequence[Node]) -> list[Node]:
    """A computation of scalars, applied element by element to arrays of the same dimensions: what it yields.

    Raises Unsupported for instructions that are not elementwise.
    """
    dims = array_type(arguments[0]).dims
    values: dict[Node, Any] = dict(zip(graph.parameters, arguments, strict=True))
    for node in graph.nodes:
        if node in values:
            continue
        values[node] = _on_arrays(emitter, node, values, dims)
    root = values[graph.root]
    return list(root) if isinstance(root, tuple) else [root]


def _on_arrays(emitter: Emitter, node: Node, values: dict[Node, Any], dims: Sequence[int]) -> Any:
    if node.literal is not None and isinstance(node.type, TensorType):
        return emitter.broadcast(emitter.literal(node.literal), dims)
    assert isinstance(node, Apply), f"{node!r} in a computation of scalars"
    operands = [values[operand] for operand in node.operands]
    if node.opcode == "tuple":
        return tuple(operands)
    if node.opcode == "get-tuple-element":
        return operands[0][node.attributes["index"]]
    if node.opcode in INLINABLE:
        return _called(emitter, node, operands)
    if node.has_trait(Trait.REINDEXES):
        return operands[0]
    value_type = node.type
    scalars = all(isinstance(operand.type, TensorType) and not operand.type.rank for operand in node.operands)
    if (
        not isinstance(value_type, TensorType)
        or value_type.rank
        or not scalars
        or any(True for _ in node.called_graphs)
    ):
        raise Unsupported(f"computation {node.graph.name}: {node.opcode} is not elementwise: {node.name}")
    made, attributes = TensorType(value_type.dtype, dims), ordered(node.opcode, node.attributes)
    return emitter.graph.add_apply(node.op, operands, emitter.typed(made), attributes, metadata=emitter.metadata)


def _called(emitter: Emitter, node: Apply, operands: list[Node]) -> Any:
    graph = next(iter(node.called_graphs))
    result = on_arrays(emitter, graph, operands)
    return tuple(result) if isinstance(graph.root.type, TupleType) else result[0]
