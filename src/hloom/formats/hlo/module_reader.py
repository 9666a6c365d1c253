"""Reads a module from HLO text."""

from __future__ import annotations

import re
import warnings
from itertools import chain

from hloom.formats.hlo.computation_reader import SMALL, ComputationReader
from hloom.formats.hlo.header_reader import read_header, read_stack_tables
from hloom.formats.hlo.instruction_reader import read_expression, read_instruction
from hloom.formats.hlo.reader_state import ModuleState
from hloom.formats.hlo.reserved_words import check_word
from hloom.formats.hlo.strict_checks import check_aliases, check_async_computations, check_graph, check_recovery_table
from hloom.formats.hlo.tokens import NAME
from hloom.ir import Attributes, Graph, Module, Type, find_cycle, paused_collection
from hloom.text import Cursor, HloomError, HloomWarning, Source, report

DEEPEST = 60
"""The maximum nesting depth of computations inside attributes."""

_HEADING = re.compile(r"(ENTRY )?%?([A-Za-z_][A-Za-z0-9_.-]*+) (\((?=[^{}\n]*\) -> )[^{}\n]*+(?<= ))?\{\n")
_ENTRY = re.compile(r"ENTRY(?![A-Za-z0-9_.=-])")
_HEADER = re.compile(r"HloModule(?![A-Za-z0-9_.=-])")
_COMPUTATION = re.compile(r"%?[A-Za-z_][A-Za-z0-9_.-]*+\s*(?:\{|\(\s*(?:\)|%?[A-Za-z_][A-Za-z0-9_.-]*+\s*:))")
_NAMED = re.compile(r"%?[A-Za-z_][A-Za-z0-9_.-]*+(?:\s*=\s|\s+=)|%[A-Za-z_][A-Za-z0-9_.-]*+=|ROOT\s")


LONGEST_KEPT = 1 << 24
"""The maximum length of a text that its module keeps, in characters, so that later errors can show its lines."""


def parse(text: str, *, strict: bool = False, name: str = "<text>") -> Module:
    """Read a module from HLO text: a whole module, bare computations, or single instructions.

    `strict` rejects everything XLA's parser rejects or aborts on. Otherwise pasted excerpts are accepted too: undefined
    names are marked (`module.unresolved`), and unknown opcodes and attributes are kept as they are with a HloomWarning.
    `name` is what errors call the text. Raises ParseError with line and column.

    >>> parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").entry.root
    <y = f32[2] negate(x)>
    """
    if not isinstance(text, str):
        raise HloomError(f"parse takes HLO text, not {type(text).__name__}", hint="hloom.load reads files and bytes")
    if text.startswith("\ufeff") and not strict:
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    reader = ModuleReader(Source(text, name), strict)
    with paused_collection():
        module = reader.read()
    module.notes = reader.placed_notes()
    if name == "<text>" and len(text) <= LONGEST_KEPT:
        module.source_text = text
    for note in module.notes:
        warnings.warn(note, HloomWarning, stacklevel=2)
    return module


class ModuleReader(ModuleState):
    """Reads a whole text into its module."""

    def __init__(self, source: Source, strict: bool) -> None:
        super().__init__(source, strict)
        self._entry: Graph | None = None
        self._nested: set[Graph] = set()
        self._starts: dict[Graph, int] = {}
        self._depth = 0

    def read(self) -> Module:
        """Read the whole text."""
        cursor = Cursor(self.source)
        first = cursor.match(_HEADER)
        if first:
            self.module.name, self.module.attributes = read_header(cursor, self.strict, self.note)
            self.module.stack_tables = read_stack_tables(cursor, self.strict)
        elif not cursor.match_ahead(_ENTRY) and not cursor.match_ahead(_COMPUTATION):
            return self._read_instructions(cursor)
        if not cursor.peek():
            raise cursor.error("expected a computation, found the end of the text")
        while cursor.peek():
            self._read_computation(cursor, needs_header=first is None and not self.module.graphs)
            report(cursor.position, len(self.text))
        self.module.entry = self._entry or self.module.graphs[-1]
        if self.refers_ahead:
            self._refuse_recursion(cursor)
        if self.strict:
            check_aliases(self, cursor)
            check_async_computations(self)
            check_recovery_table(self, cursor, lambda text: parse(text, strict=True))
        if not first:
            self.module.name = f"module_{self.module.entry.name}"
        return self.module

    def _refuse_recursion(self, cursor: Cursor) -> None:
        """Reject computations that call each other in a cycle."""
        calls = {graph: [*chain(*(node.called_graphs for node in graph.nodes))] for graph in self.module.graphs}
        cycle = find_cycle(calls)
        if cycle:
            start = next((self._starts[graph] for graph in cycle if graph in self._starts), 0)
            way = " -> ".join(graph.name for graph in cycle)
            raise cursor.error(f"computations call each other in a circle, {way}: HLO has no recursion", start)

    def _read_instructions(self, cursor: Cursor) -> Module:
        """Read a text of bare instructions: one, as XLA does, or several in tolerant mode; undefined operands become
        parameters.
        """
        self.module.name = "_"
        self.module.attributes = Attributes(is_scheduled=True)
        graph = Graph("_", self.module)
        body = ComputationReader(self, graph, operands_become_parameters=True)
        if not cursor.peek():
            raise cursor.error("expected HLO, found an empty text")
        while cursor.peek():
            if cursor.match_ahead(_NAMED):
                read_instruction(cursor, body)
            else:
                read_expression(cursor, body, body.unused_name("_"), cursor.skip())
            if self.strict and cursor.peek():
                raise cursor.error(f"expected the end of the text after one instruction, found {cursor.next_token()}")
        body.complete()
        if self.strict:
            check_graph(self, graph, 0, len(self.text), None)
        self._place(graph)
        self.module.entry = graph
        return self.module

    def _read_computation(self, cursor: Cursor, needs_header: bool) -> None:
        start = cursor.position
        heading = _HEADING.match(self.text, start)
        result: Type | None = None
        signature_at = -1
        if heading and not (self.strict and (heading[3] or needs_header)):
            is_entry, name, name_at = bool(heading[1]), heading[2], heading.end(1) if heading[1] else start
            signature_at = heading.start(3)
            cursor.position = heading.end()
        else:
            is_entry = cursor.match(_ENTRY) is not None
            name_at = cursor.skip()
            name = cursor.read(NAME, "a computation's name")[1]
            if cursor.at("("):
                if needs_header and self.strict and not is_entry:
                    raise cursor.error("a computation with a signature needs the header 'HloModule name' before it")
                signature_at = cursor.position
                _, result = self.read_signature(cursor)
            cursor.expect("{", f"to open the computation {name}")
        if self.strict:
            check_word(cursor, name, name_at)
        if is_entry and self._entry is not None:
            raise cursor.error(f"a second ENTRY; the first is {self._entry.name}", start)
        if self._nested and self.graphs.get(name) in self._nested:
            self.module.rename_graph(self.graphs.pop(name), name)
            self.referring.clear()  # from here on, texts with this name refer to another graph
        if name in self.module:
            raise cursor.error(f"a computation '{name}' is already defined", start)
        graph = self.graphs.setdefault(name, Graph(name, self.module))
        self._starts[graph] = start
        opening = cursor.position
        body = ComputationReader(self, graph, signature_at=signature_at)
        body.read(cursor)
        if self.strict:
            check_graph(self, graph, opening, cursor.position, result)
        self._place(graph)
        if is_entry:
            self._entry = graph

    def _place(self, graph: Graph) -> None:
        if self._nested and graph.name in self.module:  # a nested graph, which had no name of its own
            self.module.rename_graph(self.module[graph.name], graph.name)
        self.module.append_graph(graph)
        self.graphs[graph.name] = graph

    def read_nested(self, cursor: Cursor) -> Graph:
        start = cursor.position
        if cursor.source is not self.source:
            raise cursor.error("a nested computation is read where it stands, in the careful way", start)
        self._depth += 1
        if self._depth > DEEPEST:
            raise cursor.error(f"computations nest deeper than {DEEPEST}", start)
        cursor.expect("{")
        graph = Graph("_", self.module)
        ComputationReader(self, graph).read(cursor, SMALL)
        graph.name = self.module.unique_graph_name(graph.name)
        if self.strict:
            check_graph(self, graph, start, cursor.position, None)
        self._place(graph)
        self._nested.add(graph)
        self._depth -= 1
        return graph
