"""Reading the literals of HLO text: what stands inside `constant(...)` and after `literal=`."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from hloom.hlo.array_reader import ArrayReader
from hloom.hlo.fast_array_reader import read_plain_array
from hloom.ir import MOST_DIMENSIONS, UNBOUNDED, Literal, TensorType, TupleType, Type
from hloom.text import Cursor

DEEPEST_TUPLE = 1000
"""How deep tuples may nest where the text alone says how deep they do."""

_PLAIN_NUMBER = re.compile(
    r"-?[0-9]{1,15}(\.[0-9]*+(?:[eE][+-]?[0-9]{1,3})?|[eE][+-]?[0-9]{1,3})?(?=[ \t\r\n]*(?:\)|\Z))"
)
_SCALARS: dict[str, Callable[[str], int | float]] = {"f32": float, "f64": float, "s32": int, "s64": int}
_SAFE = 2**31
"""Numbers below this fit into all of these types."""
ELIDED = re.compile(r"\{[ \t\r\n]*+\.\.\.[ \t\r\n]*+\}")


def read_literal(cursor: Cursor, type: Type) -> Literal:
    """The literal of this type at the cursor, up to and without the closing parenthesis of `constant(...)`.

    Numbers become what XLA's parser makes of them; `{...}` gives an elided literal. Dynamic dimensions become
    static, at their bounds. Raises ParseError, at the offending token, where XLA refuses or aborts, and for a
    tuple's `()` that lacks elements. A tuple written `{...}`, as XLA prints it and does not read it, is elided.
    """
    if isinstance(type, TensorType):
        return _read_array(cursor, type)
    if not isinstance(type, TupleType):
        raise cursor.error(f"a constant cannot be of type {type}")
    if cursor.match(ELIDED):
        return Literal.elided(type)
    return _read_tuple(cursor, type)


def read_typed_literal(cursor: Cursor, read_type: Callable[[Cursor], Type]) -> Literal:
    """A literal that brings its types along, `s32[] 1` or `(s32[] 1, f32[2]{0} {1,2})`."""
    open_tuples: list[list[Literal]] = []
    while True:
        if cursor.at("("):
            if len(open_tuples) == DEEPEST_TUPLE:
                raise cursor.error(f"tuples nest deeper than {DEEPEST_TUPLE}")
            cursor.expect("(")
            open_tuples.append([])
            continue
        if open_tuples and cursor.accept(")"):
            made = Literal.tuple(open_tuples.pop())
        else:
            made = read_literal(cursor, read_type(cursor))
        if not open_tuples:
            return made
        open_tuples[-1].append(made)
        cursor.accept(",")


def _read_tuple(cursor: Cursor, type: TupleType) -> Literal:
    """A tuple; as in XLA, the commas between elements may be missing."""
    cursor.expect("(", "before a tuple's elements")
    stack: list[tuple[TupleType, list[Literal]]] = [(type, [])]
    while True:
        current, done = stack[-1]
        if len(done) == len(current.elements):
            cursor.expect(")", f"after a tuple's {len(done)} elements")
            stack.pop()
            made = Literal.tuple(done)
            if not stack:
                return made
            stack[-1][1].append(made)
            continue
        if done:
            cursor.accept(",")
        element = current.elements[len(done)]
        if isinstance(element, TupleType) and not cursor.at("{"):
            cursor.expect("(", "before a tuple's elements")
            stack.append((element, []))
        else:
            done.append(read_literal(cursor, element))


def _read_plain_scalar(cursor: Cursor, type: TensorType) -> Literal | None:
    """A scalar of the commonest types, spelt in the commonest way; None where the careful way must look at it."""
    parse = _SCALARS.get(type.dtype.name)
    match = parse and _PLAIN_NUMBER.match(cursor.text, cursor.skip(), cursor.end)
    if not parse or not match or (match[1] and parse is int):
        return None
    number = parse(match[0])
    if abs(number) >= _SAFE or (number == 0 and match[0].startswith("-")):
        return None
    cursor.position = match.end()
    return Literal.adopt(type, np.array(number, type.dtype.numpy))


def _read_array(cursor: Cursor, type: TensorType) -> Literal:
    scalar = None if type.dims else _read_plain_scalar(cursor, type)
    if scalar is not None:
        return scalar
    if UNBOUNDED in type.dims:
        raise cursor.error(f"a constant cannot be of type {type}, whose size is unbounded")
    if type.rank > MOST_DIMENSIONS:
        raise cursor.error(f"a constant has at most {MOST_DIMENSIONS} dimensions, {type} has {type.rank}")
    static = TensorType(type.dtype, type.dims, type.layout)
    if type.rank and type.element_count and cursor.match(ELIDED):
        return Literal.elided(static)
    plain = read_plain_array(cursor, static)
    if plain is not None:
        return Literal.adopt(static, plain)
    return ArrayReader(cursor, static).read()
