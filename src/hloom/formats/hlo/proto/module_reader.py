"""Builds a Module from HloModuleProto."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_instructions import Parts, cut, signed
from hloom.formats.hlo.proto.encoded_messages import VARINTS, delimited, fields_besides, wire_module
from hloom.formats.hlo.proto.instruction_reader import InstructionReader
from hloom.formats.hlo.proto.metadata import read_tables
from hloom.formats.hlo.proto.module_header import read_header
from hloom.formats.hlo.proto.module_writer import COMPUTATION_FIELDS, REMAINDER
from hloom.formats.hlo.proto.original_values import read_recovery
from hloom.formats.hlo.reserved_words import TYPE_NAMES, instruction_name
from hloom.ir import LEGAL_NAME, Attributes, Graph, Module, Node, Parameter, free_name, legal_name, paused_collection
from hloom.text import HloomError, HloomWarning

_HEADER = (
    "name",
    "entry_computation_name",
    "computations",
    "host_program_shape",
    "entry_computation_id",
    "schedule",
    "input_output_alias",
    "stack_frame_index",
    "buffer_donor",
    "frontend_attributes",
    "original_value_recovery_table",
    "payloads",
)
"""The fields that a Module can represent."""
_COMPUTATION = (
    "name", "instructions", "program_shape", "id", "root_id", "is_fusion_computation", "execution_thread",
)  # fmt: skip
DROPS, KEEPS = "hloom does not understand, and drops,", "hloom does not understand, and keeps,"
"""How notes begin about what a proto has and a module has no place for."""


def module_from_proto(proto: Any, *, name: str = "<proto>") -> Module:
    """Build a module from protobuf.HloModuleProto, which is not changed; `name` is what errors call it.

    Scheduled computations are in the order of their schedule. Fields that have no place here are kept as they are, and
    noted; those inside shapes, metadata and attributes are dropped with a HloomWarning. Raises
    HloomError if ids, shapes or literals are inconsistent.
    """
    with paused_collection():
        module = ProtoModuleReader(proto, name).read()
    for note in module.notes:
        if KEEPS not in note:
            warnings.warn(note, HloomWarning, stacklevel=2)
    return module


class ProtoModuleReader:
    """State of reading one message."""

    def __init__(self, proto: Any, name: str) -> None:
        self.proto = proto
        self.source_name = name
        self.module = Module(legal_name(proto.name) if proto.name else "module")
        self.module.source_name = name
        self.graphs: dict[int, Graph] = {}
        self.instructions = InstructionReader(self.graphs, proto.payloads)

    def read(self) -> Module:
        """The whole module."""
        module, proto = self.module, self.proto
        if not proto.computations:
            raise HloomError(f"{self.source_name}: module {module.name} has no computations")
        try:
            attributes = read_header(proto)
            table = read_recovery(proto.original_value_recovery_table, module_from_proto)
        except HloomError as problem:
            raise HloomError(f"{self.source_name}: in the header: {problem.message}") from None
        module.attributes = Attributes(attributes if table is None else {**attributes, "origin_recovery_table": table})
        module.stack_tables = read_tables(proto.stack_frame_index)
        self._keep_remainder()
        for computation, wire in zip(proto.computations, wire_module(proto).computations, strict=True):
            self._read_computation(computation, wire)
        module.entry = self._entry()
        self._add_notes()
        return module

    def _keep_remainder(self) -> None:
        remainder = protobuf.HloModuleProto()
        for field, value in self.proto.ListFields():
            if field.name in _HEADER:
                continue
            if field.is_repeated:
                getattr(remainder, field.name).MergeFrom(value)
            elif field.message_type is not None:
                getattr(remainder, field.name).CopyFrom(value)
            else:
                setattr(remainder, field.name, value)
        remainder.MergeFromString(fields_besides(self.proto, [field.name for field, _ in self.proto.ListFields()]))
        if remainder.ByteSize():
            self.module.attachments[REMAINDER] = remainder

    def _read_computation(self, proto: Any, wire: Any) -> None:
        name = legal_name(proto.name)
        if proto.id in self.graphs or name in self.module:
            raise HloomError(f"{self.source_name}: a second computation has the name {name} or the id {proto.id}")
        graph = Graph(name, self.module)
        graph.execution_thread = proto.execution_thread if proto.execution_thread not in ("", "main") else None
        nodes: dict[bytes, Node] = {}
        names: dict[str, Node] = {}
        read, messages = self.instructions.read, proto.instructions
        instructions = [cut(data) for data in wire.instructions]
        for position, (parts, own) in enumerate(zip(instructions, _names(instructions, messages), strict=True)):
            number = parts[5]
            try:
                if number in nodes or own in names:
                    raise HloomError(f"a second instruction has the name or the id {signed(number)}")
                nodes[number] = names[own] = read(parts, own, messages, position, nodes, graph)
            except HloomError as problem:
                raise self._at(graph, own, problem.message) from None
        root = nodes.get(VARINTS[proto.root_id])
        if root is None:
            raise self._at(graph, "its root", f"no instruction has the id {proto.root_id}")
        graph.adopt(self._ordered(proto, graph, nodes), names)
        graph.output = root
        graph.parameters = self._parameters(graph)
        self.module.append_graph(graph)
        self.graphs[proto.id] = graph
        if kept := fields_besides(proto, _COMPUTATION):
            self.module.attachments.setdefault(COMPUTATION_FIELDS, {})[name] = kept

    def _ordered(self, proto: Any, graph: Graph, nodes: Mapping[bytes, Node]) -> list[Node]:
        """The nodes in the order of the schedule, if there is one."""
        sequences = self.proto.schedule.sequences
        if proto.id not in sequences:
            return list(nodes.values())
        if sequences[proto.id].SerializeToString() == delimited(1, b"".join(nodes)):
            return list(nodes.values())  # the common case: the nodes are already in order
        numbers: Sequence[int] = sequences[proto.id].instruction_ids
        ids = [instruction.id for instruction in proto.instructions]
        if len(numbers) != len(ids) or set(numbers) != set(ids):
            raise self._at(graph, "its schedule", "it does not list every instruction once")
        by_number = dict(zip(ids, nodes.values(), strict=True))
        ordered = [by_number[number] for number in numbers]
        seen: set[Node] = set()
        for node in ordered:
            late = next((used for used in (*node.operands, *_predecessors(node)) if used not in seen), None)
            if late is not None:
                raise self._at(graph, "its schedule", f"{node.name} stands before {late.name}, which it needs")
            seen.add(node)
        return ordered

    def _parameters(self, graph: Graph) -> list[Parameter]:
        parameters = sorted((node for node in graph.nodes if isinstance(node, Parameter)), key=lambda node: node.number)
        if parameters and parameters[0].number < 0:
            raise self._at(graph, parameters[0].name, f"a parameter's number cannot be {parameters[0].number}")
        for before, parameter in pairwise(parameters):
            if before.number == parameter.number:
                raise self._at(graph, parameter.name, f"it is parameter {parameter.number}, as is {before.name}")
        return parameters

    def _entry(self) -> Graph:
        number, name = self.proto.entry_computation_id, self.proto.entry_computation_name
        graph = self.graphs.get(number)
        if graph is not None and (not name or graph.name == legal_name(name) or name not in self.module):
            return graph
        if name in self.module:
            return self.module[name]
        raise HloomError(f"{self.source_name}: no computation has the entry's id {number} or name '{name}'")

    def _add_notes(self) -> None:
        losses = self.instructions.losses
        for message in (self.proto, *self.proto.computations):
            for unknown in UnknownFieldSet(message):
                losses[f"field number {unknown.field_number} of {message.DESCRIPTOR.name}"] = True
        for is_kept, phrase in ((False, DROPS), (True, KEEPS)):
            if listed := [name for name, kept in losses.items() if kept is is_kept]:
                self.module.notes.append(f"{self.source_name}: {phrase} {', '.join(listed)}")

    def _at(self, graph: Graph, where: str, problem: str) -> HloomError:
        return HloomError(f"{self.source_name}: {graph.name}, {where}: {problem}")


_OTHERS = "|".join(map(re.escape, sorted(TYPE_NAMES)))
_PLAIN_LINES = re.compile(rf"(?:(?!__(?!xla_)|(?:{_OTHERS})\n){LEGAL_NAME.pattern}\n)*+")
"""Lines each of which is a name that a text may give to an instruction."""


def _names(instructions: Sequence[Parts], messages: Sequence[Any]) -> list[str]:
    """The names of a computation's instructions, made valid for HLO text."""
    names = [parts[0].decode() for parts in instructions]
    text = "\n".join([*names, ""])
    if _PLAIN_LINES.fullmatch(text) and text.count("\n") == len(names):
        return names
    taken, suffixes = set(names), dict[str, int]()
    for position, message in enumerate(messages):
        made = instruction_name(names[position] or message.opcode)
        if made != names[position]:
            names[position] = free_name(made, taken, suffixes)
            taken.add(names[position])
    return names


def _predecessors(node: Node) -> Iterator[Node]:
    return (referent for referent in node.attributes.referents() if not referent.is_graph)
