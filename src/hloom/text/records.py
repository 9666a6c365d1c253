"""Reports as JSON: a class says which keys it has, and JSON Schemas (docs/schemas) are made from the same words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import BuiltinMethodType, MethodType, MethodWrapperType
from typing import Annotated, Any, ClassVar

SCHEMA_VERSION = 1
"""The version of every JSON report: it grows where a key goes, or changes its name, type, unit or meaning."""

Bytes = Annotated[int, "bytes"]
Seconds = Annotated[float, "seconds"]


class Record:
    """A report that is written as JSON, with the keys that `json_keys` lists; without a list, its dataclass fields.

    Of `json_keys`, `name` is an attribute or a method without arguments, `key=a.b` one of an attribute under another
    key, `key?` a key that is left out if it is empty, `*` stands for all fields, and `**a` for the keys of attribute
    `a`, if there is one. A path through a tuple or list takes each of its elements, and one through None gives None.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Read(Record):
    ...     path: str
    ...     sizes: tuple[int, ...]
    ...     problem: str = ""
    ...     json_keys = "file=path.upper sizes problem?"
    >>> Read("a.hlo", (1, 2)).to_json()
    {'file': 'A.HLO', 'sizes': [1, 2]}
    """

    __slots__ = ()
    json_keys: ClassVar[str] = "*"

    def to_json(self) -> dict[str, Any]:
        """Plain values, which `json.dumps` takes; numbers that are not finite are None."""
        return _fields(self)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a record, and the attributes that lead to its value; without a name, the value's own keys are meant."""

    name: str
    path: tuple[str, ...]
    is_optional: bool = False


@cache
def keys_of(owner: type) -> tuple[Key, ...]:
    """The keys that a record or dataclass has as JSON."""
    words = getattr(owner, "json_keys", "*").split()
    return tuple(key for word in words for key in ([_key(word)] if word != "*" else _field_keys(owner)))


def _field_keys(owner: Any) -> list[Key]:
    return [Key(field.name, (field.name,)) for field in fields(owner)]


def _key(word: str) -> Key:
    if word.startswith("**"):
        return Key("", tuple(word[2:].split(".")))
    name, equals, path = word.partition("=")
    path = tuple((path if equals else name.removesuffix("?")).split("."))
    return Key((name if equals else path[-1]).removesuffix("?"), path, name.endswith("?"))


def plain(value: Any) -> Any:
    """A value as JSON has it: of records and dataclasses their keys, and text of what JSON has no form for."""
    if value is None or (isinstance(value, str | bool | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if hasattr(value, "to_json"):
        return value.to_json() if isinstance(value, Record) else plain(value.to_json())
    if hasattr(value, "json_keys") or is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(held) for key, held in value.items()}
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return plain(value.tolist())
    return [plain(held) for held in value] if isinstance(value, Iterable) else str(value)


def _fields(owner: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in keys_of(type(owner)):
        value = plain(_follow(owner, key.path))
        if not key.name:
            made |= value or {}
        elif not key.is_optional or value not in (None, "", [], {}):
            made[key.name] = value
    return made


def _follow(value: Any, path: tuple[str, ...]) -> Any:
    for number, part in enumerate(path):
        if type(value) in (tuple, list):
            return [_follow(held, path[number:]) for held in value]
        if value is None:
            return None
        value = getattr(value, part)
        if isinstance(value, BuiltinMethodType | MethodType | MethodWrapperType):
            value = value()
    return value
