"""Integer divisions of constants: XLA's client folds them while compiling, and crashes if the divisor contains zero.

    r = divide(constant, constant)  ->  r = divide(opt-barrier(constant), constant)

HLO defines the result: -1, and the dividend as remainder (elemental_ir_emitter.cc, EmitIntegerDivide), which is also
what running the program gives.
"""

from __future__ import annotations

from hloom.ir import Apply, Constant, Graph, Module, Node, Op, TensorType
from hloom.ops import OPS

_DIVISIONS = ("divide", "remainder")
"""Opcodes that are not defined for a divisor of zero."""
_BARRIER = OPS["opt-barrier"]


def shield_constant_divisions(module: Module) -> None:
    """Put a barrier before the dividend wherever an integer division could be folded."""
    for graph in module.graphs:
        if any(node.opcode in _DIVISIONS for node in graph.nodes):
            _shield(graph)


def _shield(graph: Graph) -> None:
    folded: set[Node] = set()
    for node in list(graph.nodes):
        if isinstance(node, Constant):
            folded.add(node)
            continue
        if not (isinstance(node, Apply) and isinstance(node.function, Op) and folded.issuperset(node.operands)):
            continue
        if node.opcode in _DIVISIONS and isinstance(node.type, TensorType) and node.type.dtype.is_integer:
            dividend, divisor = node.operands
            barrier = graph.add_apply(_BARRIER, (dividend,), dividend.type, {}, before=node)
            graph.set_operands(node, (barrier, divisor))
        elif node.operands:
            folded.add(node)
