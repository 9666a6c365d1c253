"""Literals as LiteralProto, both ways, bit for bit.

Elements stand in the order of the layout on the literal's own shape. Types of one and two bytes, and narrower ones,
are bytes; wider ones are numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom import protobuf
from hloom.hlo.proto.shapes import DEEPEST, read_shape, write_shape
from hloom.ir import DType, Layout, Literal, TensorType, TupleType, Type, default_layout, map_leaves, same_shape
from hloom.ir.literal import MOST_DIMENSIONS
from hloom.text import HloomError

LARGEST = 2**31 - 2**16
"""How many bytes of elements a message holds at most: protobuf has no messages of 2 GiB."""

_VARINTS = {"pred": "preds", "s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s"}
_FIXED = {"f32": "f32s", "f64": "f64s", "c64": "c64s", "c128": "c128s"}


def write_literal(literal: Literal, kind: Type | None = None, depth: int = 0) -> Any:
    """A literal as LiteralProto, laid out as this type says, or else as its own.

    Raises HloomError for data that were left out of a text: the wire has no mark for those.
    """
    if depth > DEEPEST:
        raise HloomError(f"the literal's tuples nest deeper than {DEEPEST}: protobuf cannot hold that")
    kind = literal.type if kind is None or not same_shape(kind, literal.type) else kind
    proto = protobuf.LiteralProto()
    proto.shape.CopyFrom(write_shape(map_leaves(kind, _ordered_only), depth))
    if isinstance(kind, TupleType):
        for element, inner in zip(literal.elements, kind.elements, strict=True):
            proto.tuple_literals.append(write_literal(element, inner, depth + 1))
        return proto
    assert isinstance(kind, TensorType), "leaves of literals are arrays"
    _write_elements(proto, literal.numpy(), kind)
    return proto


def _ordered_only(kind: Type) -> Type:
    """An array's type with no more of its layout than the order of dimensions: XLA wants literals so."""
    if not isinstance(kind, TensorType) or kind.layout is None or kind.layout.is_plain:
        return kind
    return kind.with_layout(Layout(kind.layout.minor_to_major))


def _write_elements(proto: Any, data: np.ndarray, kind: TensorType) -> None:
    if kind.byte_count > LARGEST:
        raise HloomError(f"a {kind} constant is larger than a protobuf message can be")
    if not data.size:
        return
    flat = np.ascontiguousarray(data.transpose(_major_to_minor(kind))).reshape(-1)
    name = kind.dtype.name
    if name in _VARINTS:
        getattr(proto, _VARINTS[name]).extend(flat.tolist())
    elif name in _FIXED:
        raw = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
        proto.MergeFromString(_tag(_FIXED[name]) + _varint(len(raw)) + raw)
    else:
        word = np.dtype(f"u{kind.dtype.byte_count}")
        setattr(proto, f"{name}s", flat.view(word).astype(word.newbyteorder("<"), copy=False).tobytes())


def _major_to_minor(kind: TensorType) -> tuple[int, ...]:
    layout = kind.layout or default_layout(kind.rank)
    if sorted(layout.minor_to_major) != list(range(kind.rank)):
        raise HloomError(f"{kind} has no layout that data could be in")
    return tuple(reversed(layout.minor_to_major))


def read_literal(proto: Any, depth: int = 0) -> Literal:
    """A LiteralProto as a literal; raises HloomError where there are not as many elements as its shape says."""
    if depth > DEEPEST:
        raise HloomError(f"the literal's tuples nest deeper than {DEEPEST}")
    kind = read_shape(proto.shape, depth)
    if isinstance(kind, TupleType):
        elements = [read_literal(element, depth + 1) for element in proto.tuple_literals]
        found = Literal.tuple(elements)
        if not same_shape(found.type, kind):
            raise HloomError(f"a literal of type {kind} holds {found.type}")
        return found
    if not isinstance(kind, TensorType):
        raise HloomError(f"a literal cannot be of type {kind}")
    return _read_array(proto, kind)


def _read_array(proto: Any, kind: TensorType) -> Literal:
    if kind.rank > MOST_DIMENSIONS:
        raise HloomError(f"a literal has at most {MOST_DIMENSIONS} dimensions, not {kind.rank}")
    count = kind.element_count
    flat = _read_elements(proto, kind.dtype, count)
    if flat.size != count:
        raise HloomError(f"a literal of type {kind} holds {flat.size} elements, not {count}")
    order = _major_to_minor(kind)
    try:
        physical = flat.reshape([kind.dims[axis] for axis in order])
        data = np.ascontiguousarray(physical.transpose(np.argsort(order))) if kind.rank else physical
        return Literal.adopt(kind, data)
    except ValueError as problem:
        raise HloomError(f"numpy cannot hold a literal of type {kind}: {problem}") from None


def _read_elements(proto: Any, dtype: DType, count: int) -> np.ndarray:
    """The elements in their order in memory, in an array of their own."""
    name = dtype.name
    if name in _VARINTS:
        return np.array(getattr(proto, _VARINTS[name]), dtype.numpy)
    raw = _packed(proto, _FIXED[name]) if name in _FIXED else getattr(proto, f"{name}s")
    if len(raw) != count * dtype.byte_count:
        raise HloomError(f"a literal of {count} elements of {dtype} holds {len(raw)} bytes")
    word = np.dtype(f"<u{min(dtype.byte_count, 8)}")
    return np.frombuffer(raw, word).astype(word.newbyteorder("="), copy=True).view(dtype.numpy)


def _packed(proto: Any, field: str) -> bytes:
    """The bytes of a packed field: as Python's floats, NaNs would not keep their bits."""
    alone = protobuf.LiteralProto()
    getattr(alone, field).MergeFrom(getattr(proto, field))
    data = alone.SerializeToString()
    start = len(_tag(field))
    while start < len(data) and data[start] & 0x80:
        start += 1
    return data[start + 1 :]


def _tag(field: str) -> bytes:
    return _varint(protobuf.LiteralProto.DESCRIPTOR.fields_by_name[field].number << 3 | 2)


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
