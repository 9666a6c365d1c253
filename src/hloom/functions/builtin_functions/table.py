"""The table of Python objects whose calls the interpreter handles itself, and how rows are added."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from hloom.functions.values import AbstractValue, Arguments, Keywords

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

Handler = Callable[["Interpreter", Arguments, Keywords], AbstractValue]
BUILTINS: dict[Any, Handler] = {}


def row(*names: Any) -> Callable[[Handler], Handler]:
    """Enter a handler under Python objects; under a text, the transformation of that name."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            BUILTINS[name] = handler
        return handler

    return enter


def by_prelude(function: Any) -> Handler:
    """A function whose calls run one of the prelude."""

    def call(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        return interpreter.calls.call(interpreter.embed(function), arguments, keywords)

    return call


def check_count(interpreter: Interpreter, arguments: Arguments, low: int, high: int, name: str) -> None:
    """Raise TypeError, as Python does, where a call has too few arguments or too many."""
    if not low <= len(arguments) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        interpreter.raise_error(TypeError, f"{name}() takes {wanted} arguments, {len(arguments)} are given")


def bound_arguments(
    interpreter: Interpreter, function: Any, arguments: Arguments, keywords: Keywords
) -> tuple[Arguments, Keywords]:
    """The arguments of a function by position where they can be; raises TypeError, as Python does."""
    name = getattr(function, "__name__", str(function))
    signature = _signature_of(function)
    if signature is None:
        check_count(interpreter, arguments, *COUNTS.get(function, (0, len(arguments))), name)
        return arguments, keywords
    bound = _bound(interpreter, signature, arguments, keywords, name)
    return bound.args, bound.kwargs


def check_method(interpreter: Interpreter, cls: type, name: str, arguments: Arguments, keywords: Keywords) -> None:
    """Raise TypeError, as Python does, for arguments that a method does not take."""
    signature = _signature_of(getattr(cls, name, None))
    if signature is None:
        check_count(interpreter, arguments, *METHOD_COUNTS.get(name, (0, len(arguments))), name)
    else:
        _bound(interpreter, signature, (None, *arguments), keywords, name)


def _bound(
    interpreter: Interpreter, signature: inspect.Signature, arguments: Sequence[Any], keywords: Keywords, name: str
) -> inspect.BoundArguments:
    try:
        return signature.bind(*arguments, **keywords)
    except TypeError as error:
        interpreter.raise_error(TypeError, f"{name}(): {error}")


@cache
def _signature_of(function: Any) -> inspect.Signature | None:
    """The parameters of a function or a method; None where they are not written down."""
    try:
        return None if isinstance(function, str) else inspect.signature(function)
    except (TypeError, ValueError):
        return None


COUNTS: dict[Any, tuple[int, int]] = {
    bool: (0, 1), int: (0, 2), str: (0, 1), dict: (0, 1), type: (1, 1), getattr: (2, 3), iter: (1, 2), next: (1, 2),
    range: (1, 3), slice: (1, 3), filter: (2, 2), functools.reduce: (2, 3), deque: (0, 2), itertools.repeat: (1, 2),
    itertools.islice: (2, 4),
}  # fmt: skip
"""The number of arguments of functions whose parameters `inspect.signature` does not know in Python 3.11."""
METHOD_COUNTS = {
    "append": (1, 1), "appendleft": (1, 1), "extend": (1, 1), "extendleft": (1, 1), "insert": (2, 2), "remove": (1, 1),
    "pop": (0, 2), "popleft": (0, 0), "index": (1, 3), "count": (1, 1), "get": (1, 2), "setdefault": (1, 2),
    "keys": (0, 0), "values": (0, 0), "items": (0, 0), "copy": (0, 0), "clear": (0, 0), "rotate": (0, 1),
    "update": (0, 1), "isdisjoint": (1, 1),
}  # fmt: skip
"""The same of methods."""
