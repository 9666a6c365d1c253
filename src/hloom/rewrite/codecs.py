"""Codecs for values inside saved rules: to JSON and back.

Numbers, strings, true, false and null stand for themselves and a list for a tuple; all else is an object with one key,
the name of its codec. To let rules hold another kind of value, register a codec for its class here
(`register_codec`, `register_dataclass`); a dialect registers those of its own values.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

from hloom import ir
from hloom.ir import DTYPES, DType, Literal, TensorType, Type, dtype_of
from hloom.rewrite.registry import RuleError
from hloom.rewrite.type_guards import as_tuple, is_list, is_object, is_tuple
from hloom.rewrite.type_text import type_from, type_text
from hloom.text import HloomError

MAX_DEPTH = 64
"""The maximum nesting depth of values and expressions in a rule file."""
MAX_INTEGER = 1 << 128
"""The maximum absolute value of an integer in a rule file: twice the width of any element type."""
MAX_LENGTH = 1 << 20
"""The maximum number of elements of a list, an array or a string."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of a class are saved: `encode` returns JSON data, `decode` restores the value or raises."""

    name: str
    value_class: type
    encode: Callable[[Any], Any]
    decode: Callable[[object, str], Any]


_BY_NAME: dict[str, Codec] = {}
_BY_CLASS: dict[type, Codec] = {}


def register_codec(
    name: str, value_class: type, encode: Callable[[Any], Any], decode: Callable[[object, str], Any]
) -> None:
    """Allow values of a class in rules: `decode` gets what `encode` returned, and the place in the file for errors.

    Raises RuleError if the name is taken by another class.
    """
    known = _BY_NAME.get(name)
    if known is not None and known.value_class.__qualname__ != value_class.__qualname__:
        raise RuleError(f"a codec named '{name}' is registered already, for {known.value_class.__qualname__}")
    _BY_NAME[name] = _BY_CLASS[value_class] = Codec(name, value_class, encode, decode)


def register_dataclass(name: str, value_class: type) -> None:
    """Allow values of a dataclass in rules, field by field; a field's value must have the annotated type."""
    register_codec(name, value_class, _encode_fields, lambda data, path: _decode_fields(value_class, data, path))


def register_enum(name: str, value_class: type[Enum]) -> None:
    """Allow the members of an enumeration in rules, by name."""

    def decode(data: object, path: str) -> Any:
        if not isinstance(data, str) or data not in value_class.__members__:
            raise RuleError(f"{path}: {_shown(data)} is not one of {', '.join(value_class.__members__)}")
        return value_class[data]

    register_codec(name, value_class, lambda value: value.name, decode)


def encode_value(value: object) -> Any:
    """A value as JSON data; raises RuleError for values without a codec."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) in (tuple, list):
        return [encode_value(item) for item in as_tuple(value)]
    codec = _BY_CLASS.get(type(value)) or _codec_of(value)
    if codec is None:
        raise RuleError(
            f"a value of {type(value).__qualname__} cannot be saved: {value!r:.80}", hint="register a codec for it"
        )
    return {codec.name: codec.encode(value)}


def decode_value(data: object, path: str, depth: int = 0) -> Any:
    """The value that a part of a rule file encodes; raises RuleError that names the part."""
    if depth > MAX_DEPTH:
        raise RuleError(f"{path}: it is nested deeper than {MAX_DEPTH}")
    if data is None or isinstance(data, bool):
        return data
    if isinstance(data, str):
        if len(data) > MAX_LENGTH:
            raise RuleError(f"{path}: the string is longer than {MAX_LENGTH:,}")
        return data
    if isinstance(data, int):
        if abs(data) > MAX_INTEGER:
            raise RuleError(f"{path}: the number is too large")
        return data
    if isinstance(data, float):
        if not math.isfinite(data):
            raise RuleError(f'{path}: write {{"float": "inf"}} for numbers that are not finite')
        return data
    if is_list(data):
        if len(data) > MAX_LENGTH:
            raise RuleError(f"{path}: the list is longer than {MAX_LENGTH:,}")
        return tuple([decode_value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(data)])
    if not is_object(data) or len(data) != 1:
        raise RuleError(f"{path}: {_shown(data)} is not a value", hint="a value of a class is an object of one key")
    name, inside = next(iter(data.items()))
    codec = _BY_NAME.get(name)
    if codec is None:
        raise RuleError(f"{path}: no codec is called '{name}'", hint="import the dialect that registers it")
    try:
        return codec.decode(inside, f"{path}.{name}")
    except RuleError:
        raise
    except HloomError as error:
        raise RuleError(f"{path}: {error.message}") from None
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError, RecursionError, MemoryError) as error:
        raise RuleError(f"{path}: {_shown(inside)} is not a {name}: {error}") from None


def _codec_of(value: object) -> Codec | None:
    return next((codec for value_class, codec in reversed(_BY_CLASS.items()) if isinstance(value, value_class)), None)


def _shown(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Dataclasses, field by field


@lru_cache(None)
def _hints(value_class: type) -> dict[str, Any]:
    """The annotations of a dataclass's fields, resolved in its module."""
    return typing.get_type_hints(value_class)


def _encode_fields(value: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        if field.default is dataclasses.MISSING or own != field.default or type(own) is not type(field.default):
            encoded[field.name] = encode_value(own)
    return encoded


def _decode_fields(value_class: type, data: object, path: str) -> Any:
    if not is_object(data):
        raise RuleError(f"{path}: {_shown(data)} is not a {value_class.__name__}")
    hints = _hints(value_class)
    names = [field.name for field in dataclasses.fields(value_class)]
    unknown = [name for name in data if name not in names]
    if unknown:
        raise RuleError(f"{path}: {value_class.__name__} has no '{unknown[0]}'", hint=f"it has {', '.join(names)}")
    values = {name: decode_value(item, f"{path}.{name}", 1) for name, item in data.items()}
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise RuleError(f"{path}.{name}: {_shown(data[name])} is not what it must be: {hints[name]}")
    return value_class(**values)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value has the type of an annotation."""
    if hint in (Any, object):
        return True
    if hint is float:
        return type(value) in (int, float)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple:
        if not is_tuple(value):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_fits(item, arguments[0]) for item in value)
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    if origin is not None or not isinstance(hint, type):
        return True
    return isinstance(value, hint) and not (hint is int and isinstance(value, bool))


# Numbers of an element type, arrays, types


def _encode_float(value: float) -> str:
    return str(value)


def _decode_float(data: object, path: str) -> float:
    if not isinstance(data, str) or data not in ("inf", "-inf", "nan"):
        raise RuleError(f"{path}: {_shown(data)} is not one of inf, -inf, nan")
    return float(data)


def _encode_complex(value: complex) -> list[Any]:
    return [encode_value(value.real), encode_value(value.imag)]


def _decode_complex(data: object, path: str) -> complex:
    parts = decode_value(data, path)
    if not _are_numbers(parts, (int, float)) or len(parts) != 2:
        raise RuleError(f"{path}: {_shown(data)} is not a pair of numbers")
    return complex(*parts)


def _encode_array(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    array_type = TensorType(dtype_of(array.dtype), array.shape)
    if array.size > MAX_LENGTH:
        raise RuleError(f"an array {array_type} is too large for a rule file")
    return {
        "type": type_text(array_type),
        "elements": [encode_value(_number(element)) for element in array.reshape(-1)],
    }


def _are_numbers(value: object, classes: tuple[type, ...]) -> TypeGuard[tuple[Any, ...]]:
    return is_tuple(value) and all(type(element) in classes for element in value)


def _number(value: Any) -> Any:
    """A numpy scalar as a Python number; the narrow types have no `item` of their own."""
    number: Any = np.asarray(value).item()
    if isinstance(number, (bool, int, float, complex)):
        return number
    return int(value) if dtype_of(np.asarray(value).dtype).is_integer else float(value)


def _decode_array(data: object, path: str) -> np.ndarray:
    parts, array_type = _array_parts(data, path)
    elements = decode_value(parts["elements"], f"{path}.elements")
    if not _are_numbers(elements, (bool, int, float, complex)):
        raise RuleError(f"{path}.elements: they are not numbers")
    if len(elements) != array_type.element_count:
        raise RuleError(f"{path}: {array_type} has {array_type.element_count} elements, not {len(elements)}")
    if not elements:
        return np.zeros(array_type.dims, array_type.dtype.numpy)
    array = ir.literal_of(np.array(elements), array_type.dtype).numpy()
    return array.reshape(array_type.dims).copy()


def _array_parts(data: object, path: str) -> tuple[dict[str, object], TensorType]:
    """The parts of an array's data by name, and the type that they say."""
    text = data.get("type") if is_object(data) and not set(data) - {"type", "elements", "splat"} else None
    if not is_object(data) or not isinstance(text, str):
        raise RuleError(f"{path}: {_shown(data)} is not an array")
    array_type = type_from(text)
    if not isinstance(array_type, TensorType) or not array_type.is_static:
        raise RuleError(f"{path}.type: {array_type} is not an array of known size")
    return data, array_type


def _decode_scalar(data: object, path: str) -> Any:
    array = _decode_array(data, path)
    if array.shape:
        raise RuleError(f"{path}: {_array_parts(data, path)[1]} is not a scalar")
    return array[()]


def _encode_literal(value: Literal) -> dict[str, Any]:
    if value.is_tuple or value.is_elided:
        raise RuleError(f"a literal of type {value.type} cannot be saved in a rule")
    if value.is_splat and isinstance(value.type, TensorType) and value.type.dims:
        return {"type": type_text(value.type), "splat": encode_value(_number(value.splat_value()))}
    return {**_encode_array(value.numpy()), "type": type_text(value.type)}


def _decode_literal(data: object, path: str) -> Literal:
    parts, array_type = _array_parts(data, path)
    if "splat" not in parts:
        return Literal.array(array_type, _decode_array(data, path))
    number = _decode_array({"type": f"{array_type.dtype}[]", "elements": [parts["splat"]]}, path)
    return Literal.splat(array_type, number)


def _decode_type(data: object, path: str) -> Type:
    if not isinstance(data, str):
        raise RuleError(f"{path}: {_shown(data)} is not a type")
    return type_from(data)


def _decode_dtype(data: object, path: str) -> DType:
    if not isinstance(data, str) or data not in DTYPES:
        raise RuleError(f"{path}: {_shown(data)} is not an element type")
    return DTYPES[data]


register_codec("float", float, _encode_float, _decode_float)
register_codec("complex", complex, _encode_complex, _decode_complex)
register_codec("scalar", np.generic, _encode_array, _decode_scalar)
register_codec("array", np.ndarray, _encode_array, _decode_array)
register_codec("literal", Literal, _encode_literal, _decode_literal)
register_codec("type", Type, type_text, _decode_type)
register_codec("dtype", DType, str, _decode_dtype)
for _name, _kind in {
    "window-dimension": ir.WindowDimension,
    "window": ir.Window,
    "dimension-labels": ir.ConvolutionDimensions,
    "padding": ir.PaddingDimension,
    "slice": ir.SliceDimension,
    "output-alias": ir.OutputAlias,
    "accuracy": ir.ResultAccuracy,
    "statistics": ir.Statistics,
    "sparsity": ir.Sparsity,
    "verbatim": ir.Verbatim,
    "iota-devices": ir.IotaDevices,
    "explicit-devices": ir.ExplicitDevices,
    "explicit-groups": ir.ExplicitGroups,
    "iota-groups": ir.IotaGroups,
    "shard-group": ir.ShardGroup,
    "uniform-sharding": ir.Uniform,
    "maximal-sharding": ir.Maximal,
    "tiled-sharding": ir.Tiled,
    "tuple-sharding": ir.TupleSharding,
}.items():
    register_dataclass(_name, _kind)
