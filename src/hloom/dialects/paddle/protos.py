"""Paddle's protobuf messages, and the values of op attributes in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from google.protobuf.message import DecodeError

from hloom.formats.protobuf import Schema
from hloom.ir import DType, dtype
from hloom.text import HloomError

PADDLE = Schema("paddle")
"""ProgramDesc, MultiPassDesc and what they hold, in our own package and descriptor pool."""

_FIELDS = {
    "INT": "i",
    "FLOAT": "f",
    "STRING": "s",
    "INTS": "ints",
    "FLOATS": "floats",
    "STRINGS": "strings",
    "BOOLEAN": "b",
    "BOOLEANS": "bools",
    "BLOCK": "block_idx",
    "LONG": "l",
    "BLOCKS": "blocks_idx",
    "LONGS": "longs",
    "FLOAT64S": "float64s",
    "VAR": "var_name",
    "VARS": "vars_name",
    "FLOAT64": "float64",
    "SCALAR": "scalar",
    "SCALARS": "scalars",
}
"""The field of OpDesc.Attr that holds a value, by the attribute's type."""
LISTS = frozenset({"INTS", "FLOATS", "STRINGS", "BOOLEANS", "BLOCKS", "LONGS", "FLOAT64S", "VARS", "SCALARS"})
_ELEMENTS = {"INT": int, "LONG": int, "FLOAT": float, "FLOAT64": float, "BOOLEAN": bool, "STRING": str, "BLOCK": int}
_SCALARS = {"BOOLEAN": "b", "LONG": "i", "FLOAT64": "r"}


def parsed(message_type: str, data: bytes, what: str) -> Any:
    """A message from bytes; raises HloomError where they are none."""
    try:
        return PADDLE[message_type].FromString(data)
    except DecodeError as error:
        raise HloomError(f"{what} is not a {message_type}: {error}") from None


def type_name(number: int) -> str:
    """The name of an attribute's type."""
    return PADDLE["AttrType"].Name(number)


def attribute_value(message: Any) -> Any:
    """The value that an OpDesc.Attr holds: a number, a text, or a tuple of them."""
    attribute_type = type_name(message.type)
    value = getattr(message, _FIELDS[attribute_type])
    if attribute_type == "SCALAR":
        return _scalar(value)
    if attribute_type == "SCALARS":
        return tuple(map(_scalar, value))
    return tuple(value) if attribute_type in LISTS else value


def set_attribute(message: Any, name: str, value: Any, attribute_type: str) -> None:
    """Fill an OpDesc.Attr."""
    message.name = name
    message.type = PADDLE["AttrType"].Value(attribute_type)
    field = _FIELDS[attribute_type]
    try:
        if attribute_type == "SCALAR":
            _set_scalar(message.scalar, value)
        elif attribute_type == "SCALARS":
            for item in value:
                _set_scalar(message.scalars.add(), item)
        elif attribute_type in LISTS:
            getattr(message, field).extend(value)
        else:
            setattr(message, field, value)
    except (TypeError, ValueError) as error:
        raise HloomError(f"attribute {name} of type {attribute_type} cannot be {value!r}: {error}") from None


def add_shape(conditions: Any, variable: str, sizes: Sequence[int]) -> None:
    """Add the condition that a variable has a shape."""
    attribute = {"role": "kVariable", "var_name": variable, "name": "shape"}
    set_attribute(conditions.add(type="kEQ", attr=attribute).condition_value, "", sizes, "LONGS")


_WIDTHS = {"INT": {"INT"}, "LONG": {"INT", "LONG"}, "FLOAT": {"INT", "LONG", "FLOAT"}}
"""The types of numbers that one list may hold, by the narrowest type that holds them all."""


def natural_type(value: Any) -> str:
    """The type that an attribute has for which no table has one."""
    if isinstance(value, (tuple, list)):
        types = set(map(natural_type, value)) or {"INT"}
        return (next((name for name, held in _WIDTHS.items() if types <= held), None) or natural_type(value[0])) + "S"
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "INT" if -(1 << 31) <= value < 1 << 31 else "LONG"
    if isinstance(value, float):
        return "FLOAT"
    if isinstance(value, str):
        return "STRING"
    raise HloomError(f"{value!r} is not a value of an attribute")


def converted(value: Any, attribute_type: str) -> Any:
    """A value as an attribute of a type holds it: whole numbers become floats, floats lose what 32 bits cannot hold."""
    if attribute_type in LISTS:
        given = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(converted(item, attribute_type.removesuffix("S")) for item in given)
    message = PADDLE["OpDesc"].Attr()
    element = _ELEMENTS.get(attribute_type)
    fits = isinstance(value, (bool, int, float)) if element in (int, float, bool) else isinstance(value, str)
    if element is None:
        return value
    if not fits or (element is int and value != int(value)) or (element is bool and value not in (0, 1)):
        raise HloomError(f"{value!r} is not a value of type {attribute_type}")
    set_attribute(message, "", element(value), attribute_type)
    return attribute_value(message)


def _scalar(message: Any) -> Any:
    attribute_type = message.Type.Name(message.type)
    if attribute_type == "COMPLEX128":
        return complex(message.c.r, message.c.i)
    return getattr(message, _SCALARS[attribute_type])


def _set_scalar(message: Any, value: Any) -> None:
    attribute_type = {bool: "BOOLEAN", int: "LONG", float: "FLOAT64", complex: "COMPLEX128"}[type(value)]
    message.type = message.Type.Value(attribute_type)
    if attribute_type == "COMPLEX128":
        message.c.r, message.c.i = value.real, value.imag
    else:
        setattr(message, _SCALARS[attribute_type], value)


_NAMES = {
    0: "pred",
    1: "s16",
    2: "s32",
    3: "s64",
    4: "f16",
    5: "f32",
    6: "f64",
    19: "u64",
    20: "u8",
    21: "s8",
    22: "bf16",
    23: "c64",
    24: "c128",
}
DATA_TYPES: Mapping[int, DType] = MappingProxyType({number: dtype(name) for number, name in _NAMES.items()})
"""The element type of each of Paddle's numbers."""
NUMBERS: Mapping[DType, int] = MappingProxyType({element_type: number for number, element_type in DATA_TYPES.items()})
"""Paddle's number of each element type."""
