"""Constants as `.ir` text writes them: numbers, texts, tuples, tensors, and words for all else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

import numpy as np

from hloom.dialects.mindir.brackets import STRING, Span, depth_of, items
from hloom.dialects.mindir.data_types import DATA_TYPES, NAMES, SCALARS
from hloom.ir import OPAQUE, TOKEN, DType, Literal, TensorType, TupleType, Type
from hloom.text import HloomError, ParseError, Source

MOST_NESTED = 100
"""How deep tuples may nest."""
MOST_DIMENSIONS = 64
"""The highest rank that numpy holds."""
_SCALAR = re.compile(r"(\w+)\(([^()]*)\)")
_TENSOR = re.compile(r"Tensor\(shape=\[([0-9, ]*)\], dtype=(\w+), value=")
_NUMBER = re.compile(r"[^\s\[\]]+")
_LAST_DIGITS = 40
"""The longest text of one number."""
MONADS = ("UMonad[U]", "IOMonad[IO]")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of MindSpore's, which is not a tensor: `I64(3)`; `text` is what stands between the parentheses."""

    prefix: str
    text: str

    @property
    def dtype(self) -> DType:
        return SCALARS[self.prefix]

    @property
    def value(self) -> bool | int | float:
        """The number; raises HloomError where the text is none."""
        return cast("bool | int | float", _element(self.text, self.dtype).item())

    def __str__(self) -> str:
        return f"{self.prefix}({self.text})"


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    text: str

    def __str__(self) -> str:
        return f'"{self.text}"'


@dataclass(frozen=True, slots=True)
class Word:
    """What stands for itself: `None`, `UMonad[U]`, `Float32`, bare numbers in attributes, and what we do not know."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple, in parentheses, or a list, in brackets, of values."""

    bracket: str
    elements: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.bracket}{', '.join(map(str, self.elements))}{')' if self.bracket == '(' else ']'}"


Value = Number | Text | Word | Sequence | Literal
NONE = Word("None")


def read_value(text: str) -> Value:
    """The value that a text writes; what is not understood is a Word. Raises HloomError for malformed tensors.

    >>> read_value("(I64(2), (5, 5))").elements[0].value
    2
    """
    if depth_of(text, most=MOST_NESTED) >= MOST_NESTED:
        return Word(text)
    return _read(text)


def _read(text: str) -> Value:
    if text[:1] in ("(", "["):
        return _read_sequence(text)
    if STRING.fullmatch(text):
        return Text(text[1:-1])
    match = _SCALAR.fullmatch(text)
    if match and match[1] in SCALARS:
        return Number(match[1], match[2])
    if text.startswith("Tensor("):
        return read_tensor(text)
    return Word(text)


def _read_sequence(text: str) -> Value:
    try:
        spans, end = items(Source(text), 0)
    except ParseError:
        return Word(text)
    if end != len(text) - 1:
        return Word(text)
    return Sequence(text[0], tuple(_read(_cut(text, span)) for span in spans))


def read_tensor(text: str) -> Value:
    """The literal of `Tensor(shape=[2], dtype=Int64, value=[0 1])`; elided where the value is `[...]`."""
    match = _TENSOR.match(text)
    if match is None or match[2] not in DATA_TYPES:
        return Word(text)
    dims = [int(size) for size in re.findall(r"[0-9]{1,18}", match[1])]
    if len(dims) > MOST_DIMENSIONS:
        raise HloomError(f"a tensor of {len(dims)} dimensions: no more than {MOST_DIMENSIONS} can be held")
    element = DATA_TYPES[match[2]]
    type_ = TensorType(element, dims)
    body = text[match.end() : -1]
    if "..." in body:
        return Literal.elided(type_)
    words = _NUMBER.findall(body)
    if len(words) != type_.element_count:
        raise HloomError(f"a tensor {type_} has {type_.element_count} elements, but {len(words)} are written")
    data = np.array([_element(word, element) for word in words], element.numpy)
    return Literal.array(type_, data.reshape(dims))


def _element(word: str, element: DType) -> np.generic:
    """One number; raises HloomError."""
    if len(word) > _LAST_DIGITS * 2:
        raise HloomError(f"'{word[:_LAST_DIGITS]}...' is too long for a number")
    try:
        if element.name == "pred":
            return np.bool_({"True": True, "False": False, "true": True, "false": False, "1": True, "0": False}[word])
        if element.is_complex:
            return element.numpy.type(complex(word.replace("i", "j")))
        if element.is_integer:
            return element.numpy.type(int(word))
        return element.numpy.type(float(word))
    except (KeyError, ValueError, OverflowError):
        raise HloomError(f"'{word}' is not a number of type {element}") from None


def tensor_text(literal: Literal) -> str:
    """A tensor as MindSpore writes it, with as many digits as its numbers need."""
    type_ = cast(TensorType, literal.type)
    name = NAMES.get(type_.dtype, str(type_.dtype))
    head = f"Tensor(shape=[{', '.join(map(str, type_.dims))}], dtype={name}, value="
    if literal.is_elided:
        return f"{head}[...])"
    array = literal.numpy()
    if not array.ndim:
        return f"{head}{number_text(array.flat[0])})"
    words = [number_text(number) for number in array.flat]
    width = max(map(len, words), default=0)
    return f"{head}{_rows(type_.dims, [word.rjust(width) for word in words])})"


def _rows(dims: tuple[int, ...], words: list[str]) -> str:
    """The words in brackets, a row a line."""
    if not words:
        return "\n"
    rows = [" ".join(words[start : start + dims[-1]]) for start in range(0, len(words), dims[-1])]
    lines: list[str] = []
    for number, row in enumerate(rows):
        opened = closed = 1
        size = 1
        for dim in reversed(dims[:-1]):
            size *= dim
            opened += number % size == 0
            closed += (number + 1) % size == 0
        lines.append(" " * (len(dims) - opened) + "[" * opened + row + "]" * closed)
    return "\n" * (len(dims) > 1) + "\n".join(lines)


def number_text(number: np.generic) -> str:
    """A number with the six digits that MindSpore writes, or with as many as it needs."""
    if isinstance(number, np.bool_):
        return str(bool(number))
    if isinstance(number, np.integer):
        return str(int(number))
    if isinstance(number, np.complexfloating):
        return str(complex(number)).strip("()")
    short = f"{float(number):g}"
    with np.errstate(over="ignore"):
        return short if type(number)(float(short)) == number or number != number else repr(float(number))


def type_of_value(value: Value) -> Type:
    """The type of a value: a number is an array without dimensions, a tuple a tuple; `opaque[]` for words and texts."""
    if isinstance(value, Literal):
        return value.type
    if isinstance(value, Number):
        return TensorType(value.dtype)
    if isinstance(value, Sequence):
        return TupleType([type_of_value(element) for element in value.elements])
    return TOKEN if str(value) in MONADS else OPAQUE


def _cut(text: str, span: Span) -> str:
    return text[span[0] : span[1]]
