"""Reading MindSpore's `.ir` text: a first pass over the statements, a second one that resolves names.

A graph's statements become nodes in their order; a constant among the operands becomes a node before its first use.
Names that nothing defines, and names of free variables that several nodes have, become missing nodes, which `verify`
lists. Source: mindspore/ccsrc/debug/anf_ir_dump.cc writes these texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.dialects.mindir.abstracts import UNKNOWN, type_of
from hloom.dialects.mindir.annotations import (
    ABSTRACT,
    COMMENTS,
    DEBUG_NAME,
    INSTANCE_NAME,
    PRIMITIVE,
    SUFFIX,
    TEXT,
    TYPES,
    UNION,
    USED_AS,
    annotated,
    annotations_of,
)
from hloom.dialects.mindir.brackets import Span, closing, first_outside, items
from hloom.dialects.mindir.locations import metadata_text
from hloom.dialects.mindir.rows import (
    PRIMITIVE_ATTRIBUTES,
    PRIMITIVE_FUNCTION,
    RETURN,
    VALUE,
    VALUE_ROW,
    row_of,
)
from hloom.dialects.mindir.values import read_value, tensor_text, type_of_value
from hloom.ir import FunctionType, Graph, Literal, Missing, Module, Node, Op
from hloom.text import HloomError, ParseError, Source

HEADER = "mindir.header"
"""In a module's attachments: the lines before the parameters, and those between them and the first graph."""
PREAMBLES = "mindir.preambles"
"""In a module's attachments: the lines before each graph, by its name."""
ENDING = "mindir.ending"
"""In a module's attachments: what follows the last graph."""

_ENTRY = re.compile(r"^# ?IR entry ?: ?@([^\s()]+)", re.MULTILINE)
_PARAMETERS = re.compile(r"^# Params:[ \t]*\n", re.MULTILINE)
_PARAMETER = re.compile(r"^%([^\s:]+)[ \t]*: ?(?=<)", re.MULTILINE)
_SUBGRAPH = re.compile(
    r"^subgraph @([^\s()\[\]]+)(?:\[[^\]\n]*\])?(?: parent: \[subgraph @([^\s\]]+)\])?(?=\()", re.MULTILINE
)
_PARAMETER_TYPES = re.compile(r"^# Parameters: [0-9]+, (?=\()", re.MULTILINE)
_PARAMETER_NUMBER = re.compile(r"para[0-9]+_")
_SPACE = re.compile(r"[ \t\r\n]*+")
_BLANK = re.compile(r"[ \t]*+")
_NUMBERED = re.compile(r"%([0-9]+)\(")
_GROUP = re.compile(r"[ \t]*+(?:([A-Za-z_][\w ]*): )?(?=\{)")
_INSTANCE_NAME = re.compile(r"\{instance name: ([^{}\n]*)\}")
_CONTINUED = re.compile(r"[ \t]*+([:#][^\n]*)")
_FREE = re.compile(r"\$\(@([^\s:]+):([^\s]+)\)")
_CALLED_FREE = re.compile(r"\$\(@[^\s:]+:[^\s()]+\)")
_CALLED_VALUE = re.compile(r"(%[^\s\[(]+|\$\(@[^\s:]+:[^\s()]+\))(.*)", re.DOTALL)
_STEM = re.compile(r"[^\w.]+")


def parse(text: str | Source, name: str = "<text>") -> Module:
    """The module of an `.ir` text; raises ParseError, with the place.

    The entry graph is the module's; a graph with a parent may use its parent's nodes. What the text says besides the
    program (the lines before each graph, names of scopes, source lines) is kept for `to_text`.
    """
    source = text if isinstance(text, Source) else Source(text, name)
    return _Reader(source).read()


@dataclass(slots=True)
class _Statement:
    """One node as written: positions and spans of its parts."""

    position: int
    number: str | None
    debug_name: str
    function: Span
    operands: list[Span]
    groups: list[tuple[str, str]]
    lines: list[str] = field(default_factory=list[str])
    types: tuple[list[str], str] | None = None


@dataclass(slots=True)
class _Subgraph:
    """One graph as written, and what is made of it."""

    position: int
    name: str
    parent: str | None
    parameters: list[Span]
    types: list[str]
    statements: list[_Statement]
    graph: Graph | None = None
    scope: dict[str, None] | None = None
    by_name: dict[str, Node] = field(default_factory=dict[str, Node])
    by_parameter_number: dict[str, Node] = field(default_factory=dict[str, Node])
    by_debug_name: dict[str, list[Node]] = field(default_factory=dict[str, list[Node]])
    constants: dict[str, Node] = field(default_factory=dict[str, Node])
    missing: dict[str, Missing] = field(default_factory=dict[str, Missing])


class _Reader:
    """A text on its way into a module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.subgraphs: dict[str, _Subgraph] = {}
        self.entry = ""
        self.entry_parameters: list[tuple[int, str, str, str]] = []
        self.module = Module("mindir")
        self.declared: dict[str, Graph] = {}

    def read(self) -> Module:
        self.read_texts()
        self.make_graphs()
        for subgraph in self.subgraphs.values():
            self.make_parameters(subgraph)
        for subgraph in self.in_scope_order():
            self.enclosing(subgraph)
            for statement in subgraph.statements:
                self.make_node(subgraph, statement)
            self.finish(subgraph)
        return self.module

    # The first pass: statements

    def read_texts(self) -> None:
        text, module = self.text, self.module
        first = _SUBGRAPH.search(text)
        if first is None:
            hint = "a text of MindSpore's has `subgraph @name() {` for each of its graphs"
            raise ParseError("this text holds no graph", self.source.location(0), hint)
        opening = self.read_header(first.start())
        preambles: dict[str, str] = {}
        position = opening
        while match := _SUBGRAPH.search(text, position):
            name = match[1]
            if name in self.subgraphs:
                raise self.error(f"graph @{name} is defined twice", match.start(1))
            preambles[name] = text[position : match.start()]
            types = self.parameter_types(position, match.start())
            self.subgraphs[name], position = self.read_subgraph(match, types)
        module.attachments[PREAMBLES] = preambles
        module.attachments[ENDING] = text[position:]

    def preamble_start(self, position: int) -> int:
        """Where the lines that belong to the first graph begin."""
        start = len(self.text[:position].rstrip())
        start = self.text.rfind("\n", 0, start) + 1
        while start:
            line = self.text.rfind("\n", 0, start - 1) + 1
            if not self.text[line:start].strip():
                return start
            start = line
        return start

    def read_header(self, end: int) -> int:
        """Read what stands before the first graph; where the lines that belong to that graph begin."""
        text = self.text
        entry = _ENTRY.search(text, 0, end)
        if entry:
            self.entry = entry[1]
        match = _PARAMETERS.search(text, 0, end)
        position = before = match.end() if match else 0
        while match and (parameter := _PARAMETER.match(text, position, end)):
            close = closing(self.source, parameter.end(), angles=True) + 1
            line_end = self.line_end(close)
            abstract = text[parameter.end() : close]
            self.entry_parameters.append((parameter.start(), parameter[1], abstract, text[close:line_end]))
            position = min(line_end + 1, end)
        opening = max(position, self.preamble_start(end))
        self.module.attachments[HEADER] = (text[:before], text[position:opening])
        return opening

    def parameter_types(self, start: int, end: int) -> list[str]:
        """The abstracts of a graph's parameters, which stand in a comment before it."""
        match = _PARAMETER_TYPES.search(self.text, start, end)
        if match is None:
            return []
        spans, _ = items(self.source, match.end(), angles=True)
        return [self.text[left:right] for left, right in spans]

    def read_subgraph(self, match: re.Match[str], types: list[str]) -> tuple[_Subgraph, int]:
        parameters, close = items(self.source, match.end(), angles=True)
        brace = self.skip(close + 1)
        if not self.text.startswith("{", brace):
            raise self.error("expected '{' before the graph's nodes", brace)
        subgraph = _Subgraph(match.start(1), match[1], match[2], parameters, types, [])
        position = self.skip(brace + 1)
        while not self.text.startswith("}", position):
            if position >= len(self.text):
                raise self.error(f"graph @{match[1]} is not closed", match.start())
            if self.text[position] == "#":
                position = self.skip(self.line_end(position))
                continue
            statement, position = self.read_statement(position)
            subgraph.statements.append(statement)
        return subgraph, position + 1

    def read_statement(self, position: int) -> tuple[_Statement, int]:
        text = self.text
        number, debug_name, start = None, "", position
        if match := _NUMBERED.match(text, position):
            number = match[1]
            end = text.find(") = ", match.end(), self.line_end(position))
            if end < 0:
                raise self.error("expected ') = ' after the node's name", match.end())
            debug_name, start = text[match.end() : end], end + 4
        opened = self.operands_start(start)
        operands, close = items(self.source, opened)
        groups, after = self.read_groups(close + 1)
        statement = _Statement(position, number, debug_name, (start, opened), operands, groups)
        return statement, self.read_continuation(statement, after)

    def operands_start(self, start: int) -> int:
        free = _CALLED_FREE.match(self.text, start)
        opened = first_outside(self.source, free.end() if free else start, self.line_end(start), "(")
        if opened < 0:
            raise self.error("expected a node: 'Primitive(operands)', or '}' at the end of the graph", start)
        return opened

    def read_groups(self, position: int) -> tuple[list[tuple[str, str]], int]:
        """The groups in braces behind a node's operands, by name."""
        groups: list[tuple[str, str]] = []
        while match := _GROUP.match(self.text, position):
            end = closing(self.source, match.end()) + 1
            written = self.text[match.end() : end]
            instance = _INSTANCE_NAME.fullmatch(written)
            if instance and not match[1]:
                groups.append((INSTANCE_NAME, instance[1]))
            else:
                groups.append((match[1] or "", written[1:-1]))
            position = end
        return groups, position

    def read_continuation(self, statement: _Statement, position: int) -> int:
        """The lines of types and comments below a node."""
        blank = _BLANK.match(self.text, position)
        position = blank.end() if blank else position
        if position < len(self.text) and self.text[position] not in "\r\n":
            raise self.error(f"expected the end of the line, found '{self.text[position]}'", position)
        position = self.line_end(position) + 1
        while match := _CONTINUED.match(self.text, position):
            if match[1][0] == ":" and statement.types is None and not statement.lines:
                position = self.read_types(statement, match.start(1))
            else:
                statement.lines.append(match[1].rstrip("\r"))
                position = match.end() + 1
        return self.skip(position)

    def read_types(self, statement: _Statement, position: int) -> int:
        """The line of types: `: (operands) -> (result)`, or `: (operand)` of a Return."""
        opened = self.text.find("(", position, self.line_end(position))
        if opened < 0:
            raise self.error("expected '(' and the abstracts of the operands", position)
        operands, close = items(self.source, opened, angles=True)
        abstracts = [self.text[left:right] for left, right in operands]
        result = ""
        if self.text.startswith(" -> (", close + 1):
            spans, close = items(self.source, close + 5, angles=True)
            result = self.text[spans[0][0] : spans[-1][1]] if spans else ""
        statement.types = abstracts, result
        end = self.line_end(close)
        if self.text[close + 1 : end].strip():
            raise self.error("expected the end of the line of types", close + 1)
        return end + 1

    # The second pass: nodes

    def make_graphs(self) -> None:
        module = self.module
        for name, subgraph in self.subgraphs.items():
            subgraph.graph = module.add_graph(name)
        for subgraph in self.subgraphs.values():
            if subgraph.parent is not None:
                parent = self.subgraphs.get(subgraph.parent)
                if parent is None:
                    problem = f"the parent of graph @{subgraph.name}, @{subgraph.parent}, is not defined"
                    raise self.error(problem, subgraph.position)
                self.graph(subgraph).parent = parent.graph
                module.has_closures = True
        if not self.entry:
            self.entry = next(iter(self.subgraphs))
        if self.entry not in self.subgraphs:
            raise self.error(f"the entry graph @{self.entry} is not defined", 0)
        module.entry = self.graph(self.subgraphs[self.entry])
        module.name = self.entry
        module.source_name = self.source.name

    def in_scope_order(self) -> Iterator[_Subgraph]:
        """The graphs, each behind its parents; raises ParseError where they enclose themselves."""
        done: set[str] = set()
        for subgraph in self.subgraphs.values():
            path: list[_Subgraph] = []
            current: _Subgraph | None = subgraph
            while current is not None and current.name not in done:
                if len(path) > len(self.subgraphs):
                    raise self.error(f"graph @{subgraph.name} encloses itself", subgraph.position)
                path.append(current)
                current = self.subgraphs[current.parent] if current.parent else None
            for member in reversed(path):
                done.add(member.name)
                yield member

    def make_parameters(self, subgraph: _Subgraph) -> None:
        if subgraph.name == self.entry and not subgraph.parameters:
            for position, name, abstract, suffix in self.entry_parameters:
                self.make_parameter(subgraph, position, name, abstract, suffix)
            return
        types = subgraph.types if len(subgraph.types) == len(subgraph.parameters) else []
        for index, (left, right) in enumerate(subgraph.parameters):
            written = self.text[left:right]
            if not written.startswith("%"):
                raise self.error(f"expected a parameter, '%name', not '{written[:40]}'", left)
            name, _, abstract = written[1:].partition(": ")
            self.make_parameter(subgraph, left, name.strip(), types[index] if types else abstract or UNKNOWN, "")

    def make_parameter(self, subgraph: _Subgraph, position: int, name: str, abstract: str, suffix: str) -> None:
        if name in subgraph.by_name:
            raise self.error(f"%{name} is defined twice", position)
        pairs = {ABSTRACT: abstract}
        if suffix:
            pairs[SUFFIX] = suffix
        node = self.graph(subgraph).add_parameter(type_of(abstract), name, annotated(pairs))
        subgraph.by_name[name] = node
        subgraph.by_debug_name.setdefault(name, []).append(node)
        if match := _PARAMETER_NUMBER.match(name):
            subgraph.by_parameter_number[match[0]] = node

    def make_node(self, subgraph: _Subgraph, statement: _Statement) -> None:
        graph = self.graph(subgraph)
        written = self.text[slice(*statement.function)]
        abstracts, result = statement.types or ([], "")
        given = abstracts if len(abstracts) == len(statement.operands) else [""] * len(statement.operands)
        operands = [
            self.operand(subgraph, span, abstract) for span, abstract in zip(statement.operands, given, strict=True)
        ]
        pairs: dict[str, str] = {}
        attributes: dict[str, object] = {}
        function = self.function(subgraph, statement, written, pairs)
        for name, inner in statement.groups:
            if name == PRIMITIVE_ATTRIBUTES and isinstance(function, Op):
                attributes[name] = self.fields(inner)
            else:
                pairs[name] = inner
        is_return = isinstance(function, Op) and function is RETURN
        if not is_return:
            pairs[ABSTRACT] = result or UNKNOWN
        type_ = operands[0].type if is_return and operands else type_of(result or UNKNOWN)
        if statement.lines:
            pairs[COMMENTS] = "\n".join(statement.lines)
        if statement.types is None:
            pairs[TYPES] = "none"
        if statement.number is None and not is_return:
            raise self.error("expected '%0(name) = ' before a node other than Return", statement.position)
        stem = statement.debug_name or (f"%{statement.number}" if statement.number else "Return")
        name = graph.unique_name(stem)
        if name != statement.debug_name and statement.number is not None:
            pairs[DEBUG_NAME] = statement.debug_name
        primitive = function.name.removeprefix("mindir.") if isinstance(function, Op) else ""
        metadata = metadata_text(primitive, statement.lines)
        node = graph.add_apply(function, operands, type_, annotated(pairs, attributes), name, metadata=metadata)
        if statement.number is not None:
            number = statement.number
            if number in subgraph.by_name:
                raise self.error(f"%{number} is defined twice", statement.position)
            subgraph.by_name[number] = node
            subgraph.by_debug_name.setdefault(statement.debug_name, []).append(node)
        else:
            if graph.output is not None:
                raise self.error(f"graph @{subgraph.name} returns twice", statement.position)
            graph.set_output(node)

    def finish(self, subgraph: _Subgraph) -> None:
        if self.graph(subgraph).output is None:
            raise self.error(f"graph @{subgraph.name} has no Return", subgraph.position)

    def function(self, subgraph: _Subgraph, statement: _Statement, written: str, pairs: dict[str, str]) -> Op | Node:
        """The op, or the node whose value is called."""
        start = statement.function[0]
        name = written.strip()
        if name.startswith("call @"):
            return self.graph_constant(subgraph, name[6:])
        if match := _CALLED_VALUE.fullmatch(name):
            if match[2]:
                pairs[UNION] = match[2]
            return self.operand(subgraph, (start, start + len(match[1])), "")
        if not name:
            raise self.error("expected a primitive or a value to call", start)
        short = name.removeprefix(PRIMITIVE_FUNCTION)
        row = row_of(short)
        if short != name:
            pairs[PRIMITIVE] = name
        if row.is_known and not row.accepts(len(statement.operands)):
            raise self.error(f"{short} does not take {len(statement.operands)} operands", start)
        return row

    def operand(self, subgraph: _Subgraph, span: Span, abstract: str) -> Node:
        left, right = span
        written = self.text[left:right]
        if written.startswith("%"):
            node = subgraph.by_name.get(written[1:]) or self.parameter_of_number(subgraph, written[1:])
            return node or self.missing(subgraph, written, abstract)
        if written.startswith("$(") and (match := _FREE.fullmatch(written)):
            return self.free_variable(subgraph, match[1], match[2].removeprefix("%"), abstract, left)
        if written.startswith("@"):
            return self.graph_constant(subgraph, written[1:], abstract)
        return self.constant(subgraph, written, abstract, left)

    def free_variable(self, subgraph: _Subgraph, owner: str, name: str, abstract: str, position: int) -> Node:
        """The node of an enclosing graph that a name means; several of one name are told apart by their types."""
        enclosing = self.subgraphs.get(owner)
        if enclosing is None:
            raise self.error(f"graph @{owner} is not defined", position + 3)
        if owner not in self.enclosing(subgraph):
            hint = f"graphs that use nodes of @{owner} say `parent: [subgraph @{owner}]`"
            raise self.error(f"graph @{owner} does not enclose @{subgraph.name}", position + 3, hint)
        nodes = enclosing.by_debug_name.get(name, [])
        if not nodes and (parameter := self.parameter_of_number(enclosing, name)):
            return parameter
        if len(nodes) > 1 and abstract:
            type_ = type_of(abstract)
            nodes = [node for node in nodes if node.type is type_]
        if len(nodes) == 1:
            return nodes[0]
        if nodes:
            self.module.notes.append(f"$(@{owner}:{name}) in @{subgraph.name} may mean any of {len(nodes)} nodes")
        return self.missing(subgraph, f"$(@{owner}:{name})", abstract)

    def parameter_of_number(self, subgraph: _Subgraph, name: str) -> Node | None:
        """The parameter whose number a name has: the list of parameters may call it otherwise than its uses do."""
        match = _PARAMETER_NUMBER.match(name)
        node = subgraph.by_parameter_number.get(match[0]) if match else None
        if node is not None:
            subgraph.by_name[name] = node
            subgraph.by_debug_name.setdefault(name, []).append(node)
            node.graph.set_attributes(node, annotated({**annotations_of(node), USED_AS: name}))
        return node

    def enclosing(self, subgraph: _Subgraph) -> dict[str, None]:
        """The names of a graph and of those that enclose it."""
        if subgraph.scope is None:
            above = self.enclosing_of_parent(subgraph)
            subgraph.scope = {subgraph.name: None, **above}
        return subgraph.scope

    def enclosing_of_parent(self, subgraph: _Subgraph) -> dict[str, None]:
        """What encloses the parent, which stands before its children in `in_scope_order` and so knows it already."""
        parent = self.subgraphs[subgraph.parent] if subgraph.parent else None
        return {} if parent is None else parent.scope or {}

    def missing(self, subgraph: _Subgraph, name: str, abstract: str) -> Node:
        node = subgraph.missing.get(name)
        if node is None:
            graph = self.graph(subgraph)
            node = Missing(name, type_of(abstract or UNKNOWN), graph)
            subgraph.missing[name] = node
            graph.missing.append(node)
        return node

    def graph_constant(self, subgraph: _Subgraph, name: str, abstract: str = "") -> Node:
        pairs = {ABSTRACT: abstract} if abstract == UNKNOWN else {}
        key = f"{''.join(pairs.values())}@{name}"
        node = subgraph.constants.get(key)
        if node is None:
            target = self.subgraphs.get(name)
            called = self.graph(target) if target else self.declared.get(name)
            if called is None:
                called = self.declared[name] = self.module.declare_graph(name)
            type_ = FunctionType([parameter.type for parameter in called.parameters], None)
            node = self.graph(subgraph).add_constant(called, type_, name, attributes=annotated(pairs))
            subgraph.constants[key] = node
        return node

    def constant(self, subgraph: _Subgraph, written: str, abstract: str, position: int) -> Node:
        key = f"{abstract} {written}"
        node = subgraph.constants.get(key)
        if node is not None:
            return node
        try:
            value = read_value(written)
        except HloomError as problem:
            raise self.error(problem.message, position) from None
        graph = self.graph(subgraph)
        stem = _STEM.sub("_", written[:24]).strip("_") or "constant"
        pairs = {ABSTRACT: abstract} if abstract else {}
        if isinstance(value, Literal):
            if tensor_text(value) != written:
                pairs[TEXT] = written
            node = graph.add_constant(value, value.type, stem, attributes=annotated(pairs))
        else:
            node = graph.add_apply(VALUE_ROW, (), type_of_value(value), annotated(pairs, {VALUE: value}), stem)
        subgraph.constants[key] = node
        return node

    def fields(self, inner: str) -> tuple[tuple[str, str], ...]:
        """The names and values of a group of attributes."""
        text = "{" + inner + "}"
        spans, _ = items(Source(text), 0)
        # items end before spaces, so a field without a value ends in ":"
        pairs = [f"{text[left:right]} ".partition(": ") for left, right in spans]
        return tuple((name.rstrip(), value.rstrip()) for name, _, value in pairs)

    # Positions

    def graph(self, subgraph: _Subgraph) -> Graph:
        assert subgraph.graph is not None, "graphs are made before their nodes"
        return subgraph.graph

    def skip(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end

    def error(self, message: str, position: int, hint: str | None = None) -> ParseError:
        return ParseError(message, self.source.location(position), hint)
