"""Attribute values that Python has no class for: immutable, hashable, compared by what they print as.

Strings are `str`, `true` and `false` are `bool`, arrays are tuples, dictionaries are `Attributes`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from hloom.formats.mlir.floats import is_float, rounded
from hloom.formats.mlir.types import type_of
from hloom.ir import Type


class Unit(Enum):
    """The one value of an attribute that is merely there; its `value` is true."""

    UNIT = True

    def __repr__(self) -> str:
        return "unit"


UNIT = Unit.UNIT


@dataclass(frozen=True, slots=True, eq=False)
class TypedNumber:
    """A number and the type written behind it: `2 : si32`; equal to another of the same type and the same bits.

    A number of a floating-point type is rounded to it.
    """

    value: int | float
    type: str = "i64"

    def __post_init__(self) -> None:
        if is_float(self.type):
            object.__setattr__(self, "value", rounded(float(self.value), self.type))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedNumber):
            return NotImplemented
        return self.type == other.type and _bits(self.value) == _bits(other.value)

    def __hash__(self) -> int:
        return hash((self.type, _bits(self.value)))

    def __repr__(self) -> str:
        return f"{self.value} : {self.type}"


@dataclass(frozen=True, slots=True)
class TypedArray:
    """`array<i32: 1, 2>`: numbers (or bools, for i1) of one type."""

    values: tuple[int | float | bool, ...]
    type: str

    @property
    def value(self) -> tuple[int | float | bool, ...]:
        """The numbers."""
        return self.values


@dataclass(frozen=True, slots=True)
class Dense:
    """`dense<[1, 2]> : tensor<2xi32>`: nested tuples, one number for all, or `"0x..."` with the bytes."""

    elements: tuple | int | float | bool | str
    type: str

    @property
    def value(self) -> tuple | int | float | bool | str:
        """The elements as they are nested in the text."""
        return self.elements


@dataclass(frozen=True, slots=True)
class Symbol:
    """`@a::@b`: a reference to a symbol, by the names on the way to it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as an attribute's value, in MLIR's spelling."""

    text: str

    @property
    def type(self) -> Type:
        """The IR's type; OPAQUE for what it has no type for."""
        return type_of(self.text)


@dataclass(frozen=True, slots=True)
class OpaqueValue:
    """An attribute of some dialect, or of a builtin kind without a class here, kept as it was written."""

    text: str


def _bits(value: float) -> int | bytes:
    return struct.pack(">d", value) if isinstance(value, float) else value
