"""A Module as HloModuleProto, its names plain and each but once in the module, as XLA wants them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from hloom import protobuf
from hloom.hlo.printer import ordered_graphs
from hloom.hlo.proto.encoded_messages import new_wire_module
from hloom.hlo.proto.instruction_writer import InstructionWriter
from hloom.hlo.proto.metadata import write_tables
from hloom.hlo.proto.module_header import entry_layout, write_entry_layout, write_header, write_program_shape
from hloom.hlo.proto.original_values import write_recovery
from hloom.ir import Graph, Module, Node, Parameter
from hloom.text import HloomError, HloomWarning

REMAINDER = "hlo_module"
"""The attachment with the fields of a module's message that our modules have no place for."""


def module_to_proto(module: Module) -> Any:
    """A module as protobuf.HloModuleProto, such as XLA reads.

    Names are made unique in the whole module, as XLA wants them; layouts left out become the default ones. What the
    wire has no field for is left out with a HloomWarning. Raises HloomError, naming the instruction, where it has no
    type, elided data or names that nothing defines, and for closures, computed calls and recursion.
    """
    written = write_module(module)
    if written.losses:
        warnings.warn(f"{module.name}: protos cannot hold {', '.join(written.losses)}", HloomWarning, stacklevel=2)
    return written.proto


def write_module(module: Module) -> ModuleWriter:
    """The message, with what was lost and the ids that instructions got by their names on the wire."""
    if module.unresolved:
        raise HloomError(f"module {module.name} uses names that nothing defines: {module.unresolved[0]}")
    writer = ModuleWriter(module)
    writer.write()
    return writer


class ModuleWriter:
    """What the writing of one module has made so far."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.proto = protobuf.HloModuleProto()
        self.graphs = ordered_graphs(module)
        self.graph_ids = {graph: number for number, graph in enumerate(self.graphs)}
        self.losses: dict[str, None] = {}
        self.numbers: dict[str, int] = {}
        self._names = UniqueNames()
        self._graph_names = UniqueNames()

    def write(self) -> None:
        """Fill the message."""
        module, proto = self.module, self.proto
        remainder = module.attachments.get(REMAINDER)
        frames: Mapping[int, int] = {}
        try:
            if remainder is not None:
                proto.MergeFrom(remainder)
            proto.name = sanitized(module.name)
            write_header(proto, module, self.losses)
            if module.stack_tables is not None:
                frames = write_tables(proto.stack_frame_index, module.stack_tables)
            table = module.attributes.get("origin_recovery_table")
            if table:
                write_recovery(proto.original_value_recovery_table, table, module_to_proto)
        except (TypeError, ValueError) as problem:
            raise HloomError(f"module {module.name}: {problem}") from None
        instructions = InstructionWriter(self.graph_ids, frames)
        fusions = (node for graph in self.graphs for node in graph.nodes if node.opcode == "fusion")
        fused = {called for node in fusions for called in node.called_graphs}
        wire = new_wire_module()
        for graph in self.graphs:
            self._write_graph(graph, instructions, wire.computations.add().instructions, is_fused=graph in fused)
        self._merge(wire)
        write_entry_layout(proto, module)
        proto.payloads.extend(instructions.payloads)
        self.losses.update(instructions.losses)

    def _merge(self, wire: Any) -> None:
        """Take over the computations' instructions, as they stand on the wire."""
        for proto, written in zip(self.proto.computations, wire.computations, strict=True):
            try:
                proto.MergeFromString(written.SerializeToString())
            except DecodeError as problem:
                raise HloomError(f"{proto.name} cannot be written as protobuf: {problem}") from None

    def _write_graph(self, graph: Graph, instructions: InstructionWriter, wire: Any, *, is_fused: bool) -> None:
        proto = self.proto.computations.add()
        proto.id = self.graph_ids[graph]
        proto.name = self._graph_names.take(sanitized(graph.name))
        proto.is_fusion_computation = is_fused
        proto.execution_thread = graph.execution_thread or ""
        first = proto.id << 32
        names: dict[Node, str] = {}
        take, is_plain = self._names.take, _PLAIN.fullmatch
        for number, node in enumerate(graph.nodes, first):
            name = take(node.name if is_plain(node.name) else sanitized(node.name))
            self.numbers[name] = number
            if isinstance(node, Parameter):
                names[node] = name
            try:
                instructions.write(wire, node, name, number)
            except HloomError as problem:
                raise _at(graph, node, problem.message, problem.hint) from None
            except (TypeError, ValueError) as problem:
                raise _at(graph, node, str(problem)) from None
        root = graph.root
        if root not in instructions.ids or root.graph is not graph:
            raise HloomError(f"{graph.name} yields {root.name}, which is not one of its own instructions")
        proto.root_id = instructions.ids[root]
        parameters = [names[parameter] for parameter in graph.parameters]
        write_program_shape(proto.program_shape, entry_layout(graph), parameters, instructions.shape)
        if graph is self.module.entry:
            self.proto.entry_computation_id, self.proto.entry_computation_name = proto.id, proto.name
        if self.module.is_scheduled and not is_fused:
            self.proto.schedule.sequences[proto.id].instruction_ids.extend(range(first, first + len(graph.nodes)))


def _at(graph: Graph, node: Node, problem: str, hint: str | None = None) -> HloomError:
    return HloomError(f"{graph.name}, {node.name} = {node.opcode}: {problem}", hint=hint)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*+")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")
_MOST_DIGITS = 18
_NUMBERED = re.compile(r"(.+)\.(-[0-9]{1,18})", re.DOTALL)


class UniqueNames:
    """Gives names out, each once; the first to come keeps its own, later ones get a number behind a dot, as in XLA."""

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


def sanitized(name: str) -> str:
    """The name with `_` in place of what no name may hold, as XLA does it."""
    if _PLAIN.fullmatch(name):
        return name
    plain = _OTHER.sub("_", name)
    return plain if plain[:1].isalpha() or plain.startswith("_") else f"_{plain}"
