"""Which operands GPU instructions may overwrite.

A fused kernel may write over an operand of equal size if it reads each element in the iteration that overwrites it, so
only elementwise instructions, bitcasts and in-place updates may lie on the way to the result.

Source: xla/service/gpu/alias_info.cc (FusionCanShareBufferHint) and xla/service/gpu/nvptx_alias_info.cc; the heroes are
those of xla/service/gpu/hlo_fusion_analysis.cc.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from hloom.analysis.alias_info import DEEPEST, ELEMENTWISE, AliasInfo, Index
from hloom.ir import Apply, Graph, Node, TensorType, Type

MULTIPLY = "__cublas$lt$matmul"
"""The custom-call target whose third operand, the matrix that is added, may be overwritten."""
CHOLESKY = "__cusolver$cholesky"
IN_PLACE_COLLECTIVES = ("all-reduce", "collective-broadcast")
_BETA = re.compile(r'"beta":(-?\d{1,20}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?)')


@dataclass(frozen=True, slots=True)
class _FusedOutput:
    """One result of a fusion: its root, the root behind a bitcast, and what fixes the order of its iterations."""

    root: Node
    unbitcast: Node
    hero: Node


@dataclass(slots=True)
class GpuAliasInfo(AliasInfo):
    """The rules of XLA's GPU compiler for fusions, collectives and library calls."""

    _known: dict[tuple[Node, int, int], bool] = field(default_factory=dict)
    _outputs: dict[Graph, list[_FusedOutput]] = field(default_factory=dict)

    def hint(self, user: Apply, operand: Node, numbers: list[int], result: Type | None, index: Index) -> bool | None:
        opcode = user.opcode
        if opcode in IN_PLACE_COLLECTIVES:
            if "nvshmem" in str(user.attributes.get("backend_config") or "").lower():
                return False
            return len(user.operands) == 1 or (len(index) == 1 and index[0] in numbers)
        if opcode == "custom-call":
            return _library_overwrites(user, numbers, index)
        graph = user.attributes.get("calls")
        if opcode != "fusion" or not isinstance(graph, Graph) or not numbers:
            return None
        if not _has_same_iterations(operand.type, result) or len(graph.parameters) != len(user.operands):
            return False
        key = (user, numbers[0], index[0] if index else 0)
        if key not in self._known:
            self._known[key] = self._shares(user, graph, graph.parameters[numbers[0]], index)
        return self._known[key]

    def _shares(self, fusion: Apply, graph: Graph, parameter: Node, index: Index) -> bool:
        """Whether every path from a fused parameter to a result keeps the order in which elements are visited."""
        if graph not in self._outputs:
            self._outputs[graph] = _fused_outputs(graph)
        outputs = self._outputs[graph]
        number = index[0] if index else 0
        if number >= len(outputs):
            return False
        users, output = self._users_in(graph), outputs[number]
        reduced = (
            None
            if _is_generated_elsewhere(fusion)
            else next((one.hero for one in outputs if one.hero.opcode == "reduce"), None)
        )
        visited, pending = {parameter}, deque([parameter])
        while pending:
            read = pending.popleft()
            if read is reduced:
                continue
            for user in users.get(read, ()):
                if user not in visited:
                    visited.add(user)
                    pending.append(user)
                if not _keeps_order(user, read, output, index, reduced):
                    return False
        if len(outputs) > 1 and not _agree(outputs, output, visited):
            return False
        return output.root in visited


def _fused_outputs(graph: Graph) -> list[_FusedOutput]:
    root = graph.root
    roots = root.operands if root.opcode == "tuple" else (root,)
    return [_FusedOutput(one, one.operands[0] if one.opcode == "bitcast" else one, _hero(one)) for one in roots]


def _hero(root: Node) -> Node:
    """The transpose or reduction behind elementwise instructions of one operand, or the root itself."""
    node = root
    for _ in range(DEEPEST):
        if node.opcode in ("transpose", "reduce"):
            return node
        is_passed = node.opcode == "bitcast" or (node.opcode in ELEMENTWISE and len(node.operands) == 1)
        if not is_passed or not node.operands:
            break
        node = node.operands[0]
    return root


def _is_generated_elsewhere(fusion: Apply) -> bool:
    """Whether a fusion has a code generator of its own (Triton, a library), which reads more than once."""
    return fusion.attributes.get("kind") == "kCustom"


def _keeps_order(user: Node, read: Node, output: _FusedOutput, index: Index, reduced: Node | None) -> bool:
    """Whether an instruction of a fusion uses what it reads in the order in which the result is written."""
    root = output.unbitcast
    places = [number for number, operand in enumerate(user.operands) if operand is read]
    if user is root and user.opcode == "scatter":
        inputs = (len(user.operands) - 1) // 2
        return len(places) == 1 and places[0] < inputs
    if user is root and user.opcode == "sort" and len(places) == 1:
        return index in ((), (places[0],)) if len(user.operands) == 1 else index == (places[0],)
    if _reads_updated_slice(user, root):
        return _has_one_element(user.type) or list(user.operands[1:]) == list(root.operands[2:])
    if user.opcode in ("bitcast", "tuple") or user is reduced:
        return True
    if user.opcode == "dynamic-update-slice":
        return places[0] == 0 or (user is root and places[0] == 1)
    return user.opcode in ELEMENTWISE and user.opcode != "copy"


def _reads_updated_slice(user: Node, root: Node) -> bool:
    """Whether an instruction slices what the root updates, with a slice of the update's size."""
    if root.opcode != "dynamic-update-slice" or user.opcode != "dynamic-slice":
        return False
    return user.operands[0] is root.operands[0] and user.type == root.operands[1].type


def _agree(outputs: list[_FusedOutput], output: _FusedOutput, visited: set[Node]) -> bool:
    """Whether all results that were reached are written in one order."""
    reached = [one for one in outputs if one.root in visited]
    if all(one.root is output.root for one in reached):
        return True
    return output.unbitcast.opcode in ELEMENTWISE and not any(
        one.hero.opcode in ("transpose", "copy") for one in reached
    )


def _library_overwrites(user: Apply, numbers: list[int], index: Index) -> bool:
    target = user.attributes.get("custom_call_target")
    if target == CHOLESKY:
        return index == (0,)
    if target != MULTIPLY or numbers != [2] or index not in ((), (0,)):
        return False
    beta = _BETA.search(str(user.attributes.get("backend_config") or ""))
    return beta is not None and float(beta[1]) != 0.0


def _has_same_iterations(one: Type | None, other: Type | None) -> bool:
    """Whether two arrays have as many elements of the same width."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    return one == other or (_count(one) == _count(other) and one.dtype.byte_count == other.dtype.byte_count)


def _count(array_type: TensorType) -> int:
    count = 1
    for size in array_type.dims:
        count *= size
    return count


def _has_one_element(value_type: Type | None) -> bool:
    return isinstance(value_type, TensorType) and _count(value_type) == 1
