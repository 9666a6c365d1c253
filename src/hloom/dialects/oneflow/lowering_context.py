"""What the lowering of one op is given, and how the family files enter their functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.dialects.oneflow.rows import axis_in, plain
from hloom.ir import Apply, Node, TensorType


@dataclass(frozen=True, slots=True)
class Given:
    """One op to be lowered: its node, the HLO of its operands, and what to build with."""

    node: Apply
    operands: tuple[Node, ...]
    build: HloBuilder

    def __getitem__(self, name: str) -> Any:
        """A plain attribute, defaults included."""
        return plain(self.node.attribute(name))

    @property
    def x(self) -> Node:
        """The first operand."""
        return self.operands[0]

    @property
    def x_type(self) -> TensorType:
        """The first operand's type."""
        return tensor(self.operands[0])

    def axis(self) -> int:
        """The attribute `axis`, counted from the front."""
        return axis_in(self.node.attribute("axis"), self.x_type)

    def along(self, values: Node, axis: int, like: Node) -> Node:
        """One value for each index of an axis, in an array like another."""
        return self.build.spread(values, tensor(like).dims, (axis,))

    def argument(self, array_type: TensorType, stem: str) -> Node:
        """A further parameter of the program."""
        return self.build.graph.add_parameter(array_type, stem)


Rule = Callable[[Given], Node | Sequence[Node]]
"""Builds an op's HLO: its result, or its results in order."""


AnyRule = TypeVar("AnyRule", bound=Rule)


def table_of() -> tuple[dict[str, Rule], Callable[..., Callable[[AnyRule], AnyRule]]]:
    """An empty table, and the decorator that enters functions into it by the ops' short names."""
    table: dict[str, Rule] = {}

    def lowers(*names: str) -> Callable[[AnyRule], AnyRule]:
        def register(rule: AnyRule) -> AnyRule:
            table.update({f"oneflow.{name}": rule for name in names})
            return rule

        return register

    return table, lowers
