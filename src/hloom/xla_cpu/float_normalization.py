"""Float normalization: the CPU computes bf16 in f32, and stores results so until they leave the computation.

    dot(x bf16[8,4], y bf16[4,2])   ->   dot(convert(x) f32[8,4], convert(y) f32[4,2])

Follows `FloatNormalizationVisitor::HandleInstruction` (xla/hlo/transforms/simplifiers/float_normalization.cc) with
`CpuFloatSupport` (xla/service/cpu/cpu_float_support.cc).
"""

from __future__ import annotations

from hloom.analysis import is_control_flow
from hloom.ir import Apply, Graph, Node, TensorType, TupleType, dtype
from hloom.ops import OPS

LOW_PRECISION = "bf16"
HIGH_PRECISION = "f32"
FORWARDING = frozenset({"get-tuple-element", "tuple", "opt-barrier"})
"""Opcodes that forward values, whose types stay, as do those of control flow."""
CONVERTING = frozenset({"dot", "convolution", "all-reduce"})
"""Opcodes whose operands are converted before; all others compute the conversion themselves, as part of a loop."""


def normalize_floats(graph: Graph) -> None:
    """Give f32 to all that is computed in bf16; parameters and what tuples hold keep their types."""
    for node in list(graph.nodes):
        if not isinstance(node, Apply):
            continue
        if node.opcode in CONVERTING and any(_is(operand, LOW_PRECISION) for operand in node.inputs):
            graph.set_inputs(node, [_converted(graph, operand, HIGH_PRECISION, node) for operand in node.inputs])
        if not (node.opcode in FORWARDING or is_control_flow(node)) and _is(node, LOW_PRECISION):
            assert isinstance(node.type, TensorType)
            graph.set_type(node, TensorType(dtype(HIGH_PRECISION), node.type.dims))
        elif node.opcode == "tuple" and isinstance(node.type, TupleType):
            _convert_elements(graph, node, node.type)


def _convert_elements(graph: Graph, node: Apply, tuple_type: TupleType) -> None:
    """Convert the operands of a tuple back to its own element types."""
    names = [element.dtype.name if isinstance(element, TensorType) else "" for element in tuple_type.elements]
    inputs = [
        _converted(graph, operand, name, node) if name == LOW_PRECISION else operand
        for operand, name in zip(node.inputs, names, strict=True)
    ]
    if inputs != list(node.inputs):
        graph.set_inputs(node, inputs)


def _converted(graph: Graph, value: Node, name: str, before: Node) -> Node:
    """A value converted to another precision."""
    if not isinstance(value.type, TensorType) or _is(value, name):
        return value
    if value.type.dtype.name not in (LOW_PRECISION, HIGH_PRECISION):
        return value
    converted = TensorType(dtype(name), value.type.dims)
    return graph.add_apply(OPS["convert"], (value,), converted, before=before)


def _is(node: Node, name: str) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.name == name
