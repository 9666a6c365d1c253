"""The instructions that a query asks for, and all instructions as a table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.analysis import DEFAULT_DEVICE, Device, Table
from hloom.inspection.query.expression import FieldComparison, Neighbours, OpcodePattern, parse_query
from hloom.inspection.query.instructions import FIELDS, FieldKind, Instructions
from hloom.ir import Graph, ModuleLike, Node, as_module
from hloom.text import Display, Displayed, DisplayTable, RegularExpression

COLUMNS = (
    "name",
    "opcode",
    "dtype",
    "shape",
    "bytes",
    "flops",
    "own_flops",
    "bytes_accessed",
    "seconds",
    "scope",
    "op_name",
    "file",
    "line",
    "computation",
    "users",
    "operands",
    "sharding",
)
"""The columns of `table`, unless told otherwise: all but those that take a simulation of memory, or are long."""
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, repr=False)
class Matches(Displayed):
    """The instructions that a query asks for, in the module's order; iterating gives the nodes."""

    instructions: Instructions
    numbers: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Node]:
        return (self.instructions.nodes[number] for number in self.numbers)

    def __repr__(self) -> str:
        return f"<{len(self):,} of {len(self.instructions.nodes):,} instructions of {self.instructions.module.name}>"

    def display(self) -> Display:
        columns = ("name", "opcode", "type", "scope", "source")
        rows = zip(*map(self.column, columns), strict=True)
        return Display(repr(self), [DisplayTable("instructions", columns, rows, len(self))], "matches.table()")

    def column(self, name: str) -> list[Any]:
        """A field of each of them, one of FIELDS."""
        values = self.instructions.column(name)
        return [values[number] for number in self.numbers]

    def table(self, columns: tuple[str, ...] = COLUMNS) -> Table:
        """Their fields as a table, which `to_pandas` and `to_polars` convert."""
        rows = zip(*(map(_plain, self.column(name)) for name in columns), strict=True)
        return Table(columns, tuple(rows))


def grep(module: ModuleLike, text: str, *, device: Device | str = DEFAULT_DEVICE) -> Matches:
    """The instructions of a module that a query asks for, such as `dot where bytes > 1MiB and scope ~ "mlp"`.

    Times are those of the device, by the roofline model. Raises ParseError where the query is wrong, with its
    place, and HloomError where it asks for costs of a module that has none (a fragment without an entry).
    """
    module = as_module(module)
    rows = Instructions(module, device)
    steps = parse_query(text, frozenset(node.opcode for node in rows.nodes))
    stack: list[np.ndarray] = []
    for step in steps:
        if isinstance(step, FieldComparison):
            stack.append(_compared(rows, step))
        elif isinstance(step, OpcodePattern):
            stack.append(_matching(rows.column("opcode"), step.pattern.search))
        elif isinstance(step, Neighbours):
            stack.append(_inside(rows, stack.pop()) if step.relation == "inside" else _near(rows, stack.pop(), step))
        elif step == "not":
            stack.append(~stack.pop())
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(left & right if step == "and" else left | right)
    (selected,) = stack
    return Matches(rows, tuple(np.flatnonzero(selected).tolist()))


def table(module: ModuleLike, *, columns: tuple[str, ...] = COLUMNS, device: Device | str = DEFAULT_DEVICE) -> Table:
    """All instructions of a module as a table: `to_pandas()` and `to_polars()` convert it.

    `own_flops` and `bytes_accessed` add up to those of the module. Raises HloomError where it has no entry.
    """
    module = as_module(module)
    rows = Instructions(module, device)
    return Matches(rows, tuple(range(len(rows.nodes)))).table(columns)


def _plain(value: Any) -> Any:
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else "" if value is None else value


def _compared(rows: Instructions, step: FieldComparison) -> np.ndarray:
    values, value = rows.column(step.field), step.value
    field = FIELDS[step.field]
    if field.kind is FieldKind.NUMBER:
        return np.array([_SIGNS[step.sign](number, value) for number in values], dtype=bool)
    if field.kind is FieldKind.FLAG:
        return np.array(values, dtype=bool)
    if isinstance(value, RegularExpression):
        selected = _matching(values, value.search)
    elif isinstance(value, tuple):
        selected = _matching(values, lambda dims: dims is not None and _has_dims(dims, value))
    elif step.field in ("file", "source"):
        selected = _matching(values, lambda path: path == value or path.endswith(f"/{value}"))
    else:
        selected = _matching(values, lambda text: text == value)
    return ~selected if step.sign.startswith("!") else selected


def _matching(values: list[Any], test: Callable[[Any], bool]) -> np.ndarray:
    """Which values pass a test, which is made once for each distinct value."""
    known = {value: test(value) for value in dict.fromkeys(values)}
    return np.array([known[value] for value in values], dtype=bool)


def _has_dims(dims: tuple[int, ...], wanted: tuple[object, ...]) -> bool:
    """Whether dimensions are those wanted, of which None is any one and ... any number.

    >>> _has_dims((2, 8, 128), (..., 128)), _has_dims((8, 128), (None, 64))
    (True, False)
    """
    before = wanted.index(...) if ... in wanted else len(wanted)
    after = len(wanted) - before - 1 if ... in wanted else 0
    if len(dims) < before + after or (... not in wanted and len(dims) != before):
        return False
    ends = [*zip(dims[:before], wanted[:before], strict=True)]
    ends += zip(dims[len(dims) - after :], wanted[len(wanted) - after :], strict=True)
    return all(size is None or size == dim for dim, size in ends)


def _near(rows: Instructions, selected: np.ndarray, step: Neighbours) -> np.ndarray:
    """What is within so many hops: the selected and those on both sides, or only their users, or their operands."""
    operands, users = rows.edges
    reached = np.zeros_like(selected)
    for _ in range(step.hops):
        before = int(reached.sum())
        sources = selected | reached
        if step.relation in ("near", "uses"):
            reached[users[sources[operands]]] = True
        if step.relation in ("near", "used_by"):
            reached[operands[sources[users]]] = True
        if int(reached.sum()) == before:
            break
    return selected | reached if step.relation == "near" else reached


def _inside(rows: Instructions, selected: np.ndarray) -> np.ndarray:
    """The instructions of the computations that the selected call, and that those call."""
    pending = [rows.nodes[number] for number in np.flatnonzero(selected)]
    entered: set[Graph] = set()
    while pending:
        for called in pending.pop().called_graphs:
            if called not in entered:
                entered.add(called)
                pending += called.nodes
    return np.array(rows.map(lambda node: node.graph in entered), dtype=bool)
