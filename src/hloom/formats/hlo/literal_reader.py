"""Reads literals of HLO text: inside `constant(...)` and after `literal=`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hloom.formats.hlo.array_reader import ArrayReader
from hloom.formats.hlo.fast_array_reader import WORTHWHILE, read_plain_array
from hloom.ir import (
    MOST_DIMENSIONS,
    UNBOUNDED,
    DType,
    Literal,
    TensorType,
    TupleType,
    Type,
    component,
    integer_range,
    nested_texts,
)
from hloom.text import Cursor

DEEPEST_TUPLE = 1000
"""The maximum nesting depth of tuples where only the text determines it."""

_FRACTION = r"\.[0-9]*+(?:[eE][+-]?[0-9]{1,3})?|[eE][+-]?[0-9]{1,3}"
_BEFORE_THE_END = r"(?=[ \t\r\n]*(?:\)|\Z))"
_PLAIN_NUMBER = re.compile(rf"-?[0-9]{{1,15}}({_FRACTION})?{_BEFORE_THE_END}")
_PLAIN_PAIR = re.compile(rf"\((-?[0-9]{{1,15}}(?:{_FRACTION})?), (-?[0-9]{{1,15}}(?:{_FRACTION})?)\){_BEFORE_THE_END}")
_PLAIN_WORD = re.compile(rf"(?:true|false|nan|-?inf){_BEFORE_THE_END}")
_NUMBER = re.compile(rf"-?[0-9]{{1,15}}(?:{_FRACTION})?+")
_FEW_NUMBERS = re.compile(rf"\{{[-+.0-9eE{{}}, ]*+(?<=\}}){_BEFORE_THE_END}")
_INTEGERS = ("s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64")
_SCALARS: dict[str, Callable[[str], int | float]] = {"f32": float, "f64": float, **dict.fromkeys(_INTEGERS, int)}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_WORDS: dict[str, dict[str, float]] = {"pred": {"true": True, "false": False}, "f32": _FLOATS, "f64": _FLOATS}
_SAFE = 2**31
"""Numbers of smaller magnitude fit into every signed type of at least 32 bits."""
_FEW = WORTHWHILE
"""Arrays with fewer elements are read one element at a time."""
ELIDED = re.compile(r"\{[ \t\r\n]*+\.\.\.[ \t\r\n]*+\}")


def read_literal(cursor: Cursor, type: Type) -> Literal:
    """The literal of this type at the cursor, up to but not including the closing parenthesis of `constant(...)`.

    Numbers are converted as by XLA's parser; `{...}` gives an elided literal. Dynamic dimensions become static, at
    their bounds. Raises ParseError, at the offending token, where XLA refuses or aborts, and for a tuple's `()` that
    lacks elements. A tuple written `{...}`, which XLA prints but cannot read, is elided.
    """
    if isinstance(type, TensorType):
        return _read_array(cursor, type)
    if not isinstance(type, TupleType):
        raise cursor.error(f"a constant cannot be of type {type}")
    if cursor.match(ELIDED):
        return Literal.elided(type)
    return _read_tuple(cursor, type)


def read_typed_literal(cursor: Cursor, read_type: Callable[[Cursor], Type]) -> Literal:
    """A literal that includes its types, `s32[] 1` or `(s32[] 1, f32[2]{0} {1,2})`."""
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
    """A scalar of a common type in its common spelling; None sends it to the careful path."""
    dtype, start = type.dtype, cursor.skip()
    if dtype.is_complex:
        pair = _PLAIN_PAIR.match(cursor.text, start, cursor.end)
        parts = _plain_values(pair.groups(), component(dtype)) if pair else None
        return _adopted(cursor, pair, type, None if parts is None else complex(*parts))
    if word := _PLAIN_WORD.match(cursor.text, start, cursor.end):
        return _adopted(cursor, word, type, _WORDS.get(dtype.name, {}).get(word[0]))
    match = _PLAIN_NUMBER.match(cursor.text, start, cursor.end) if dtype.name in _SCALARS else None
    values = _plain_values((match[0],), dtype) if match else None
    return _adopted(cursor, match, type, values and values[0])


def _read_few(cursor: Cursor, type: TensorType) -> Literal | None:
    """A small array in printed form; None sends it to the careful path."""
    if type.dtype.name not in _SCALARS or len(type.dims) > 3 or type.element_count >= _FEW:
        return None
    if math.prod(type.dims[:-1]) >= _FEW:  # rows may be empty
        return None
    match = _FEW_NUMBERS.match(cursor.text, cursor.skip(), cursor.end)
    if match is None or _NUMBER.sub("0", match[0]) != _zeros(type.dims):
        return None
    values = _plain_values(_NUMBER.findall(match[0]), type.dtype)
    return _adopted(cursor, match, type, values)


@lru_cache(maxsize=256)
def _zeros(dims: tuple[int, ...]) -> str:
    """How an array of zeros is printed."""
    return nested_texts(["0"] * math.prod(dims), dims)


def _plain_values(words: Sequence[str], dtype: DType) -> list[int | float] | None:
    """The numbers of an array; None if one is large, -0 or not of this type."""
    parse = _SCALARS[dtype.name]
    try:
        values = [parse(word) for word in words]
    except ValueError:
        return None
    low, high = integer_range(dtype) if parse is int else (-_SAFE + 1, _SAFE - 1)
    is_within = all(max(low, -_SAFE + 1) <= value <= min(high, _SAFE - 1) for value in values)
    return values if is_within and not (0 in values and any(word.startswith("-0") for word in words)) else None


def _adopted(cursor: Cursor, match: re.Match[str] | None, type: TensorType, values: Any) -> Literal | None:
    """The literal of the matched values, moving the cursor past it; None if there are none."""
    if match is None or values is None:
        return None
    cursor.position = match.end()
    return Literal.adopt(type, np.array(values, type.dtype.numpy).reshape(type.dims))


def _read_array(cursor: Cursor, type: TensorType) -> Literal:
    scalar = None if type.dims else _read_plain_scalar(cursor, type)
    if scalar is not None:
        return scalar
    if UNBOUNDED in type.dims:
        raise cursor.error(f"a constant cannot be of type {type}, whose size is unbounded")
    if type.rank > MOST_DIMENSIONS:
        raise cursor.error(f"a constant has at most {MOST_DIMENSIONS} dimensions, {type} has {type.rank}")
    if math.prod([size or 1 for size in type.dims]) * type.dtype.numpy.itemsize >= 1 << 63:
        raise cursor.error(f"{type} is larger than numpy's arrays can be")
    static = TensorType(type.dtype, type.dims, type.layout)
    if type.element_count and cursor.match(ELIDED):
        return Literal.elided(static)
    few = _read_few(cursor, static)
    if few is not None:
        return few
    plain = read_plain_array(cursor, static)
    if plain is not None:
        return Literal.adopt(static, plain)
    return ArrayReader(cursor, static).read()
