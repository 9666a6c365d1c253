"""Native functions by name, which rules, including saved ones, may call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloom.text import HloomError

REGISTERED: dict[str, Callable[..., Any]] = {}
"""Native functions by name. A rule file can call nothing else."""
OF_USERS: set[str] = set()
"""The names of those whose result depends on the users of a value: for a value in the making it is not known yet."""


class RuleError(HloomError):
    """A rule that cannot be defined, loaded or applied; says what is wrong and where it was defined."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source location where a rule was defined."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def register(name: str, function: Callable[..., Any], *, of_users: bool = False) -> None:
    """Register a native function under a name that rules, including saved ones, may use; raises RuleError if it is
    taken.
    """
    known = REGISTERED.get(name)
    if known is not None and _location(known) != _location(function):
        raise RuleError(f"a native function named '{name}' is registered already: {_location(known)}")
    REGISTERED[name] = function
    if of_users:
        OF_USERS.add(name)


def registered(name: str) -> Callable[..., Any]:
    """The native function with this name; raises RuleError if there is none."""
    function = REGISTERED.get(name)
    if function is None:
        raise RuleError(f"no native function named '{name}' is registered", hint="import the module that registers it")
    return function


def origin_of(function: Callable[..., Any]) -> Origin:
    """The source location of a function."""
    return Origin(*_location(function))


def _location(function: Callable[..., Any]) -> tuple[str, int]:
    origin = getattr(function, "origin", None)  # of a line of text
    if isinstance(origin, Origin):
        return origin.file, origin.line
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else (repr(function), 0)
