"""The table of Python objects whose calls are made by the interpreter itself, and how rows are entered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hloom.functional.values import AbstractValue

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

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
