"""The table of programs: a decorator that says what a function is called with, and what is expected of it.

    @program((3,), (-3,))                       the value is what Python gives
    @program((0,), raises=ZeroDivisionError)    the same error, at the line that is marked `# raises`
    def reciprocal(x):
        return 1 / x  # raises
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import hloom

FOLDER = Path(__file__).parent / "programs"
NEED_FUNCTION = ("decorated",)
"""Families that call `hloom.function` when they are imported."""
OWN_DERIVATIVES = ("derivative_rules",)
"""Families whose functions say what their derivatives are: differences of their values need not give the same."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a function, and what it must give: a value, unless it raises or is refused."""

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    raises: type[Exception] | None = None
    refused: str | None = None
    or_refused: bool = False
    marked: Callable[..., Any] | None = None
    message: str = ""
    reference: Callable[..., Any] | None = None
    gradient: int | tuple[int, ...] | None = None
    prints: tuple[str, ...] = ()
    tolerance: float = 1e-9

    def __str__(self) -> str:
        words = [repr(argument) for argument in self.arguments]
        words += [f"{name}={value!r}" for name, value in self.keywords.items()]
        return f"({', '.join(words)})".replace("\n", " ")


@dataclass(slots=True)
class Program:
    """A function of a family with its cases, in the order of their lines."""

    function: Callable[..., Any]
    static: tuple[str, ...] = ()
    cases: list[Case] = field(default_factory=list)

    @property
    def family(self) -> str:
        return self.function.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return f"{self.family}:{self.function.__name__}"

    @property
    def path(self) -> str:
        return self.function.__code__.co_filename


def program(
    *argument_tuples: tuple[Any, ...],
    raises: type[Exception] | None = None,
    refused: str | None = None,
    or_refused: bool = False,
    marked: Callable[..., Any] | None = None,
    message: str = "",
    reference: Callable[..., Any] | None = None,
    grad: int | tuple[int, ...] | None = None,
    prints: tuple[str, ...] = (),
    static: tuple[str, ...] = (),
    keywords: Mapping[str, Any] | None = None,
    tolerance: float = 1e-9,
) -> Callable[[Function], Function]:
    """Enter a function in the table, once for each tuple of arguments; a function may be entered several times.

    The value expected is Python's, or that of `reference` where Python itself would give another type (a join of an int
    and a float) or cannot run the function (`hloom.grad` inside). `raises` is the error's class: Python and hloom raise
    it at the same line, which is marked `# raises`, with `message` in its text. `refused` is a word of the refusal, which
    names the line marked `# refused` (of the function `marked`, where that is another one). `or_refused`: the right value
    or a refusal at the marked line, nothing else. `grad`: the gradient for these arguments is compared with central
    differences as well. `prints`: texts that the call prints, in this order.
    """
    cases = [
        Case(
            arguments,
            keywords or {},
            raises=raises,
            refused=refused,
            or_refused=or_refused,
            marked=marked,
            message=message,
            reference=reference,
            gradient=grad,
            prints=prints,
            tolerance=tolerance,
        )
        for arguments in argument_tuples or ((),)
    ]

    def enter(function: Function) -> Function:
        entry = function.__dict__.setdefault("program", Program(function))
        entry.cases[:0] = cases
        entry.static = entry.static or static
        return function

    return enter


def marked_lines(function: Callable[..., Any], mark: str) -> set[int]:
    """The lines of a function, those of the functions in it included, that end in a comment with this mark."""
    lines, first = inspect.getsourcelines(function)
    return {first + index for index, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")}


def is_available() -> bool:
    return hasattr(hloom, "function")


@cache
def families() -> dict[str, ModuleType]:
    """The modules of programs by name; those that need `hloom.function` only where there is one."""
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    return {
        name: import_module(f"{__package__}.programs.{name}")
        for name in names
        if is_available() or name not in NEED_FUNCTION
    }


def programs_of(module: ModuleType) -> Iterator[Program]:
    for value in vars(module).values():
        entry = getattr(value, "__dict__", {}).get("program")
        if isinstance(entry, Program) and entry.function.__module__ == module.__name__:
            yield entry


def programs() -> list[Program]:
    return [entry for module in families().values() for entry in programs_of(module)]


def module_of(entry: Program) -> ModuleType:
    return sys.modules[entry.function.__module__]
