"""Literals as XLA prints them."""

# pyright: reportPrivateUsage=false
# a literal keeps its printed form

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from struct import Struct
from typing import Any

import numpy as np

from hloom.ir.dtypes import DType, DTypeKind, dtype
from hloom.ir.f32_text import f32_rows, is_varied
from hloom.ir.layout import default_layout
from hloom.ir.literal import Literal
from hloom.ir.number_conversion import PAYLOAD_BITS, component, float_range
from hloom.ir.types import TensorType

ELIDED = "{...}"

_DIGITS = {"f16": 5, "bf16": 4, "f8e5m2": 2, "f8e5m2fnuz": 2, "f8e8m0fnu": 2, "f4e2m1fn": 2, "f32": 9, "f64": 17}
"""The number of digits that distinguish any two values of a type (max_digits10); 3 for types not listed."""

_FEWER_DIGITS = {"f32": 6, "f64": 15}
"""The number of digits to try first (digits10); kept if they read back as the same value."""

_CHUNK = 2**18
"""How many numbers are written at once, so that their texts beside the arrays take tens of megabytes at most."""

_MANY = 512
"""The minimum number of f32 to format as a batch."""
_FEW = 256
"""The maximum number of values to format one by one."""
_F32 = dtype("f32")
_F32_BYTES = Struct("f")
_GREATEST_F32 = float_range(_F32)[1]

_KEPT = 64
"""The maximum number of characters of a text that its literal caches."""

MOST_ZEROS = 1 << 24
"""The maximum number of zeros to write one by one: 50 MB of text."""


def format_literal(literal: Literal, *, limit: int | None = None) -> str:
    """The text of a literal, as it stands inside `constant(...)`.

    It matches XLA's text except for three spellings that XLA prints but cannot read back: -0 is written `-0.0` (XLA
    reads `-0` as an integer), the largest c64 parts with 17 digits, the smallest f8e8m0fnu with 4. Text cannot express
    complex numbers whose real part is NaN, and signalling NaNs as imaginary parts of c64.

    Arrays of more than `limit` elements are written `{...}`, like elided ones. An array of more than `MOST_ZEROS` zeros
    is written as a single zero: XLA's parser assigns a number without braces to the first element and 0 to the others.
    """
    if limit is not None:
        return _format(literal, limit, with_types=False)
    try:
        return literal._text
    except AttributeError:
        text = _format(literal, None, with_types=False)
    if len(text) <= _KEPT:
        object.__setattr__(literal, "_text", text)
    return text


def format_typed_literal(literal: Literal, *, limit: int | None = None) -> str:
    """The text of a literal with its types, as it stands after `literal=`."""
    return _format(literal, limit, with_types=True)


def _format(literal: Literal, limit: int | None, with_types: bool) -> str:
    pieces: list[str] = []
    pending: list[Literal | str] = [literal]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif item.is_tuple and not item.is_left_out:
            pending.extend(reversed(_tuple_parts(item.elements)))
        else:
            pieces.append(f"{_type_text(item)} " if with_types else "")
            pieces.append(_format_leaf(item, limit))
    return "".join(pieces)


def _tuple_parts(elements: Sequence[Literal]) -> list[Literal | str]:
    parts: list[Literal | str] = ["( "]
    for index, element in enumerate(elements):
        if index:
            parts.append(", ")
        parts.append(element)
    return [*parts, " )"]


def _type_text(literal: Literal) -> str:
    type_ = literal.type
    if isinstance(type_, TensorType) and type_.layout is None:
        return str(type_.with_layout(default_layout(type_.rank)))
    return str(type_)


def _format_leaf(literal: Literal, limit: int | None) -> str:
    if literal.is_left_out:
        return ELIDED
    data = literal.numpy()
    if limit is not None and data.ndim and data.size > limit:
        return ELIDED
    type_ = literal.type
    assert isinstance(type_, TensorType), "leaves with data are arrays"
    if not data.ndim:
        return _scalar_text(data, type_.dtype)
    if not data.size and math.prod(data.shape[:-1]) > MOST_ZEROS:  # of empty rows
        return ELIDED
    if literal.is_splat:
        if data.size > MOST_ZEROS and _is_plain_zero(data.reshape(-1)[:1]):
            return _element_texts(data.reshape(-1)[:1], type_.dtype)[0]
        return nested_texts(_element_texts(data.reshape(-1)[:1], type_.dtype) * data.size, type_.dims)
    if type_.dtype.name == "f32" and type_.dims and data.size >= _MANY:
        return _enclose_rows(f32_rows(data.reshape(-1), type_.dims[-1], _f32_texts), type_.dims)
    return nested_texts(_element_texts(data.reshape(-1), type_.dtype), type_.dims)


def _is_plain_zero(element: np.ndarray) -> bool:
    """Whether an element's bits are all zero: XLA's parser fills arrays with this value."""
    return element.dtype.kind != "c" and not any(element.tobytes())


def _scalar_text(data: np.ndarray, dtype: DType) -> str:
    if dtype.kind is DTypeKind.BOOLEAN:
        return "true" if data else "false"
    value = data.item()
    if dtype.is_float and value != value:
        return _nan_text(int.from_bytes(data.tobytes(), sys.byteorder), dtype)
    text_of = _PLAIN_TEXTS.get(dtype.name)
    return (text_of and text_of(value)) or _element_texts(data.reshape(-1), dtype)[0]


def _plain_f32(value: float) -> str | None:
    """The text of an f32; None for a NaN, whose sign and payload are not seen here."""
    return _zero_text(value) if not value or value != value else _nonzero_f32(value)


@lru_cache(maxsize=4096)
def _nonzero_f32(value: float) -> str:
    short = f"{value:.6g}"
    number = float(short)
    return short if value in (number, _F32_BYTES.unpack(_F32_BYTES.pack(number))[0]) else f"{value:.9g}"


def _plain_f64(value: float) -> str | None:
    """The text of an f64; None for a NaN."""
    return _zero_text(value) if not value or value != value else _nonzero_f64(value)


@lru_cache(maxsize=4096)
def _nonzero_f64(value: float) -> str:
    short = f"{value:.15g}"
    return short if value == float(short) else f"{value:.17g}"


def _zero_text(value: float) -> str | None:
    """The text of a zero; None for a NaN."""
    return None if value else "0" if math.copysign(1, value) > 0 else "-0.0"


def _plain_c64(value: complex) -> str | None:
    """The text of a c64; None where a part is a NaN, or the greatest f32, which takes more digits here."""
    if _GREATEST_F32 in (abs(value.real), abs(value.imag)):
        return None
    real, imaginary = _plain_f32(value.real), _plain_f32(value.imag)
    return None if real is None or imaginary is None else f"({real}, {imaginary})"


def _plain_narrow(value: Any, digits: int) -> str | None:
    """The text of a float of 16 bits or fewer; None for a NaN."""
    number = float(value)
    return _zero_text(number) if not number or number != number else f"{number:.{digits}g}"


_PLAIN_TEXTS: dict[str, Callable[[Any], str | None]] = {
    "f32": _plain_f32,
    "f64": _plain_f64,
    "c64": _plain_c64,
    **{name: partial(_plain_narrow, digits=_DIGITS[name]) for name in ("bf16", "f16")},
    **{f"{sign}{bits}": str for sign in "su" for bits in (8, 16, 32, 64)},
}
"""The formatter of a single number, for types where formatting one by one is fastest."""


def nested_texts(texts: list[str], dims: tuple[int, ...]) -> str:
    """Braces around the texts of elements, in XLA's spacing."""
    if not dims:
        return texts[0]
    *outer, size = dims
    starts = range(0, math.prod(outer) * size, size or 1)
    return _enclose_rows([", ".join(texts[start : start + size]) for start in starts] or [""] * math.prod(outer), dims)


def _enclose_rows(rows: list[str], dims: tuple[int, ...]) -> str:
    """Put braces around rows, which are the elements of the last dimension."""
    *outer, size = dims
    opening, closing = ("{ ", " }") if outer and size > 1 else ("{", "}")
    rows = [f"{opening}{row}{closing}" for row in rows]
    for level in range(len(outer) - 1, -1, -1):
        rows = _enclose(rows, outer, level, commented=len(dims) > 3 and level > 0)
    return rows[0]


def _enclose(rows: list[str], outer: Sequence[int], level: int, commented: bool) -> list[str]:
    """Put each group of one dimension's members into braces, with its index in a comment where XLA does."""
    size = outer[level]
    groups = [", ".join(rows[index * size : (index + 1) * size]) for index in range(math.prod(outer[:level]))]
    if not commented:
        return [f"{{ {group} }}" for group in groups]
    gap = " " if size else ""
    return [f"{{ /*i{level - 1}={index % outer[level - 1]}*/{gap}{group} }}" for index, group in enumerate(groups)]


def _element_texts(flat: np.ndarray, dtype: DType) -> list[str]:
    """The text of every element."""
    text_of = _PLAIN_TEXTS.get(dtype.name)
    if text_of is not None and flat.size <= _FEW:
        texts = [text_of(value) for value in flat.tolist()]
        plain = [text for text in texts if text is not None]
        if len(plain) == len(texts):
            return plain
    if dtype.kind is DTypeKind.BOOLEAN:
        return ["1" if value else "0" for value in flat.tolist()]
    if dtype.is_integer:
        return list(map(str, (flat if dtype.bits >= 8 else flat.astype(np.int8)).tolist()))
    if dtype.is_complex:
        return _complex_texts(np.ascontiguousarray(flat), component(dtype))
    if dtype.bits > 16:
        return _float_texts(flat, dtype)
    values, places = np.unique(flat.view(f"u{dtype.byte_count}"), return_inverse=True)
    texts = _narrow_texts(values.view(dtype.numpy), dtype)
    return list(map(texts.__getitem__, places.tolist()))


def _complex_texts(flat: np.ndarray, part: DType) -> list[str]:
    numbers = flat.view(part.numpy)
    texts = _float_texts(numbers, part)
    if part.bits == 32:
        greatest = float_range(part)[1]
        for index in np.flatnonzero(np.abs(numbers) == greatest).tolist():
            texts[index] = f"{float(numbers[index]):.17g}"
    return [f"({real}, {imaginary})" for real, imaginary in zip(texts[::2], texts[1::2], strict=True)]


def _narrow_texts(flat: np.ndarray, dtype: DType) -> list[str]:
    """The texts of floats of 16 bits and fewer."""
    spelling = f"%.{_DIGITS.get(dtype.name, 3)}g"
    with np.errstate(all="ignore"):
        texts = list(map(spelling.__mod__, flat.astype(np.float64).tolist()))
    if dtype.name == "f8e8m0fnu":
        texts = ["5.877e-39" if text == "5.9e-39" else text for text in texts]
    return _respell(texts, flat, dtype)


def _float_texts(flat: np.ndarray, dtype: DType) -> list[str]:
    """The texts of f32 and f64."""
    if dtype.name == "f32" and flat.size >= _MANY:
        return f32_rows(flat, 1, _f32_texts)
    texts: list[str] = []
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        words = chunk.view(f"u{dtype.byte_count}")
        if is_varied(words):
            texts += _wide_texts(chunk, dtype)
            continue
        distinct, numbers = np.unique(words, return_inverse=True)
        texts += map(_wide_texts(distinct.view(dtype.numpy), dtype).__getitem__, numbers.tolist())
    return texts


def _f32_texts(flat: np.ndarray) -> list[str]:
    return _wide_texts(flat, _F32)


def _wide_texts(flat: np.ndarray, dtype: DType) -> list[str]:
    """In the fewer digits where those give the number back, else in as many as tell any two values apart."""
    with np.errstate(all="ignore"):
        values = flat.astype(np.float64).tolist()
    texts = list(map(f"%.{_FEWER_DIGITS[dtype.name]}g".__mod__, values))
    with np.errstate(all="ignore"):
        is_short = np.fromstring(" ".join(texts), np.float64, sep=" ").astype(dtype.numpy) == flat
    longer = f"%.{_DIGITS[dtype.name]}g".__mod__
    for index in np.flatnonzero(~is_short).tolist():
        texts[index] = longer(values[index])
    return _respell(texts, flat, dtype)


def _respell(texts: list[str], flat: np.ndarray, dtype: DType) -> list[str]:
    """Fix what C's printf gets wrong: the signs and payloads of NaNs, and -0, which XLA reads as an integer."""
    words = flat.view(f"u{dtype.byte_count}")
    with np.errstate(all="ignore"):
        wide = flat.astype(np.float64)
    for index in np.flatnonzero(np.isnan(wide)).tolist():
        texts[index] = _nan_text(int(words[index]), dtype)
    for index in np.flatnonzero((wide == 0) & np.signbit(wide)).tolist():
        texts[index] = "-0.0"
    return texts


def _nan_text(word: int, dtype: DType) -> str:
    """The text of a NaN, of its bits: the payload where it is not the usual one."""
    width = PAYLOAD_BITS.get(dtype.name, 0)
    payload = word & (2**width - 1)
    negative = "-" if word & 2 ** (dtype.bits - 1) and dtype.name != "f8e8m0fnu" else ""
    return f"{negative}nan" + (f"(0x{payload:x})" if width and payload != 2 ** (width - 1) else "")
