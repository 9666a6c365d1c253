"""Reads the instructions of one computation.

There are two paths that agree: the fast one matches many plain lines with one regular expression and looks everything
else up in caches; the careful one (`instruction_reader.py`) reads the rest token by token and raises the errors.
"""

from __future__ import annotations

import re

from hloom.formats.hlo.attribute_reader import arranged, read_attributes
from hloom.formats.hlo.fast_attribute_reader import read_plain_attributes
from hloom.formats.hlo.instruction_reader import read_instruction
from hloom.formats.hlo.line_memos import LEAF, MEMORABLE, VARIADIC
from hloom.formats.hlo.reader_state import ComputationState
from hloom.ir import EMPTY, Apply, Attributes, Constant, Graph, Node, Op, Parameter, compatible
from hloom.text import Cursor, HloomError, Source

_new = object.__new__

PLAIN_LINE = re.compile(
    r"\n  (ROOT )?%?([A-Za-z_][A-Za-z0-9_.-]*+) = ([^ ]* [^(\n]*+)"
    r"\((?:%(?<!ant\(%)(?<!ter\(%))?([^)\n]*+)\)(.*+)"
)
"""A line in printed form: ROOT, name, type and opcode, operands, and the rest.

The operands lack the first percent sign, because constants and parameters may not have one. The type and opcode, and
the operands, end at the first parenthesis; if they contain parentheses, the pieces are not in the caches and LINE
matches the line again.
"""
LINE = re.compile(
    r"^[ \t]*+(ROOT )?%?([A-Za-z_][A-Za-z0-9_.-]*+) = "
    r"((?:\((?:[^()\n]++|\([^()\n]*+\))*+\)|[^ (\n][^ \n]*+) [a-z][a-z0-9-]*+)"
    r"\((?:%(?<! constant\(%)(?<! parameter\(%))?+([^()\n]*+(?:\((?:[^()\n]++|\([^()\n]*+\))*+\)[^()\n]*+)*+)\)"
    r"(.*+)$",
    re.MULTILINE,
)
"""Any line that is one complete instruction, split in the same way."""

_METADATA_OPENS = ", metadata={"
_METADATA = re.compile(r', metadata=\{((?:[^"{}\n]++|"(?:[^"\\\n]++|\\.)*+"|\{[0-9, ]*+\})*+)\}')
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+"|\'(?:[^\'\\]++|\\.)*+\'')
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
"""The maximum look-ahead of the fast path, in characters: some hundreds of instructions per match."""
SMALL = 1 << 8
"""The look-ahead just after the fast path stopped, as it may stop again; it grows fourfold after each success."""
INDENTATION = 64
"""The maximum number of blanks to look back over before an instruction."""


class ComputationReader(ComputationState):
    """Reads one computation's instructions into its graph."""

    __slots__ = ()

    def read(self, cursor: Cursor, window: int = LARGE) -> None:
        """Read instructions up to and including the closing brace; `window` is the initial look-ahead."""
        opening = cursor.position
        text = self.text
        is_stopped = False
        if text[opening - 1] != "\n":
            self._to_line_start(cursor)
        elif window == LARGE and (limit := text.find("\n}", opening, opening + LARGE)) >= 0:
            taken, lines = self._take(opening, limit)
            if taken == lines:  # the common case: a short computation of plain lines
                cursor.position = limit + 2
                self._finish(cursor, opening)
                return
            is_stopped = True
            for _ in range(taken):
                cursor.position = text.index("\n", cursor.position) + 1
        while True:
            if not is_stopped:
                self._read_lines(cursor, window)
            is_stopped = False
            if text.startswith("}", cursor.position):
                cursor.position += 1
                break
            window = SMALL
            if self._skip_blank_lines(cursor):
                continue
            if cursor.accept("}"):
                break
            if cursor.peek() == "":
                raise cursor.error(f"the computation {self.graph.name} is never closed", opening - 1)
            read_instruction(cursor, self)
            self._to_line_start(cursor)
        self._finish(cursor, opening)

    def _to_line_start(self, cursor: Cursor) -> None:
        """Move to the next line's start, or back to this line's, if only blanks are in between."""
        match = _REST_OF_LINE.match(self.text, cursor.position)
        if match:
            cursor.position = match.end()
            return
        start = self.text.rfind("\n", max(0, cursor.position - INDENTATION), cursor.position) + 1
        if start and not self.text[start : cursor.position].strip(" \t"):
            cursor.position = start

    def _skip_blank_lines(self, cursor: Cursor) -> bool:
        """Skip lines that contain only a comment, from a line's start; returns whether there were any."""
        start = cursor.position
        match = _BLANK_LINES.match(self.text, start) if self.text[start - 1] == "\n" else None
        if match:
            cursor.position = match.end()
        return cursor.position > start

    def _read_lines(self, cursor: Cursor, window: int) -> None:
        """The fast path: consume as many plain lines as possible."""
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
        """Consume the plain lines of a span; returns how many were consumed and how many lines there are."""
        text = self.text
        lines = text.count("\n", start, stop) + 1
        matches = PLAIN_LINE.findall(text, start - 1, stop)
        if len(matches) != lines:
            matches = LINE.findall(text, start, stop)
            if len(matches) != lines:
                matches = _leading(text, start, stop)
        graph, nodes, names, memos = self.graph, self.nodes, self.names, self.memos
        typed_opcodes, enter, get = memos.typed_opcodes, nodes.append, names.__getitem__
        separator = ", %" if text.find("%", start, stop) >= 0 else ", "
        has_metadata = text.find(_METADATA_OPENS, start, stop) >= 0
        before = len(nodes)
        for root, name, typed_text, operand_text, attribute_text in matches:
            known = typed_opcodes.get(typed_text) or memos.read_typed_opcode(typed_text)
            if known is None or "(" in operand_text:
                line = LINE.fullmatch(f"{name} = {typed_text}({operand_text}){attribute_text}")
                if line is None:
                    break
                _, _, typed_text, operand_text, attribute_text = line.groups()
                known = typed_opcodes.get(typed_text) or memos.read_typed_opcode(typed_text)
                if known is None:
                    break
            type_, row, memo, arity, literals = known
            metadata = None
            attributes = EMPTY
            if attribute_text:
                if has_metadata:
                    plain, opening, metadata = attribute_text.partition(_METADATA_OPENS)
                    if not opening:
                        metadata = None
                    elif metadata.find("}") + 1 == len(metadata) and "{" not in metadata and '"' not in plain:
                        attribute_text, metadata = plain, metadata[:-1]
                    else:
                        parts = _split_metadata(attribute_text)
                        if parts is None:
                            break
                        attribute_text, metadata = parts
                if attribute_text:
                    attributes = memo.get(attribute_text) or self._attributes(row, memo, attribute_text)
                    if attributes is None:
                        break
            if arity == LEAF:
                if literals is None:
                    if len(operand_text) > 9 or not operand_text.isdecimal() or not operand_text.isascii():
                        break
                    node = _new(Parameter)
                    node.number = int(operand_text)
                else:
                    literal = literals.get(operand_text) or memos.read_literal(type_, operand_text, literals)
                    if literal is None:
                        break
                    node = _new(Constant)
                    node.value = literal
                inputs = ()
            else:
                try:
                    if arity == 1:
                        inputs = (names[operand_text],)
                    elif arity == 2:
                        first, _, second = operand_text.partition(separator)
                        inputs = (names[first], names[second])
                    else:
                        inputs = tuple(map(get, operand_text.split(separator)))
                except KeyError:
                    inputs = self._operands(operand_text.replace("%", ""))
                    if inputs is None:
                        break
                if len(inputs) != arity and (arity != VARIADIC or not row.accepts(len(inputs))):
                    break
                node = _new(Apply)
                node.function = row
                node.opcode = row.name
            if name in names:
                break
            node.name = name
            node.type = type_
            node.operands = inputs
            node.attributes = attributes
            node.raw_metadata = metadata
            node.graph = graph
            names[name] = node
            enter(node)
            if root:
                if self.root is not None:
                    self.forget(node)
                    break
                self.root = node
        return len(nodes) - before, lines

    # Lookups of the fast path; None sends the line to the careful path.

    def _attributes(self, row: Op, memo: dict[str, Attributes], text: str) -> Attributes | None:
        known = self.reader.referring.get((row, text))
        if known is not None:
            return known
        plain = read_plain_attributes(row, text, {} if self.reader.strict else self.reader.graphs)
        if plain is not None:
            if plain.refers and self.graph in plain.referents():
                self.reader.refers_ahead = True
            self._remember(row, memo, text, plain)
            return plain
        if not self.reader.strict:
            head, called = self._split_references(text)
            if called and called.keys() <= row.attributes.keys():
                others = (memo.get(head) or self._attributes(row, memo, head)) if head else EMPTY
                if others is not None and others.keys().isdisjoint(called):
                    return arranged(row, {**others, **called})
        cursor = Cursor(Source(text))
        notes = len(self.reader.notes)
        try:
            attributes, metadata = read_attributes(cursor, row, self)
        except HloomError:
            attributes = metadata = None
        if attributes is None or cursor.peek() or metadata is not None or len(self.reader.notes) != notes:
            del self.reader.notes[notes:]
            return None
        if "control-predecessors" not in attributes:
            self._remember(row, memo, text, attributes)
        return attributes

    def _remember(self, row: Op, memo: dict[str, Attributes], text: str, attributes: Attributes) -> None:
        if not attributes.refers:
            self.memos.remember(memo, text, attributes)
        elif len(text) < MEMORABLE:
            self.reader.referring[row, text] = attributes

    def _split_references(self, rest: str) -> tuple[str, dict[str, Graph]]:
        """Separate references to known computations, which rarely repeat, from the attributes around them."""
        first = _REFERENCE.search(rest)
        if first is None or first.start() > rest.find('"') > -1:
            return rest, {}
        called: dict[str, Graph] = {}
        match: re.Match[str] | None = first
        while match:
            graph = self.reader.graphs.get(match[2])
            if graph is None or graph is self.graph or match[1] in called:
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
            if (node.type is None or node.type.text != match[1]) and not self._is_type_of(match[1], node):
                return None
            inputs.append(node)
            position = match.end()
        return tuple(inputs) if position == len(text) and not text.endswith(",") else None

    def _is_type_of(self, text: str, node: Node) -> bool:
        given = self.memos.read_type(text)
        return given is not None and (given is node.type or compatible(given, node.type))

    def _finish(self, cursor: Cursor, opening: int) -> None:
        if not self.nodes:
            raise cursor.error(f"the computation {self.graph.name} has no instructions", opening - 1)
        self.complete()
        if self.text.startswith("\n", cursor.position):
            return
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


def _split_metadata(text: str) -> tuple[str, str | None] | None:
    """Separate metadata from the attributes around it; None if a string or a brace makes that ambiguous."""
    start = text.find(_METADATA_OPENS)
    if start < 0:
        return text, None
    if '"' in text[:start] or "'" in text[:start]:
        before = _BEFORE_METADATA.match(text)
        if before is None:
            return None
        start = before.end()
    outside = _QUOTED.sub("", text[:start])
    if outside.count("{") != outside.count("}"):  # it is nested in another attribute: shardings have their own metadata
        return None
    match = _METADATA.match(text, start)
    if match is None or _METADATA_OPENS in text[match.end() :]:
        return None
    return text[: match.start()] + text[match.end() :], match[1]
