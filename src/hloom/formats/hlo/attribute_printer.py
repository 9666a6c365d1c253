"""Prints attribute values as HLO text: one writer per kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from hloom.ir import (
    PROTO_FIELDS,
    AttributeKind,
    Op,
    Verbatim,
    format_typed_literal,
)
from hloom.text import escape

_K = AttributeKind
_BRACE = re.compile(r"[{}]")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

Name = Callable[[Any], str]
"""Returns the name of a graph or a node in the text."""


def write_attributes(op: Op, attributes: Mapping[str, Any], name_of: Name, limit: int | None) -> str:
    """`, name=value` for every attribute; literals with more than `limit` elements are elided."""
    rows, parts = op.attributes, []
    for name, value in attributes.items():
        row = rows.get(name)
        if row is not None and row.kind is _K.INTEGERS and type(value) is tuple:  # by far the most common kind
            parts.append(f", {name}={_integers(value)}")
        elif row is not None and row.kind is _K.GRAPH:
            parts.append(f", {name}={name_of(value)}")
        elif name != PROTO_FIELDS:
            parts.append(f", {name}={write_value(op, name, value, name_of, limit)}")
    return "".join(parts)


def write_value(op: Op, name: str, value: Any, name_of: Name, limit: int | None = None) -> str:
    """One attribute's value, written as the op's row specifies."""
    attribute = op.attributes.get(name)
    if attribute is None or isinstance(value, Verbatim):
        return str(value)
    attribute_kind = attribute.kind
    writer = _WRITERS.get(attribute_kind)
    if writer is not None:
        return writer(value)
    if attribute_kind is _K.GRAPH:
        return name_of(value)
    if attribute_kind is _K.LITERAL:
        return format_typed_literal(value, limit=limit)
    return "{" + ", ".join(map(name_of, value)) + "}"


def write_boolean(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def write_booleans(values: tuple[bool, ...]) -> str:
    """`{true,false}`."""
    return "{" + ",".join(map(write_boolean, values)) + "}"


def write_string(value: str) -> str:
    """The text in quotes, escaped."""
    return f'"{escape(value)}"'


def write_braced_or_quoted(value: str) -> str:
    """Bare if it reads back as balanced braces, else quoted."""
    return value if is_balanced(value) else write_string(value)


def write_frontend(values: tuple[tuple[str, str], ...]) -> str:
    """`{key="text",other={json}}`."""
    return "{" + ",".join(f"{key}={write_braced_or_quoted(value)}" for key, value in values) + "}"


def is_balanced(value: str) -> bool:
    """Whether a text is a single pair of matching braces with its contents, in plain ASCII."""
    if not (value.startswith("{") and value.endswith("}") and value.isascii()) or "\0" in value:
        return False
    is_plain = "\\" not in value and value.count('"') % 2 == 0
    outside = "".join(value.split('"')[::2] if is_plain else _STRING.split(value))
    if '"' in outside:
        return False
    braces = _BRACE.findall(outside)
    depth = 0
    for count, brace in enumerate(braces, 1):
        depth += 1 if brace == "{" else -1
        if depth == 0:
            return count == len(braces)
    return False


def write_float(value: float) -> str:
    """A number with the fewest digits that read back as the same value."""
    return repr(value).removesuffix(".0")


@lru_cache(maxsize=1024)
def _integers(values: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _padding(dimensions: tuple[Any, ...]) -> str:
    interior = any(dimension.interior for dimension in dimensions)
    parts = (f"{d.low}_{d.high}_{d.interior}" if interior else f"{d.low}_{d.high}" for d in dimensions)
    return "x".join(parts)


def _slices(dimensions: tuple[Any, ...]) -> str:
    strided = any(dimension.stride != 1 for dimension in dimensions)
    parts = (f"[{d.start}:{d.limit}:{d.stride}]" if strided else f"[{d.start}:{d.limit}]" for d in dimensions)
    return "{" + ", ".join(parts) + "}"


_WRITERS: dict[AttributeKind, Callable[[Any], str]] = {
    _K.INTEGER: str,
    _K.BOOLEAN: write_boolean,
    _K.FLOAT: write_float,
    _K.STRING: write_string,
    _K.ENUM: str,
    _K.INTEGERS: _integers,
    _K.BOOLEANS: write_booleans,
    _K.PAIRS: lambda pairs: "{" + ",".join(map(_integers, pairs)) + "}",
    _K.TYPE: str,
    _K.TYPES: lambda types: "{" + ", ".join(map(str, types)) + "}",
    _K.WINDOW: str,
    _K.DIMENSION_LABELS: str,
    _K.PADDING: _padding,
    _K.SLICES: _slices,
    _K.PRECISIONS: lambda words: "{" + ",".join(words) + "}",
    _K.REPLICA_GROUPS: str,
    _K.ALIASING: lambda aliases: "{" + ", ".join(map(str, aliases)) + "}",
    _K.DOMAIN: str,
    _K.SPARSITY: str,
    _K.SHARDING: str,
    _K.FRONTEND: write_frontend,
    _K.STATISTICS: str,
    _K.ACCURACY: str,
    _K.ORIGIN: str,
    _K.BACKEND_CONFIG: write_braced_or_quoted,
    _K.VERBATIM: str,
}
