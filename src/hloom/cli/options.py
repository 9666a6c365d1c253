"""The arguments that all subcommands take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from hloom.cli.completion import complete_file
from hloom.formats.hlo import AFTER, BEFORE

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """Where a module comes from, as the command line says it."""

    file: str
    strict: bool = False
    module: str | None = None
    stage: str | None = None
    preferred: str = BEFORE

    @property
    def name(self) -> str:
        """How messages call it."""
        return "the standard input" if self.file == "-" else self.file

    def beside(self, profile: Path | None) -> ModuleSource:
        """The same source, or the optimised module of a dump directory if a profile names its instructions."""
        return self if profile is None else replace(self, preferred=AFTER)


def file_argument(function: Function) -> Function:
    """Add FILE and what says how to read it; the command gets `source`."""
    return _from_file(function, required=True)


def optimised_file_argument(function: Function) -> Function:
    """The same for commands about what the compiler made: in a dump directory they use the optimised module."""
    return _from_file(function, required=True, preferred=AFTER)


def optional_file_argument(function: Function) -> Function:
    """The same where FILE may be left out; `source` is None then."""
    return _from_file(function, required=False)


STDOUT = Path("-")
"""What -o names the standard output by."""


def output_option(what: str, *, keeps_stdout: bool = False) -> Callable[[Function], Function]:
    """Add -o/--output: the command gets `output`, a path, or None for the standard output, also where it is `-`.

    With `keeps_stdout`, `-` is passed on as `STDOUT`: for commands that write something else where -o is not given.
    """

    def named(context: click.Context, option: click.Parameter, output: Path | None) -> Path | None:
        return None if output == STDOUT and not keeps_stdout else output

    return click.option(
        "-o",
        "--output",
        metavar="OUT",
        type=click.Path(path_type=Path),
        callback=named,
        help=f"{what} Use - for standard output." if keeps_stdout else f"{what}  [default: -, standard output]",
    )


def json_option(what: str = "Write JSON instead of text.") -> Callable[[Function], Function]:
    """Add --json: the command gets `json_output`."""
    return click.option("--json", "json_output", is_flag=True, help=what)


def top_option(rows: int) -> Callable[[Function], Function]:
    """Add --top, this many rows by default: the command gets `top`."""
    return click.option(
        "--top",
        metavar="N",
        type=click.IntRange(min=1),
        default=rows,
        show_default=True,
        help="Show at most N rows of each table.",
    )


def depth_option() -> Callable[[Function], Function]:
    """Add --depth: the command gets `depth`, or None."""
    return click.option(
        "--depth",
        metavar="N",
        type=click.IntRange(min=1),
        help="Group by N levels of the scope or layer, or N frames of the source stack.",
    )


def trips_option() -> Callable[[Function], Function]:
    """Add --trips: the command gets `trips`, texts such as `loop=8`."""
    return click.option(
        "--trips", metavar="NAME=N", multiple=True, help="Assume N iterations for the loop NAME; may be repeated."
    )


def unknown_trips_option() -> Callable[[Function], Function]:
    """Add --unknown-trips: the command gets `unknown_trips`."""
    return click.option(
        "--unknown-trips",
        metavar="N",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help="Assume N iterations for loops of unknown trip count.",
    )


def inputs_option() -> Callable[[Function], Function]:
    """Add --inputs of a command that executes a module: it gets `inputs`, a path or None."""
    return click.option(
        "--inputs",
        metavar="X.npz",
        type=click.Path(path_type=Path),
        help="Read the inputs from this file, by position or by parameter name.",
    )


def seed_option() -> Callable[[Function], Function]:
    """Add --seed of a command that executes a module: it gets `seed`, or None."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        metavar="N",
        help="Seed for random inputs when --inputs is not given.  [default: 0]",
    )


def _from_file(function: Function, *, required: bool, preferred: str = BEFORE) -> Function:
    decorators = (
        click.argument("file", metavar="FILE", required=required, shell_complete=complete_file),
        click.option("--strict", is_flag=True, help="Reject text that XLA's own parser would reject."),
        click.option(
            "--module", metavar="NAME", help="Module to read from a dump directory, such as jit_f or module_0004."
        ),
        click.option(
            "--stage",
            metavar="NAME",
            help=f"Stage to read from a dump directory: before, after or a pass number (default: {preferred}).",
        ),
    )

    @wraps(function)
    def with_source(*arguments: Any, file: str | None, strict: bool, module: str | None, stage: str | None, **options):
        source = None if file is None else ModuleSource(file, strict, module, stage, preferred)
        return function(*arguments, source=source, **options)

    command: Any = with_source
    for decorate in reversed(decorators):
        command = decorate(command)
    return command
