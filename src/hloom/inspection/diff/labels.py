"""The label of an instruction without its name, operands and users, at three levels of exactness."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Any

from hloom.analysis import op_name_of
from hloom.inspection.diff.value_graph import START, ValueGraph
from hloom.ir import Apply, Attributes, Constant, Literal, Node, Op, Parameter, Referent, Type, without_layout

NUMBERS = frozenset(("channel_id", "control-predecessors", "origin", "statistics"))
"""Attributes that a compiler numbers anew, or that name other instructions."""
VIEWS = {"bitcast": "reshape"}
"""Opcodes that stand for another once layouts are assigned."""


class Exactness(Enum):
    """How much of an instruction must be equal."""

    EXACT = "opcode, type without layout, attributes, value"
    TYPED = "opcode, type without layout"
    OPCODE = "opcode"


class Labels:
    """Numbers for what instructions are: equal numbers, equal instructions; shared by both modules of a diff."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._attributes: dict[int, tuple[Attributes, Hashable]] = {}
        self._coarser: dict[int, tuple[int, int]] = {}

    def of(self, graph: ValueGraph) -> dict[Exactness, list[int]]:
        """The numbers of a module's instructions, at every level; equal ones are equal at all coarser levels."""
        numbers, coarser = self._numbers, self._coarser
        exact: list[int] = []
        for node in graph.nodes:
            number = numbers.setdefault(self._label(node, Exactness.EXACT), len(numbers))
            exact.append(number)
            if number not in coarser:
                typed, plain = (self._label(node, level) for level in (Exactness.TYPED, Exactness.OPCODE))
                coarser[number] = numbers.setdefault(typed, len(numbers)), numbers.setdefault(plain, len(numbers))
        typed, plain = ([coarser[number][part] for number in exact] for part in (0, 1))
        return {Exactness.EXACT: exact, Exactness.TYPED: typed, Exactness.OPCODE: plain}

    def hints(self, graph: ValueGraph) -> list[int]:
        """Numbers of op_name and source line; 0 where an instruction has none."""
        numbers = self._numbers
        hints: dict[str, int] = {}
        for raw in {node.raw_metadata for node in graph.nodes if node.raw_metadata}:
            hints[raw] = 0
        result: list[int] = []
        for node in graph.nodes:
            raw = node.raw_metadata
            if not raw:
                result.append(0)
                continue
            number = hints[raw]
            if not number:
                key = self._hint(node)
                number = hints[raw] = 0 if key is None else 1 + numbers.setdefault(key, len(numbers))
            result.append(number)
        return result

    def _hint(self, node: Node) -> Hashable | None:
        name = op_name_of(node)
        return ("hint", name) if name else None

    def _label(self, node: Node, level: Exactness) -> Hashable:
        opcode = node.opcode.removesuffix(START)
        opcode = VIEWS.get(opcode, opcode)
        if isinstance(node, Parameter):
            number = -1 if node.graph.module.is_entry(node.graph) else node.number
            return (opcode, number) if level is Exactness.OPCODE else (opcode, number, _plain(node.type))
        if level is Exactness.OPCODE:
            return opcode
        if level is Exactness.TYPED:
            return opcode, _plain(node.type)
        if isinstance(node, Constant):
            return opcode, _plain(node.type), value_key(node)
        if isinstance(node, Apply):
            return node.opcode, _plain(node.type), self._meaning(node)
        return opcode, _plain(node.type), node.name

    def _meaning(self, node: Apply) -> Hashable:
        memo = self._attributes.get(id(node.attributes))
        if memo is None:
            memo = node.attributes, frozenset(meaning(node).items())
            self._attributes[id(node.attributes)] = memo
        return memo[1]


def meaning(node: Node) -> dict[str, Any]:
    """The attributes that decide what an instruction computes, but for computations that it calls."""
    rows = node.function.attributes if isinstance(node, Apply) and isinstance(node.function, Op) else {}
    return {
        name: value
        for name, value in node.attributes.items()
        if name not in NUMBERS
        and not ((row := rows.get(name)) is not None and (row.carried or row.default == value))
        and not is_reference(value)
        and name not in ("sharding", "frontend_attributes", "backend_config")
    }


def is_reference(value: Any) -> bool:
    """Whether an attribute's value is, or holds, computations or instructions."""
    return isinstance(value[0] if isinstance(value, tuple) and value else value, Referent)


def value_key(node: Constant) -> Hashable:
    """A constant's value as something to compare; data that a text left out are all equal."""
    value = node.value
    if isinstance(value, Literal):
        return "elided" if value.is_elided else value
    return value.name


def _plain(value_type: Type | None) -> Type | None:
    return None if value_type is None else without_layout(value_type)
