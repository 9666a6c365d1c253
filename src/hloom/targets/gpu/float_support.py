"""Which instructions a GPU computes in narrow floats; others are computed in a wider type and rounded.

Follows `GpuFloatSupport::IsSupported` (xla/service/gpu/gpu_float_support.cc).
"""

from __future__ import annotations

from collections.abc import Collection

from hloom.analysis import Device, called_computations, is_control_flow
from hloom.ir import Apply, Graph, Node, TensorType, Trait
from hloom.ops import with_trait
from hloom.targets.cpu import UNCHANGED

MOVED = UNCHANGED | with_trait(Trait.MOVES_DATA) | with_trait(Trait.COLLECTIVE) | {
    "compare", "constant", "dot", "reduce-precision", "scatter", "select", "select-and-scatter", "xor"
}  # fmt: skip
"""Opcodes of any float, however narrow; dots of other floats than bf16 are those that Triton takes."""
BF16_SINCE = {
    "abs": 8, "exponential": 8, "log": 8, "maximum": 8, "minimum": 8, "negate": 8,
    "add": 9, "multiply": 9, "subtract": 9,
}  # fmt: skip
"""The major compute capability of the first GPUs that compute an opcode in bf16."""
HOPPER = 9
"""The major compute capability of an H100."""
BEFORE_HOPPER = ("a100",)
"""The start of the names of devices of an earlier one."""


def is_supported(node: Apply, device: Device) -> bool:
    """Whether a GPU computes an instruction in the types that it has."""
    if node.opcode in MOVED or is_control_flow(node):
        return True
    if node.opcode in ("reduce", "sort"):
        graphs = called_computations(node)
        return all(is_supported(inner, device) for graph in graphs for inner in graph.nodes if isinstance(inner, Apply))
    if not isinstance(node.type, TensorType) or node.type.dtype.name != "bf16":
        return False
    capability = HOPPER - 1 if device.name.startswith(BEFORE_HOPPER) else HOPPER
    return BF16_SINCE.get(node.opcode, capability + 1) <= capability


def read_unrounded(graph: Graph, skipped: Collection[Node]) -> None:
    """Let what widens a rounded value read the value before it was rounded (`SimplifyFPConversions`)."""
    for node in graph.nodes:
        if node.opcode != "convert" or node in skipped or node.operands[0].opcode != "convert":
            continue
        rounded = node.operands[0]
        if rounded.operands[0].type == node.type and not node.is_output:
            graph.replace_uses(node, rounded.operands[0])
