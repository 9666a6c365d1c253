"""Cost rules of ops that move, choose or make elements without arithmetic, and of random numbers."""

from __future__ import annotations

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.elementwise import transcendental
from hloom.analysis.rules.table import CalleeCosts, Instruction, moves, nothing, rules
from hloom.analysis.sizes import elements, leaf_bytes, leaf_elements, shape_bytes
from hloom.ir import TensorType, default_layout


def _slice(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=2 * shape_bytes(instruction.result))


def _dynamic_slice(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=2 * shape_bytes(instruction.result) + shape_bytes(instruction.operand(1)))


def _exact_dynamic_slice(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=2 * shape_bytes(instruction.result) + sum(map(shape_bytes, instruction.operands[1:])))


def _dynamic_update_slice(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=2 * shape_bytes(instruction.operand(1)) + shape_bytes(instruction.operand(2)))


def _exact_dynamic_update_slice(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=shape_bytes(instruction.operand(1)) + sum(map(shape_bytes, instruction.operands[1:])))


def gather(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """The gathered elements are read and written, and the indices read."""
    return Cost(bytes_accessed=2 * shape_bytes(instruction.result) + shape_bytes(instruction.operand(1)))


def scatter(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """The updated elements are read and written, updates and indices read, and the function applied per element."""
    count = len(instruction.operands) // 2
    updates = instruction.operands[count + 1 :]
    accessed = 3 * sum(map(shape_bytes, updates)) + shape_bytes(instruction.operand(count))
    function = callee_cost(instruction.attribute("to_apply"))
    return function.arithmetic(elements(updates[0] if updates else None)) + Cost(bytes_accessed=accessed)


def _transpose(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return nothing(instruction, callee_cost) if _keeps_memory(instruction) else moves(instruction, callee_cost)


def _keeps_memory(instruction: Instruction) -> bool:
    """Whether a transpose and its change of layout cancel out, so that no memory moves."""
    operand, result = instruction.operand(0), instruction.result
    order = instruction.attribute("dimensions") or ()
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType) or operand.rank != len(order):
        return False
    moved = tuple(order[dim] for dim in _minor_to_major(result) if dim < len(order))
    return moved == _minor_to_major(operand)


def _minor_to_major(value_type: TensorType) -> tuple[int, ...]:
    return (value_type.layout or default_layout(value_type.rank)).minor_to_major


def _infeed(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=leaf_bytes(instruction.result))


def _outfeed(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(bytes_accessed=sum(map(leaf_bytes, instruction.operands)))


def _random_bits(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(transcendentals=leaf_elements(instruction.result), bytes_accessed=instruction.accessed)


def _exact_random(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    is_normal = instruction.attribute("distribution") == "rng_normal"
    return transcendental(instruction, callee_cost) if is_normal else moves(instruction, callee_cost)


rules("slice", _slice)
rules(
    "dynamic-slice",
    _dynamic_slice,
    _exact_dynamic_slice,
    because="XLA counts the bytes of the first index only",
)
rules(
    "dynamic-update-slice",
    _dynamic_update_slice,
    _exact_dynamic_update_slice,
    because="XLA counts the bytes of the first index only",
)
rules("gather", gather)
rules("scatter", scatter)
rules("transpose", _transpose)
rules("broadcast concatenate copy dynamic-reshape iota pad reshape reverse set-dimension-size", moves)
rules(
    "get-dimension-size partition-id replica-id rng-get-and-update-state",
    moves,
    nothing,
    because="XLA counts the bytes of the resulting number, and of the array that is queried",
)
rules("bitcast", nothing)
rules("infeed", _infeed)
rules("outfeed", _outfeed)
rules("rng", transcendental, _exact_random, because="XLA counts every random number as a transcendental function")
rules(
    "rng-bit-generator",
    _random_bits,
    moves,
    because="XLA counts every random number, the state's too, as a transcendental function; it is integer arithmetic",
)
