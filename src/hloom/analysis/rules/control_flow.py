"""Ops that call graphs or pass values on: calls, loops, branches, fusions, tuples, asynchronous pairs, order."""

from __future__ import annotations

from hloom.analysis.cost_properties import ZERO, Cost
from hloom.analysis.rules.fusion import fused_bytes, fused_gather_or_scatter
from hloom.analysis.rules.movement import gather, scatter
from hloom.analysis.rules.table import CalleeCosts, Instruction, moves, nothing, rules
from hloom.analysis.sizes import shape_bytes
from hloom.ir import Apply, Graph

POINTERS = "XLA counts a tuple's pointers, or values that are only passed on"


def _call(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return callee_cost(instruction.attribute("to_apply"))


def _async_start(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return callee_cost(instruction.attribute("calls"))


def _while(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return callee_cost.loop(instruction)


def _conditional(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    costs = [callee_cost(graph) for graph in branches_of(instruction)]
    return callee_cost.branches(costs) if costs else ZERO


def branches_of(instruction: Instruction) -> tuple[Graph, ...]:
    """The graphs of a conditional, in the order of its index; the true one first."""
    listed = instruction.attributes.get("branch_computations")
    if listed is not None:
        return listed
    pair = (instruction.attributes.get("true_computation"), instruction.attributes.get("false_computation"))
    return tuple(graph for graph in pair if graph is not None)


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
    """What a rule sees of a node whose types are written."""
    return Instruction(node.op, node.operand_types(), node.type, node.attributes, node)


def _tuple(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=shape_bytes(instruction.result))


def _custom_call(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(flops=-1, bytes_accessed=-1)


rules("call", _call)
rules("map", _map)
rules("while", _while)
rules("conditional", _conditional)
rules("fusion", _fusion)
rules("async-start", _async_start)
rules("get-tuple-element after-all add-dependency domain", nothing)
rules("tuple", _tuple, nothing, because=POINTERS)
rules("opt-barrier async-update async-done", moves, nothing, because=POINTERS)
rules(
    "custom-call",
    _custom_call,
    moves,
    because="XLA counts minus one, for unknown; all that is known is what is handed over",
)
