"""Float normalization: the CPU computes bf16 in f32, and rounds every result back to bf16.

    tanh(x bf16[8,4])   ->   convert(tanh(convert(x) f32[8,4])) bf16[8,4]

A conversion to f32 in the program reads the unrounded result. Fusion decides which of the two is stored. Follows
`FloatNormalizationVisitor::HandleInstruction` (xla/hlo/transforms/simplifiers/float_normalization.cc) with
`CpuFloatSupport` (xla/service/cpu/cpu_float_support.cc).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hloom.analysis import is_control_flow
from hloom.ir import Apply, Graph, Node, TensorType, TupleType, Type, dtype
from hloom.ops import EXTREMES, OPS
from hloom.targets.cpu.library_fusion import is_library_reduction

COMPUTED_IN = {
    "bf16": "f32",
    "f8e5m2": "f16",
    "f8e4m3": "f16",
    "f8e4m3fn": "f16",
    "f8e4m3b11fnuz": "f16",
    "f8e5m2fnuz": "f16",
    "f8e4m3fnuz": "f16",
    "f8e3m4": "f16",
    "f4e2m1fn": "f16",
    "f8e8m0fnu": "f32",
    "s4": "s8",
    "u4": "u8",
}
"""Types that the CPU does not compute in, and what it computes in instead."""
UNCHANGED = frozenset(
    {
        "bitcast",
        "bitcast-convert",
        "broadcast",
        "convert",
        "copy",
        "custom-call",
        "fusion",
        "get-tuple-element",
        "infeed",
        "opt-barrier",
        "outfeed",
        "recv",
        "recv-done",
        "reshape",
        "send",
        "send-done",
        "transpose",
        "tuple",
    }
)
"""Opcodes that move whole values, convert them, or belong to somebody else; control flow is left as it is too.

Slices and collectives are not among them: an array is converted before it is sliced or sent.

Source: xla/hlo/transforms/simplifiers/float_normalization.cc, FloatNormalizationVisitor::DefaultAction."""


def is_computed_as_it_is(node: Apply) -> bool:
    """Whether the CPU computes an instruction in the types that it has."""
    return node.opcode in UNCHANGED or is_control_flow(node) or _is_selecting(node)


def normalize_floats(graph: Graph, is_supported: Callable[[Apply], bool] = is_computed_as_it_is) -> None:
    """Convert operands before, and results after, what a target does not compute in the types that it has."""
    nodes = list(graph.nodes)
    following: dict[Node, Node] = dict(pairwise(nodes))
    for node in nodes:
        if not isinstance(node, Apply) or is_supported(node):
            continue
        inputs = [_converted(graph, operand, node) for operand in node.operands]
        if inputs != list(node.operands):
            graph.set_operands(node, inputs)
        if isinstance(node.type, TensorType):
            _convert_back(graph, node, following.get(node))
        elif isinstance(node.type, TupleType) and all(user.opcode == "get-tuple-element" for user in node.users):
            graph.set_type(node, TupleType(tuple(_high_type(element) or element for element in node.type.elements)))
            for element in node.users:
                _convert_back(graph, element, following.get(element))


def _convert_back(graph: Graph, node: Node, following: Node | None) -> None:
    """Give a result the type that it is computed in, and users what it is rounded to."""
    low_type, high_type = node.type, _high_type(node.type)
    if high_type is None:
        return
    graph.set_type(node, high_type)
    rounded = graph.add_apply(OPS["convert"], (node,), low_type, before=following)
    graph.replace_uses(node, rounded)
    graph.set_operands(rounded, (node,))
    for user in rounded.users:
        if user.opcode == "convert" and _without_layout(user.type) == high_type:
            graph.replace_uses(user, node)


def _is_selecting(node: Apply) -> bool:
    """Whether the library selects one of the elements, which needs no rounding."""
    reducer = node.attributes.get("to_apply")
    if not is_library_reduction(node) or not isinstance(reducer, Graph) or reducer.output is None:
        return False
    return reducer.output.opcode in EXTREMES


def _converted(graph: Graph, value: Node, before: Node) -> Node:
    """A value in the type that it is computed in."""
    high_type = _high_type(value.type)
    return value if high_type is None else graph.add_apply(OPS["convert"], (value,), high_type, before=before)


def _high_type(value_type: Type | None) -> TensorType | None:
    if not isinstance(value_type, TensorType) or value_type.dtype.name not in COMPUTED_IN:
        return None
    return TensorType(dtype(COMPUTED_IN[value_type.dtype.name]), value_type.dims)


def _without_layout(value_type: Type | None) -> TensorType | None:
    return TensorType(value_type.dtype, value_type.dims) if isinstance(value_type, TensorType) else None
