"""The fields of an instruction that queries can use, each computed for all instructions on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from hloom.analysis import (
    DEFAULT_DEVICE,
    LOOPED,
    UNKNOWN,
    CostReport,
    Device,
    Roofline,
    as_device,
    cost,
    elements,
    leaf_bytes,
    op_name_of,
    scopes,
    source_of,
)
from hloom.formats.hlo import print_node
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, without_layout
from hloom.ops import collective
from hloom.targets.memory import memory


class FieldKind(Enum):
    """What a field holds, and so what it may be compared with."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    SHAPE = "shape"


@dataclass(frozen=True, slots=True)
class InstructionField:
    """A field of an instruction: its values come from `read`, one for each instruction of the module in order."""

    kind: FieldKind
    description: str
    read: Callable[[Instructions], list[Any]]
    unit: str = ""


class Instructions:
    """The instructions of a module in order, and their fields; times are those of a device, by the roofline model."""

    def __init__(self, module: Module, device: Device | str = DEFAULT_DEVICE) -> None:
        self.module = module
        self.device = as_device(device)
        self.nodes = list(module.nodes())
        self._columns: dict[str, list[Any]] = {}

    def column(self, name: str) -> list[Any]:
        """The values of one of FIELDS; raises HloomError where the module is one that cannot be counted."""
        if name not in self._columns:
            self._columns[name] = FIELDS[name].read(self)
        return self._columns[name]

    @cached_property
    def numbers(self) -> dict[Node, int]:
        """Where each instruction stands in the order."""
        return {node: number for number, node in enumerate(self.nodes)}

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """From each operand to each of its users, by their numbers."""
        numbers = self.numbers
        pairs = [
            (numbers[operand], number)
            for number, node in enumerate(self.nodes)
            for operand in node.operands
            if operand in numbers
        ]
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    @cached_property
    def cost(self) -> CostReport:
        """What the module costs; raises HloomError where it has no entry."""
        return cost(self.module)

    @cached_property
    def own_costs(self) -> dict[Node, tuple[int, int, int]]:
        """By instruction what all its runs cost, beside the instructions of the computations that it calls."""
        totals = ((entry.node, entry.total) for entry in self.cost.per_node)
        return {node: (total.flops, total.transcendentals, total.bytes_accessed) for node, total in totals}

    @cached_property
    def inclusive_flops(self) -> dict[Node, int]:
        """For each instruction, the FLOPs of all its runs, including the computations it calls."""
        looped = self.cost.analysis(LOOPED)
        return {entry.node: looped.inclusive(entry.node).flops * entry.times.flops for entry in self.cost.per_node}

    @cached_property
    def seconds(self) -> dict[Node, float]:
        """For each instruction, the cost of its kernel; instructions computed inside another's kernel cost nothing."""
        return {timing.node: timing.total for timing in Roofline(self.cost, self.device).timings}

    @cached_property
    def live(self) -> dict[tuple[str, str], int]:
        """The bytes that are in use at the peak, by the computation and the name of the value in them."""
        sizes: dict[tuple[str, str], int] = {}
        for buffer in memory(self.module).at_peak:
            key = buffer.computation, buffer.name
            sizes[key] = sizes.get(key, 0) + buffer.bytes
        return sizes

    def map(self, value: Callable[[Node], Any]) -> list[Any]:
        """A value of every instruction."""
        return [value(node) for node in self.nodes]


def _dtype(node: Node) -> str:
    leaves = list(node.type.leaves()) if node.type is not None else []
    return ",".join(dict.fromkeys(leaf.dtype.name if isinstance(leaf, TensorType) else str(leaf) for leaf in leaves))


def _elements(node: Node) -> int:
    return sum(map(elements, node.type.leaves())) if node.type is not None else 0


def _dims(node: Node) -> tuple[int, ...] | None:
    return node.type.dims if isinstance(node.type, TensorType) else None


def _type(node: Node) -> str:
    return "" if node.type is None else str(without_layout(node.type))


def _own(index: int) -> Callable[[Instructions], list[Any]]:
    return lambda rows: rows.map(lambda node: rows.own_costs.get(node, (0, 0, 0))[index])


def _sources(rows: Instructions) -> list[str]:
    tables = rows.module.stack_tables
    sources = rows.map(lambda node: source_of(node, tables))
    return ["" if source == UNKNOWN else source for source in sources]


def _files(rows: Instructions) -> list[str]:
    return [source.rpartition(":")[0] for source in rows.column("source")]


def _lines(rows: Instructions) -> list[int]:
    return [int(source.rpartition(":")[2] or 0) for source in rows.column("source")]


def _scopes(rows: Instructions) -> list[str]:
    paths = scopes(rows.module)
    return rows.map(paths.text)


def _live_bytes(rows: Instructions) -> list[int]:
    return rows.map(lambda node: rows.live.get((node.graph.name, node.name), 0))


def _fused(rows: Instructions) -> list[bool]:
    graphs: set[Graph] = {called for node in rows.nodes if node.opcode == "fusion" for called in node.called_graphs}
    return rows.map(lambda node: node.graph in graphs)


def _text(node: Node) -> str:
    if isinstance(node, Apply) and not node.has_row:
        return repr(node)
    if isinstance(node, Constant) and node.called_graphs:
        return repr(node)
    return print_node(node)


_TEXT, _NUMBER, _FLAG = FieldKind.TEXT, FieldKind.NUMBER, FieldKind.FLAG
FIELDS: dict[str, InstructionField] = {
    "name": InstructionField(_TEXT, "the instruction's name", lambda rows: rows.map(lambda node: node.name)),
    "opcode": InstructionField(_TEXT, "what makes the value", lambda rows: rows.map(lambda node: node.opcode)),
    "computation": InstructionField(
        _TEXT, "the computation it is in", lambda rows: rows.map(lambda node: node.graph.name)
    ),
    "dtype": InstructionField(_TEXT, "the element type; of a tuple, those of its parts", lambda rows: rows.map(_dtype)),
    "type": InstructionField(_TEXT, "the type without its layout", lambda rows: rows.map(_type)),
    "shape": InstructionField(
        FieldKind.SHAPE, "the dimensions: [8,128], [*,128], [...,128]", lambda rows: rows.map(_dims)
    ),
    "rank": InstructionField(
        _NUMBER,
        "how many dimensions; -1 for what is not an array",
        lambda rows: rows.map(lambda node: -1 if _dims(node) is None else len(_dims(node) or ())),
    ),
    "elements": InstructionField(_NUMBER, "how many elements", lambda rows: rows.map(_elements)),
    "bytes": InstructionField(
        _NUMBER, "the bytes of the result", lambda rows: rows.map(lambda node: leaf_bytes(node.type)), "B"
    ),
    "flops": InstructionField(
        _NUMBER,
        "FLOPs of all runs, called computations included",
        lambda rows: rows.map(lambda node: rows.inclusive_flops.get(node, 0)),
        "F",
    ),
    "own_flops": InstructionField(_NUMBER, "FLOPs without called computations: they sum to the module's", _own(0), "F"),
    "transcendentals": InstructionField(_NUMBER, "transcendental functions, as own_flops", _own(1)),
    "bytes_accessed": InstructionField(_NUMBER, "bytes read and written, as own_flops", _own(2), "B"),
    "seconds": InstructionField(
        _NUMBER,
        "time of all runs on the device, estimated",
        lambda rows: rows.map(lambda node: rows.seconds.get(node, 0.0)),
        "s",
    ),
    "scope": InstructionField(_TEXT, "the scope's path: forward/layer_0/mlp", _scopes),
    "op_name": InstructionField(_TEXT, "the framework's name", lambda rows: rows.map(op_name_of)),
    "source": InstructionField(_TEXT, "file and line: model.py:12", _sources),
    "file": InstructionField(_TEXT, "the source file", _files),
    "line": InstructionField(_NUMBER, "the source line; 0 where it is not known", _lines),
    "live_bytes": InstructionField(_NUMBER, "its bytes in memory at the peak", _live_bytes, "B"),
    "live": InstructionField(
        _FLAG, "in memory at the peak", lambda rows: [size > 0 for size in rows.column("live_bytes")]
    ),
    "users": InstructionField(
        _NUMBER, "how many instructions read it", lambda rows: rows.map(lambda node: node.user_count)
    ),
    "operands": InstructionField(_NUMBER, "how many operands", lambda rows: rows.map(lambda node: len(node.operands))),
    "sharding": InstructionField(
        _TEXT,
        "the sharding as HLO writes it",
        lambda rows: rows.map(lambda node: str(node.attributes.get("sharding") or "")),
    ),
    "sharded": InstructionField(
        _FLAG, "has a sharding", lambda rows: rows.map(lambda node: "sharding" in node.attributes)
    ),
    "collective": InstructionField(
        _FLAG, "talks to other devices", lambda rows: rows.map(lambda node: node.opcode in collective.ROWS)
    ),
    "root": InstructionField(_FLAG, "what its computation yields", lambda rows: rows.map(lambda node: node.is_output)),
    "entry": InstructionField(
        _FLAG, "in the entry computation", lambda rows: rows.map(lambda node: rows.module.is_entry(node.graph))
    ),
    "fused": InstructionField(_FLAG, "in a fusion's computation", _fused),
    "target": InstructionField(
        _TEXT,
        "what a custom call calls",
        lambda rows: rows.map(lambda node: str(node.attributes.get("custom_call_target") or "")),
    ),
    "text": InstructionField(_TEXT, "the line of HLO", lambda rows: rows.map(_text)),
}
"""Every field by its name."""
ALIASES = {"time": "seconds"}
"""Other names of fields."""
