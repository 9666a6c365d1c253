"""Cost rules of collectives, transfers between devices, and asynchronous copies."""

from __future__ import annotations

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.table import CalleeCosts, Instruction, moves, nothing, rules
from hloom.analysis.sizes import elements, leaf_bytes, leaf_elements, shape_bytes
from hloom.ir import TensorType, TupleType

FINISHED = "XLA counts again the bytes that the starting instruction has moved"


def _all_reduce(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(leaf_elements(instruction.result), 0, instruction.accessed)


def _exact_all_reduce(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    size = group_size(instruction)
    function = callee_cost(instruction.attribute("to_apply"))
    kinds = [array_type for array_type in instruction.operands if isinstance(array_type, TensorType)]
    times = sum(-(-elements(array_type) * (size - 1) // size) for array_type in kinds)
    return function.arithmetic(times) + Cost(bytes_accessed=instruction.accessed)


def _exact_reduce_scatter(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    function = callee_cost(instruction.attribute("to_apply"))
    times = leaf_elements(instruction.result) * (_scattered(instruction) - 1)
    return function.arithmetic(times) + Cost(bytes_accessed=instruction.accessed)


def _scattered(instruction: Instruction) -> int:
    """The number of parts a reduce-scatter splits into."""
    operand, part = sum(map(elements, instruction.operands)), leaf_elements(instruction.result)
    return operand // part if part else 1


def group_size(instruction: Instruction) -> int:
    """The number of devices in a group; 2, as XLA assumes, if the instruction does not say."""
    groups = instruction.attribute("replica_groups")
    return (groups.group_size if groups is not None else None) or 2


def _copied(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=2 * shape_bytes(instruction.operand(0)))


def _gathered(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    made = instruction.result.elements[1] if isinstance(instruction.result, TupleType) else instruction.result
    return Cost(bytes_accessed=sum(map(shape_bytes, instruction.operands)) + leaf_bytes(made))


def _sent(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=leaf_bytes(instruction.operand(0)))


def _received(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    value_type = instruction.result.elements[0] if isinstance(instruction.result, TupleType) else instruction.result
    return Cost(bytes_accessed=leaf_bytes(value_type))


rules(
    "all-reduce all-reduce-start",
    _all_reduce,
    _exact_all_reduce,
    because="XLA assumes two replicas and a sum: one operation per element; in a ring, each of n devices reduces "
    "(n-1)/n of the elements with the given function",
)
rules("all-gather all-to-all ragged-all-to-all collective-broadcast collective-permute", moves)
rules("reduce-scatter", moves, _exact_reduce_scatter, because="XLA counts no arithmetic")
_STARTS = "XLA counts operands again, and counters, if the starting instruction's result holds them"
rules("all-gather-start collective-permute-start", moves, _gathered, because=_STARTS)
rules("copy-start", moves, _copied, because=_STARTS)
rules("all-gather-done all-reduce-done collective-permute-done copy-done", moves, nothing, because=FINISHED)
rules("send", moves, _sent, because="XLA counts the value twice, and the counter")
rules("recv", moves, _received, because="XLA counts the counter")
rules("send-done recv-done", moves, nothing, because=FINISHED)
