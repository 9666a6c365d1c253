"""Printing functional graphs as MindSpore's `.ir` text. What was read and not edited comes back as it was."""

from __future__ import annotations

import re

from hloom.dialects.mindir.abstracts import UNKNOWN, abstract_of, type_of
from hloom.dialects.mindir.annotations import (
    ABSTRACT,
    COMMENTS,
    DEBUG_NAME,
    INSTANCE_NAME,
    OWN,
    PRIMITIVE,
    SUFFIX,
    TEXT,
    TYPES,
    UNION,
    USED_AS,
    annotations_of,
)
from hloom.dialects.mindir.rows import PREFIX, PRIMITIVE_ATTRIBUTES, RETURN, VALUE, VALUE_ROW
from hloom.dialects.mindir.text_reader import ENDING, HEADER, PREAMBLES
from hloom.dialects.mindir.values import Value, read_value, tensor_text
from hloom.ir import Apply, Constant, Graph, Literal, Missing, Module, Node, Op, Parameter
from hloom.text import Unsupported

_COUNTS = re.compile(r"Node counting information:\nTotal number of nodes: [0-9]+\nTotal number of cnodes: ([0-9]+)\n")
_SUBGRAPHS = re.compile(r"^# Total subgraphs: [0-9]+$", re.MULTILINE)
_PARAMETERS = re.compile(r"^# Total params: [0-9]+$", re.MULTILINE)
_PARAMETER_NAME = re.compile(r"para[0-9]+_")
_PARAMETER_TYPES = re.compile(r"^# Parameters: [0-9]+, \(.*\)$", re.MULTILINE)
_SUFFIX = re.compile(r"\.[0-9]+$")
_INDENT = "      "


def to_text(module: Module) -> str:
    """The `.ir` text of a module of MindIR's ops; raises Unsupported for nodes of other dialects."""
    return _Printer(module).text()


class _Printer:
    """The names of a module's nodes in the text."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names: dict[Node, str] = {}
        self.parameters: dict[Node, str] = {}
        self.notes: dict[Node, dict[str, str]] = {}

    def text(self) -> str:
        module = self.module
        self.name_nodes()
        before, between = module.attachments.get(HEADER) or self.header()
        entry = module.entry
        before = _SUBGRAPHS.sub(f"# Total subgraphs: {len(module.graphs)}", before)
        before = _PARAMETERS.sub(f"# Total params: {len(entry.parameters)}", before)
        lines = [before]
        lines += [self.parameter_line(parameter) for parameter in entry.parameters]
        lines.append(self.counts(between))
        preambles = module.attachments.get(PREAMBLES) or {}
        for graph in module.graphs:
            lines.append(self.preamble(graph, preambles.get(graph.name)))
            lines.append(self.graph(graph))
        return "".join(lines) + module.attachments.get(ENDING, "\n")

    def header(self) -> tuple[str, str]:
        module = self.module
        head = f"# IR entry: @{module.entry.name}\n# Total subgraphs: {len(module.graphs)}\n\n"
        return head + f"# Total params: {len(module.entry.parameters)}\n# Params:\n", ""

    def counts(self, text: str) -> str:
        """The lines between parameters and graphs; the numbers of nodes are left out where they are not so any more."""
        match = _COUNTS.search(text)
        if match and int(match[1]) != sum(map(self.is_statement, self.module.nodes())):
            return text[: match.start()] + text[match.end() :].lstrip("\n")
        return text

    def is_statement(self, node: Node) -> bool:
        return isinstance(node, Apply) and node.function is not VALUE_ROW

    def name_nodes(self) -> None:
        count = sum(bool(_PARAMETER_NAME.match(p.name)) for graph in self.module.graphs for p in graph.parameters)
        for graph in self.module.graphs:
            number = 0
            undefined = {missing.name for missing in graph.missing}
            for node in graph.nodes:
                self.notes[node] = annotations_of(node)
                if isinstance(node, Parameter):
                    name = node.name
                    if not _PARAMETER_NAME.match(name):
                        count += 1
                        name = f"para{count}_{name}"
                    self.parameters[node] = name
                    self.names[node] = self.notes[node].get(USED_AS, name)
                elif self.is_statement(node) and not (isinstance(node, Apply) and node.function is RETURN):
                    while f"%{number}" in undefined:
                        number += 1
                    self.names[node] = str(number)
                    number += 1

    def parameter_line(self, node: Node) -> str:
        return f"%{self.parameters[node]}: {self.abstract(node)}{self.notes[node].get(SUFFIX, '')}\n"

    def preamble(self, graph: Graph, written: str | None) -> str:
        abstracts = ", ".join(self.abstract(parameter) for parameter in graph.parameters)
        types = f"# Parameters: {len(graph.parameters)}, ({abstracts})"
        if written is not None:
            return _PARAMETER_TYPES.sub(lambda _: types, written)
        return "\n" + ("" if graph is self.module.entry else types + "\n")

    def graph(self, graph: Graph) -> str:
        parent = f" parent: [subgraph @{graph.parent.name}]" if graph.parent else ""
        is_entry = graph is self.module.entry
        parameters = "" if is_entry else ", ".join(f"%{self.parameters[node]}" for node in graph.parameters)
        lines = [f"subgraph @{graph.name}{parent}({parameters}) {{\n"]
        nodes = [node for node in graph.nodes if self.is_statement(node)]
        lines += [self.statement(node) for node in nodes if isinstance(node, Apply)]
        output = graph.root
        if not (isinstance(output, Apply) and output.function is RETURN):
            lines.append(f"  Return({self.operand(output, graph)})\n{_INDENT}: ({self.abstract(output)})\n")
        lines.append("}")
        return "".join(lines)

    def statement(self, node: Apply) -> str:
        notes = self.notes[node]
        operands = ", ".join(self.operand(operand, node.graph) for operand in node.operands)
        head = ""
        if node.function is not RETURN:
            head = f"%{self.names[node]}({self.debug_name(node)}) = "
        lines = [f"  {head}{self.function(node)}({operands}){self.groups(node)}\n"]
        if TYPES not in notes:
            lines.append(f"{_INDENT}: {self.types(node)}\n")
        if COMMENTS in notes:
            lines += [f"{_INDENT}{line}\n" for line in notes[COMMENTS].split("\n")]
        return "".join(lines)

    def function(self, node: Apply) -> str:
        function = node.function
        if isinstance(function, Op):
            if not function.name.startswith(PREFIX):
                raise Unsupported(f"{node!r} is not an op of MindIR's and stands in no .ir text")
            return self.notes[node].get(PRIMITIVE, function.name.removeprefix(PREFIX))
        if isinstance(function, Constant):
            return f"call {self.operand(function, node.graph)}"
        return self.operand(function, node.graph) + self.notes[node].get(UNION, "")

    def groups(self, node: Apply) -> str:
        """What stands in braces after the operands."""
        notes = self.notes[node]
        words: list[str] = []
        if INSTANCE_NAME in notes:
            words.append(f" {{instance name: {notes[INSTANCE_NAME]}}}")
        pairs = node.attributes.get(PRIMITIVE_ATTRIBUTES)
        if pairs is not None:
            inner = ", ".join(f"{name}: {value}" for name, value in pairs)
            words.append(f" {PRIMITIVE_ATTRIBUTES}: {{{inner}}}")
        groups = [(name, inner) for name, inner in notes.items() if name not in OWN]
        words += [f" {name}: {{{inner}}}" if name else f" {{{inner}}}" for name, inner in groups]
        return "".join(words)

    def types(self, node: Apply) -> str:
        """The line of types: as it was read where it still says the operands' and the result's types."""
        operands = ", ".join(self.abstract(operand) for operand in node.operands)
        return f"({operands})" + ("" if node.function is RETURN else f" -> ({self.abstract(node)})")

    def abstract(self, node: Node) -> str:
        """What is known of a value: as it was read where that still says the type."""
        written = self.notes[node].get(ABSTRACT) if node in self.notes else None
        is_value = isinstance(node, Apply) and node.function is VALUE_ROW
        if written is not None and (is_value or written == UNKNOWN or type_of(written) is node.type):
            return written
        return abstract_of(node.type)

    def debug_name(self, node: Node) -> str:
        written = self.notes[node].get(DEBUG_NAME)
        is_own = written is not None and _SUFFIX.sub("", node.name) in (written, f"%{self.names[node]}")
        return written if is_own and written is not None else node.name

    def operand(self, node: Node, graph: Graph) -> str:
        if isinstance(node, Missing):
            return node.name
        if isinstance(node, Constant):
            return self.constant(node)
        if isinstance(node, Apply) and node.function is VALUE_ROW:
            return str(node.attributes[VALUE])
        if node.graph is graph:
            return f"%{self.names[node]}"
        name = self.names[node] if node in self.parameters else self.debug_name(node)
        return f"$(@{node.graph.name}:{name})"

    def constant(self, node: Constant) -> str:
        value = node.value
        if isinstance(value, Graph):
            return f"@{value.name}"
        if not isinstance(value, Literal):
            raise Unsupported(f"{node!r} is an op as a value, which no .ir text can say")
        written = self.notes[node].get(TEXT)
        if written is not None and _says(written, value):
            return written
        return tensor_text(value)


def _says(written: str, value: Literal) -> bool:
    """Whether a text writes a literal; texts that leave the data out say those of an elided literal."""
    read: Value = read_value(written)
    if not isinstance(read, Literal) or read.type is not value.type:
        return False
    return value.is_elided if read.is_elided else read == value
