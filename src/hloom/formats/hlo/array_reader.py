"""Reading one array, token by token."""

from __future__ import annotations

import re
from array import array

import numpy as np

from hloom.formats.hlo.tokens import HIGHEST_INTEGER, LOWEST_INTEGER
from hloom.ir import (
    PAYLOAD_BITS,
    DTypeKind,
    Literal,
    TensorType,
    component,
    float_range,
    from_doubles,
    from_integers,
    from_pairs,
    integer_range,
)
from hloom.text import TRIVIA, Cursor, ParseError

LARGEST_FILLING = 2**24
"""The maximum size in bytes of an array filled from a bare number, unless all its elements are 0; XLA refuses what it
cannot allocate, too.
"""

_EXPONENT = r"[eE][+-]?[0-9]++"
_PAYLOAD = r"\(0x[0-9a-fA-F]++\)"
_WORD_END = r"(?![A-Za-z0-9_.-])"
_TOKEN = re.compile(
    rf"{TRIVIA.pattern}(?:"
    rf"(?P<decimal>-?(?:[0-9]++\.[0-9]*+(?:{_EXPONENT})?|[0-9]++{_EXPONENT}|(?<=-)\.[0-9]++(?:{_EXPONENT})?))"
    r"|(?P<integer>-?[0-9]++)"
    rf"|(?P<special>-(?:inf|nan(?:{_PAYLOAD})?)|inf{_WORD_END}|nan(?:{_PAYLOAD}|{_WORD_END}))"
    rf"|(?P<boolean>(?:true|false){_WORD_END})"
    r"|(?P<comma>,)|(?P<open>\{)|(?P<close>\})|(?P<dots>\.\.\.)|(?P<pair>\())"
)
_NUMBERS = ("decimal", "integer", "special")


class ArrayReader:
    """Reads one array token by token: accepts every form that XLA accepts and reports errors for all others.

    `depth` is the number of open braces and `seen[d]` the number of members so far in the open brace of dimension d.
    XLA accepts numbers outside the innermost braces and only notices later unless `...` follows; `stray` keeps the
    position of such a number. A bare number is the first element of an array whose other elements are 0.
    """

    __slots__ = ("cursor", "depth", "elided", "payloads", "places", "seen", "stray", "total", "type", "values", "width")

    def __init__(self, cursor: Cursor, type: TensorType) -> None:
        self.cursor = cursor
        self.type = type
        self.depth = 0
        self.seen = [0] * type.rank
        self.stray = -1
        self.elided = False
        self.width = 2 if type.dtype.is_complex else 1
        self.total = type.element_count * self.width
        self.values = array("d" if type.dtype.is_float or type.dtype.is_complex else "q")
        self.places = array("q")
        self.payloads: list[tuple[int, int]] = []

    def read(self) -> Literal:
        """The array at the cursor; raises ParseError at the offending token."""
        cursor = self.cursor
        steps = {
            "decimal": self._decimal,
            "integer": self._integer,
            "special": self._special,
            "boolean": self._boolean,
            "comma": self._comma,
            "open": self._open,
            "close": self._close,
            "dots": self._dots,
            "pair": self._pair,
        }
        while True:
            match = _TOKEN.match(cursor.text, cursor.position, cursor.end)
            if match is None:
                raise cursor.error(f"expected a value of {self.type}, found {cursor.next_token()}")
            cursor.position = match.end()
            token_type = str(match.lastgroup)
            if token_type in _NUMBERS and self.width == 2:
                raise cursor.error(f"expected '(', as {self.type.dtype} has two parts", match.start(token_type))
            steps[token_type](match[token_type], match.start(token_type))
            if not self.depth:
                return self._finish()

    def _comma(self, text: str, position: int) -> None:
        """Commas are ignored, except that one in place of a literal makes XLA read zeros."""

    def _open(self, text: str, position: int) -> None:
        self.depth += 1
        if self.depth > self.type.rank:
            raise self.cursor.error(f"too many '{{' for {self.type}, which has rank {self.type.rank}", position)
        if self.depth > 1:
            self._count(self.depth - 2, position)

    def _close(self, text: str, position: int) -> None:
        if not self.depth:
            raise self.cursor.error(f"expected a value of {self.type}, found '}}'", position)
        self.depth -= 1
        expected, count = self.type.dims[self.depth], self.seen[self.depth]
        if expected != count:
            if self.stray >= 0:
                raise self._out_of_place()
            message = f"expected {expected} elements in dimension {self.depth} of {self.type}, found {count}"
            raise self.cursor.error(message, position)
        self.seen[self.depth] = 0

    def _dots(self, text: str, position: int) -> None:
        if self.depth != 1:
            raise self.cursor.error("'...' stands only directly inside the outermost braces", position)
        self.seen[0] = self.type.dims[0]
        self.elided = True

    def _pair(self, text: str, position: int) -> None:
        if self.width == 1:
            raise self.cursor.error(f"'(' begins a complex number, but the elements are {self.type.dtype}", position)
        if self.depth != self.type.rank:
            self.stray = position
            raise self._out_of_place()
        self._begin_element(position)
        self._part()
        self.cursor.expect(",", "between the parts of a complex number")
        self._part()
        self.cursor.expect(")", "after a complex number")

    def _part(self) -> None:
        match = self.cursor.match(_TOKEN)
        token_type = "" if match is None else str(match.lastgroup)
        if match is None or token_type not in _NUMBERS:
            position = self.cursor.skip() if match is None else match.start(token_type)
            raise self.cursor.error("expected a number as a part of a complex number", position)
        if token_type == "special":
            self._append_special(match[token_type], match.start(token_type))
        else:
            value = self._parse_integer if token_type == "integer" else self._parse_decimal
            self._append(value(match[token_type], match.start(token_type)), match.start(token_type))

    def _boolean(self, text: str, position: int) -> None:
        if self.type.dtype.kind is not DTypeKind.BOOLEAN:
            raise self.cursor.error(f"'{text}' is not a value of {self.type.dtype}", position)
        self._begin_element(position)
        self._append(text == "true", position)

    def _integer(self, text: str, position: int) -> None:
        self._begin_element(position)
        self._append(self._parse_integer(text, position), position)

    def _decimal(self, text: str, position: int) -> None:
        self._require_float(text, position)
        self._begin_element(position)
        self._append(self._parse_decimal(text, position), position)

    def _special(self, text: str, position: int) -> None:
        self._require_float(text, position)
        self._begin_element(position)
        self._append_special(text, position)

    def _require_float(self, text: str, position: int) -> None:
        if not self.type.dtype.is_float:
            raise self.cursor.error(f"expected an integer for {self.type.dtype}, found '{_shorten(text)}'", position)

    def _begin_element(self, position: int) -> None:
        """Check that one more element fits."""
        if self.depth == self.type.rank and self.depth:
            self._count(self.depth - 1, position)
        elif self.type.rank and self.stray < 0:
            self.stray = position
        if len(self.values) >= self.total:
            raise self._out_of_place()

    def _count(self, dimension: int, position: int) -> None:
        self.seen[dimension] += 1
        if self.seen[dimension] > self.type.dims[dimension]:
            expected = self.type.dims[dimension]
            raise self.cursor.error(f"more than {expected} elements in dimension {dimension} of {self.type}", position)

    def _out_of_place(self) -> ParseError:
        return self.cursor.error(f"expected '{{': {self.type} has rank {self.type.rank}", self.stray)

    def _parse_integer(self, text: str, position: int) -> int:
        """A 64-bit integer; values of 2^63 and above wrap, as in XLA, even for floats."""
        digits = text.lstrip("-").lstrip("0") or "0"
        value = int(digits) if len(digits) < 40 else HIGHEST_INTEGER
        value = -value if text.startswith("-") else value
        if not LOWEST_INTEGER <= value < HIGHEST_INTEGER:
            hint = "for a float type, write it as a decimal: 1e20" if "d" in self.values.typecode else None
            raise self.cursor.error(f"integer {_shorten(text)} does not fit into 64 bits", position, hint)
        return value - 2**64 if value >= 2**63 else value

    def _parse_decimal(self, text: str, position: int) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise self.cursor.error(f"{_shorten(text)} is out of range even for f64", position)
        return value

    def _append(self, value: float, position: int) -> None:
        self.values.append(value)
        self.places.append(position)

    def _append_special(self, text: str, position: int) -> None:
        """Append inf or nan; NaNs are kept as bits because Python's floats do not preserve their payloads."""
        word = text.lstrip("-")
        if word == "inf":
            self._append(float(text), position)
            return
        payload = 2**51 if word == "nan" else int(word[len("nan(0x") : -1], 16)
        if not 0 < payload < 2**52:
            raise self.cursor.error("a NaN's payload is between 0x1 and 0xfffffffffffff", position)
        self.payloads.append((len(self.values), (text.startswith("-") << 63) | (0x7FF << 52) | payload))
        self._append(0.0, position)

    def _finish(self) -> Literal:
        data = self._convert()
        if self.elided and self.total:
            return Literal.elided(self.type)
        count = self.type.element_count
        if data.size < count:
            data = self._fill(data, count)
        return Literal.adopt(self.type, data.reshape(self.type.dims))

    def _convert(self) -> np.ndarray:
        dtype = self.type.dtype
        values = np.array(self.values, self.values.typecode)
        for index, bits in self.payloads:
            values.view(np.uint64)[index] = bits
        convert = from_pairs if dtype.is_complex else from_doubles if dtype.is_float else from_integers
        data, refused = convert(values, dtype)
        if refused.any():
            raise self._out_of_range(int(np.flatnonzero(refused)[0]), values)
        return data

    def _out_of_range(self, index: int, values: np.ndarray) -> ParseError:
        dtype, position = self.type.dtype, self.places[index]
        if dtype.is_integer:
            low, high = integer_range(dtype)
            return self.cursor.error(f"value {values[index]} is out of range for {dtype}: [{low}, {high}]", position)
        if np.isnan(values[index]):
            width = PAYLOAD_BITS.get(component(dtype).name, 0)
            limit = f"at most 0x{2**width - 1:x}" if width else "it has none"
            return self.cursor.error(f"this NaN payload does not fit into {dtype}: {limit}", position)
        least, greatest = float_range(dtype)
        message = f"value {values[index]:.9g} is out of range for {dtype}: [{least:.9g}, {greatest:.9g}]"
        return self.cursor.error(message, position)

    def _fill(self, data: np.ndarray, count: int) -> np.ndarray:
        """Zeros after a bare number."""
        if not any(data.tobytes()):
            return self._zeros()
        if self.type.byte_count > LARGEST_FILLING:
            hint = "a bare number stands for the first element only; write broadcast for a constant array"
            raise self.cursor.error(f"{self.type} takes too much memory", self.places[0], hint)
        whole = np.zeros(count, data.dtype)
        whole[: data.size] = data
        return whole

    def _zeros(self) -> np.ndarray:
        return Literal.splat(self.type, np.zeros((), self.type.dtype.numpy)).numpy()


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
