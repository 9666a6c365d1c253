"""Messages as bytes: protobuf's wire format, in which instructions are written, and a module's as they are read.

What instructions share is told by these bytes, and need not become an object of protobuf for every one of them. Fields
that are written here stand in the order of their numbers, so that the bytes are those that protobuf itself would write.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from hloom import protobuf
from hloom.text import HloomError, escape

LARGEST_MESSAGE = 2**31 - 1
"""How many bytes protobuf reads as one message."""

VARINT, FIXED_64, DELIMITED, FIXED_32 = 0, 1, 2, 5
"""The wire types: how a field's data follow its key."""

Encoded = tuple[int, bytes]
"""A field's number, and its key and data."""


@cache
def wire_messages() -> dict[str, Any]:
    """The message classes by name: in them, an instruction is bytes."""
    return protobuf.xla.narrowed({"HloModuleProto": ("computations",), "HloComputationProto": ("instructions",)})


def wire_module(proto: Any) -> Any:
    """The same module; what a message says in several parts is put together, and fields stand in their order."""
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
    """Numbers as protobuf writes them, made when first asked for; as many are remembered as are asked for often."""

    MOST = 4096

    def __missing__(self, value: int) -> bytes:
        data = _varint(value)
        if len(self) < self.MOST:
            self[value] = data
        return data


VARINTS = _Varints({number: bytes((number,)) for number in range(128)})
"""Every number as protobuf writes it: seven bits a byte, the lowest first; negative ones as 64 bits."""

_LOW_DIGITS = [bytes((digit,)) for digit in range(128, 256)]


def consecutive_varints(first: int, count: int) -> list[bytes]:
    """So many numbers from the first on, which is a multiple of 128: only their lowest digits differ."""
    made = [VARINTS[number] for number in range(min(count, 128))] if not first else []
    for start in range(len(made), count, 128):
        higher = _varint((first + start) >> 7)
        made += [digit + higher for digit in _LOW_DIGITS[: count - start]]
    return made


@cache
def key(number: int, wire_type: int) -> bytes:
    """What stands before a field's data."""
    return _varint(number << 3 | wire_type)


class _Keys(dict[int, bytes]):
    """The keys of delimited fields by number, made when first asked for."""

    def __missing__(self, number: int) -> bytes:
        data = self[number] = key(number, DELIMITED)
        return data


_DELIMITED_KEYS = _Keys()


def delimited(number: int, data: bytes) -> bytes:
    """A field that is text, bytes, a message or a packed list."""
    return _DELIMITED_KEYS[number] + VARINTS[len(data)] + data


def number_field(number: int, value: int) -> bytes:
    """A field that is a number or truth value, which is not written where it is 0."""
    return key(number, VARINT) + VARINTS[value] if value else b""


def in_order(fields: Iterable[Encoded]) -> bytes:
    """The bytes of a message with these fields."""
    return b"".join([data for _, data in sorted(fields, key=_number)])


def _number(field: Encoded) -> int:
    return field[0]


def encoded_fields(message: Any) -> list[Encoded]:
    """The fields of a message, as protobuf writes them: a list that is not packed is a field for every element."""
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
        else:  # groups, which only fields that no schema names can be
            raise HloomError(f"field number {tag >> 3} is a group, which cannot be written")
        fields.append((tag >> 3, data[start:position]))
    return fields


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that stands there, and where it ends."""
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
    """The error for a value that no message holds; `where` says what has it, and the caller raises it."""
    if not isinstance(problem, UnicodeEncodeError):
        return HloomError(f"{where}: {problem}")
    return HloomError(
        f'{where}: the string "{escape(problem.object)}" is not UTF-8, and a proto holds no other',
        hint="save HLO text, which keeps such bytes, or mend the string: XLA would write a proto that nothing can read",
    )
