"""A module, read from HLO text."""

from __future__ import annotations

import gc
import re
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from hloom.hlo.computation_reader import SMALL, BodyReader
from hloom.hlo.header_reader import read_header, read_stack_tables
from hloom.hlo.instruction_reader import read_expression, read_instruction
from hloom.hlo.strict_checks import check_aliases, check_call, check_graph, check_name, check_word
from hloom.hlo.tokens import NAME, read_string
from hloom.hlo.type_reader import read_type
from hloom.ir import Attributes, Graph, Literal, Module, Node, Op, Type
from hloom.ops import COMMON, OPS
from hloom.text import Cursor, HloomWarning, Place, Source

DEEPEST = 60
"""How deep computations may nest inside attributes."""

_HEADING = re.compile(r"(ENTRY )?%?([A-Za-z_][A-Za-z0-9_.-]*+) (\((?=[^{}\n]*\) -> )[^{}\n]*+(?<= ))?\{\n")
_ENTRY = re.compile(r"ENTRY(?![A-Za-z0-9_.=-])")
_HEADER = re.compile(r"HloModule(?![A-Za-z0-9_.=-])")
_COMPUTATION = re.compile(r"%?[A-Za-z_][A-Za-z0-9_.-]*+\s*(?:\{|\(\s*(?:\)|%?[A-Za-z_][A-Za-z0-9_.-]*+\s*:))")
_COLON_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*+):")
_THREAD = re.compile(r"execution_thread=")
_NAMED = re.compile(r"%?[A-Za-z_][A-Za-z0-9_.-]*+(?:\s*=\s|\s+=)|%[A-Za-z_][A-Za-z0-9_.-]*+=|ROOT\s")
LEAF = Op("parameter or constant", attributes=COMMON)
"""What parameters and constants may carry."""


def parse(text: str, *, strict: bool = False, name: str = "<text>") -> Module:
    """Read a module from HLO text: a whole module, bare computations, or single instructions.

    `strict` refuses what XLA's parser refuses or aborts on. Otherwise what people paste reads too: names that nothing
    defines are marked (`module.unresolved`), unknown opcodes and attributes are kept as they are with a HloomWarning.
    `name` is what errors call the text. Raises ParseError with line and column.

    >>> parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").entry.root
    <y = f32[2] negate(x)>
    """
    if text.startswith("\ufeff") and not strict:
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    reader = ModuleReader(Source(text, name), strict)
    collecting = gc.isenabled()
    gc.disable()  # a reader makes only objects that stay: looking for garbage among them costs a third of the time
    try:
        module = reader.read()
    finally:
        if collecting:
            gc.enable()
    module.notes = reader.placed_notes()
    for note in module.notes:
        warnings.warn(note, HloomWarning, stacklevel=2)
    return module


class ModuleReader:
    """What all computations of one text share: the module, the memos, and the names of graphs."""

    def __init__(self, source: Source, strict: bool) -> None:
        self.source = source
        self.text = source.text
        self.strict = strict
        self.module = Module()
        self.module.source_name = source.name
        self.rows = {**OPS, "parameter": LEAF, "constant": LEAF}
        self.leaf_row = LEAF
        self.types: dict[str, Type] = {}
        self.kinds: dict[str, tuple[Type, Op, dict[str, Attributes]]] = {}
        self.literals: dict[tuple[Type, str], Literal] = {}
        self.attribute_memos: defaultdict[Op, dict[str, Attributes]] = defaultdict(dict)
        self.unknown_ops: dict[str, Op] = {}
        self.notes: list[tuple[int, str]] = []
        self.line_limit = -1
        self.graphs: dict[str, Graph] = {}
        self._entry: Graph | None = None
        self._nested: set[Graph] = set()
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
            self._read_computation(cursor, needs_header=first is None)
        self.module.entry = self._entry or self.module.graphs[-1]
        if self.strict:
            check_aliases(self, cursor)
        if not first:
            self.module.name = f"module_{self.module.entry.name}"
        return self.module

    def _read_instructions(self, cursor: Cursor) -> Module:
        """A text of bare instructions: one, as XLA reads it, or if tolerant several; operands become parameters."""
        self.module.name = "_"
        self.module.attributes = Attributes(is_scheduled=True)
        graph = Graph("_", self.module)
        body = BodyReader(self, graph, operands_become_parameters=True)
        if not cursor.peek():
            raise cursor.error("expected HLO, found an empty text")
        while cursor.peek():
            if cursor.match_ahead(_NAMED):
                read_instruction(cursor, body)
            else:
                read_expression(cursor, body, body.unused_name("_"), cursor.skip())
            if self.strict and cursor.peek():
                raise cursor.error(f"expected the end of the text after one instruction, found {cursor.found()}")
        body.complete()
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
                if needs_header and self.strict:
                    raise cursor.error("a computation with a signature needs the header 'HloModule name' before it")
                signature_at = cursor.position
                _, result = self.read_signature(cursor)
            cursor.expect("{", f"to open the computation {name}")
        if self.strict:
            check_word(cursor, name, name_at)
        if is_entry and self._entry is not None:
            raise cursor.error(f"a second ENTRY; the first is {self._entry.name}", start)
        if name in self.graphs and self.graphs[name] in self._nested:
            self.module.rename_graph(self.graphs.pop(name), name)
        if name in self.module:
            raise cursor.error(f"a computation '{name}' is already defined", start)
        graph = self.graphs.setdefault(name, Graph(name, self.module))
        opening = cursor.position
        body = BodyReader(self, graph, signature_at=signature_at)
        body.read(cursor)
        if self.strict:
            check_graph(self, graph, opening, cursor.position, result)
        self._place(graph)
        if is_entry:
            self._entry = graph

    def _place(self, graph: Graph) -> None:
        if graph.name in self.module:  # only a nested one, which had no name of its own, can be there already
            self.module.rename_graph(self.module[graph.name], graph.name)
        self.module.append_graph(graph)
        self.graphs[graph.name] = graph

    def read_signature(self, cursor: Cursor) -> tuple[dict[str, tuple[int, Type]], Type]:
        """`(name: type, ...) -> type`: the parameters' numbers and types by name, and the result's type."""
        parameters: dict[str, tuple[int, Type]] = {}
        cursor.expect("(")
        while not cursor.accept(")"):
            if parameters:
                cursor.expect(",")
            start = cursor.skip()
            if not self.strict:
                cursor.accept("%")
            name = cursor.read(_COLON_NAME, "a parameter's name and ':'")[1]
            if name in parameters and self.strict:
                name = f"{name}:{start}"  # XLA throws the names away: a repeated one is no error
            parameters[name] = (len(parameters), read_type(cursor))
        cursor.expect("->")
        return parameters, read_type(cursor)

    def read_graph_reference(self, cursor: Cursor, body: BodyReader) -> Graph:
        """The computation that a name or a nested `{...}` stands for."""
        if cursor.at("{"):
            return self._read_nested(cursor)
        start = cursor.skip()
        name = cursor.read(NAME, "a computation's name or '{'")[1]
        if self.strict:
            check_word(cursor, name, start)
        graph = self.graphs.get(name)
        if graph is None or (self.strict and graph.name not in self.module):
            if self.strict:
                raise cursor.error(f"no computation before this is called '{name}'", start)
            graph = self.graphs[name] = self.module.declare_graph(name)
        return graph

    def _read_nested(self, cursor: Cursor) -> Graph:
        start = cursor.position
        if cursor.source is not self.source:
            raise cursor.error("a nested computation is read where it stands, in the careful way", start)
        self._depth += 1
        if self._depth > DEEPEST:
            raise cursor.error(f"computations nest deeper than {DEEPEST}", start)
        cursor.expect("{")
        graph = Graph("_", self.module)
        BodyReader(self, graph).read(cursor, SMALL)
        graph.name = self.module.unique_graph_name(graph.name)
        if self.strict:
            check_graph(self, graph, start, cursor.position, None)
        self._place(graph)
        self._nested.add(graph)
        self._depth -= 1
        return graph

    def read_execution_thread(self, cursor: Cursor) -> str:
        """`execution_thread="host"`."""
        cursor.read(_THREAD, "execution_thread=")
        return read_string(cursor)

    def note(self, message: str, position: int) -> None:
        """Remember that something was kept that hloom does not understand."""
        self.notes.append((position, message))

    def placed_notes(self) -> list[str]:
        """The notes with their places, all lines counted once."""
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))] if self.notes else []
        lines = [bisect_right(starts, position) for position, _ in self.notes]
        return [
            f"{Place(self.source.name, line, position - starts[line - 1] + 1)}: {message}"
            for line, (position, message) in zip(lines, self.notes, strict=True)
        ]

    def check_name(self, cursor: Cursor, name: str, start: int) -> None:
        """In strict mode, refuse reserved names."""
        if self.strict:
            check_name(cursor, name, start)

    def check_call(
        self, cursor: Cursor, op: Op, type_: Type | None, inputs: Sequence[Node], attributes: Attributes, start: int
    ) -> None:
        """Refuse what XLA refuses of an application."""
        check_call(cursor, op, type_, inputs, attributes, start)
