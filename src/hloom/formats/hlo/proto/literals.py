"""Converts literals to and from LiteralProto, bit for bit.

Elements are in the order of the layout of the literal's own shape. Types of up to two bytes are stored as bytes, wider
ones as numbers.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from typing import Any

import numpy as np

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_messages import DELIMITED, VARINTS, delimited, field_numbers, key
from hloom.formats.hlo.proto.shapes import DEEPEST, encoded_shape, read_shape, write_shape
from hloom.ir import (
    MOST_DIMENSIONS,
    DType,
    Layout,
    Literal,
    TensorType,
    TupleType,
    Type,
    default_layout,
    map_leaves,
    same_shape,
)
from hloom.text import HloomError

LARGEST = 2**31 - 2**16
"""The maximum size of the elements of a message, in bytes: protobuf messages are below 2 GiB."""

_VARINTS = {"pred": "preds", "s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s"}
_FIXED = {"f32": "f32s", "f64": "f64s", "c64": "c64s", "c128": "c128s"}


def write_literal(literal: Literal, type_: Type | None = None, depth: int = 0) -> Any:
    """A literal as LiteralProto, in the layout of this type, or else in its own.

    Raises HloomError for elided data, which the message cannot express.
    """
    if depth > DEEPEST:
        raise HloomError(f"the literal's tuples nest deeper than {DEEPEST}: protobuf cannot hold that")
    type_ = literal.type if type_ is None or not same_shape(type_, literal.type) else type_
    proto = protobuf.LiteralProto()
    proto.shape.CopyFrom(write_shape(map_leaves(type_, _ordered_only), depth))
    if isinstance(type_, TupleType):
        for element, inner in zip(literal.elements, type_.elements, strict=True):
            proto.tuple_literals.append(write_literal(element, inner, depth + 1))
        return proto
    assert isinstance(type_, TensorType), "leaves of literals are arrays"
    _write_elements(proto, literal.numpy(), type_)
    return proto


def _ordered_only(type_: Type) -> Type:
    """An array's type with only the order of dimensions left of its layout, as XLA requires of literals."""
    if not isinstance(type_, TensorType) or type_.layout is None or type_.layout.is_plain:
        return type_
    return type_.with_layout(Layout(type_.layout.minor_to_major))


def encoded_literal(literal: Literal, type_: Type) -> bytes:
    """The bytes of `write_literal`'s message; arrays are encoded here directly."""
    if literal.type is not type_ and not same_shape(type_, literal.type):
        type_ = literal.type
    if not isinstance(type_, TensorType):
        return write_literal(literal, type_).SerializeToString()
    return _encoded_type(type_) + _encoded_elements(literal.numpy(), type_)


@lru_cache(maxsize=1024)
def _encoded_type(array_type: TensorType) -> bytes:
    """The field of LiteralProto that holds a literal's type."""
    return delimited(1, encoded_shape(_ordered_only(array_type)))


@cache
def _elements_field(name: str) -> tuple[str, int]:
    """The field of LiteralProto that holds elements of this type, and its number."""
    field = _VARINTS.get(name) or _FIXED.get(name) or f"{name}s"
    return field, field_numbers("LiteralProto")[field]


def _write_elements(proto: Any, data: np.ndarray, array_type: TensorType) -> None:
    proto.MergeFromString(_encoded_elements(data, array_type))


def _encoded_elements(data: np.ndarray, array_type: TensorType) -> bytes:
    """The field of LiteralProto that holds an array's elements."""
    if data.ndim and array_type.byte_count > LARGEST:
        raise HloomError(f"a {array_type} constant is larger than a protobuf message can be")
    name = array_type.dtype.name
    field, number = _elements_field(name)
    if not data.size:
        return b""
    if data.ndim or array_type.layout is not None:
        data = np.ascontiguousarray(data.transpose(_major_to_minor(array_type))).reshape(-1)
    if name in _VARINTS:
        return _packed_numbers(field, number, data)
    if sys.byteorder == "big":
        data = data.byteswap() if name in _FIXED else data.view(f"u{array_type.dtype.byte_count}").byteswap()
    return delimited(number, data.tobytes())


_FEW = 16
"""Up to this many numbers are encoded faster one by one than through a protobuf message."""


def _packed_numbers(field: str, number: int, data: np.ndarray) -> bytes:
    if data.size <= _FEW:
        return delimited(number, b"".join([VARINTS[value] for value in data.reshape(-1).tolist()]))
    return protobuf.LiteralProto(**{field: data.tolist()}).SerializeToString()


def _major_to_minor(array_type: TensorType) -> tuple[int, ...]:
    layout = array_type.layout or default_layout(array_type.rank)
    if sorted(layout.minor_to_major) != list(range(array_type.rank)):
        raise HloomError(f"{array_type} has no layout that data could be in")
    return tuple(reversed(layout.minor_to_major))


def read_literal(proto: Any, depth: int = 0) -> Literal:
    """A LiteralProto as a literal; raises HloomError if the number of elements does not match its shape."""
    if depth > DEEPEST:
        raise HloomError(f"the literal's tuples nest deeper than {DEEPEST}")
    type_ = read_shape(proto.shape, depth)
    if isinstance(type_, TupleType):
        elements = [read_literal(element, depth + 1) for element in proto.tuple_literals]
        literal = Literal.tuple(elements)
        if not same_shape(literal.type, type_):
            raise HloomError(f"a literal of type {type_} holds {literal.type}")
        return literal
    if not isinstance(type_, TensorType):
        raise HloomError(f"a literal cannot be of type {type_}")
    return _read_array(proto, type_)


def _read_array(proto: Any, array_type: TensorType) -> Literal:
    if array_type.rank > MOST_DIMENSIONS:
        raise HloomError(f"a literal has at most {MOST_DIMENSIONS} dimensions, not {array_type.rank}")
    count = array_type.element_count
    flat = _read_elements(proto, array_type.dtype, count)
    if flat.size != count:
        raise HloomError(f"a literal of type {array_type} holds {flat.size} elements, not {count}")
    order = _major_to_minor(array_type)
    try:
        physical = flat.reshape([array_type.dims[axis] for axis in order])
        data = np.ascontiguousarray(physical.transpose(np.argsort(order))) if array_type.rank else physical
        return Literal.adopt(array_type, data)
    except ValueError as problem:
        raise HloomError(f"numpy cannot hold a literal of type {array_type}: {problem}") from None


def _read_elements(proto: Any, dtype: DType, count: int) -> np.ndarray:
    """The elements in memory order, in a new array."""
    name = dtype.name
    if name in _VARINTS:
        return np.array(getattr(proto, _VARINTS[name]), dtype.numpy)
    raw = _packed(proto, _FIXED[name]) if name in _FIXED else getattr(proto, f"{name}s")
    if len(raw) != count * dtype.byte_count:
        raise HloomError(f"a literal of {count} elements of {dtype} holds {len(raw)} bytes")
    word = np.dtype(f"<u{min(dtype.byte_count, 8)}")
    return np.frombuffer(raw, word).astype(word.newbyteorder("="), copy=True).view(dtype.numpy)


def _packed(proto: Any, field: str) -> bytes:
    """The raw bytes of a packed field: Python floats would not preserve the bits of NaNs."""
    alone = protobuf.LiteralProto()
    getattr(alone, field).MergeFrom(getattr(proto, field))
    data = alone.SerializeToString()
    start = len(key(field_numbers("LiteralProto")[field], DELIMITED))
    while start < len(data) and data[start] & 0x80:
        start += 1
    return data[start + 1 :]
