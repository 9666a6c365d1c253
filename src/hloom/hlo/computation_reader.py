"""The instructions of one computation.

Two ways that agree: the fast one matches many plain lines with one regular expression and looks everything else up
in memos; the careful one (`instruction_reader.py`) reads what the fast one refuses, token by token, and raises the
errors.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hloom.hlo.attribute_reader import arranged, read_attributes
from hloom.hlo.fast_attribute_reader import MEMORABLE, read_plain_attributes
from hloom.hlo.instruction_reader import read_instruction, static_type
from hloom.hlo.literal_reader import read_literal
from hloom.hlo.reader_state import ComputationState
from hloom.hlo.type_reader import read_type, simple_type
from hloom.ir import (
    EMPTY,
    Apply,
    Attributes,
    Constant,
    Graph,
    Literal,
    Node,
    Op,
    Parameter,
    Type,
    compatible,
)
from hloom.text import Cursor, HloomError, Source

LINE = re.compile(
    r"^[ \t]*+(ROOT )?%?([A-Za-z_][A-Za-z0-9_.-]*+) = "
    r"((?:\((?:[^()\n]++|\([^()\n]*+\))*+\)|[^ (\n][^ \n]*+) [a-z][a-z0-9-]*+)"
    r"\((?:%(?<! constant\(%)(?<! parameter\(%))?+([^()\n]*+(?:\((?:[^()\n]++|\([^()\n]*+\))*+\)[^()\n]*+)*+)\)"
    r'((?:[^",\n]++|,(?! metadata=\{))*+)(?:, metadata=\{([^{}\n]++)\})?+(.*+)$',
    re.MULTILINE,
)
"""A whole line that is one instruction: ROOT, name, type and opcode, operands, attributes, metadata, the rest.

The operands lack the first percent sign. Attributes with strings, and all behind them, are part of the rest.
"""

_METADATA = re.compile(r', metadata=\{((?:[^"{}\n]++|"(?:[^"\\\n]++|\\.)*+"|\{[0-9, ]*+\})*+)\}')
_BEFORE_METADATA = re.compile(r'(?:[^"\',\n]++|,(?! metadata=\{)|"(?:[^"\\\n]++|\\.)*+")*+(?=, metadata=\{)')
_REFERENCE = re.compile(r", (to_apply|calls|condition|body)=%?([A-Za-z_][A-Za-z0-9_.-]*+)")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_TYPED = re.compile(
    r"\s*(?:/\*[^*]*\*/)?(\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)|[a-z][^ ]*+) "
    r"([A-Za-z_][A-Za-z0-9_.-]*+)\s*(?:,|$)"
)
_BLANK_LINES = re.compile(r"(?:[ \t\r]*+(?://[^\n]*+)?\n)*+")
_REST_OF_LINE = re.compile(r"[ \t\r]*+\n")
LARGE = 1 << 16
"""How many characters the fast way looks ahead at most: some hundreds of instructions in one match."""
SMALL = 1 << 8
"""The same just after something stopped it, as the next line may too: it grows fourfold each time that nothing does."""
INDENTATION = 64
"""How many blanks before an instruction are looked back over."""


class ComputationReader(ComputationState):
    """Reads one computation's instructions into its graph."""

    __slots__ = ()

    def read(self, cursor: Cursor, window: int = LARGE) -> None:
        """Read instructions up to the closing brace, and move over it; `window` is how far to look ahead at first."""
        opening = cursor.position
        if self.text[opening - 1] != "\n":
            self._to_line_start(cursor)
        while True:
            self._read_lines(cursor, window)
            window = SMALL
            if not self.text.startswith("}", cursor.position) and self._skip_blank_lines(cursor):
                continue
            if cursor.accept("}"):
                break
            if cursor.peek() == "":
                raise cursor.error(f"the computation {self.graph.name} is never closed", opening - 1)
            read_instruction(cursor, self)
            self._to_line_start(cursor)
        self._finish(cursor, opening)

    def _to_line_start(self, cursor: Cursor) -> None:
        """Where only blanks stand between here and the next line, or this line's start, go there."""
        match = _REST_OF_LINE.match(self.text, cursor.position)
        if match:
            cursor.position = match.end()
            return
        start = self.text.rfind("\n", max(0, cursor.position - INDENTATION), cursor.position) + 1
        if start and not self.text[start : cursor.position].strip(" \t"):
            cursor.position = start

    def _skip_blank_lines(self, cursor: Cursor) -> bool:
        """From a line's start, move over lines that hold nothing but a comment; whether there were any."""
        start = cursor.position
        match = _BLANK_LINES.match(self.text, start) if self.text[start - 1] == "\n" else None
        if match:
            cursor.position = match.end()
        return cursor.position > start

    def _read_lines(self, cursor: Cursor, window: int) -> None:
        """The fast way: move over as many plain lines as there are."""
        text = self.text
        position = cursor.position
        if position and text[position - 1] != "\n":
            return
        if self.reader.line_limit < position:
            self.reader.line_limit = text.find("\n}", position)
            if self.reader.line_limit < 0:
                self.reader.line_limit = len(text)
        limit = self.reader.line_limit
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
            window = min(LARGE, window * 4)
        cursor.position = min(position, len(text))

    def _take(self, start: int, stop: int) -> tuple[int, int]:
        """Take the plain lines of a span; how many were taken and how many lines there are."""
        text = self.text
        lines = text.count("\n", start, stop) + 1
        matches = LINE.findall(text, start, stop)
        if len(matches) != lines:
            matches = _leading(text, start, stop)
        reader, graph, nodes, names = self.reader, self.graph, self.nodes, self.names
        kinds, leaf, enter, make = reader.kinds, reader.leaf_row, nodes.append, Apply.of_row
        get = names.__getitem__
        separator = ", %" if text.find("%", start, stop) >= 0 else ", "
        before = len(nodes)
        for root, name, kind_text, operand_text, attribute_text, metadata, rest in matches:
            known = kinds.get(kind_text) or self._kind(kind_text)
            if known is None:
                break
            type_, row, memo, arity = known
            if rest:
                parts = _split_metadata(attribute_text, metadata, rest)
                if parts is None:
                    break
                attribute_text, metadata = parts
            elif not metadata:
                metadata = None
            if attribute_text:
                attributes = memo.get(attribute_text) or self._attributes(row, attribute_text)
                if attributes is None:
                    break
            else:
                attributes = EMPTY
            if row is leaf:
                node = self._leaf(name, kind_text, type_, operand_text, attributes, metadata)
                if node is None:
                    break
            else:
                try:
                    inputs = tuple(map(get, operand_text.split(separator)))
                except KeyError:
                    inputs = self._operands(operand_text.replace("%", ""))
                    if inputs is None:
                        break
                if len(inputs) != arity and (arity is not None or not row.accepts(len(inputs))):
                    break
                node = make(name, type_, row, inputs, attributes, metadata, graph)
            if name in names:
                break
            names[name] = node
            enter(node)
            if root:
                if self.root is not None:
                    self.forget(node)
                    break
                self.root = node
        return len(nodes) - before, lines

    # What the fast way looks up; None sends the line the careful way.

    def _kind(self, text: str) -> tuple[Type, Op, dict[str, Attributes], int | None] | None:
        """The type, the row, what its attributes were read as and its only number of operands, of `f32[2] add`."""
        type_text, _, opcode = text.rpartition(" ")
        type_ = self.reader.types.get(type_text) or self._type(type_text)
        row = self.reader.rows.get(opcode)
        if type_ is None or row is None:
            return None
        least, most = row.arity
        known = type_, row, self.reader.attribute_memos[row], least if least == most else None
        if len(text) < MEMORABLE:
            self.reader.kinds[text] = known
        return known

    def _type(self, text: str) -> Type | None:
        type_: Type | None = simple_type(text)
        if type_ is None:
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
        plain = read_plain_attributes(row, rest, {} if self.reader.strict else self.reader.graphs)
        if plain is not None:
            if len(rest) < MEMORABLE and not plain.refers:
                self.reader.attribute_memos[row][rest] = plain
            return plain
        if not self.reader.strict:
            head, called = self._split_references(rest)
            if called and called.keys() <= row.attributes.keys():
                others = (self.reader.attribute_memos[row].get(head) or self._attributes(row, head)) if head else EMPTY
                if others is not None and others.keys().isdisjoint(called):
                    return arranged(row, {**others, **called})
        cursor = Cursor(Source(rest))
        try:
            notes = len(self.reader.notes)
            attributes, metadata = read_attributes(cursor, row, self)
        except HloomError:
            return None
        if cursor.peek() or metadata is not None or len(self.reader.notes) != notes:
            del self.reader.notes[notes:]
            return None
        if len(rest) < MEMORABLE and "control-predecessors" not in attributes:
            self.reader.attribute_memos[row][rest] = attributes
        return attributes

    def _split_references(self, rest: str) -> tuple[str, dict[str, Graph]]:
        """Part the references to known computations, which hardly repeat, from the attributes around them."""
        first = _REFERENCE.search(rest)
        if first is None or first.start() > rest.find('"') > -1:
            return rest, {}
        called: dict[str, Graph] = {}
        match: re.Match[str] | None = first
        while match:
            graph = self.reader.graphs.get(match[2])
            if graph is None or match[1] in called:
                return rest, {}
            called[match[1]] = graph
            last, match = match, _REFERENCE.match(rest, match.end())
        before, behind = rest[: first.start()], rest[last.end() :]
        if before.count("{") != before.count("}") or (behind and not behind.startswith(", ")):
            return rest, {}
        return before + behind, called

    def _operands(self, text: str) -> tuple[Node, ...] | None:
        names = self.names
        if not text:
            return ()
        if "[" not in text:
            bare = _COMMENT.sub("", text) if "/*" in text else text
            try:
                return tuple([names[name] for name in bare.split(", ")])
            except KeyError:
                return None
        inputs: list[Node] = []
        position = 0
        for match in _TYPED.finditer(text):
            node = names.get(match[2])
            if match.start() != position or node is None:
                return None
            if (node.type is None or node.type._text != match[1]) and not self._is_type_of(match[1], node):
                return None
            inputs.append(node)
            position = match.end()
        return tuple(inputs) if position == len(text) and not text.endswith(",") else None

    def _is_type_of(self, text: str, node: Node) -> bool:
        given = self.reader.types.get(text) or self._type(text)
        return given is not None and (given is node.type or compatible(given, node.type))

    def _leaf(
        self, name: str, kind_text: str, type_: Type, text: str, attributes: Attributes, metadata: str | None
    ) -> Node | None:
        if kind_text.endswith("constant"):
            literal = self.reader.literals.get((type_, text)) or self._literal(type_, text)
            if literal is not None and "<" in kind_text:
                type_ = static_type(type_, literal)
            return literal and Constant(name, type_, literal, attributes, metadata, self.graph)
        if not text.isdecimal() or not text.isascii() or len(text) > 9:
            return None
        return Parameter(name, type_, int(text), attributes, metadata, self.graph)

    def _literal(self, type_: Type, text: str) -> Literal | None:
        if len(text) >= MEMORABLE:
            return _whole_literal(type_, text)
        literal = _short_literal(type_, text)
        if literal is not None:
            self.reader.literals[type_, text] = literal
            return literal
        return _whole_literal(type_, text)  # each unknown constant is its own

    def _finish(self, cursor: Cursor, opening: int) -> None:
        if not self.nodes:
            raise cursor.error(f"the computation {self.graph.name} has no instructions", opening - 1)
        self.complete()
        if cursor.at(",") and re.compile(r",\s*execution_thread=").match(self.text, cursor.position):
            cursor.accept(",")
            self.graph.execution_thread = self.reader.read_execution_thread(cursor)


def _leading(text: str, start: int, stop: int) -> list[tuple[str, ...]]:
    """The matches of the lines before the first that is not plain."""
    matches: list[tuple[str, ...]] = []
    for match in LINE.finditer(text, start, stop):
        if match.start() != start:
            break
        matches.append(tuple(group or "" for group in match.groups()))
        start = match.end() + 1
    return matches


def _split_metadata(attributes: str, metadata: str, rest: str) -> tuple[str, str | None] | None:
    """Part metadata from the attributes around it; None where a string or a brace makes that unclear."""
    if metadata:
        is_apart = rest.startswith(", ") and attributes.count("{") == attributes.count("}")
        return (attributes + rest, metadata) if is_apart and ", metadata={" not in rest else None
    text = attributes + rest
    start = text.find(", metadata={")
    if start < 0:
        return text, None
    if '"' in text[:start] or "'" in text[:start]:
        before = _BEFORE_METADATA.match(text)
        if before is None:
            return None
        start = before.end()
    match = _METADATA.match(text, start)
    if match is None or ", metadata={" in text[match.end() :]:
        return None
    return text[: match.start()] + text[match.end() :], match[1]


@lru_cache(maxsize=4096)
def _short_literal(type_: Type, text: str) -> Literal | None:
    """The literal of a text, if nothing of it is elided: the same one for all modules."""
    literal = _whole_literal(type_, text)
    return None if literal is None or literal.is_elided else literal


def _whole_literal(type_: Type, text: str) -> Literal | None:
    cursor = Cursor(Source(text))
    try:
        literal = read_literal(cursor, type_)
    except HloomError:
        return None
    return None if cursor.peek() else literal
