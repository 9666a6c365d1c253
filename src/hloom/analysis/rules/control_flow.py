"""Cost rules of control flow and forwarding ops: calls, loops, branches, fusions, tuples, asynchronous pairs, order."""

from __future__ import annotations

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.data_movement import gather, scatter
from hloom.analysis.rules.fusion import fused_bytes, fused_gather_or_scatter
from hloom.analysis.rules.table import CalleeCosts, CostRule, Instruction, moves, nothing, rules
from hloom.analysis.sizes import shape_bytes
from hloom.ir import Apply

POINTERS = "XLA counts a tuple's pointers, or values that are only forwarded"


def _control_flow(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return callee_cost.control_flow(instruction)


CONTROL_FLOW = CostRule(_control_flow)
"""The rule of all opcodes that run computations in their place: the callees' costs, times their runs."""


def _map(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    function = callee_cost(instruction.attribute("to_apply"))
    return function.arithmetic(instruction.elements) + Cost(bytes_accessed=instruction.accessed)


def _fusion(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    graph = instruction.attribute("calls")
    special = fused_gather_or_scatter(graph) if instruction.attribute("kind") == "kCustom" else None
    if special is not None:
        seen = instruction_of(special)
        return gather(seen, callee_cost) if special.opcode == "gather" else scatter(seen, callee_cost)
    return callee_cost(graph).arithmetic() + Cost(bytes_accessed=fused_bytes(graph, instruction.result))


def instruction_of(node: Apply) -> Instruction:
    """The rule's view of a node whose types are written."""
    return Instruction(node.op, node.operand_types(), node.type, node.attributes, node)


def _tuple(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=shape_bytes(instruction.result))


rules("map", _map)
rules("fusion", _fusion)
rules("get-tuple-element after-all add-dependency domain", nothing)
rules("tuple", _tuple, nothing, because=POINTERS)
rules("opt-barrier async-update async-done", moves, nothing, because=POINTERS)
