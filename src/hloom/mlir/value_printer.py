"""Attribute values as MLIR prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Attributes, Verbatim
from hloom.mlir.floats import is_float, print_float
from hloom.mlir.type_reader import DEEPEST
from hloom.mlir.types import shaped_element
from hloom.mlir.values import UNIT, Dense, OpaqueValue, Symbol, TypedArray, TypedNumber, TypeValue, Unit
from hloom.text import Unsupported, mlir_strings

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ELIDED = frozenset(("i64", "f64"))


def print_value(value: Any, depth: int = 0) -> str:
    """The text of a value; raises Unsupported for what no attribute can be.

    >>> print_value((TypedNumber(1), TypedNumber(2, "si64"), "a"))
    '[1, 2 : si64, "a"]'
    """
    printer = _PRINTERS.get(type(value))
    if printer is None:
        raise Unsupported(f"{value!r} cannot be an attribute in MLIR")
    if depth > DEEPEST:
        raise Unsupported(f"attributes nest deeper than {DEEPEST} levels")
    return printer(value, depth)


def print_dictionary(values: Mapping[str, Any], depth: int = 0) -> str:
    """`{a = 1 : i64, b}`, sorted by name."""
    return "{" + ", ".join([_named(name, values[name], depth) for name in sorted(values)]) + "}"


def print_symbol(name: str) -> str:
    """`@name`, in quotes where it must be."""
    return f"@{name}" if _BARE.fullmatch(name) else f"@{mlir_strings.quote(name)}"


def _named(name: str, value: Any, depth: int) -> str:
    text = name if _BARE.fullmatch(name) else mlir_strings.quote(name)
    return text if value is UNIT else f"{text} = {print_value(value, depth + 1)}"


def _in_array(value: Any, depth: int) -> str:
    if isinstance(value, TypedNumber) and value.type in _ELIDED:
        text = _number(value.value, value.type)
        if value.type == "i64" or not text.startswith("0x"):  # bits alone would read as an integer
            return text
    return print_value(value, depth + 1)


def _number(value: float, type_: str) -> str:
    if isinstance(value, bool) or type_ == "i1":
        return "true" if value else "false"
    return print_float(value, type_) if is_float(type_) else str(value)


def _nested(value: Any, type_: str, depth: int = 0) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join([_nested(item, type_, depth + 1) for item in value]) + "]"
    return mlir_strings.quote(value) if isinstance(value, str) else _number(value, type_)


def _dense(value: Dense, depth: int) -> str:
    inside = "" if value.elements == () else _nested(value.elements, shaped_element(value.type))
    return f"dense<{inside}> : {value.type}"


def _array(value: TypedArray, depth: int) -> str:
    inside = ", ".join([_number(item, value.type) for item in value.values])
    return f"array<{value.type}: {inside}>" if inside else f"array<{value.type}>"


_PRINTERS: dict[type, Callable[[Any, int], str]] = {
    bool: lambda value, depth: "true" if value else "false",
    str: lambda value, depth: mlir_strings.quote(value),
    tuple: lambda value, depth: "[" + ", ".join([_in_array(item, depth) for item in value]) + "]",
    Attributes: print_dictionary,
    Unit: lambda value, depth: "unit",
    TypedNumber: lambda value, depth: f"{_number(value.value, value.type)} : {value.type}",
    TypedArray: _array,
    Dense: _dense,
    Symbol: lambda value, depth: "::".join(map(print_symbol, value.path)),
    TypeValue: lambda value, depth: value.text,
    OpaqueValue: lambda value, depth: value.text,
    Verbatim: lambda value, depth: value.text,
}
