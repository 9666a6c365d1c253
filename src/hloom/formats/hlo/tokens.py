"""The tokens of HLO text, as patterns, and the readers of single tokens and of lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from hloom.text import Cursor, unescape

Value = TypeVar("Value")

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*+")
NAME = re.compile(r"(?=%?([A-Za-z_][A-Za-z0-9_.-]*+))(?:%[A-Za-z_][A-Za-z0-9_.-]*+|[A-Za-z_][A-Za-z0-9_.-]*+:?)")
"""A name: after `%`, or with a colon right behind it, or bare. XLA: hlo_lexer.cc, HloLexer::LexIdentifier."""
ATTRIBUTE_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=")
INTEGER = re.compile(r"-?[0-9]++(?![A-Za-z_.])")
NUMBER = re.compile(
    r"-?(?:(?:[0-9]++(?:\.[0-9]*+)?|(?<=-)\.[0-9]++)(?:[eE][+-]?[0-9]++)?|inf\b|nan\b(?:\(0x[0-9a-fA-F]+\))?)"
)
STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)"|\'((?:[^\'\\]++|\\.)*+)\'', re.DOTALL)
_BRACED_STEP = re.compile(r'[^{}"]*+(?:"(?:[^"\\]++|\\.)*+"[^{}"]*+)*+([{}])', re.DOTALL)
_PLAIN_INTEGERS = re.compile(r"\{((?:[0-9]{1,18}(?:, ?[0-9]{1,18})*+)?)\}")

LOWEST_INTEGER = -(2**63)
"""The smallest HLO integer: that of s64."""
HIGHEST_INTEGER = 2**64
"""HLO integers are in [-2^63, 2^64); those from 2^63 on wrap to negative where a signed integer is expected."""


def parse_integer(text: str) -> int:
    """The integer of a string of digits; if it does not fit in 64 bits, any integer beyond 64 bits.

    >>> parse_integer("-0012"), parse_integer("9" * 10_000) > 2**64
    (-12, True)
    """
    if len(text) <= 20:
        return int(text)
    digits = text.lstrip("+-").lstrip("0")
    value = int(digits[:30] or "0")
    return -value if text.startswith("-") else value


def read_integer(cursor: Cursor, what: str = "an integer") -> int:
    """A 64-bit integer; one of 2^63 or more wraps, as XLA's does."""
    cursor.skip()
    start = cursor.position
    value = parse_integer(cursor.read(INTEGER, what)[0])
    if not LOWEST_INTEGER <= value < HIGHEST_INTEGER:
        raise cursor.error(f"integer {value} does not fit into 64 bits", start)
    return value - 2**64 if value >= 2**63 else value


def read_natural(cursor: Cursor, what: str = "a non-negative integer") -> int:
    """A non-negative integer."""
    start = cursor.skip()
    value = read_integer(cursor, what)
    if value < 0:
        raise cursor.error(f"expected {what}, found {value}", start)
    return value


def read_boolean(cursor: Cursor) -> bool:
    """`true` or `false`."""
    start = cursor.skip()
    word = cursor.read(IDENTIFIER, "true or false")[0]
    if word not in ("true", "false"):
        raise cursor.error(f"expected true or false, found '{word}'", start)
    return word == "true"


def read_string(cursor: Cursor, what: str = "a string") -> str:
    """A quoted string with escapes undone."""
    start = cursor.skip()
    match = cursor.read(STRING, what)
    raw = match[1] if match[1] is not None else match[2]
    try:
        return unescape(raw)
    except ValueError as problem:
        raise cursor.error(f"bad string: {problem}", start) from None


def read_braced(cursor: Cursor, what: str = "'{'") -> str:
    """Everything from `{` to its matching `}`, verbatim; strings inside are skipped."""
    start = cursor.skip()
    if not cursor.at("{"):
        raise cursor.error(f"expected {what}, found {cursor.next_token()}")
    depth, position = 0, start
    while True:
        match = _BRACED_STEP.match(cursor.text, position, cursor.end)
        if match is None:
            raise cursor.error("this '{' is never closed", start)
        position = match.end()
        depth += 1 if match[1] == "{" else -1
        if depth == 0:
            cursor.position = position
            return cursor.text[start:position]


def read_list(
    cursor: Cursor, element: Callable[[Cursor], Value], opening: str = "{", closing: str = "}", separator: str = ","
) -> tuple[Value, ...]:
    """Elements between brackets, with separators between them."""
    cursor.expect(opening)
    if cursor.accept(closing):
        return ()
    values = [element(cursor)]
    while cursor.accept(separator):
        values.append(element(cursor))
    cursor.expect(closing)
    return tuple(values)


def read_inside(cursor: Cursor, element: Callable[[Cursor], Value], opening: str = "(", closing: str = ")") -> Value:
    """One element between brackets."""
    cursor.expect(opening)
    value = element(cursor)
    cursor.expect(closing)
    return value


def read_sequence(cursor: Cursor, element: Callable[[Cursor], Value]) -> tuple[Value, ...]:
    """One or more elements, with commas between them."""
    values = [element(cursor)]
    while cursor.accept(","):
        values.append(element(cursor))
    return tuple(values)


def read_integers(cursor: Cursor) -> tuple[int, ...]:
    """`{0, 1}`."""
    plain = cursor.match(_PLAIN_INTEGERS)
    if plain:
        return tuple(map(int, plain[1].split(","))) if plain[1] else ()
    return read_list(cursor, read_integer)
