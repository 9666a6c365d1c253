"""The table of Python objects whose calls the interpreter handles itself, and how rows are added."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from hloom.functions.values import AbstractValue

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

Arguments = Sequence[AbstractValue]
Keywords = dict[str, AbstractValue]
Handler = Callable[["Interpreter", Arguments, Keywords], AbstractValue]
BUILTINS: dict[Any, Handler] = {}


def row(*names: Any) -> Callable[[Handler], Handler]:
    """Enter a handler under Python objects; under a text, the transformation of that name."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            BUILTINS[name] = handler
        return handler

    return enter


def check_count(interpreter: Interpreter, arguments: Arguments, low: int, high: int, name: str) -> None:
    """Raise TypeError, as Python does, where a call has too few arguments or too many."""
    if not low <= len(arguments) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        interpreter.raise_error(TypeError, f"{name}() takes {wanted} arguments, {len(arguments)} are given")


def check_signature(interpreter: Interpreter, cls: type, name: str, arguments: Arguments, keywords: Keywords) -> None:
    """Raise TypeError, as Python does, for arguments that a method of a container does not take."""
    signature = _signature_of(cls, name)
    if signature is None:
        least, most = COUNTS.get(name, (0, len(arguments)))
        if not least <= len(arguments) <= most:
            given = f"{len(arguments)} are given"
            interpreter.raise_error(TypeError, f"{name}() takes {least} to {most} arguments, {given}")
        return
    try:
        signature.bind(None, *arguments, **keywords)
    except TypeError as error:
        interpreter.raise_error(TypeError, f"{name}(): {error}")


@cache
def _signature_of(cls: type, name: str) -> inspect.Signature | None:
    """The parameters of a method; None where they are not written down."""
    try:
        return inspect.signature(getattr(cls, name))
    except (TypeError, ValueError, AttributeError):
        return None


COUNTS = {
    "append": (1, 1), "appendleft": (1, 1), "extend": (1, 1), "extendleft": (1, 1), "insert": (2, 2), "remove": (1, 1),
    "pop": (0, 2), "popleft": (0, 0), "index": (1, 3), "count": (1, 1), "get": (1, 2), "setdefault": (1, 2),
    "keys": (0, 0), "values": (0, 0), "items": (0, 0), "copy": (0, 0), "clear": (0, 0), "rotate": (0, 1),
}  # fmt: skip
"""The number of arguments of methods for which Python does not document the parameters."""
