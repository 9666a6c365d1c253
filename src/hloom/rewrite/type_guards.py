"""Type guards of values from JSON data and from rules, for what a type checker cannot see of their elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard, cast


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether it is a list, as JSON arrays are read."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether it is a dictionary, as JSON objects are read."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether it is a mapping, whose keys are then names."""
    return isinstance(value, Mapping)


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    """Whether it is a tuple, as values of several parts are in attributes."""
    return isinstance(value, tuple)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The elements of a tuple or a list; of anything else, the value alone.

    >>> as_tuple([2, 3]), as_tuple("f32")
    ((2, 3), ('f32',))
    """
    return tuple(cast("tuple[Any, ...]", value)) if isinstance(value, (tuple, list)) else (value,)
