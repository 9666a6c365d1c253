"""The list that a program registers in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""
Program = Callable[[], Call]


def register(programs: dict[str, Program], program: Program) -> Program:
    """Add a program under its name."""
    programs[program.__name__] = program
    return program
