"""The form of a cost rule: XLA's count of an opcode, and the mathematical one where they differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hloom.analysis.cost_properties import Cost
from hloom.analysis.sizes import elements, leaf_bytes, shape_bytes
from hloom.ir import Apply, Attributes, Graph, Op, Type


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """A rule's view of an instruction: types (None if unknown) and attributes.

    `node` is the instruction itself, for rules that need its identity.
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
        """The type of an operand, or None if it has fewer operands."""
        return self.operands[number] if -len(self.operands) <= number < len(self.operands) else None

    @property
    def operand_types(self) -> list[Type]:
        """The types of the operands whose types are known."""
        return [value_type for value_type in self.operands if value_type is not None]

    @property
    def accessed(self) -> int:
        """The bytes of all operands and the result, once each: XLA's default count of bytes."""
        return leaf_bytes(self.result) + sum(map(shape_bytes, self.operands))

    @property
    def elements(self) -> int:
        """The number of elements of the result."""
        return elements(self.result)


class CalleeCosts(Protocol):
    """The costs of the computations that an instruction calls."""

    def __call__(self, graph: Graph | None) -> Cost:
        """The cost of one run of a computation; zero if there is none."""
        ...

    def control_flow(self, instruction: Instruction) -> Cost:
        """The cost of all runs of all callees in one run of a control-flow instruction."""
        ...


CostFunction = Callable[[Instruction, CalleeCosts], Cost]


@dataclass(frozen=True, slots=True)
class CostRule:
    """The cost rule of an opcode.

    `xla` follows HloCostAnalysis. `mathematical` counts what the instruction's definition requires; None means that
    both agree, otherwise `because` says where they differ.
    """

    xla: CostFunction
    mathematical: CostFunction | None = None
    because: str = ""


COST_RULES: dict[str, CostRule] = {}
"""The rule of every opcode; the family files fill this table."""


def rules(opcodes: str, xla: CostFunction, mathematical: CostFunction | None = None, *, because: str = "") -> None:
    """Register the rule of some opcodes; a mathematical count needs a reason, and an opcode has one rule."""
    if (mathematical is None) != (not because):
        raise ValueError(f"{opcodes}: a mathematical count and its reason go together")
    for opcode in opcodes.split():
        if opcode in COST_RULES:
            raise ValueError(f"{opcode} has a rule already")
        COST_RULES[opcode] = CostRule(xla, mathematical, because)


def nothing(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """No cost."""
    return Cost()


def moves(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    """Bytes only: every operand is read and the result written."""
    return Cost(bytes_accessed=instruction.accessed)
