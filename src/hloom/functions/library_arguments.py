"""Arguments of calls into an array library: which are known at compile time, and in what form jax takes them."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.container_classes import is_list
from hloom.functions.library_protocols import Placeholder
from hloom.functions.values import AbstractValue, Array, Const, Keywords, Tuple
from hloom.text import HloomError

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

COUNTERPART_KEYWORDS: dict[Any, dict[str, str]] = {
    np.clip: {"a_min": "min", "a_max": "max"}, np.linalg.matrix_rank: {"A": "M"},
}  # fmt: skip
"""jax's names for arguments that NumPy names differently."""
MEMORY_KEYWORDS = frozenset({"order", "subok", "casting", "kind"})
"""Arguments of NumPy's that say how memory is used, which jax's functions may lack."""


def is_plain(value: AbstractValue, interpreter: Interpreter) -> bool:
    if isinstance(value, Const):
        return True
    if isinstance(value, Tuple):
        return all(is_plain(item, interpreter) for item in value.items)
    if isinstance(value, Array):
        return value.literal is not None and value.type.element_count <= 4096
    if is_list(value):
        return all(is_plain(item, interpreter) for item in interpreter.contents(value).items)
    return False


def without_ignored(function: Any, keywords: Keywords) -> dict[str, AbstractValue]:
    """Keywords without those that do not matter here: jax always sorts stably."""
    if function not in (np.sort, np.argsort):
        return keywords
    return {name: value for name, value in keywords.items() if name != "kind"}


def for_counterpart(function: Any, counterpart: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords of NumPy's function as jax's takes them."""
    names = COUNTERPART_KEYWORDS.get(function, {}) if keywords else {}
    taken = _parameters(counterpart) if MEMORY_KEYWORDS.intersection(keywords) else None
    return {
        names.get(name, name): value
        for name, value in keywords.items()
        if taken is None or name in taken or name not in MEMORY_KEYWORDS
    }


@cache
def _parameters(function: Any) -> frozenset[str] | None:
    """The names of a function's parameters; None where they are not written down."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def is_wider(example: Any, result: Array) -> bool:
    """Whether NumPy computes in more bits than jax does, of floats or of integers."""
    of_one_class = (example.dtype.kind == "f" and result.dtype.is_float) or (
        example.dtype.kind in "iu" and result.dtype.is_integer
    )
    return of_one_class and example.dtype.itemsize * 8 > result.dtype.bits


def filled(plain: Any, known: dict[int, np.ndarray]) -> Any:
    """Arguments with arrays in place of the placeholders whose elements are known."""
    if isinstance(plain, Placeholder):
        held = known.get(plain.number)
        if held is None:
            return plain
        return held.item() if isinstance(held, np.ndarray) and not held.shape else held
    if isinstance(plain, tuple):
        items = [filled(item, known) for item in plain]
        return tuple(items) if type(plain) is tuple else type(plain)(*items)
    if isinstance(plain, list):
        return [filled(item, known) for item in plain]
    if isinstance(plain, dict):
        return {key: filled(item, known) for key, item in plain.items()}
    return plain


def has_lists(plain: Any) -> bool:
    return any(isinstance(item, list) for part in plain for item in (part.values() if isinstance(part, dict) else part))


def without_lists(plain: Any) -> Any:
    """Arguments whose lists of numbers are arrays."""
    if isinstance(plain, dict):
        return {key: _as_array(item) for key, item in plain.items()}
    return [_as_array(item) for item in plain]


def _as_array(item: Any) -> Any:
    if not isinstance(item, list):
        return item
    try:
        made = np.asarray(item)
    except ValueError:
        return tuple(item)
    return made if made.dtype.kind in "biufc" else tuple(item)


def needs_known_values(error: HloomError) -> bool:
    """Whether jax could not trace a call because it asked for numbers that only the run knows."""
    cause = type(error.__cause__).__name__
    return cause.startswith(("Tracer", "Concretization")) or "Tracer(" in error.message


def exception_of(error: BaseException) -> type[BaseException]:
    for cls in (ZeroDivisionError, IndexError, ValueError, TypeError):
        if isinstance(error, cls):
            return cls
    return type(error)


def name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
