"""Attribute values in a text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hloom.formats.mlir.floats import from_bits, is_float, rounded, to_bits
from hloom.formats.mlir.type_reader import balanced, deeper, read_type
from hloom.formats.mlir.types import ELEMENTS, shaped_element
from hloom.formats.mlir.values import UNIT, Dense, OpaqueValue, Symbol, TypedArray, TypedNumber, TypeValue
from hloom.ir import EMPTY, Attributes
from hloom.text import Cursor, Source, mlir_strings

BARE = re.compile(r"[A-Za-z_][\w$.]*")
SYMBOL = re.compile(r'@(?:([A-Za-z_][\w$.\-]*)|("(?:[^"\\\n]|\\.)*"))')
NUMBER = re.compile(r"[-+]?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)")
ALIAS = re.compile(r"#[A-Za-z_0-9][\w$.]*")
_INTEGER_TYPE = re.compile(r"([su]?)i([0-9]+)|index")
_KEYWORDS = re.compile(
    r"(?:affine_map|affine_set|dense_resource|sparse|strided|distinct(?:\[[0-9]+\])?|loc)(?=[ \t]*[<(])"
)
_LONGEST_NUMBER = 1000
"""The maximum number of characters of a number: Python's parsing is quadratic in them, and no type has that many
digits.
"""
_INDEX_BITS = 64
"""The width of `index`, in bits: MLIR holds its attributes in 64."""


def parse_value(text: str) -> Any:
    """The value of an attribute's text; raises ParseError.

    >>> parse_value("[1 : si64, true]")
    (1 : si64, True)
    """
    cursor = Cursor(Source(text))
    value = ValueReader(cursor).read(0)
    if cursor.peek():
        raise cursor.error(f"expected the end, found {cursor.next_token()}")
    return value


class ValueReader:
    """Reads values at a cursor; knows the aliases that the text has defined so far."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.values: dict[str, Any] = {}
        self.types: dict[str, str] = {}
        self._memo: dict[str, Attributes] = {}

    def read(self, depth: int) -> Any:
        """The next value."""
        cursor = self.cursor
        reader = _BY_SIGN.get(cursor.peek())
        if reader is not None:
            return reader(self, depth)
        start = cursor.skip()
        word = cursor.match_ahead(BARE)
        word_value = _WORDS.get(word[0]) if word else None
        if word and word_value is not None:
            cursor.position = word.end()
            return word_value[0]
        if word and word[0] in ("dense", "array"):
            cursor.position = word.end()
            return self._dense(start) if word[0] == "dense" else self._array()
        if keyword := cursor.match(_KEYWORDS):
            text = keyword[0] + balanced(cursor)
            return OpaqueValue(text + self._type_behind())
        return TypeValue(read_type(cursor, self.types, depth))

    def read_dictionary(self, depth: int) -> Attributes:
        """`{name = value, ...}`; dictionaries of the same plain text are one object."""
        cursor = self.cursor
        plain = cursor.match(_PLAIN_DICTIONARY)
        if plain is None:
            return self._dictionary(depth)
        cached = self._memo.get(plain[0])
        if cached is None:
            cursor.position = plain.start()
            cached = self._memo[plain[0]] = self._dictionary(depth)
        return cached

    def _dictionary(self, depth: int) -> Attributes:
        cursor, inner = self.cursor, deeper(self.cursor, depth)
        cursor.expect("{")
        values: dict[str, Any] = {}
        while not cursor.at("}"):
            start = cursor.skip()
            name = self.string() if cursor.at('"') else cursor.read(BARE, "an attribute's name")[0]
            if name in values:
                raise cursor.error(f"the attribute '{name}' is given twice", start)
            values[name] = self.read(inner) if cursor.accept("=") else UNIT
            if not cursor.accept(","):
                break
        cursor.expect("}", "after the attributes")
        return Attributes(values) if values else EMPTY

    def string(self) -> str:
        """The next quoted string."""
        cursor = self.cursor
        match = cursor.read(mlir_strings.STRING, "a string")
        try:
            return mlir_strings.unescape(match[1])
        except ValueError as error:
            raise cursor.error(str(error), match.start()) from None

    def symbol(self) -> str:
        """One `@name`."""
        cursor = self.cursor
        match = cursor.read(SYMBOL, "a symbol's name")
        try:
            return match[1] or mlir_strings.unescape(match[2][1:-1])
        except ValueError as error:
            raise cursor.error(str(error), match.start()) from None

    def _string(self, depth: int) -> Any:
        start = self.cursor.skip()
        value = self.string()
        text = self.cursor.text[start : self.cursor.position]
        behind = self._type_behind()
        return OpaqueValue(text + behind) if behind else value

    def _symbol(self, depth: int) -> Symbol:
        path = [self.symbol()]
        while self.cursor.accept("::"):
            path.append(self.symbol())
        return Symbol(tuple(path))

    def _tuple(self, depth: int) -> tuple:
        cursor, inner = self.cursor, deeper(self.cursor, depth)
        cursor.expect("[")
        values: list[Any] = []
        while not cursor.at("]"):
            values.append(self.read(inner))
            if not cursor.accept(","):
                break
        cursor.expect("]", "after the values")
        return tuple(values)

    def _alias(self, depth: int) -> Any:
        cursor = self.cursor
        match = cursor.read(ALIAS, "an attribute's name")
        if match[0] in self.values:
            return self.values[match[0]]
        if cursor.text.startswith("<", cursor.position):
            return OpaqueValue(match[0] + balanced(cursor) + self._type_behind())
        if "." not in match[0]:
            raise cursor.error(f"the alias '{match[0]}' is not defined", match.start())
        return OpaqueValue(match[0] + self._type_behind())

    def _number(self, depth: int) -> Any:
        cursor = self.cursor
        match = cursor.read(NUMBER, "a number")
        text = match[0]
        is_decimal = "." in text
        type_ = read_type(cursor, self.types, depth) if cursor.accept(":") else "f64" if is_decimal else "i64"
        if type_ not in ELEMENTS and not _INTEGER_TYPE.fullmatch(type_):
            return OpaqueValue(f"{text} : {type_}")
        value = self.number(text, type_, match.start())
        if "x" in text and isinstance(value, float) and int(text, 16) != to_bits(value, ELEMENTS[type_]):
            return OpaqueValue(f"0x{int(text, 16):X} : {type_}")  # a NaN whose payload Python's floats lose
        return value if isinstance(value, bool) else TypedNumber(value, type_)

    def number(self, text: str, type_: str, start: int) -> int | float | bool:
        """A number of a type, rounded or checked against its range."""
        cursor = self.cursor
        if len(text) > _LONGEST_NUMBER:
            raise cursor.error(f"a number of {len(text)} digits is too long", start)
        if not is_float(type_):
            return self._integer(text, type_, start)
        if "." in text:
            return rounded(float(text), type_)
        if "x" not in text:
            raise cursor.error(f"'{text}' is not a number of type {type_}: write '{text}.0'", start)
        value = from_bits(int(text, 16), type_) if not text.startswith("-") else None
        if value is None:
            raise cursor.error(f"'{text}' has more bits than {type_}", start)
        return value

    def _integer(self, text: str, type_: str, start: int) -> int | bool:
        cursor = self.cursor
        match = _INTEGER_TYPE.fullmatch(type_)
        if match is None or "." in text:
            raise cursor.error(f"'{text}' is not a number of type {type_}", start)
        value, bits = int(text, 16 if "x" in text else 10), int(match[2] or _INDEX_BITS)
        sign = match[1] or ""
        low = 0 if sign == "u" else -(1 << (bits - 1)) if bits else 0
        high = (1 << (bits - 1 if sign == "s" and bits else bits)) - 1
        if not low <= value <= high:
            raise cursor.error(f"{text} does not fit into {type_}", start)
        if type_ == "i1":
            return bool(value)
        is_wrapped = not sign and value >> (bits - 1)  # of the signless types the upper half is negative
        return value - (1 << bits) if is_wrapped and value > 0 else value

    def _array(self) -> TypedArray:
        cursor = self.cursor
        cursor.expect("<", "after 'array'")
        type_ = read_type(cursor, self.types)
        if not is_float(type_) and not _INTEGER_TYPE.fullmatch(type_):
            raise cursor.error(f"an array holds integers or floats, not {type_}")
        values: list[int | float | bool] = []
        if cursor.accept(":"):
            while True:
                values.append(self._element(type_))
                if not cursor.accept(","):
                    break
        cursor.expect(">", "after the array")
        return TypedArray(tuple(values), type_)

    def _element(self, type_: str) -> int | float | bool:
        cursor = self.cursor
        for word, value in (("true", True), ("false", False)):
            if type_ == "i1" and cursor.accept(word):
                return value
        match = cursor.read(NUMBER, f"a number of type {type_}")
        return self.number(match[0], type_, match.start())

    def _dense(self, start: int) -> Dense | OpaqueValue:
        cursor = self.cursor
        inside = cursor.skip()
        if not cursor.at("<"):
            raise cursor.error(f"expected '<' after 'dense', found {cursor.next_token()}")
        balanced(cursor)
        end = cursor.position
        cursor.expect(":", "after the elements")
        shaped = read_type(cursor, self.types)
        after = cursor.position
        element = shaped_element(shaped)
        if not is_float(element) and not _INTEGER_TYPE.fullmatch(element):
            return OpaqueValue(f"{cursor.text[start:end]} : {shaped}")
        cursor.position = inside + 1
        elements = () if cursor.at(">") else self._elements(element)
        cursor.expect(">", "after the elements")
        cursor.position = after
        return Dense(elements, shaped)

    def _elements(self, type_: str) -> Any:
        """Numbers nested in brackets to any depth."""
        cursor = self.cursor
        if cursor.at('"'):
            return self.string()
        stack: list[list[Any]] = [[]]
        while True:
            if cursor.accept("["):
                stack.append([])
                deeper(cursor, len(stack))
                if not cursor.at("]"):
                    continue
            else:
                stack[-1].append(self._element(type_))
            while len(stack) > 1 and cursor.accept("]"):
                done = tuple(stack.pop())
                stack[-1].append(done)
            if len(stack) == 1:
                return stack[0][0]
            cursor.expect(",", "between the elements")

    def _type_value(self, depth: int) -> TypeValue:
        return TypeValue(read_type(self.cursor, self.types, depth))

    def _type_behind(self) -> str:
        return f" : {read_type(self.cursor, self.types)}" if self.cursor.accept(":") else ""


_PLAIN_DICTIONARY = re.compile(r'\{(?:[^{}"]++|"(?:[^"\\\n]|\\.)*+")*+\}')
_WORDS: dict[str, tuple[Any]] = {"true": (True,), "false": (False,), "unit": (UNIT,)}
_BY_SIGN: dict[str, Callable[[ValueReader, int], Any]] = {
    '"': ValueReader._string,
    "@": ValueReader._symbol,
    "[": ValueReader._tuple,
    "{": ValueReader.read_dictionary,
    "#": ValueReader._alias,
    "!": ValueReader._type_value,
    "(": ValueReader._type_value,
    **dict.fromkeys("-+0123456789", ValueReader._number),
}
