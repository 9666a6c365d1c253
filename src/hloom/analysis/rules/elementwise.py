"""Ops that work element by element."""

from __future__ import annotations

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.table import CalleeCosts, CostFunction, Instruction, moves, rules
from hloom.ir import TensorType

COMPLEX_FLOPS = {
    "add": 2,
    "subtract": 2,
    "negate": 2,
    "multiply": 6,
    "divide": 11,
    "abs": 3,
    "sign": 5,
    "compare": 2,
}
"""Real operations of one complex operation: (a+bi)/(c+di) takes two products, a square sum and two divisions."""


def _flops(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(flops=instruction.elements, bytes_accessed=instruction.accessed)


def transcendental(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """One transcendental function for each element of the result."""
    return Cost(transcendentals=instruction.elements, bytes_accessed=instruction.accessed)


def _by_dtype(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    first = instruction.operand(0)
    is_complex = isinstance(first, TensorType) and first.dtype.is_complex
    per_element = COMPLEX_FLOPS.get(instruction.op.name, 1) if is_complex else 1
    transcendentals = instruction.elements if is_complex and instruction.op.name in ("abs", "sign") else 0
    return Cost(instruction.elements * per_element, transcendentals, instruction.accessed)


def _times(count: int) -> CostFunction:
    def counted(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
        return Cost(flops=instruction.elements * count, bytes_accessed=instruction.accessed)

    return counted


rules(
    "maximum minimum remainder and or xor not shift-left shift-right-arithmetic shift-right-logical mulhi ceil floor "
    "round-nearest-afz round-nearest-even count-leading-zeros popcnt is-finite",
    _flops,
)
rules(
    "add subtract multiply divide negate abs sign compare",
    _flops,
    _by_dtype,
    because="XLA counts an operation on complex numbers as one; multiplication is six real ones",
)
rules(
    "acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential exponential-minus-one log log-plus-one "
    "logistic power rsqrt sine sinh sqrt tan tanh",
    transcendental,
)
rules(
    "convert bitcast-convert stochastic-convert reduce-precision real imag complex select tuple-select",
    _flops,
    moves,
    because="XLA counts one operation per element where values are only converted, chosen or put together",
)
rules("clamp", _flops, _times(2), because="XLA counts one operation per element; clamp is a maximum and a minimum")
