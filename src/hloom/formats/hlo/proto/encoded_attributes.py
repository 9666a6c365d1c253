"""Encodes attributes directly as protobuf bytes if each is stored as numbers, lists of numbers or text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_messages import (
    DELIMITED,
    VARINT,
    VARINTS,
    Encoded,
    delimited,
    field_numbers,
    in_order,
    key,
    number_field,
)
from hloom.formats.hlo.proto.instruction_fields import PRESENT, UNSAID, field_of

_RANGES = {
    FieldDescriptor.TYPE_INT64: range(-(2**63), 2**63),
    FieldDescriptor.TYPE_INT32: range(-(2**31), 2**31),
}
"""The range of values of each field type."""


def encode_attributes(opcode: str, attributes: Mapping[str, Any]) -> list[Encoded] | None:
    """The fields of these attributes, in order, with the op's defaults; None if a message object is needed to build
    them.

    Also None for a value out of its field's range: protobuf reports that best.
    """
    fields, messages = _defaults(opcode)
    own: dict[int, bytes] = dict(fields)
    inside: dict[int, list[Encoded]] = {number: [] for number in messages}
    for name, value in attributes.items():
        encoder = _encoder_of(opcode, name)
        data = None if encoder is None else encoder.encode(value)
        if encoder is None or data is None:
            return None
        if encoder.message is None:
            own[encoder.number] = data
        else:
            inside.setdefault(encoder.message, []).append((encoder.number, data))
    for number, parts in inside.items():
        own[number] = delimited(number, in_order(parts))
    return sorted(own.items())


@dataclass(frozen=True, slots=True)
class _ScalarField:
    """A field of numbers or text, in the instruction itself or in the submessage with this number."""

    message: int | None
    number: int
    type: int
    is_repeated: bool

    def encode(self, value: Any) -> bytes | None:
        """The encoded field; None if the value does not fit, empty if it equals the default."""
        if self.type == FieldDescriptor.TYPE_STRING:
            if not isinstance(value, str) or not value.isascii():
                return None
            return delimited(self.number, value.encode()) if value else b""
        if self.type == FieldDescriptor.TYPE_BOOL:
            if not isinstance(value, bool):
                return None
            return key(self.number, VARINT) + VARINTS[1] if value else b""
        fits = _RANGES[self.type]
        if not self.is_repeated:
            if type(value) is not int or value not in fits:
                return None
            return key(self.number, VARINT) + VARINTS[value] if value else b""
        if not isinstance(value, tuple) or not all(type(member) is int and member in fits for member in value):
            return None
        data = b"".join([VARINTS[member] for member in value])
        return key(self.number, DELIMITED) + VARINTS[len(data)] + data if data else b""


@dataclass(frozen=True, slots=True)
class _SliceField:
    """The field of slices, a message for every dimension."""

    number: int
    message: int | None = None

    def encode(self, value: Any) -> bytes | None:
        """The encoded field of these slices; None if one of their numbers does not fit."""
        fits = _RANGES[FieldDescriptor.TYPE_INT64]
        rows = [(dimension.start, dimension.limit, dimension.stride) for dimension in value]
        if not all(type(member) is int and member in fits for row in rows for member in row):
            return None
        return b"".join(
            [delimited(self.number, b"".join([number_field(*field) for field in enumerate(row, 1)])) for row in rows]
        )


@cache
def _encoder_of(opcode: str, attribute: str) -> _ScalarField | _SliceField | None:
    if attribute == "slice":
        return _SliceField(field_numbers("HloInstructionProto")["slice_dimensions"])
    field = field_of(opcode, attribute)
    if field is None or not 0 < len(field.path) < 3:
        return None
    descriptor = protobuf.HloInstructionProto.DESCRIPTOR
    outer = descriptor.fields_by_name[field.path[0]] if len(field.path) == 2 else None
    inner = (descriptor if outer is None else outer.message_type).fields_by_name[field.path[-1]]
    is_plain = inner.type in (*_RANGES, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BOOL)
    if not is_plain or (inner.has_presence and not inner.is_repeated):
        return None
    if inner.is_repeated and inner.type not in _RANGES:
        return None
    return _ScalarField(outer.number if outer else None, inner.number, inner.type, inner.is_repeated)


@cache
def _defaults(opcode: str) -> tuple[dict[int, bytes], tuple[int, ...]]:
    """The default fields that HLO text omits, by number, and the numbers of the submessages that XLA requires."""
    numbers = field_numbers("HloInstructionProto")
    values = {numbers[name]: value for name, value in UNSAID.get(opcode, {}).items()}
    fields = {number: key(number, VARINT) + VARINTS[int(value)] for number, value in values.items()}
    return fields, tuple(numbers[name] for name in PRESENT.get(opcode, ()))
