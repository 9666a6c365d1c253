"""What a program captured from outside while compiling: names and contents, compared before each run."""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

SIMPLE = (bool, int, float, complex, str, bytes)
MOST_BYTES = 1 << 16
"""Arrays of more bytes are compared in place."""


@dataclass(slots=True)
class Captured:
    """A name that the program read: a global, the cell of a closure, or an attribute."""

    container: Any
    """The dict of globals, the cell (whose name is None), or the object (whose name starts with a dot)."""
    name: str | None
    value: Any

    def is_current(self) -> bool:
        """Whether the name means what it meant."""
        if self.name is None:
            try:
                held = self.container.cell_contents
            except ValueError:
                return False
        elif isinstance(self.container, dict):
            held = self.container.get(self.name)
        else:
            held = getattr(self.container, self.name[1:], None)
        return _is_same(held, self.value)


@dataclass(slots=True)
class CapturedContents:
    """A container, an array or an instance that the program read, and what it held: it may be changed in place."""

    held: Any
    contents: Any

    def is_current(self) -> bool:
        """Whether it holds what it held."""
        if isinstance(self.held, np.ndarray):
            dtype, shape, elements = self.contents
            return self.held.dtype == dtype and self.held.shape == shape and _has_bits(self.held, elements)
        contents = contents_of(self.held)
        if isinstance(contents, frozenset) or contents is None:
            return contents == self.contents
        return len(contents) == len(self.contents) and all(map(_is_same, contents, self.contents))


def captured_contents(held: Any) -> CapturedContents | None:
    """An object's current contents, for a later comparison; None for immutable objects."""
    if isinstance(held, np.ndarray):
        return CapturedContents(held, _array_contents(held))
    contents = contents_of(held)
    return None if contents is None else CapturedContents(held, contents)


def contents_of(held: Any) -> list[Any] | frozenset[Any] | None:
    """The parts of a mutable object of Python's, or of an instance of a user's class; None for other objects."""
    if isinstance(held, dict):
        return [*held, *held.values()]
    if isinstance(held, (list, deque)):
        return list(held)
    if isinstance(held, set):
        return frozenset(held)
    attributes = attributes_of(held)
    return None if attributes is None else [*attributes, *attributes.values()]


def attributes_of(held: Any) -> dict[str, Any] | None:
    """The attributes of an instance of a user's class; None for what is no such thing."""
    cls = type(held)
    if isinstance(held, (type, ModuleType, FunctionType, np.generic, np.dtype)) or callable(
        getattr(held, "func", None)
    ):
        return None
    if dataclasses.is_dataclass(held):
        names = [field.name for field in dataclasses.fields(held)]
        extra = [name for name in getattr(held, "__dict__", {}) if name not in names]
        return {name: getattr(held, name) for name in (*names, *extra) if hasattr(held, name)}
    module = cls.__module__.partition(".")[0]
    if module in ("builtins", "numpy", "jax", "jaxlib", "functools", "operator", "hloom", "enum", "re", "types"):
        return None
    if any(base.__module__ in ("enum", "functools") for base in cls.__mro__):
        return None
    if isinstance(getattr(held, "__dict__", None), dict) and any(
        isinstance(function, FunctionType) for base in cls.__mro__[:-1] for function in vars(base).values()
    ):
        return dict(vars(held))
    return None


def is_of_users(module: str | None) -> bool:
    """Whether a module is neither Python's own nor a library of arrays, whose names do not change."""
    top = (module or "").partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("numpy", "jax", "jaxlib", "scipy", "ml_dtypes", "hloom")


def _is_same(held: Any, value: Any) -> bool:
    if held is value:
        return True
    return isinstance(held, SIMPLE) and type(held) is type(value) and held == value


def _array_contents(held: np.ndarray) -> tuple[Any, ...]:
    """An array's element type, shape and elements: as bytes, which compare soonest, or a copy of many."""
    return held.dtype, held.shape, held.tobytes() if held.nbytes <= MOST_BYTES else held.copy()


def _has_bits(held: np.ndarray, elements: bytes | np.ndarray) -> bool:
    """Whether an array has the bits of elements of its type and shape."""
    if isinstance(elements, bytes):
        return held.tobytes() == elements
    if held.dtype.itemsize in (1, 2, 4, 8) and held.flags.c_contiguous and elements.flags.c_contiguous:
        bits = f"u{held.dtype.itemsize}"
        return bool(np.array_equal(held.view(bits), elements.view(bits)))
    return held.tobytes() == elements.tobytes()
