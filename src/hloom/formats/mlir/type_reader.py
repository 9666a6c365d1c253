"""Types in a text: spelled as MLIR prints them; builtin tensors are understood, the rest is kept."""

from __future__ import annotations

import re

from hloom.formats.mlir.types import TENSOR
from hloom.text import Cursor, Unsupported, mlir_strings

DEEPEST = 100
"""How deep types, attributes and regions may nest."""

_SIMPLE = re.compile(r"(?:[su]?i[0-9]{1,5}|index|none|b?f[0-9]{1,3}|tf32|f[468]E[0-9]M[0-9][A-Z0-9]*)(?![\w$.<])")
_NAMED = re.compile(r"(?:tensor|memref|vector|tuple|complex|opaque)(?=[ \t]*<)")
_DIALECT = re.compile(r"![A-Za-z_][\w$.]*")
_SPACE = re.compile(r"[ \t\r\n]+")


def deeper(cursor: Cursor, depth: int) -> int:
    """One level further in; raises Unsupported with the place beyond the deepest."""
    if depth >= DEEPEST:
        raise Unsupported(f"nested deeper than {DEEPEST} levels", cursor.source.location(cursor.skip()))
    return depth + 1


def read_type(cursor: Cursor, aliases: dict[str, str], depth: int = 0) -> str:
    """The next type, in MLIR's spelling, aliases put in their place."""
    match = cursor.match(TENSOR) or cursor.match(_SIMPLE)
    if match:
        return match[0]
    if cursor.at("("):
        return read_function_type(cursor, aliases, depth)
    start = cursor.skip()
    name = cursor.match(_NAMED)
    if name:
        return name[0] + _inside(cursor)
    dialect = cursor.match(_DIALECT)
    if dialect is None:
        raise cursor.error(f"expected a type, found {cursor.next_token()}")
    if dialect[0] in aliases:
        return aliases[dialect[0]]
    if "." not in dialect[0] and not cursor.text.startswith("<", cursor.position):
        raise cursor.error(f"the type alias '{dialect[0]}' is not defined", start)
    opened = cursor.text.startswith("<", cursor.position)
    return dialect[0] + (_inside(cursor) if opened else "")


def read_types(cursor: Cursor, aliases: dict[str, str], depth: int = 0) -> tuple[str, ...]:
    """Types in parentheses, or one without."""
    if not cursor.accept("("):
        return (read_type(cursor, aliases, depth),)
    if cursor.accept(")"):
        return ()
    types = [read_type(cursor, aliases, depth)]
    while cursor.accept(","):
        types.append(read_type(cursor, aliases, depth))
    cursor.expect(")", "after the types")
    return tuple(types)


def read_function_type(cursor: Cursor, aliases: dict[str, str], depth: int = 0) -> str:
    """`(f32, f32) -> f32`."""
    inner = deeper(cursor, depth)
    operands = read_types(cursor, aliases, inner)
    cursor.expect("->", "in a function type")
    return function_type(operands, read_types(cursor, aliases, inner))


def function_type(operands: tuple[str, ...], results: tuple[str, ...]) -> str:
    """The spelling of a function type."""
    return f"({', '.join(operands)}) -> {result_list(results)}"


def result_list(results: tuple[str, ...]) -> str:
    """Result types behind an arrow: in parentheses unless there is one and it is not a function."""
    if len(results) == 1 and not results[0].startswith("("):
        return results[0]
    return f"({', '.join(results)})"


def _inside(cursor: Cursor) -> str:
    """What stands in angle brackets, runs of white space as one space."""
    return _SPACE.sub(" ", balanced(cursor))


_NEXT = re.compile(r'[^"<>()\[\]{}\-]*+(?:-(?!>)[^"<>()\[\]{}\-]*+)*+(->|["<>()\[\]{}])')
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


def balanced(cursor: Cursor) -> str:
    """Move over an opening bracket and all up to its closing one; the text, brackets included."""
    start = cursor.skip()
    waiting: list[str] = []
    position = start
    while True:
        match = _NEXT.match(cursor.text, position, cursor.end)
        if match is None:
            raise cursor.error(f"'{cursor.text[start]}' is never closed", start)
        position = match.end()
        sign = match[1]
        if sign == '"':
            string = mlir_strings.STRING.match(cursor.text, position - 1, cursor.end)
            if string is None:
                raise cursor.error("this string is never closed", position - 1)
            position = string.end()
        elif sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif sign != "->":
            if not waiting or waiting.pop() != sign:
                raise cursor.error(f"'{sign}' closes nothing", position - 1)
            if not waiting:
                cursor.position = position
                return cursor.text[start:position]
