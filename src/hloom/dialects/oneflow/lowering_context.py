"""The context that the lowering of one op gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.dialects.arrays import HloArray, HloBuilder
from hloom.dialects.oneflow.rows import axis_in, plain
from hloom.ir import Apply, TensorType, TupleType


@dataclass(frozen=True, slots=True)
class Given:
    """One op to be lowered: its node, the HLO of its operands, and what to build with."""

    node: Apply
    operands: tuple[HloArray, ...]
    build: HloBuilder

    def __getitem__(self, name: str) -> Any:
        """A plain attribute, defaults included."""
        return plain(self.node.attribute(name))

    @property
    def name(self) -> str:
        """The op's name without the dialect."""
        return self.node.opcode.removeprefix("oneflow.")

    @property
    def x(self) -> HloArray:
        """The first operand."""
        return self.operands[0]

    @property
    def result(self) -> TensorType:
        """The type of the op's result, or of the last of its results."""
        type_ = self.node.type
        last = type_.elements[-1] if isinstance(type_, TupleType) else type_
        assert isinstance(last, TensorType), "inferred before"
        return last

    def axis(self) -> int:
        """The attribute `axis`, counted from the front."""
        return axis_in(self.node.attribute("axis"), self.x.type)

    def added(self, total: HloArray, index: int) -> HloArray:
        """A sum plus an optional operand, which comes last."""
        return total + self.operands[index] if len(self.operands) > index else total

    def argument(self, array_type: TensorType, stem: str) -> HloArray:
        """A further parameter of the program."""
        return HloArray(self.build, self.build.graph.add_parameter(array_type, stem))


Rule = Callable[[Given], HloArray | Sequence[HloArray]]
"""Builds an op's HLO: its result, or its results in order."""
