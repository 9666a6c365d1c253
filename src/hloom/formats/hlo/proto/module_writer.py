"""Encodes a Module as HloModuleProto, with names unique in the module, as XLA requires."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

from google.protobuf.message import DecodeError, EncodeError

from hloom.formats import protobuf
from hloom.formats.hlo.printer import calling_nodes, ordered_graphs
from hloom.formats.hlo.proto.encoded_messages import (
    LARGEST_MESSAGE,
    VARINT,
    VARINTS,
    Encoded,
    consecutive_varints,
    delimited,
    encoded_fields,
    encoding_error,
    in_order,
    key,
    number_field,
)
from hloom.formats.hlo.proto.instruction_writer import InstructionWriter
from hloom.formats.hlo.proto.metadata import write_tables
from hloom.formats.hlo.proto.module_header import encoded_program_shape, write_header
from hloom.formats.hlo.proto.original_values import write_recovery
from hloom.ir import Graph, Module, legal_name
from hloom.text import HloomError, HloomWarning

REMAINDER = "hlo_module"
"""The attachment that holds the message fields a Module cannot represent."""
COMPUTATION_FIELDS = "computation_fields"
"""The attachment that holds such fields of computations, as bytes by the computation's name."""


def module_to_proto(module: Module) -> Any:
    """A module as a protobuf.HloModuleProto that XLA can read.

    Names are made unique in the whole module, as XLA requires; absent layouts become default ones. Whatever has no
    field is dropped with a HloomWarning. Raises HloomError, naming the instruction, if it has no type, elided data or
    undefined names, and for closures, computed calls and recursion.
    """
    written = write_module(module)
    if written.losses:
        warnings.warn(f"{module.name}: protos cannot hold {', '.join(written.losses)}", HloomWarning, stacklevel=2)
    try:
        return protobuf.HloModuleProto.FromString(written.data)
    except DecodeError as problem:
        raise HloomError(f"{module.name} cannot be written as protobuf: {problem}") from None


def write_module(module: Module) -> ModuleWriter:
    """The message's bytes, with what was lost and the ids of instructions by their written names."""
    if module.unresolved:
        raise HloomError(f"module {module.name} uses names that nothing defines: {module.unresolved[0]}")
    writer = ModuleWriter(module)
    try:
        writer.write()
    except (TypeError, EncodeError, ValueError) as problem:
        raise encoding_error(problem, f"module {module.name}") from None
    return writer


class ModuleWriter:
    """State of writing one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.data = b""
        self.losses: dict[str, None] = {}
        callers = calling_nodes(module)
        self.graphs = ordered_graphs(module, callers)
        self.graph_ids = {graph: number for number, graph in enumerate(self.graphs)}
        self.fused = {
            called
            for nodes in callers.values()
            for node in nodes
            if node.opcode == "fusion"
            for called in node.called_graphs
        }
        self._names: list[bytes] = []

    @property
    def numbers(self) -> dict[str, int]:
        """The ids of instructions by their written names."""
        ids = chain.from_iterable(
            range(number << 32, (number << 32) + len(graph.nodes)) for graph, number in self.graph_ids.items()
        )
        return {name.decode(): number for name, number in zip(self._names, ids, strict=True)}

    def write(self) -> None:
        """Make the message's bytes."""
        module = self.module
        frames: dict[int, int] = {}
        proto = self._header(frames)
        instructions = InstructionWriter(self.graph_ids, frames)
        self._names = unique_names([node.name for graph in self.graphs for node in graph.nodes])
        fields = self._computations(instructions)
        layout = module.attributes.get("entry_computation_layout")
        parameters = [parameter.type for parameter in module.entry.parameters] if layout is None else layout.parameters
        result = module.entry.root.type if layout is None else layout.result
        shape = encoded_program_shape(
            parameters, result, [b"p%d" % number for number in range(len(parameters))], instructions.shapes
        )
        fields.append((_HOST_SHAPE, delimited(_HOST_SHAPE, shape)))
        if module.is_scheduled:
            fields.append((_SCHEDULE, self._schedule()))
        proto.payloads.extend(instructions.payloads)
        self.losses.update(instructions.losses)
        fields += encoded_fields(proto)
        self.data = in_order(fields)
        if len(self.data) > LARGEST_MESSAGE:
            raise HloomError(f"{module.name} cannot be written as protobuf: it has {len(self.data)} bytes")

    def _header(self, frames: dict[int, int]) -> Any:
        """The message without its computations, their schedule and the entry's types; stack frames are renumbered."""
        module, proto = self.module, protobuf.HloModuleProto()
        remainder = module.attachments.get(REMAINDER)
        if remainder is not None:
            proto.MergeFrom(remainder)
        proto.name = legal_name(module.name)
        write_header(proto, module, self.losses)
        if module.stack_tables is not None:
            frames.update(write_tables(proto.stack_frame_index, module.stack_tables))
        table = module.attributes.get("origin_recovery_table")
        if table:
            write_recovery(proto.original_value_recovery_table, table, module_to_proto)
        for name in ("computations", "host_program_shape", "schedule", "entry_computation_id"):
            proto.ClearField(name)
        return proto

    def _computations(self, instructions: InstructionWriter) -> list[Encoded]:
        """The computations, and which is the entry."""
        fields: list[Encoded] = []
        names = unique_names([graph.name for graph in self.graphs])
        start = 0
        for number, (graph, name) in enumerate(zip(self.graphs, names, strict=True)):
            stop = start + len(graph.nodes)
            data = self._computation(graph, number, name, self._names[start:stop], instructions)
            fields.append((_COMPUTATIONS, delimited(_COMPUTATIONS, data)))
            start = stop
            if graph is self.module.entry:
                fields.append((_ENTRY_NAME, delimited(_ENTRY_NAME, name)))
                fields.append((_ENTRY_ID, number_field(_ENTRY_ID, number)))
        return fields

    def _computation(
        self, graph: Graph, number: int, name: bytes, names: Sequence[bytes], instructions: InstructionWriter
    ) -> bytes:
        written = instructions.write(graph, names, number << 32)
        root = graph.root
        if root not in instructions.ids or root.graph is not graph:
            raise HloomError(f"{graph.name} yields {root.name}, which is not one of its own instructions")
        parameters = graph.parameters
        for before, parameter in pairwise(parameters):
            if before.number == parameter.number:
                number = parameter.number
                raise HloomError(f"{graph.name}: {before.name} and {parameter.name} are both parameter {number}")
        shape = encoded_program_shape(
            [parameter.type for parameter in parameters],
            root.type,
            [instructions.parameter_names[parameter] for parameter in parameters],
            instructions.shapes,
        )
        root_id = instructions.ids[root]
        thread = (graph.execution_thread or "").encode()
        return b"".join(
            (
                delimited(1, name),
                *written,
                delimited(4, shape),
                number_field(5, number),
                key(6, VARINT) + root_id if root_id != b"\0" else b"",
                number_field(7, graph in self.fused),
                delimited(8, thread) if thread else b"",
                self.module.attachments.get(COMPUTATION_FIELDS, {}).get(graph.name, b""),
            )
        )

    def _schedule(self) -> bytes:
        """The instruction ids in order, for every computation that is not fused."""
        entries: list[bytes] = []
        for graph, number in self.graph_ids.items():
            if graph not in self.fused:
                ids = delimited(1, b"".join(consecutive_varints(number << 32, len(graph.nodes))))
                entries.append(delimited(1, key(1, VARINT) + VARINTS[number] + delimited(2, ids)))
        return delimited(_SCHEDULE, b"".join(entries))


_ENTRY_NAME, _COMPUTATIONS, _HOST_SHAPE, _ENTRY_ID, _SCHEDULE = 2, 3, 4, 6, 7
"""The numbers of the HloModuleProto fields that are written here."""


_MOST_DIGITS = 18
_NUMBERED = re.compile(r"(.+)\.(-[0-9]{1,18})", re.DOTALL)
_KEPT = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_-]*+(?:\.(?!(?:-0[0-9]*+|0[0-9]++)\n)[A-Za-z0-9_-]*+)*+\n)*+")
"""Lines of names that are plain and, where they end in a number, have it as it would be given out."""


def unique_names(names: Sequence[str]) -> list[bytes]:
    """The names to write: unchanged if possible, else made valid and unique."""
    text = "\n".join(names) + "\n"
    lines = text.replace(".0\n", "\n").split("\n") if ".0\n" in text else names
    if len({*lines, ""}) == len(names) + 1 == text.count("\n") + 1 and _KEPT.fullmatch(text):
        return text.encode().split(b"\n")[:-1]
    take = UniqueNames().take
    return [take(legal_name(name)).encode() for name in names]


class UniqueNames:
    """Makes names unique: the first user keeps its name, later ones get a dot and a number, as in XLA."""

    __slots__ = ("_next", "_used")

    def __init__(self) -> None:
        self._used: set[tuple[str, int]] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The name, or the name with the first free number.

        >>> names = UniqueNames()
        >>> names.take("x"), names.take("x"), names.take("x.7")
        ('x', 'x.1', 'x.7')
        """
        stem, _, tail = name.rpartition(".")
        if stem and tail.isdecimal() and tail.isascii() and len(tail) <= _MOST_DIGITS:
            number = int(tail)
        else:
            numbered = _NUMBERED.fullmatch(name) if tail[:1] == "-" else None
            stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        if (stem, number) in self._used:
            number = self._next.get(stem, 0)
            while (stem, number) in self._used:
                number += 1
            self._next[stem] = number + 1
        self._used.add((stem, number))
        return f"{stem}.{number}" if number or stem is not name else stem
