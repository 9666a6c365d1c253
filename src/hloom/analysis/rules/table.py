"""How a rule is written down: XLA's count of an opcode, and the mathematical one where they differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hloom.analysis.cost_properties import Cost
from hloom.analysis.sizes import elements, leaf_bytes, shape_bytes
from hloom.ir import Apply, Attributes, Graph, Op, Type


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """What a rule sees of an instruction: types (None where unknown) and attributes.

    `node` is the instruction itself, where the counting must know which one it is.
    """

    op: Op
    operands: tuple[Type | None, ...]
    result: Type | None
    attributes: Attributes
    node: Apply

    def attribute(self, name: str) -> Any:
        """An attribute's value, or the default that its row gives."""
        value = self.attributes.get(name)
        if value is not None or name not in self.op.attributes:
            return value
        return self.op.attributes[name].default

    def operand(self, number: int) -> Type | None:
        """The type of an operand; None where there is no such operand."""
        return self.operands[number] if -len(self.operands) <= number < len(self.operands) else None

    @property
    def operand_types(self) -> list[Type]:
        """The types of the operands whose types are known."""
        return [value_type for value_type in self.operands if value_type is not None]

    @property
    def accessed(self) -> int:
        """All operands and the result, once: XLA's count of bytes wherever an opcode has no other."""
        return leaf_bytes(self.result) + sum(map(shape_bytes, self.operands))

    @property
    def elements(self) -> int:
        """The elements of the result."""
        return elements(self.result)


class CalleeCosts(Protocol):
    """What the computations cost that an instruction calls."""

    def __call__(self, graph: Graph | None) -> Cost:
        """What one run of a computation costs; nothing where there is none."""
        ...

    def control_flow(self, instruction: Instruction) -> Cost:
        """What all runs of all callees of a control-flow instruction cost in one run of it."""
        ...


CostFunction = Callable[[Instruction, CalleeCosts], Cost]


@dataclass(frozen=True, slots=True)
class CostRule:
    """How an opcode is counted.

    `xla` follows HloCostAnalysis. `mathematical` counts what the instruction's definition asks for; None says that
    both agree, else `because` says where they part.
    """

    xla: CostFunction
    mathematical: CostFunction | None = None
    because: str = ""


COST_RULES: dict[str, CostRule] = {}
"""The rule of every opcode; the family files fill it."""


def rules(opcodes: str, xla: CostFunction, mathematical: CostFunction | None = None, *, because: str = "") -> None:
    """Set down the rule of some opcodes; a mathematical count needs its reason, and an opcode has one rule."""
    if (mathematical is None) != (not because):
        raise ValueError(f"{opcodes}: a mathematical count and its reason go together")
    for opcode in opcodes.split():
        if opcode in COST_RULES:
            raise ValueError(f"{opcode} has a rule already")
        COST_RULES[opcode] = CostRule(xla, mathematical, because)


def nothing(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """No cost at all."""
    return Cost()


def moves(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """Bytes only: every operand is read and the result written."""
    return Cost(bytes_accessed=instruction.accessed)
