"""Reads large, plainly written arrays at once, without tokenising.

Plain means: full nesting, one token per element, separators between them, no comments except XLA's `/*i0=1*/`, no true
and false, no NaN payloads. Everything else goes to `ArrayReader`, which must agree.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np

from hloom.ir import TensorType, from_doubles, from_integers, from_pairs
from hloom.text import Cursor

WORTHWHILE = 64
"""The minimum number of elements for which this is faster."""

_SEPARATORS = b" \t\r\n,{}()"
_TO_BLANKS = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_IS_TOKEN = np.array([byte not in _SEPARATORS for byte in range(256)])
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}()")
_COMMENT = re.compile(rb"/\*[^*]*+\*/")
_SAFE_DIGITS = 18
"""Integers of up to this many characters fit into 64 bits."""


def read_plain_array(cursor: Cursor, type: TensorType) -> np.ndarray | None:
    """The array at the cursor; None, without moving the cursor, if it is small, not plain, or wrong."""
    if not type.rank or type.element_count < WORTHWHILE:
        return None
    extent = _extent(type.rank, type.dtype.is_complex, type.dtype.is_float).match(
        cursor.text, cursor.skip(), cursor.end
    )
    if extent is None:
        return None
    text = _COMMENT.sub(b" ", extent[0].encode("ascii"))
    places = _element_places(text, type)
    if places is None:
        return None
    read = _read_doubles if type.dtype.is_float or type.dtype.is_complex else _read_integers
    values = read(text, places)
    if values is None:
        return None
    convert = from_pairs if type.dtype.is_complex else from_doubles if type.dtype.is_float else from_integers
    elements, refused = convert(values, type.dtype)
    if refused.any():
        return None
    cursor.position = extent.end()
    return elements.reshape(type.dims)


@lru_cache(maxsize=256)
def _extent(rank: int, is_complex: bool, is_float: bool) -> re.Pattern[str]:
    """Matches from an opening brace to the first run of closing braces as long as the rank."""
    characters = "-0-9{, \\t\\r\\n" + ("+.eEinfa" if is_float or is_complex else "") + ("()" if is_complex else "")
    closing = rf"\}}(?:[ ,\t\r\n]*+\}}){{{rank - 1}}}"
    return re.compile(rf"\{{(?:[{characters}]++|/\*i[0-9]++=[0-9]++\*/|(?!{closing})\}})*+{closing}")


def _element_places(text: bytes, type: TensorType) -> np.ndarray | None:
    """The position of each number; None unless brackets and counts match the type."""
    shape = (*type.dims, 2) if type.dtype.is_complex else type.dims
    data = np.frombuffer(text, np.uint8)
    is_token = _IS_TOKEN[data]
    places = np.flatnonzero(is_token[1:] & ~is_token[:-1]) + 1
    if places.size != math.prod(shape) or not _brackets_fit(text, type):
        return None
    brackets = np.flatnonzero((data == ord("{")) | (data == ord("}")) | (data == ord("(")) | (data == ord(")")))
    opens = _is_either(data[brackets], b"{(")
    innermost = np.flatnonzero(opens[:-1] & ~opens[1:])
    first, last = brackets[innermost], brackets[innermost + 1]
    if not (np.searchsorted(places, last) - np.searchsorted(places, first) == shape[-1]).all():
        return None
    if type.dtype.is_complex and not _commas_fit(np.flatnonzero(data == ord(",")), first, places, last):
        return None
    return places


def _brackets_fit(text: bytes, type: TensorType) -> bool:
    """Whether the brackets match the type; their number is compared before the expected ones are built."""
    brackets = text.translate(None, _NOT_BRACKETS)
    pairs = sum(math.prod(type.dims[:level]) for level in range(type.rank))
    if len(brackets) != 2 * (pairs + (type.element_count if type.dtype.is_complex else 0)):
        return False
    expected = b"{" + b"()" * (type.dims[-1] if type.dtype.is_complex else 0) + b"}"
    for size in reversed(type.dims[:-1]):
        expected = b"{" + expected * size + b"}"
    return brackets == expected


def _commas_fit(commas: np.ndarray, first: np.ndarray, places: np.ndarray, last: np.ndarray) -> bool:
    """Whether every complex number has one comma, between its parts."""
    before, real, imaginary, after = (
        np.searchsorted(commas, positions) for positions in (first, places[::2], places[1::2], last)
    )
    return bool(((before == real) & (imaginary == real + 1) & (imaginary == after)).all())


def _read_doubles(text: bytes, places: np.ndarray) -> np.ndarray | None:
    data = np.frombuffer(text, np.uint8)
    plus = np.flatnonzero(data == ord("+"))
    if (data[places] == ord(".")).any() or not _is_either(data[plus - 1], b"eE").all():
        return None
    values = _read_numbers(text, places, np.float64)
    if values is None:
        return None
    with np.errstate(all="ignore"):
        odd = ~np.isfinite(values) | (np.abs(values) >= 2.0**63) | ((values == 0) & np.signbit(values))
    known: dict[bytes, float | None] = {}
    for index in np.flatnonzero(odd).tolist():
        word = _word(text, int(places[index]))
        value = known.setdefault(word, _odd_value(word))
        if value is None:
            return None
        values[index] = value
    return values


def _odd_value(word: bytes) -> float | None:
    """The value of a special number: infinite, NaN, huge, or negative zero."""
    if word in (b"inf", b"-inf", b"nan", b"-nan"):
        return math.copysign(float(word.lstrip(b"-")), -1 if word.startswith(b"-") else 1)
    if word.lstrip(b"-").isdigit():
        return None if word.strip(b"-0") else 0.0
    value = float(word)
    return value if math.isfinite(value) else None


def _read_integers(text: bytes, places: np.ndarray) -> np.ndarray | None:
    data = np.frombuffer(text, np.uint8)
    minus = np.flatnonzero(data == ord("-"))
    if _IS_TOKEN[data[minus - 1]].any() or not _IS_TOKEN[data[minus + 1]].all():
        return None
    values = _read_numbers(text, places, np.int64)
    if values is None:
        return None
    ends = np.flatnonzero(_IS_TOKEN[data[:-1]] & ~_IS_TOKEN[data[1:]]) + 1
    for index in np.flatnonzero(ends - places > _SAFE_DIGITS).tolist():
        word = text[places[index] : ends[index]]
        value = int(word) if len(word) < 40 else 2**64
        if not -(2**63) <= value < 2**64:
            return None
        values[index] = value - 2**64 if value >= 2**63 else value
    return values


def _read_numbers(text: bytes, places: np.ndarray, numpy_dtype: type) -> np.ndarray | None:
    """The numbers between blanks, if there are as many as positions."""
    try:
        values = np.fromstring(text.translate(_TO_BLANKS), numpy_dtype, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    return values if values.size == places.size else None


def _word(text: bytes, position: int) -> bytes:
    end = position
    while _IS_TOKEN[text[end]]:
        end += 1
    return text[position:end]


def _is_either(data: np.ndarray, characters: bytes) -> np.ndarray:
    """Where each of the bytes is one of two characters; np.isin would import numpy.ma, which takes 26 ms."""
    first, second = characters
    return (data == first) | (data == second)
