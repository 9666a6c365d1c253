"""The compile-time description of a function's arguments: array types, structure, and static values."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np

from hloom.functions import ArgumentArray, ArgumentTree, Static, class_of_container, memory_order
from hloom.text import HloomError

NUMBERS: dict[int, dict[type, Any]] = {
    64: {
        bool: np.dtype(bool),
        int: np.dtype(np.int64),
        float: np.dtype(np.float64),
        complex: np.dtype(np.complex128),
    },
    32: {
        bool: np.dtype(bool),
        int: np.dtype(np.int32),
        float: np.dtype(np.float32),
        complex: np.dtype(np.complex64),
    },
}
"""The types of Python's own numbers, by how many bits they have in a program."""


@functools.lru_cache(maxsize=4096)
def positions(original: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(original).parameters)
    except (TypeError, ValueError):
        return ()


def check_static(original: Callable[..., Any], names: Sequence[str | int]) -> None:
    """Raise HloomError where `static` names no parameter of a function."""
    try:
        parameters = inspect.signature(original).parameters
    except (TypeError, ValueError):
        return
    rules = {parameter.kind for parameter in parameters.values()}
    for name in names:
        if isinstance(name, str):
            is_there = name in parameters or inspect.Parameter.VAR_KEYWORD in rules
        else:
            is_there = name >= 0 and (name < len(parameters) or inspect.Parameter.VAR_POSITIONAL in rules)
        if not is_there:
            named = getattr(original, "__name__", type(original).__name__)
            raise HloomError(f"static={name!r}: {named}() has no such parameter")


def frozen(value: Any) -> Any:
    """A static argument as a key: hashable."""
    try:
        hash(value)
    except TypeError:
        if isinstance(value, list):
            return tuple(map(frozen, value))
        raise HloomError(f"a static argument must be hashable, but is {value!r}") from None
    return value


def abstract(argument: Any, arrays: list[Any], table: dict[type, Any]) -> Any:
    """An argument as what a program is compiled for; its arrays are collected."""
    cls = type(argument)
    python = table.get(cls)
    if python is not None:
        if cls is int and not -(1 << (8 * python.itemsize - 1)) <= argument < 1 << (8 * python.itemsize - 1):
            raise HloomError(f"the number {argument} does not fit {python}")
        arrays.append(np.asarray(argument, python))
        return ArgumentArray((), python, True)
    if cls is tuple or cls is list:
        return ArgumentTree(cls, None, tuple([abstract(item, arrays, table) for item in argument]))
    if cls is dict:
        parts = tuple([abstract(item, arrays, table) for item in argument.values()])
        return ArgumentTree(dict, tuple(argument), parts)
    if isinstance(argument, (np.ndarray, np.generic)) or (
        hasattr(argument, "__array__") and hasattr(argument, "dtype") and not isinstance(argument, type)
    ):
        dtype = argument.dtype
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            dtype = dtype.newbyteorder("=")
            argument = np.asarray(argument).astype(dtype)
        arrays.append(argument)
        is_in_order = not isinstance(argument, np.ndarray) or argument.flags.c_contiguous
        order = None if is_in_order else memory_order(argument.shape, argument.strides)
        dtype = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        return ArgumentArray(tuple(argument.shape), dtype, False, order)
    if argument is None or isinstance(argument, (str, bytes, type, np.dtype, Enum, int, float, complex, ModuleType)):
        return Static(argument)  # numbers of subclasses of Python's, an enumeration's among them, are known
    if isinstance(argument, (tuple, list)):
        return ArgumentTree(cls, None, tuple(abstract(item, arrays, table) for item in argument))
    if isinstance(argument, deque):
        parts = tuple(abstract(item, arrays, table) for item in argument)
        return ArgumentTree(class_of_container(argument), None, parts)
    if isinstance(argument, dict):
        cls = class_of_container(argument)
        return ArgumentTree(cls, tuple(argument), tuple(abstract(item, arrays, table) for item in argument.values()))
    if dataclasses.is_dataclass(argument) and not isinstance(argument, type):
        names = tuple(field.name for field in dataclasses.fields(argument))
        return ArgumentTree(cls, names, tuple(abstract(getattr(argument, name), arrays, table) for name in names))
    if callable(argument):
        return Static(argument)
    held = getattr(argument, "__dict__", None)
    if isinstance(held, dict):
        return ArgumentTree(cls, tuple(held), tuple(abstract(item, arrays, table) for item in held.values()))
    return Static(frozen(argument))
