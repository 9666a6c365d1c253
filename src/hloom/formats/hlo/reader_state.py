"""State while reading HLO text: of the module, and of the computation being read.

The readers of instructions and attributes take this state and do not depend on each other's classes: a computation
nested in an attribute is read through `ModuleState.read_nested`, which the module reader implements.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import count
from operator import attrgetter

from hloom.formats.hlo.line_memos import STRICT, TOLERANT
from hloom.formats.hlo.reserved_words import check_word
from hloom.formats.hlo.tokens import NAME, read_string
from hloom.formats.hlo.type_reader import read_type
from hloom.ir import (
    EMPTY,
    Attributes,
    Graph,
    Missing,
    Module,
    Node,
    Op,
    Parameter,
    Type,
    compatible,
)
from hloom.text import Cursor, Location, Source

_THREAD = re.compile(r"execution_thread=")


class ModuleState:
    """State shared by all computations of one text: the module, the caches, and the graph names.

    `referring` holds the attributes read so far that refer to graphs, by row and text; `refers_ahead` says whether one
    of them precedes, or is inside, the computation it calls.
    """

    def __init__(self, source: Source, strict: bool) -> None:
        self.source = source
        self.text = source.text
        self.strict = strict
        self.module = Module()
        self.module.source_name = source.name
        self.memos = STRICT if strict else TOLERANT
        self.referring: dict[tuple[Op, str], Attributes] = {}
        self.unknown_ops: dict[str, Op] = {}
        self.notes: list[tuple[int, str]] = []
        self.line_limit = -1
        self.graphs: dict[str, Graph] = {}
        self.refers_ahead = False

    def read_signature(self, cursor: Cursor) -> tuple[dict[str, tuple[int, Type]], Type]:
        """`(name: type, ...) -> type`: the parameters' numbers and types by name, and the result's type."""
        parameters: dict[str, tuple[int, Type]] = {}
        cursor.expect("(")
        while not cursor.accept(")"):
            if parameters:
                cursor.expect(",")
            start = cursor.skip()
            name = cursor.read(NAME, "a parameter's name")[1]
            if self.strict:
                check_word(cursor, name, start)
            elif cursor.at(":"):
                cursor.accept(":")
            if name in parameters and self.strict:
                name = f"{name}:{start}"  # XLA discards the names: a repeated one is no error
            parameters[name] = (len(parameters), read_type(cursor))
        cursor.expect("->")
        return parameters, read_type(cursor)

    def read_graph_reference(self, cursor: Cursor, body: ComputationState) -> Graph:
        """The computation denoted by a name or a nested `{...}`."""
        if cursor.at("{"):
            return self.read_nested(cursor)
        start = cursor.skip()
        name = cursor.read(NAME, "a computation's name or '{'")[1]
        if self.strict:
            check_word(cursor, name, start)
        graph = self.graphs.get(name)
        if graph is None or graph.name not in self.module:
            if self.strict:
                raise cursor.error(f"no computation before this is called '{name}'", start)
            self.refers_ahead = True
        if graph is None:
            graph = self.graphs[name] = self.module.declare_graph(name)
        return graph

    def read_nested(self, cursor: Cursor) -> Graph:
        """A computation in braces, given in place of a name."""
        raise NotImplementedError

    def read_execution_thread(self, cursor: Cursor) -> str:
        """`execution_thread="host"`."""
        cursor.read(_THREAD, "execution_thread=")
        return read_string(cursor)

    def note(self, message: str, position: int) -> None:
        """Record that hloom kept something it does not understand."""
        self.notes.append((position, message))

    def placed_notes(self) -> list[str]:
        """The notes with their places; line numbers are computed in one pass."""
        if not self.notes:
            return []
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        lines = [bisect_right(starts, position) for position, _ in self.notes]
        return [
            f"{Location(self.source.name, line, position - starts[line - 1] + 1)}: {message}"
            for line, (position, message) in zip(lines, self.notes, strict=True)
        ]


class ComputationState:
    """A computation being read: its nodes, their names, its root, and the signature of its heading."""

    __slots__ = (
        "_signature",
        "graph",
        "memos",
        "names",
        "nodes",
        "operands_become_parameters",
        "parameters_of_operands",
        "reader",
        "root",
        "signature_at",
        "suffixes",
        "text",
    )

    def __init__(
        self, reader: ModuleState, graph: Graph, *, operands_become_parameters: bool = False, signature_at: int = -1
    ) -> None:
        self.reader = reader
        self.memos = reader.memos
        self.graph = graph
        self.text = reader.text
        self.nodes: list[Node] = []
        self.names: dict[str, Node] = {}
        self.root: Node | None = None
        self.signature_at = signature_at
        self._signature: dict[str, tuple[int, Type]] | None = None
        self.operands_become_parameters = operands_become_parameters
        self.suffixes: dict[str, int] = {}
        self.parameters_of_operands: list[Parameter] = []

    def forget(self, node: Node) -> None:
        """Remove the last node so that it can be read again."""
        self.nodes.pop()
        del self.names[node.name]
        if self.root is node:
            self.root = None

    def read_node_reference(self, cursor: Cursor) -> Node:
        """A name that must refer to (or, in tolerant mode, may become) a node of this computation."""
        start = cursor.skip()
        return self.resolve(cursor, cursor.read(NAME, "the name of an instruction")[1], None, start)

    def resolve(self, cursor: Cursor, name: str, type_: Type | None, start: int) -> Node:
        """The node with this name; an undefined name is an error in strict mode and is otherwise marked missing."""
        node = self.names.get(name)
        if node is not None:
            if type_ is not None and not compatible(type_, node.type):
                raise cursor.error(f"operand {name} is declared as {type_}, but it is {node.type}", start)
            return node
        if self.operands_become_parameters:
            if type_ is None and self.reader.strict:
                raise cursor.error(f"operand {name} needs a type, for it becomes a parameter", start)
            parameter = self._add_parameter(name, type_, len(self.parameters_of_operands))
            self.parameters_of_operands.append(parameter)
            return parameter
        if self.reader.strict:
            raise cursor.error(f"nothing before this is called '{name}' in {self.graph.name}", start)
        if name in self.signature:  # the text lacks the parameter's own line
            number, signature_type = self.signature[name]
            return self._add_parameter(name, type_ or signature_type, number)
        missing = Missing(name, type_, self.graph)
        self.names[name] = missing
        self.graph.missing.append(missing)
        return missing

    @property
    def signature(self) -> dict[str, tuple[int, Type]]:
        """The numbers and types of the parameters in the heading, parsed on demand."""
        if self._signature is None:
            self._signature = {}
            if self.signature_at >= 0:
                self._signature, _ = self.reader.read_signature(Cursor(self.reader.source, self.signature_at))
        return self._signature

    def unused_name(self, stem: str) -> str:
        """The stem if it is free, else the stem with a dot and the first free number."""
        if stem not in self.names:
            return stem
        number = self.suffixes.get(stem, 1)
        while f"{stem}.{number}" in self.names:
            number += 1
        self.suffixes[stem] = number + 1
        return f"{stem}.{number}"

    def _add_parameter(self, name: str, type_: Type | None, number: int) -> Parameter:
        node = Parameter(name, type_, number, EMPTY, None, self.graph)
        self.nodes.append(node)
        self.names[name] = node
        return node

    def complete(self) -> None:
        """Move the nodes into the graph and set its output and its parameters by number."""
        graph = self.graph
        graph.adopt(self.nodes, self.names)
        graph.output = self.root if self.root is not None else self.nodes[-1]
        graph.parameters = parameters = [node for node in self.nodes if type(node) is Parameter]
        if 0 < len(self.parameters_of_operands) < len(parameters):
            self._number_apart(parameters)
        if len(parameters) > 1:
            parameters.sort(key=_number)

    def _number_apart(self, parameters: list[Parameter]) -> None:
        """Number the parameters made from undefined operands with numbers that the text's own parameters leave free."""
        own = set(parameters).difference(self.parameters_of_operands)
        taken = {parameter.number for parameter in own}
        numbers = filter(lambda number: number not in taken, count())
        for parameter, number in zip(self.parameters_of_operands, numbers, strict=False):
            parameter.number = number


_number = attrgetter("number")
