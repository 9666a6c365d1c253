"""Reads plain attributes at once from their text, without tokenising.

Plain means: values that print exactly as written, and known computations, in the order of the op's row, so that the
printed form is known too. A backend config in braces may follow. Everything else goes to `read_attributes`, which must
agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hloom.formats.hlo.attribute_printer import is_balanced, write_value
from hloom.formats.hlo.attribute_reader import says_nothing
from hloom.formats.hlo.line_memos import MEMORABLE
from hloom.formats.hlo.value_reader import READERS
from hloom.ir import EMPTY, Attribute, AttributeKind, Attributes, Graph, Op
from hloom.ops import OPS
from hloom.text import Cursor, HloomError, Source

LONGEST = 1 << 12
"""Longer texts, in characters, are read token by token, without caching."""

_K = AttributeKind
_CONFIG, _FRONTEND = "backend_config", "frontend_attributes"
_BEFORE_CONFIG, _BEFORE_FRONTEND = f", {_CONFIG}=", f", {_FRONTEND}="
_INTEGER = re.compile(r"0|[1-9][0-9]{0,17}")
_INTEGERS = re.compile(rf"\{{(?:(?:{_INTEGER.pattern})(?:,(?:{_INTEGER.pattern}))*+)?\}}")
_BOOLEANS = {"true": True, "false": False}
_REFERENCES = frozenset(name for op in OPS.values() for name, row in op.attributes.items() if row.kind is _K.GRAPH)
"""The attributes that name computations."""
_ONE_REFERENCE = re.compile(r"(|, .*), (to_apply|calls)=%?([A-Za-z_][A-Za-z0-9_.-]*+)")
_AS_PRINTED = frozenset(
    (
        *(_K.SLICES, _K.WINDOW, _K.PADDING, _K.DIMENSION_LABELS, _K.PRECISIONS, _K.BOOLEANS, _K.PAIRS, _K.STRING),
        *(_K.TYPES, _K.ALIASING, _K.SHARDING, _K.FRONTEND),
    )
)
"""Kinds whose values are printed to check that they print exactly as written."""


def read_plain_attributes(op: Op, text: str, graphs: Mapping[str, Graph]) -> Attributes | None:
    """The attributes after the operands, without metadata; None if any of them is not plain."""
    if not text.startswith(", ") or len(text) > LONGEST:
        return None
    single = None if text.endswith("}") else _ONE_REFERENCE.fullmatch(text)
    if single:
        head, name, called = single.groups()
        graph = graphs.get(called)
        if graph is None or graph.name != called or (before := _before_reference(op, head, name)) is None:
            return None
        return Attributes.of_reference(before, name, graph, f"{head}, {name}=%{called}")
    head, separator, config = text.partition(_BEFORE_CONFIG)
    values: dict[str, Any] = {}
    pieces = _pieces(head)
    least = 0
    for index, piece in enumerate(pieces):
        name, _, word = piece.partition("=")
        if name in _REFERENCES:
            called = word.removeprefix("%")
            graph = graphs.get(called)
            rank = _ranks(op).get(name, -1)
            if graph is None or graph.name != called:
                return None
            values[name] = graph
            pieces[index] = f"{name}=%{called}"
        else:
            known = (_plain_attribute if len(piece) < MEMORABLE else _plain_attribute.__wrapped__)(op, piece)
            if known is None:
                return None
            rank, values[name] = known
        if rank < least:
            return None
        least = rank + 1
    if separator:
        if _ranks(op).get(_CONFIG, -1) < least or not is_balanced(config):
            return None
        values[_CONFIG] = config
    attributes = Attributes(values)
    plain = f", {', '.join(pieces)}" if pieces else ""
    if separator:
        attributes.parts = plain, f", {_CONFIG}={config}"
    else:
        attributes.text = plain
    return attributes


@lru_cache(maxsize=1024)
def _before_reference(op: Op, head: str, name: str) -> Attributes | None:
    """The attributes before the last one, which refers to a computation; None if they are not plain."""
    before = read_plain_attributes(op, head, {}) if head else EMPTY
    ranks = _ranks(op)
    if before is None or before.parts or name not in ranks or any(ranks[other] >= ranks[name] for other in before):
        return None
    return before


def _pieces(text: str) -> list[str]:
    """The text of each attribute; not reliable if a value contains text that looks like another attribute."""
    text, separator, frontend = text.partition(_BEFORE_FRONTEND)
    pieces = text[2:].split(", ") if text else []
    if "[" in text:
        for index in range(len(pieces) - 1, 0, -1):
            if "=" not in pieces[index]:
                pieces[index - 1 : index + 1] = [f"{pieces[index - 1]}, {pieces[index]}"]
    return [*pieces, f"{_FRONTEND}={frontend}"] if separator else pieces


@lru_cache(maxsize=1024)
def _ranks(op: Op) -> dict[str, int]:
    """The position of each attribute in its op's row."""
    return {name: rank for rank, name in enumerate(op.attributes)}


@lru_cache(maxsize=8192)
def _plain_attribute(op: Op, text: str) -> tuple[int, Any] | None:
    """The rank and the value of `name=value`; None if it is not plain or equals the default."""
    name, _, word = text.partition("=")
    attribute = op.attributes.get(name)
    value = None if attribute is None else _plain_value(attribute, word)
    if value is None and attribute is not None and attribute.kind in _AS_PRINTED:
        value = _as_printed(op, name, attribute, word)
    return None if value is None or says_nothing(op, name, value) else (_ranks(op)[name], value)


def _plain_value(attribute: Attribute, word: str) -> Any:
    if attribute.kind is _K.INTEGERS and _INTEGERS.fullmatch(word):
        return tuple(map(int, word[1:-1].split(","))) if word != "{}" else ()
    if attribute.kind is _K.INTEGER and _INTEGER.fullmatch(word):
        return int(word)
    if attribute.kind is _K.BOOLEAN:
        return _BOOLEANS.get(word)
    return word if attribute.kind is _K.ENUM and word in attribute.choices else None


def _as_printed(op: Op, name: str, attribute: Attribute, word: str) -> Any:
    """The value if it prints exactly as written."""
    cursor = Cursor(Source(word))
    try:
        value = READERS[attribute.kind](cursor)
    except HloomError:
        return None
    return value if cursor.position == len(word) and write_value(op, name, value, str) == word else None
