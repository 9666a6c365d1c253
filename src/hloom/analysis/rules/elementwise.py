"""Cost rules of elementwise ops."""

from __future__ import annotations

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.table import CalleeCosts, CostFunction, CostRule, Instruction, moves, rules
from hloom.ir import Op, TensorType, Trait

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
"""Real operations per complex operation: (a+bi)/(c+di) takes two products, a square sum and two divisions."""


def _flops(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(flops=instruction.elements, bytes_accessed=instruction.accessed)


def transcendental(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """One transcendental function per element of the result."""
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


_ONE_FLOP = CostRule(_flops)
_TRANSCENDENTAL = CostRule(transcendental)


def elementwise_rule(op: Op) -> CostRule | None:
    """The rule implied by an op's traits: one operation or one transcendental function per element, as XLA counts."""
    if Trait.ELEMENTWISE not in op.traits:
        return None
    return _TRANSCENDENTAL if Trait.TRANSCENDENTAL in op.traits else _ONE_FLOP


rules(
    "add subtract multiply divide negate abs sign compare",
    _flops,
    _by_dtype,
    because="XLA counts an operation on complex numbers as one; multiplication is six real ones",
)
rules(
    "convert bitcast-convert stochastic-convert reduce-precision real imag complex select tuple-select",
    _flops,
    moves,
    because="XLA counts one operation per element even if values are only converted, selected or joined",
)
rules("clamp", _flops, _times(2), because="XLA counts one operation per element; clamp is a maximum and a minimum")
