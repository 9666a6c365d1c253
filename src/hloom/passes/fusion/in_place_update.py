"""What a kernel may read of an array that it partly overwrites in place.

XLA may give a fusion's result the buffer of the array that its root updates, whatever code is emitted for it
(`AliasInfo::GetFusionInstructionInPlaceInputOutputPairs`, xla/hlo/analysis/alias_info.cc). Other reads of that array in
the fusion may then see overwritten elements. One read is safe: of exactly the slice that the update replaces, each
element just before it is written.

    u = dynamic-update-slice(p, add(dynamic-slice(p, i), x), i)      one kernel
    u = dynamic-update-slice(p, add(dynamic-slice(p, i), x), j)      two: the slice is stored before p is updated

As `InstructionFusion::ShouldFuseInPlaceOp` (xla/service/instruction_fusion.cc) decides for XLA's own fusions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.analysis import ELEMENTWISE, VIEWS
from hloom.ir import Constant, Node, TensorType, same_shape
from hloom.ops import SAME_BYTES

_SAME_BUFFER = VIEWS | SAME_BYTES
"""Opcodes whose result may have the buffer of their first operand."""


def buffer_of(node: Node) -> tuple[object, ...]:
    """The buffer of a value: the instruction that made it, and its index in the instruction's tuple."""
    path: list[int] = []
    while True:
        if node.opcode == "get-tuple-element":
            path.append(node.attributes["index"])
        elif node.opcode == "tuple" and path:
            node = node.operands[path.pop()]
            continue
        elif node.opcode not in _SAME_BUFFER or not node.operands:
            return (node, *path)
        node = node.operands[0]


def reads_itself(node: Node) -> bool:
    """Whether the update, or an index, of an update in place is the array itself, or a view of it."""
    array = buffer_of(node.operands[0])
    return any(buffer_of(operand) == array for operand in node.operands[1:])


def is_overwritten_slice(node: Node, update: Node) -> bool:
    """Whether an instruction reads the very slice that a dynamic-update-slice overwrites."""
    if node.opcode != "dynamic-slice":
        return False
    is_same_array = same_shape(node.operands[0].type, update.operands[0].type)
    is_same_slice = same_shape(node.type, update.operands[1].type) and _are_same(node.operands[1:], update.operands[2:])
    return is_same_array and is_same_slice


def _are_same(starts: Sequence[Node], others: Sequence[Node]) -> bool:
    return len(starts) == len(others) and all(
        start is other or (isinstance(start, Constant) and isinstance(other, Constant) and start.value == other.value)
        for start, other in zip(starts, others, strict=True)
    )


def reads_overwritten(update: Node, members: Iterable[Node], *, may_read_slice: bool = True) -> bool:
    """Whether a kernel may read elements of the updated array after they are overwritten.

    The members are in order, operands first. Without `may_read_slice`, no read of the array counts as safe.
    """
    array = buffer_of(update.operands[0])
    inside = set[Node]()
    computed_from_slice = set[Node]()
    for node in members:
        inside.add(node)
        for position, operand in enumerate(node.operands):
            if node is update and position == 0:
                continue
            if operand in computed_from_slice:
                if not _reads_at_own_index(node, operand, update):
                    return True
                computed_from_slice.add(node)
            elif operand not in inside and buffer_of(operand) == array:
                if position or not may_read_slice or not is_overwritten_slice(node, update):
                    return True
                computed_from_slice.add(node)
    return False


def _reads_at_own_index(node: Node, operand: Node, update: Node) -> bool:
    """Whether an element of an instruction, or of the slice that an update writes, follows from that of an operand."""
    if node is update:
        return all(other is not operand for other in node.operands[2:])
    result, read = node.type, operand.type
    if node.opcode not in ELEMENTWISE or not isinstance(result, TensorType) or not isinstance(read, TensorType):
        return False
    return result.dims == read.dims
