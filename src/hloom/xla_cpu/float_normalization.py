"""Half-width floats: the CPU computes them in f32, and keeps results so until they are handed on.

dot(x bf16[8,4], y bf16[4,2])   ->   dot(convert(x) f32[8,4], convert(y) f32[4,2])
"""

from __future__ import annotations

from hloom.ir import Apply, Graph, Node, TensorType, TupleType, dtype
from hloom.ops import OPS

NARROW = "bf16"
WIDE = "f32"
PASSING = frozenset({"get-tuple-element", "tuple", "while", "conditional", "call", "opt-barrier"})
"""Opcodes that hand values on as they are."""
PRODUCTS = frozenset({"dot", "convolution", "all-reduce"})
"""Opcodes that read no operand through a conversion."""


def widen(graph: Graph) -> None:
    """Make all that is computed in half width f32; what is given and what is handed on stays as it is."""
    for node in list(graph.nodes):
        if not isinstance(node, Apply):
            continue
        if node.opcode in PRODUCTS:
            _read(graph, node, WIDE)
        if node.opcode not in PASSING and _is(node, NARROW):
            assert isinstance(node.type, TensorType)
            graph.set_type(node, TensorType(dtype(WIDE), node.type.dims))
        elif node.opcode == "tuple" and isinstance(node.type, TupleType):
            kinds = [kind.dtype.name if isinstance(kind, TensorType) else "" for kind in node.type.elements]
            inputs = [
                _converted(graph, each, kind, node) if kind == NARROW else each
                for each, kind in zip(node.inputs, kinds, strict=True)
            ]
            if inputs != list(node.inputs):
                graph.set_inputs(node, inputs)


def _read(graph: Graph, node: Apply, name: str) -> None:
    if any(_is(each, NARROW) for each in node.inputs):
        graph.set_inputs(node, [_converted(graph, each, name, node) for each in node.inputs])


def _converted(graph: Graph, value: Node, name: str, before: Node) -> Node:
    """A value in another width."""
    if not isinstance(value.type, TensorType) or value.type.dtype.name not in (NARROW, WIDE) or _is(value, name):
        return value
    kind = TensorType(dtype(name), value.type.dims)
    return graph.add_apply(OPS["convert"], (value,), kind, before=before)


def _is(node: Node, name: str) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.name == name
