"""Applies a caller's transformation to a module: verifies the result before XLA sees it, and gives errors a location.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from hloom.ir import Level, Module, Type, compatible, verify
from hloom.text import HloomError, Location

Transformation = Callable[[Module], object]
"""Edits a module in place. It returns False if it changed nothing; anything else, None too, means a change.

It must leave the entry's parameters and result types as they are.
"""
_PACKAGE = str(Path(__file__).parent)


class RewriteError(HloomError):
    """A change failed or broke the module; its location is the innermost line of the change, its cause the error."""


def apply_transformation(transformation: Transformation, module: Module, subject: str) -> bool:
    """Apply a transformation to a module and verify the result; whether it changed anything.

    Raises RewriteError for an exception in the change, and where the module is no longer sound HLO of the same types.
    """
    before = _signature(module)
    try:
        if transformation(module) is False:
            return False
    except Exception as error:
        raise failure(error, subject) from error
    _check(module, before, subject)
    return True


def failure(error: Exception, subject: str) -> RewriteError:
    """The error for a failed change, located at the innermost line of its traceback outside this package.

    A HloomError keeps its own location and hint where it has one; one that was raised from another exception (a rule's,
    by the driver) has the location of that.
    """
    if isinstance(error, RewriteError):
        return error
    began = _beginning(error)
    location, hint = location_of(began.__traceback__), None
    if isinstance(began, HloomError) and location is not None and _is_ours(location.source):
        location = None  # said on purpose, and not because of a line
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, HloomError):
        message = error.message if error.location is None else f"{error.location}: {error.message}"
        hint = error.hint
    return RewriteError(f"{subject} could not be rewritten: {message}", location, hint)


def location_of(trace: TracebackType | None) -> Location | None:
    """The innermost line of a traceback outside the package, or the innermost one at all."""
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_PACKAGE)]
    outside = [frame for frame in frames if not _is_ours(frame.filename)]
    chosen = (outside or frames)[-1:]
    if not chosen:
        return None
    frame = chosen[0]
    line = frame.lineno or 1
    text = linecache.getline(frame.filename, line).rstrip("\n")
    column = len(text) - len(text.lstrip()) if frame.colno is None else frame.colno
    return Location(frame.filename, line, column + 1, text, column)


def _beginning(error: BaseException) -> BaseException:
    """The exception that a HloomError was raised from, if it was."""
    while isinstance(error, HloomError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _is_ours(file: str) -> bool:
    return file.startswith(str(Path(_PACKAGE).parent))


def _signature(module: Module) -> list[Type | None]:
    return [*(parameter.type for parameter in module.entry.parameters), module.entry.root.type]


def _check(module: Module, before: list[Type | None], subject: str) -> None:
    try:
        verification = verify(module)
        after = _signature(module)
    except HloomError as error:
        message = f"{subject} is broken after rewriting: {error.message}"
        raise RewriteError(message, error.location, error.hint) from error
    if verification.level < Level.HLO:
        reasons = ", ".join([*map(str, verification.unresolved), *verification.notes])
        raise RewriteError(f"{subject} is not a complete HLO program after rewriting: {reasons}")
    if len(after) != len(before) or not all(map(compatible, before, after)):
        raise RewriteError(
            f"{subject} has other types after rewriting: ({_types(after)}), before: ({_types(before)})",
            hint="a change must keep the entry's parameters and the type of its result",
        )


def _types(signature: list[Type | None]) -> str:
    *parameters, result = map(str, signature)
    return f"{', '.join(parameters)}) -> ({result}"
