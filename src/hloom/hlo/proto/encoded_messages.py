"""Modules' messages with instructions as they stand on the wire: their shapes and metadata as bytes.

What instructions share is told by these bytes, and need not become an object of protobuf for every one of them.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from hloom import protobuf

_OWN = (
    "name",
    "opcode",
    "shape",
    "metadata",
    "literal",
    "parameter_number",
    "id",
    "operand_ids",
    "control_predecessor_ids",
)
"""What an instruction does not share with others that have the same attributes, or has as bytes."""


@cache
def wire_messages() -> dict[str, Any]:
    """The message classes by name."""
    return protobuf.xla.narrowed(
        {"HloModuleProto": ("computations",), "HloComputationProto": ("instructions",), "HloInstructionProto": _OWN}
    )


def new_wire_module() -> Any:
    """An empty module, to be written."""
    return wire_messages()["HloModuleProto"]()


def wire_module(proto: Any) -> Any:
    """The same module; what a message says in several parts is put together."""
    return wire_messages()["HloModuleProto"].FromString(proto.SerializeToString())


@lru_cache(maxsize=4096)
def varint(value: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first; negative ones as 64 bits."""
    value &= 2**64 - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)
