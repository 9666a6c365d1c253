"""What a change of a module that XLA has optimised must keep: fusions that its emitters take, and a layout per array.

Other operations in a fusion make XLA's emitters end the process; XLA's layout assignment has run already.
"""

from __future__ import annotations

from collections.abc import Set

from hloom.ir import Graph, Layout, Module, Node, TensorType, Type, default_layout, map_leaves
from hloom.ops import elementwise
from hloom.text import Unsupported

_NOT_FUSIBLE = {"add-dependency", "opt-barrier", "stochastic-convert", "tuple-select"}
FUSIBLE = (frozenset(elementwise.ROWS) - _NOT_FUSIBLE) | {
    "bitcast",
    "bitcast-convert",
    "broadcast",
    "concatenate",
    "constant",
    "convert",
    "copy",
    "dynamic-slice",
    "dynamic-update-slice",
    "gather",
    "get-tuple-element",
    "iota",
    "map",
    "pad",
    "parameter",
    "reduce",
    "reduce-precision",
    "reduce-window",
    "reshape",
    "reverse",
    "slice",
    "transpose",
    "tuple",
}
"""Opcodes that fusion emitters take (xla/service/elemental_ir_emitter.cc); a module's own fusions may hold more."""


def fused_opcodes(module: Module) -> Set[str]:
    """The opcodes in a module's fusions."""
    return {node.opcode for graph in _fused(module) for node in graph.nodes}


def check_fusions(module: Module, known: Set[str]) -> None:
    """Raise Unsupported for an opcode in a fusion that was in none before and that fusions do not take."""
    for graph in _fused(module):
        for node in graph.nodes:
            if node.opcode not in FUSIBLE and node.opcode not in known:
                raise Unsupported(
                    f"{node.name} of fusion {graph.name}: XLA's fusions take no {node.opcode}",
                    hint="put it in front of the fusion or behind it",
                )


def _fused(module: Module) -> list[Graph]:
    return [graph for node in module.nodes() if node.opcode == "fusion" for graph in node.called_graphs]


def fill_layouts(module: Module) -> None:
    """Give every array whose type has no layout one.

    A node takes the layout of an operand of the same dimensions, or else of such a user (elementwise operations must
    agree with both), or else the row-major one. Arrays in a tuple become row-major.
    """
    for graph in module.graphs:
        for node in graph.nodes:
            if node.type is not None and _lacks_layout(node.type):
                graph.set_type(node, _filled(node, node.type))


def _lacks_layout(value_type: Type) -> bool:
    return any(isinstance(leaf, TensorType) and leaf.layout is None for leaf in value_type.leaves())


def _filled(node: Node, value_type: Type) -> Type:
    if isinstance(value_type, TensorType):
        return value_type.with_layout(_neighbour_layout(node, value_type) or default_layout(value_type.rank))
    return map_leaves(value_type, _row_major)


def _row_major(value_type: Type) -> Type:
    if isinstance(value_type, TensorType) and value_type.layout is None:
        return value_type.with_layout(default_layout(value_type.rank))
    return value_type


def _neighbour_layout(node: Node, array_type: TensorType) -> Layout | None:
    for neighbour in (*node.inputs, *node.users):
        other = neighbour.type
        if isinstance(other, TensorType) and other.layout is not None and other.dims == array_type.dims:
            return other.layout
    return None
