"""Splits an instruction's bytes into its own parts and parts that other instructions may share.

Assumes bytes as protobuf writes them: fields in order of their numbers, each once, with unknown fields last.
"""

from __future__ import annotations

import re

from hloom.formats.hlo.proto.encoded_messages import DELIMITED, FIXED_32, FIXED_64, VARINT, read_varint

_NAME, _OPCODE, _SHAPE, _METADATA, _LITERAL, _PARAMETER = 0x0A, 0x12, 0x1A, 0x3A, 0x42, 0x48
"""The keys of the fields that come first."""
_ID, _OPERANDS, _CONTROL, _CALLED = 0x98, 0xA2, 0xAA, 0xB2
"""The first bytes of the keys of the fields that name instructions and computations; the second is 2."""
_ID_NUMBER = 35

_VARINTS = re.compile(rb"[\x80-\xff]*+[\x00-\x7f]", re.DOTALL)


Parts = tuple[bytes, bytes, bytes, bytes | None, int, bytes, bytes, bytes, bytes, bytes]
"""The encoded parts of an instruction: its name; the opcode and the shape with their keys; the metadata; the literal,
or None; the parameter number; the id; the ids of the operands, the control predecessors and the called computations;
and the attribute fields. Absent parts are empty.
"""


def cut(data: bytes) -> Parts:
    """Split an instruction's bytes into parts.

    Runs for every instruction, so one-byte lengths, which are most, are decoded inline.
    """
    data += b"\0"  # not a field's key: ends the search
    name = metadata = operands = control = called = rest = b""
    literal = None
    parameter_number, number, position = 0, b"\0", 0
    if data[0] == _NAME:
        begin, size = 2, data[1]
        if size > 127:
            size, begin = read_varint(data, 1)
        position = begin + size
        name = data[begin:position]
    first = position
    if data[position] == _OPCODE:
        begin, size = position + 2, data[position + 1]
        if size > 127:
            size, begin = read_varint(data, position + 1)
        position = begin + size
    if data[position] == _SHAPE:
        begin, size = position + 2, data[position + 1]
        if size > 127:
            size, begin = read_varint(data, position + 1)
        position = begin + size
    start = data[first:position]
    if data[position] == _METADATA:
        begin, size = position + 2, data[position + 1]
        if size > 127:
            size, begin = read_varint(data, position + 1)
        position = begin + size
        metadata = data[begin:position]
    if data[position] == _LITERAL:
        begin, position = _inside(data, position + 1)
        literal = data[begin:position]
    if data[position] == _PARAMETER:
        parameter_number, position = read_varint(data, position + 1)
    if data[position] != _ID or data[position + 1] != 2:
        first, position = position, _end_of_first(data, position)
        rest = data[first:position]
    if data[position] == _ID and data[position + 1] == 2:
        first = position = position + 2
        while data[position] > 127:
            position += 1
        position += 1
        number = data[first:position]
    if data[position] == _OPERANDS and data[position + 1] == 2:
        begin, size = position + 3, data[position + 2]
        if size > 127:
            size, begin = read_varint(data, position + 2)
        position = begin + size
        operands = data[begin:position]
    if len(data) - position > 1:
        if data[position] == _CONTROL and data[position + 1] == 2:
            begin, position = _inside(data, position + 2)
            control = data[begin:position]
        if data[position] == _CALLED and data[position + 1] == 2:
            begin, position = _inside(data, position + 2)
            called = data[begin:position]
        rest += data[position:-1]
    return name, start, metadata, literal, parameter_number, number, operands, control, called, rest


def packed(data: bytes) -> list[bytes]:
    """The encoded numbers of a packed list."""
    return _VARINTS.findall(data)


def signed(number: bytes) -> int:
    """A 64-bit pattern as a signed number."""
    value, _ = read_varint(number, 0)
    return value - (value >> 63 << 64)


def _inside(data: bytes, position: int) -> tuple[int, int]:
    """The start and the end of a field's data, given the position of its length."""
    size = data[position]
    if size < 128:
        return position + 1, position + 1 + size
    size, position = read_varint(data, position)
    return position, position + size


def _end_of_first(data: bytes, position: int) -> int:
    """The end of the fields whose numbers are below that of the id."""
    while data[position]:
        tag, inside = read_varint(data, position)
        if tag >> 3 >= _ID_NUMBER:
            break
        wire_type = tag & 7
        if wire_type == VARINT:
            _, position = read_varint(data, inside)
        elif wire_type == DELIMITED:
            _, position = _inside(data, inside)
        elif wire_type in (FIXED_64, FIXED_32):
            position = inside + (8 if wire_type == FIXED_64 else 4)
        else:
            break
    return position
