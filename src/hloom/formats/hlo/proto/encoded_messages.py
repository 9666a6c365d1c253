"""Encodes and decodes messages in protobuf's wire format, for instructions and whole modules.

Equal bytes identify shared parts of instructions, which saves making protobuf objects for each one. Fields are written
in the order of their numbers, so the bytes equal those protobuf would write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from hloom.formats import protobuf
from hloom.text import HloomError, escape

LARGEST_MESSAGE = 2**31 - 1
"""The largest message that protobuf reads, in bytes."""

VARINT, FIXED_64, DELIMITED, FIXED_32 = 0, 1, 2, 5
"""The wire types: how a field's data follows its key."""

Encoded = tuple[int, bytes]
"""A field's number, and its key and data."""


@cache
def wire_messages() -> dict[str, Any]:
    """The message classes by name, with instructions left as bytes."""
    return protobuf.xla.narrowed({"HloModuleProto": ("computations",), "HloComputationProto": ("instructions",)})


def wire_module(proto: Any) -> Any:
    """The same module normalised: split messages are merged and fields are in order."""
    return wire_messages()["HloModuleProto"].FromString(proto.SerializeToString())


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


class _Varints(dict[int, bytes]):
    """Encoded numbers, built on demand; cached up to a limit."""

    MOST = 4096

    def __missing__(self, value: int) -> bytes:
        data = _varint(value)
        if len(self) < self.MOST:
            self[value] = data
        return data


VARINTS = _Varints({number: bytes((number,)) for number in range(128)})
"""Encoded numbers: seven bits per byte, lowest first; negative ones as 64 bits."""

_LOW_DIGITS = [bytes((digit,)) for digit in range(128, 256)]


def consecutive_varints(first: int, count: int) -> list[bytes]:
    """Encode this many consecutive numbers; `first` is a multiple of 128, so only the lowest digits differ."""
    made = [VARINTS[number] for number in range(min(count, 128))] if not first else []
    for start in range(len(made), count, 128):
        higher = _varint((first + start) >> 7)
        made += [digit + higher for digit in _LOW_DIGITS[: count - start]]
    return made


@cache
def key(number: int, wire_type: int) -> bytes:
    """The encoded key that precedes a field's data."""
    return _varint(number << 3 | wire_type)


class _Keys(dict[int, bytes]):
    """The keys of delimited fields by number, built on demand."""

    def __missing__(self, number: int) -> bytes:
        data = self[number] = key(number, DELIMITED)
        return data


_DELIMITED_KEYS = _Keys()


def delimited(number: int, data: bytes) -> bytes:
    """A field that is text, bytes, a message or a packed list."""
    return _DELIMITED_KEYS[number] + VARINTS[len(data)] + data


def number_field(number: int, value: int) -> bytes:
    """A numeric or boolean field, omitted if it is 0."""
    return key(number, VARINT) + VARINTS[value] if value else b""


def in_order(fields: Iterable[Encoded]) -> bytes:
    """The bytes of a message with these fields."""
    return b"".join([data for _, data in sorted(fields, key=_number)])


def _number(field: Encoded) -> int:
    return field[0]


def fields_besides(message: Any, names: Collection[str]) -> bytes:
    """The bytes of a message's fields but for these, with fields that its schema does not name; mostly none."""
    if not len(UnknownFieldSet(message)) and all(field.name in names for field, _ in message.ListFields()):
        return b""
    others = type(message)()
    others.CopyFrom(message)
    for name in names:
        others.ClearField(name)
    return others.SerializeToString(deterministic=True)


def encoded_fields(message: Any) -> list[Encoded]:
    """The fields of a message, as protobuf writes them: an unpacked list is one field per element."""
    data = message.SerializeToString(deterministic=True)
    fields: list[Encoded] = []
    position = 0
    while position < len(data):
        start = position
        tag, position = read_varint(data, position)
        wire_type = tag & 7
        if wire_type == VARINT:
            _, position = read_varint(data, position)
        elif wire_type == DELIMITED:
            size, position = read_varint(data, position)
            position += size
        elif wire_type in (FIXED_64, FIXED_32):
            position += 8 if wire_type == FIXED_64 else 4
        else:  # groups, which only occur as unknown fields
            raise HloomError(f"field number {tag >> 3} is a group, which cannot be written")
        fields.append((tag >> 3, data[start:position]))
    return fields


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    value = shift = 0
    while data[position] > 127:
        value |= (data[position] & 127) << shift
        shift += 7
        position += 1
    return value | data[position] << shift, position + 1


@cache
def field_numbers(message: str) -> dict[str, int]:
    """The numbers of a message's fields by name."""
    return {field.name: field.number for field in protobuf.xla[message].DESCRIPTOR.fields}


def encoding_error(problem: Exception, where: str) -> HloomError:
    """The error for a value that no message can hold; `where` names its owner, and the caller raises it."""
    if not isinstance(problem, UnicodeEncodeError):
        return HloomError(f"{where}: {problem}")
    return HloomError(
        f'{where}: the string "{escape(problem.object)}" is not UTF-8, and a proto holds no other',
        hint="save HLO text, which keeps such bytes, or mend the string: XLA would write a proto that nothing can read",
    )
