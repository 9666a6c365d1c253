"""The contents of memory at the peak, row by row: what made each buffer, how it is stored, and who still needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hloom.analysis import (
    DEVICE_MEMORY,
    LiveBuffer,
    MemoryReport,
    ScopePaths,
    memory_model,
    memory_space,
    scopes,
    shape_bytes,
    stored_bytes,
)
from hloom.ir import Graph, Module, Node, Parameter, TensorType, TupleType, Type, element_at
from hloom.text import Bytes

FORWARD, BACKWARD = "forward", "backward"
BRIEF = 0.02
"""What is in use for less than this part of a run is part of the peak itself; what is kept for longer is long-lived."""
FEWEST_STEPS = 4
"""So many steps are brief in any program."""
MOST_FUSED = 4
"""The maximum number of opcodes of a fusion to name."""
_NUMBER = re.compile(r"(?<![A-Za-z])\d+|(?<=_)\d+|(?<=[A-Za-z])\d+(?=/|$)")
_USER = re.compile(r"[,:] last needed by .*", re.DOTALL)
_STEPS = re.compile(r"^kept for [0-9,]+ of [0-9,]+ steps")
_RESULT = re.compile(r"result \{[0-9,]*\} could")


@dataclass(frozen=True, slots=True)
class HeldBuffer:
    """A buffer at the peak.

    `bytes` are what it takes, padding included; `unpadded_bytes` those of its elements. `role` is "argument", "output",
    "temporary" or what XLA calls it; `made_by` an opcode, of a fusion with what is fused. `start` and `end` are the
    steps from and up to which it is in use, of as many as the report says; None where only an error text is known.
    `reason` says why it is there. `space` is the memory space, 0 for the main one.
    """

    name: str
    type: str
    bytes: int
    unpadded_bytes: int
    role: str
    made_by: str
    scope: str
    source: str
    start: int | None = None
    end: int | None = None
    last_user: str = ""
    last_user_scope: str = ""
    reason: str = ""
    is_long_lived: bool = False
    space: int = DEVICE_MEMORY

    @property
    def padding(self) -> int:
        """The bytes that hold nothing."""
        return self.bytes - self.unpadded_bytes


@dataclass(frozen=True, slots=True)
class BufferGroup:
    """Buffers of one scope or source line: how many, their bytes, and what is said of the largest of them."""

    name: str
    count: int
    bytes: Bytes
    padding: Bytes
    largest: str
    reason: str


def held_buffers(module: Module, report: MemoryReport) -> list[HeldBuffer]:
    """What a memory report lists at the peak, with scopes, padding, and why it is there; largest first."""
    reader = _BufferReader(module, report)
    return sorted((reader.read(buffer) for buffer in report.at_peak), key=lambda buffer: -buffer.bytes)


def grouped(buffers: Iterable[HeldBuffer], name_of: Callable[[HeldBuffer], str]) -> list[BufferGroup]:
    """Buffers added up by a name, the largest sum first."""
    members: dict[str, list[HeldBuffer]] = {}
    for buffer in buffers:
        members.setdefault(name_of(buffer), []).append(buffer)
    groups = [_group(name, sorted(rows, key=lambda row: -row.bytes)) for name, rows in members.items()]
    return sorted(groups, key=lambda group: -group.bytes)


def _group(name: str, rows: Sequence[HeldBuffer]) -> BufferGroup:
    largest = rows[0]
    spent: dict[str, int] = {}
    for row in rows:
        spent[general_reason(row)] = spent.get(general_reason(row), 0) + row.bytes
    reason = max(spent, key=lambda text: spent[text])
    total, padding = sum(row.bytes for row in rows), sum(row.padding for row in rows)
    return BufferGroup(name, len(rows), total, padding, largest.type, reason)


def general_reason(buffer: HeldBuffer) -> str:
    """Why a buffer is there, without the names of its own."""
    return _STEPS.sub("long-lived", _RESULT.sub("a result could", _USER.sub("", buffer.reason)))


def repeated_scope(scope: str) -> str:
    """A scope with its numbers left out, so that repeated layers are one.

    >>> repeated_scope("forward/layer_11/attention"), repeated_scope("forward/h/3/mlp"), repeated_scope("vmap/conv2d")
    ('forward/layer_*/attention', 'forward/h/*/mlp', 'vmap/conv2d')
    """
    return _NUMBER.sub("*", scope)


class _BufferReader:
    """Reads buffers of one report; `paths` has the scopes of its module."""

    def __init__(self, module: Module, report: MemoryReport) -> None:
        self.report = report
        self.model = memory_model(module)
        self.paths: ScopePaths = scopes(module)
        self.nodes = {(graph.name, node.name): node for graph in module.graphs for node in graph.nodes}
        self.by_name: dict[str, Node] = {}
        for node in module.nodes():
            self.by_name.setdefault(node.name, node)
        self.donatable = {(row.name, row.index): row for row in report.donatable}
        self.entry = module.entry
        aliases = module.attributes.get("input_output_alias") or ()
        self.given = {(alias.parameter, tuple(alias.parameter_index)) for alias in aliases}

    def read(self, buffer: LiveBuffer) -> HeldBuffer:
        """A buffer, as the report has it, with what the module says of it."""
        node = self._node(buffer.name, buffer.computation)
        user = self._node(buffer.last_user, buffer.computation) if buffer.last_user else None
        value_type = element_at(node.type, buffer.index) if node is not None else None
        padding = stored_bytes(value_type, memory_space(value_type), self.model) - shape_bytes(value_type)
        held = HeldBuffer(
            name=buffer.name + "".join(f"{{{index}}}" for index in buffer.index),
            type=str(value_type) if _is_tiled(value_type) else buffer.type,
            bytes=buffer.bytes,
            unpadded_bytes=buffer.bytes - min(padding, buffer.bytes),
            role=buffer.role,
            made_by=_made_by(node, buffer.opcode),
            scope=self._scope(node, buffer.scope),
            source=buffer.source,
            start=buffer.start,
            end=buffer.end,
            last_user=buffer.last_user,
            last_user_scope=self._scope(user, "") if user is not None else "",
            is_long_lived=buffer.end - buffer.start > max(BRIEF * self.report.length, FEWEST_STEPS),
            space=memory_space(value_type),
        )
        return replace(held, reason=self._reason(held, node, buffer))

    def _node(self, name: str, computation: str) -> Node | None:
        """The instruction of a name: of its computation, of the entry, or else the first that is called so."""
        return self.nodes.get((computation, name)) or self.nodes.get((self.entry.name, name)) or self.by_name.get(name)

    def _scope(self, node: Node | None, known: str) -> str:
        return self.paths.text(node) if node is not None else known

    def _reason(self, held: HeldBuffer, node: Node | None, buffer: LiveBuffer) -> str:
        if held.role == "argument" and isinstance(node, Parameter) and (node.number, buffer.index) in self.given:
            return "argument: its memory becomes a result's"
        if held.role == "argument":
            donation = self.donatable.get((buffer.name, buffer.index))
            if donation is None or not isinstance(node, Parameter):
                return "argument: the caller keeps it"
            output = "{" + ",".join(map(str, donation.output_index)) + "}"
            return f"argument: the caller keeps it; result {output} could take its memory"
        if held.role == "output":
            return "result: kept to the end"
        by = f"{held.last_user} in {held.last_user_scope}" if held.last_user else "the end"
        if not held.is_long_lived:
            return f"in use around the peak itself: last needed by {by}"
        if held.made_by.startswith("while"):
            return f"state of a loop, kept for all its rounds: last needed by {by}"
        phases = held.scope.partition("/")[0], held.last_user_scope.partition("/")[0]
        if phases == (FORWARD, BACKWARD):
            return f"forward value kept for the backward pass: last needed by {by}"
        assert held.start is not None and held.end is not None, "what is read from a report has its steps"
        steps = f"{held.end - held.start:,} of {self.report.length:,} steps"
        return f"kept for {steps}, last needed by {by}"


def _is_tiled(value_type: Type | None) -> bool:
    leaves = value_type.leaves() if value_type is not None else ()
    return any(isinstance(leaf, TensorType) and leaf.layout is not None and leaf.layout.tiles for leaf in leaves)


def _made_by(node: Node | None, opcode: str) -> str:
    """The opcode; of a fusion, how many instructions it fuses and which opcodes most often."""
    called = node.attributes.get("calls") if node is not None and node.opcode == "fusion" else None
    if not isinstance(called, Graph):
        return opcode
    counts: dict[str, int] = {}
    for fused in called.nodes:
        if not isinstance(fused, Parameter) and not isinstance(fused.type, TupleType):
            counts[fused.opcode] = counts.get(fused.opcode, 0) + 1
    most = sorted(counts, key=lambda name: -counts[name])[:MOST_FUSED]
    return f"fusion of {sum(counts.values())}: {', '.join(most)}" if counts else opcode
