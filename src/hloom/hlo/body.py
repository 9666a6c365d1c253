"""The instructions of one computation.

Two ways that agree: the fast one matches many plain lines with one regular expression and looks everything else up
in memos; the careful one (`instruction.py`) reads what the fast one refuses, token by token, and owns the errors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hloom.hlo.attributes import arranged, read_attributes
from hloom.hlo.instruction import read_instruction
from hloom.hlo.literals import read_literal
from hloom.hlo.tokens import NAME
from hloom.hlo.types import read_type
from hloom.ir import EMPTY, Apply, Attributes, Constant, Graph, Literal, Missing, Node, Op, Parameter, Type, compatible
from hloom.text import Cursor, HloomError, Source

if TYPE_CHECKING:
    from hloom.hlo.reader import ModuleReader

LINE = re.compile(
    r"^[ \t]*+(ROOT )?%?([A-Za-z_][A-Za-z0-9_.-]*+) = "
    r"(\((?:[^()\n]++|\([^()\n]*+\))*+\)|[^ (\n][^ \n]*+) "
    r"([a-z][a-z0-9-]*+)"
    r"\(([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+)\)"
    r"(.*+)$",
    re.MULTILINE,
)
"""A whole line that is one instruction: ROOT, name, type, opcode, operands, the rest."""

_METADATA = re.compile(r', metadata=\{((?:[^"{}\n]++|"(?:[^"\\\n]++|\\.)*+"|\{[0-9, ]*+\})*+)\}')
_BEFORE_METADATA = re.compile(r'(?:[^"\'\n]++|"(?:[^"\\\n]++|\\.)*+")*?(?=, metadata=\{)')
_TO_APPLY = re.compile(r"(.*), to_apply=%?([A-Za-z_][A-Za-z0-9_.-]*+)$")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_TYPED = re.compile(r"\s*(\((?:[^()]++|\([^()]*+\))*+\)|[a-z][^ ]*+) ([A-Za-z_][A-Za-z0-9_.-]*+)\s*(?:,|$)")
LARGE = 1 << 16
SMALL = 1 << 9
"""How many characters the fast way looks ahead, at most and just after the careful way was needed."""
MEMORABLE = 256
"""Texts longer than this are not remembered: they hardly repeat."""
PARAMETER_OR_CONSTANT = ("parameter", "constant")


class BodyReader:
    """Reads one computation's instructions into its graph."""

    __slots__ = (
        "_signature",
        "graph",
        "names",
        "nodes",
        "operands_become_parameters",
        "parameter_count",
        "reader",
        "root",
        "signature_at",
        "suffixes",
        "text",
    )

    def __init__(
        self, reader: ModuleReader, graph: Graph, *, operands_become_parameters: bool = False, signature_at: int = -1
    ) -> None:
        self.reader = reader
        self.graph = graph
        self.text = reader.text
        self.nodes: list[Node] = []
        self.names: dict[str, Node] = {}
        self.root: Node | None = None
        self.signature_at = signature_at
        self._signature: dict[str, tuple[int, Type]] | None = None
        self.operands_become_parameters = operands_become_parameters
        self.suffixes: dict[str, int] = {}
        self.parameter_count = 0

    def read(self, cursor: Cursor) -> None:
        """Read instructions up to the closing brace, and move over it."""
        opening = cursor.position
        line_start = self.text.find("\n", cursor.position) + 1
        if line_start and self.text[cursor.position : line_start].strip() == "":
            cursor.position = line_start
        window = LARGE
        while True:
            before = cursor.position
            self._read_lines(cursor, window)
            if cursor.accept("}"):
                break
            if cursor.peek() == "":
                raise cursor.error(f"the computation {self.graph.name} is never closed", opening - 1)
            window = SMALL if cursor.position == before else min(LARGE, window * 2)
            read_instruction(cursor, self)
            self._to_line_start(cursor)
        self._finish(cursor, opening)

    def _to_line_start(self, cursor: Cursor) -> None:
        """Where only blanks stand between here and the next line, go there."""
        newline = self.text.find("\n", cursor.position, cursor.position + 80)
        if newline >= 0 and not self.text[cursor.position : newline].strip():
            cursor.position = newline + 1

    def _read_lines(self, cursor: Cursor, window: int) -> None:
        """The fast way: move over as many plain lines as there are."""
        text = self.text
        position = cursor.position
        if position and text[position - 1] != "\n":
            return
        limit = text.find("\n}", position)
        limit = len(text) if limit < 0 else limit
        while position < limit:
            stop = limit
            if position + window < limit:
                stop = text.rfind("\n", position, position + window)
                if stop < 0:
                    stop = text.find("\n", position + window)
                    if stop - position > LARGE and stop > limit:
                        break
                    stop = limit if stop < 0 else stop
            taken, lines = self._take(position, stop)
            if taken < lines:
                for _ in range(taken):
                    position = text.index("\n", position) + 1
                break
            position = stop + 1
            window = LARGE
        cursor.position = min(position, len(text))

    def _take(self, start: int, stop: int) -> tuple[int, int]:
        """Take the plain lines of a span; how many were taken and how many lines there are."""
        text = self.text
        lines = text.count("\n", start, stop) + 1
        matches = LINE.findall(text, start, stop)
        if len(matches) != lines:
            matches = _leading(text, start, stop)
        reader, graph, nodes, names = self.reader, self.graph, self.nodes, self.names
        rows, types, memos, enter = reader.rows, reader.types, reader.attribute_memos, nodes.append
        get = names.__getitem__
        percent = text.find("%", start, stop) >= 0
        taken = 0
        for root, name, type_text, opcode, operand_text, rest in matches:
            type_ = types.get(type_text)
            if type_ is None:
                type_ = self._type(type_text)
                if type_ is None:
                    break
            metadata = None
            if rest:
                at = rest.find(", metadata={")
                if at >= 0:
                    metadata = rest[at + 12 : -1]
                    if rest[-1] != "}" or "{" in metadata or "}" in metadata or '"' in rest[:at]:
                        parts = _split_metadata(rest)
                        if parts is None:
                            break
                        rest, metadata = parts
                    else:
                        rest = rest[:at]
            row = rows.get(opcode)
            if row is None:
                node = self._special(name, type_, type_text, opcode, operand_text, rest, metadata)
                if node is None:
                    break
            else:
                if rest:
                    attributes = memos[opcode].get(rest) or self._attributes(row, rest)
                    if attributes is None:
                        break
                else:
                    attributes = EMPTY
                if operand_text:
                    if percent:
                        operand_text = operand_text.replace("%", "")
                    try:
                        inputs = tuple(map(get, operand_text.split(", ")))
                    except KeyError:
                        inputs = self._operands(operand_text)
                        if inputs is None:
                            break
                else:
                    inputs = ()
                node = Apply(name, type_, row, inputs, attributes, metadata, graph)
            if name in names:
                break
            names[name] = node
            enter(node)
            if root:
                if self.root is not None:
                    self.forget(node)
                    break
                self.root = node
            taken += 1
        return taken, lines

    def forget(self, node: Node) -> None:
        """Take the last node back, to be read again."""
        self.nodes.pop()
        del self.names[node.name]
        if self.root is node:
            self.root = None

    # What the fast way looks up; None sends the line the careful way.

    def _type(self, text: str) -> Type | None:
        cursor = Cursor(Source(text))
        try:
            type_ = read_type(cursor)
        except HloomError:
            return None
        if cursor.peek():
            return None
        if len(text) < MEMORABLE:
            self.reader.types[text] = type_
        return type_

    def _attributes(self, row: Op, rest: str) -> Attributes | None:
        called = _TO_APPLY.match(rest)
        if called and called[2] in self.reader.module and not self.reader.strict:
            head = called[1]
            others = (self.reader.attribute_memos[row.name].get(head) or self._attributes(row, head)) if head else EMPTY
            if others is not None and "to_apply" in row.attributes and "to_apply" not in others:
                return arranged(row, {**others, "to_apply": self.reader.module[called[2]]})
        cursor = Cursor(Source(rest))
        try:
            notes = len(self.reader.module.notes)
            attributes, metadata = read_attributes(cursor, row, self)
        except HloomError:
            return None
        if cursor.peek() or metadata is not None or len(self.reader.module.notes) != notes:
            del self.reader.module.notes[notes:]
            return None
        if len(rest) < MEMORABLE and "control-predecessors" not in attributes:
            self.reader.attribute_memos[row.name][rest] = attributes
        return attributes

    def _operands(self, text: str) -> tuple[Node, ...] | None:
        names = self.names
        if "/*" in text:
            text = _COMMENT.sub("", text)
        try:
            return tuple([names[name] for name in text.split(", ")])
        except KeyError:
            pass
        inputs: list[Node] = []
        position = 0
        for match in _TYPED.finditer(text):
            node = names.get(match[2])
            if match.start() != position or node is None:
                return None
            given = self.reader.types.get(match[1]) or self._type(match[1])
            if given is None or (given is not node.type and not compatible(given, node.type)):
                return None
            inputs.append(node)
            position = match.end()
        return tuple(inputs) if position == len(text) and not text.endswith(",") else None

    def _special(
        self, name: str, type_: Type, type_text: str, opcode: str, operand_text: str, rest: str, metadata: str | None
    ) -> Node | None:
        if opcode not in PARAMETER_OR_CONSTANT:
            return None
        row = self.reader.leaf_row
        attributes: Attributes | None = EMPTY
        if rest:
            attributes = self.reader.attribute_memos[row.name].get(rest) or self._attributes(row, rest)
            if attributes is None:
                return None
        if opcode == "parameter":
            if not operand_text.isdecimal() or not operand_text.isascii() or len(operand_text) > 9:
                return None
            return Parameter(name, type_, int(operand_text), attributes, metadata, self.graph)
        literals = self.reader.literals
        literal = literals.get((type_text, operand_text))
        if literal is None:
            literal = self._literal(type_, operand_text)
            if literal is None:
                return None
            if len(operand_text) < MEMORABLE and not literal.is_elided:  # each unknown constant is its own
                literals[type_text, operand_text] = literal
        return Constant(name, type_, literal, attributes, metadata, self.graph)

    def _literal(self, type_: Type, text: str) -> Literal | None:
        cursor = Cursor(Source(text))
        try:
            literal = read_literal(cursor, type_)
        except HloomError:
            return None
        return literal if not cursor.peek() else None

    # What the careful way needs

    def read_node_reference(self, cursor: Cursor) -> Node:
        """A name that must be, or in tolerant mode may become, a node of this computation."""
        start = cursor.skip()
        return self.resolve(cursor, cursor.read(NAME, "the name of an instruction")[1], None, start)

    def resolve(self, cursor: Cursor, name: str, type_: Type | None, start: int) -> Node:
        """The node of a name; one that nothing has defined so far is an error in strict mode, else marked missing."""
        node = self.names.get(name)
        if node is not None:
            if type_ is not None and not compatible(type_, node.type):
                raise cursor.error(f"operand {name} is said to be {type_}, but it is {node.type}", start)
            return node
        if self.operands_become_parameters:
            if type_ is None and self.reader.strict:
                raise cursor.error(f"operand {name} needs a type, for it becomes a parameter", start)
            self.parameter_count += 1
            return self._add_parameter(name, type_, self.parameter_count - 1)
        if self.reader.strict:
            raise cursor.error(f"nothing before this is called '{name}' in {self.graph.name}", start)
        if name in self.signature:  # the text has lost the parameter's own line
            number, signature_type = self.signature[name]
            return self._add_parameter(name, type_ or signature_type, number)
        missing = Missing(name, type_, self.graph)
        self.names[name] = missing
        self.graph.missing.append(missing)
        return missing

    @property
    def signature(self) -> dict[str, tuple[int, Type]]:
        """The numbers and types of the parameters that the heading names, read when first asked for."""
        if self._signature is None:
            self._signature = {}
            if self.signature_at >= 0:
                self._signature, _ = self.reader.read_signature(Cursor(self.reader.source, self.signature_at))
        return self._signature

    def unused_name(self, stem: str) -> str:
        """The stem, or the stem with the first free number behind a dot."""
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

    def _finish(self, cursor: Cursor, opening: int) -> None:
        if not self.nodes:
            raise cursor.error(f"the computation {self.graph.name} has no instructions", opening - 1)
        self.complete()
        if cursor.at(",") and re.compile(r",\s*execution_thread=").match(self.text, cursor.position):
            cursor.accept(",")
            self.graph.execution_thread = self.reader.read_execution_thread(cursor)

    def complete(self) -> None:
        """Hand the nodes to the graph: its output and its parameters by number."""
        graph = self.graph
        graph.adopt(self.nodes, self.names)
        graph.output = self.root if self.root is not None else self.nodes[-1]
        graph.parameters = sorted(
            (node for node in self.nodes if isinstance(node, Parameter)), key=lambda parameter: parameter.number
        )


def _leading(text: str, start: int, stop: int) -> list[tuple[str, ...]]:
    """The matches of the lines before the first that is not plain."""
    found: list[tuple[str, ...]] = []
    for match in LINE.finditer(text, start, stop):
        if match.start() != start:
            break
        found.append(tuple(group or "" for group in match.groups()))
        start = match.end() + 1
    return found


def _split_metadata(rest: str) -> tuple[str, str] | None:
    """Part metadata from the attributes around it; None where a string makes that unclear."""
    before = _BEFORE_METADATA.match(rest)
    if before is None:
        return None
    match = _METADATA.match(rest, before.end())
    if match is None or ", metadata={" in rest[match.end() :]:
        return None
    return rest[: match.start()] + rest[match.end() :], match[1]
