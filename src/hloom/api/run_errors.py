"""Turns errors that a compiled function detects at run time into exceptions."""

from __future__ import annotations

import functools

from hloom.functions import CompiledFunction
from hloom.text import HloomError, Location


def error_of(program: CompiledFunction, number: int) -> Exception:
    """The exception for an error number: of Python's class, and an HloomError."""
    site = program.errors[number - 1]
    locations = site.locations
    chain = [f"called from {position}" for position in locations[1:]]
    message = f"{site.exception.__name__}: {site.message}" if site.message else site.exception.__name__
    return _class_of(site.exception)(message, locations[0] if locations else None, "\n  ".join(chain) or None)


@functools.cache
def _class_of(exception: type[BaseException]) -> type[HloomError]:
    """A class of errors that are both."""
    if issubclass(exception, HloomError):
        return exception
    try:
        names = {"__module__": "hloom", "__init__": _initialise}
        return type(exception.__name__, (HloomError, exception), names)
    except TypeError:
        return HloomError


def _initialise(error: HloomError, message: str, location: Location | None = None, hint: str | None = None) -> None:
    """As HloomError's own, without that of the other class, which may take other arguments."""
    Exception.__init__(error, message, location, hint)
    error.message, error.location, error.hint = message, location, hint
