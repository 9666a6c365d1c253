"""Errors that a compiled function finds when it runs, as exceptions."""

from __future__ import annotations

import functools

from hloom.functional import CompiledFunction
from hloom.text import HloomError


def error_of(program: CompiledFunction, number: int) -> Exception:
    """The error that a number stands for: of Python's class, and an HloomError."""
    site = program.errors[number - 1]
    chain = [f"called from {position}" for position in site.chain]
    message = f"{site.exception.__name__}: {site.message}" if site.message else site.exception.__name__
    return _class_of(site.exception)(message, site.location, "\n  ".join(chain) or None)


@functools.cache
def _class_of(exception: type[BaseException]) -> type[HloomError]:
    """A class of errors that are both."""
    if issubclass(exception, HloomError):
        return exception
    try:
        return type(exception.__name__, (HloomError, exception), {"__module__": "hloom"})
    except TypeError:
        return HloomError
