"""Nodes as text: labels, attributes, constants, and where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hloom.inspection.viz.drawing import DrawnNode
from hloom.inspection.viz.opcode_families import family
from hloom.ir import (
    Attributes,
    Constant,
    Literal,
    Module,
    Node,
    Parameter,
    Referent,
    TensorType,
    Type,
    format_literal,
    without_layout,
)
from hloom.text import unescape, visible

LINE = 80
"""The maximum number of characters of a line of a label."""
TEXT = 1000
"""The maximum number of characters of an attribute's text, and of elements of a list to format."""
SMALL = 8
"""The maximum number of elements of a literal to show all of them."""
HIDDEN = {
    "backend_config",
    "control-predecessors",
    "frontend_attributes",
    "operand_precision",
    "origin",
    "parameter_replication",
    "result_accuracy",
    "sharding",
    "statistics",
}
"""The attributes that a label leaves out or, of sharding, shows on a line of its own."""

_FIELD = re.compile(
    r"""\s*+([a-z_]++)=(?:"((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'|(-?[0-9]++)|(\{[^}]*+\}))[\s,]*+""", re.DOTALL
)


def clean(text: str) -> str:
    r"""Put escapes for what no text format can hold, or what turns the text around it: control characters and the like.

    >>> clean("a\0b")
    'a\\000b'
    """
    return visible(text)


def shorten(text: str, limit: int) -> str:
    """Cut a text that is longer than the limit, and show the cut.

    >>> shorten("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= limit else text[: limit - 3] + "..."


def metadata_fields(text: str) -> dict[str, str | int]:
    r"""Read metadata's raw text in one pass, up to the first thing that is malformed: a drawing is never refused.

    >>> metadata_fields(r'op_name="jit(f)/\"a\"" source_line=3')
    {'op_name': 'jit(f)/"a"', 'source_line': 3}
    """
    fields: dict[str, str | int] = {}
    match = _FIELD.match(text)
    while match:
        name, double, single, number, group = match.groups()
        if number is not None:
            fields[name] = int(number[:40])
        else:
            string = double if double is not None else single
            fields[name] = clean(group if string is None else _unescaped(string))
        match = _FIELD.match(text, match.end())
    return fields


def identify(nodes: Iterable[Node]) -> dict[Node, str]:
    """A unique id for each node: the graph's name, a slash, the node's name."""
    identifiers: dict[Node, str] = {}
    taken: dict[str, int] = {}
    for node in nodes:
        stem = identifier = clean(f"{node.graph.name}/{node.name}")
        while identifier in taken:
            taken[stem] += 1
            identifier = f"{stem}#{taken[stem]}"
        taken[identifier] = 1
        identifiers[node] = identifier
    return identifiers


@dataclass(frozen=True, slots=True)
class _Origin:
    fields: Mapping[str, str | int]
    scope: str
    location: str


class Describer:
    """Describes the nodes of a module; what many nodes share is made into text once."""

    def __init__(self, module: Module) -> None:
        self._tables = module.stack_tables
        self._origins: dict[str | None, _Origin] = {None: _Origin({}, "", "")}
        self._types: dict[Type | None, tuple[str, str]] = {None: ("?", "?")}
        self._attributes: dict[int, tuple[Mapping[str, str], str]] = {}

    def describe(self, node: Node, identifier: str, *, is_cut: bool = False) -> DrawnNode:
        """One node as text."""
        origin = self._origin(node.raw_metadata)
        type_text, short_type = self._type(node.type)
        attributes, shown = self._attribute_texts(node.attributes)
        opcode, name, value = clean(node.opcode), clean(node.name), constant_text(node)
        number = node.number if isinstance(node, Parameter) else None
        head = f"{opcode} {value}" if number is None else f"{opcode} {number}"
        return DrawnNode(
            id=identifier,
            name=name,
            label=f"{shorten(name, LINE)}\n{shorten(head.rstrip(), LINE)}\n{shown}{short_type}",
            opcode=opcode,
            family=family(opcode),
            type=type_text,
            scope=origin.scope,
            computation=clean(node.graph.name),
            attributes=attributes,
            metadata=origin.fields,
            location=origin.location,
            value=value,
            number=number,
            operand_count=len(node.operands),
            is_scalar=isinstance(node.type, TensorType) and not node.type.dims,
            is_output=node.is_output,
            is_cut=is_cut,
        )

    def _type(self, type_: Type | None) -> tuple[str, str]:
        cached = self._types.get(type_)
        if cached is None:
            assert type_ is not None, "the text of no type is given"
            cached = str(type_), shorten(str(without_layout(type_)), LINE)
            self._types[type_] = cached
        return cached

    def _attribute_texts(self, attributes: Attributes) -> tuple[Mapping[str, str], str]:
        cached = self._attributes.get(id(attributes))
        if cached is None:
            texts = {clean(name): attribute_text(value) for name, value in attributes.items()}
            cached = texts, _shown(texts)
            self._attributes[id(attributes)] = cached
        return cached

    def _origin(self, raw: str | None) -> _Origin:
        cached = self._origins.get(raw)
        if cached is None:
            assert raw is not None, "the origin of no metadata is given"
            fields = metadata_fields(raw)
            cached = _Origin(fields, str(fields.get("op_name", "")), self._location(fields))
            self._origins[raw] = cached
        return cached

    def _location(self, fields: Mapping[str, str | int]) -> str:
        if "source_file" in fields:
            line = fields.get("source_line")
            return f"{fields['source_file']}:{line}" if line else str(fields["source_file"])
        number = fields.get("stack_frame_id")
        if self._tables is None or not isinstance(number, int):
            return ""
        frames = self._tables.trace(number)
        return clean(f"{frames[0].file}:{frames[0].line}") if frames else ""


def attribute_text(value: Any) -> str:
    """An attribute's value for people to read, near to how HLO writes it, long ones cut.

    >>> attribute_text((0, 1)), attribute_text(True), attribute_text(((0, 1), (1, 0)))
    ('{0,1}', 'true', '{{0,1},{1,0}}')
    """
    if isinstance(value, tuple):
        return shorten("{" + ",".join(map(attribute_text, value[:TEXT])) + "}", TEXT)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Referent):
        return clean(value.name)  # type: ignore[attr-defined]  # graphs and nodes have names
    if isinstance(value, Literal):
        return format_literal(value, limit=SMALL) if isinstance(value.type, TensorType) else "{...}"
    return clean(shorten(str(value), TEXT))


def constant_text(node: Node) -> str:
    """The value of a constant: `{...}` for many elements, `{0, ...}` where they are all the same; else nothing."""
    if not isinstance(node, Constant):
        return ""
    value = node.value
    if not isinstance(value, Literal):
        return attribute_text(value)
    type_ = value.type
    if not isinstance(type_, TensorType):
        return "{...}"
    if value.is_splat and type_.element_count > SMALL:
        return f"{{{format_literal(Literal.splat(TensorType(type_.dtype), value.splat_value()))}, ...}}"
    return format_literal(value, limit=SMALL)


def _shown(texts: Mapping[str, str]) -> str:
    """The lines of a label that attributes make, each with its line end."""
    line = ", ".join(f"{name}={text}" for name, text in texts.items() if name not in HIDDEN)
    lines = [line, f"sharding={texts['sharding']}" if "sharding" in texts else ""]
    return "".join(shorten(text_line, LINE) + "\n" for text_line in lines if text_line)


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:
        return text
