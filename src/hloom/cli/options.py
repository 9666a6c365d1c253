"""The arguments that all subcommands take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import click

from hloom import analysis
from hloom.cli.completion import complete_device, complete_file
from hloom.cli.quantities import MOST_DIGITS, ByteSize, FiniteNumber, SpaceBudgets
from hloom.cli.streams import STDOUT
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


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a function's parameters, which the options of its command have too."""
    return {name: parameter.default for name, parameter in signature(function).parameters.items()}


def path_option(*names: str, metavar: str, help: str, multiple: bool = False) -> Callable[[Function], Function]:
    """Add an option that is a path, or with `multiple` several."""
    return click.option(*names, metavar=metavar, type=click.Path(path_type=Path), multiple=multiple, help=help)


def count_option(
    *names: str, help: str, metavar: str = "N", least: int = 1, **settings: Any
) -> Callable[[Function], Function]:
    """Add an option that is a whole number from `least` on."""
    return _value_option(*names, metavar=metavar, type=click.IntRange(min=least), help=help, **settings)


def number_option(
    *names: str,
    metavar: str,
    help: str,
    min: float | None = None,
    max: float | None = None,
    min_open: bool = False,
    **settings: Any,
) -> Callable[[Function], Function]:
    """Add an option that is a finite number between bounds."""
    number = FiniteNumber(min, max, min_open=min_open)
    return _value_option(*names, metavar=metavar, type=number, help=help, **settings)


def size_option(*names: str, help: str, is_capacity: bool = False, **settings: Any) -> Callable[[Function], Function]:
    """Add an option that is a number of bytes with its unit; `is_capacity`: of something that can hold them."""
    return _value_option(*names, metavar="SIZE", type=ByteSize(is_capacity=is_capacity), help=help, **settings)


def budget_option(*further_names: str, help: str) -> Callable[[Function], Function]:
    """Add --budget: the command gets `budgets`, sizes by the short names of memories; empty if none is given."""

    def given(context: click.Context, option: click.Parameter, budgets: dict[str, int] | None) -> dict[str, int]:
        return budgets or {}

    return click.option(
        "--budget", *further_names, "budgets", metavar="SIZE", type=SpaceBudgets(), callback=given, help=help
    )


def choice_option(*names: str, choices: Iterable[str], help: str, **settings: Any) -> Callable[[Function], Function]:
    """Add an option that is one of some words."""
    return _value_option(*names, type=click.Choice(list(choices)), help=help, **settings)


def _value_option(*names: str, help: str, **settings: Any) -> Callable[[Function], Function]:
    """An option whose default, if it has one, is shown, unless its help says it."""
    is_shown = settings.get("default") is not None and "default" not in help
    return click.option(*names, help=help, show_default=is_shown, **settings)


def json_option(what: str = "Write JSON instead of text.") -> Callable[[Function], Function]:
    """Add --json: the command gets `json_output`."""
    return click.option("--json", "json_output", is_flag=True, help=what)


def strict_option() -> Callable[[Function], Function]:
    """Add --strict: the command gets `strict`."""
    return click.option("--strict", is_flag=True, help="Reject text that XLA's own parser would reject.")


def top_option(rows: int) -> Callable[[Function], Function]:
    """Add --top, this many rows by default: the command gets `top`."""
    return count_option("--top", default=rows, help="Show at most N rows of each table.")


def limit_option(rows: int, what: str = "Show at most N rows of each table.") -> Callable[[Function], Function]:
    """Add --limit, this many rows by default: the command gets `limit`, which may be 0."""
    return count_option("--limit", least=0, default=rows, help=what)


def depth_option(
    what: str = "Group by N levels of the scope or layer, or N frames of the source stack.", default: int | None = None
) -> Callable[[Function], Function]:
    """Add --depth: the command gets `depth`, or None."""
    return count_option("--depth", default=default, help=what)


def trips_option() -> Callable[[Function], Function]:
    """Add --trips: the command gets `trips`, numbers of iterations by loop."""

    def read(context: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str, int]:
        return dict(map(_trip, texts))

    what = "Assume N iterations for the loop NAME; may be repeated."
    return click.option("--trips", metavar="NAME=N", multiple=True, callback=read, help=what)


def _trip(text: str) -> tuple[str, int]:
    """The name of a loop and how often it runs, from NAME=N."""
    name, equals, count = text.rpartition("=")
    if not equals or not name or not count.isdecimal() or len(count) > MOST_DIGITS:
        raise click.BadParameter(f"'{text}' is not NAME=N", param_hint="--trips")
    return name, int(count)


def unknown_trips_option() -> Callable[[Function], Function]:
    """Add --unknown-trips: the command gets `unknown_trips`."""
    what = "Assume N iterations for loops of unknown trip count."
    return count_option("--unknown-trips", least=0, default=1, help=what)


def device_option(
    default: str | None,
    what: str = "Device to price the program for (`hloom roofline --list` shows them).",
) -> Callable[[Function], Function]:
    """Add --device: the command gets `device`, a name, or None."""
    return click.option(
        "--device", metavar="NAME", default=default, show_default=default is not None,
        shell_complete=complete_device, help=what,
    )  # fmt: skip


def target_option(
    what: str = "Compile with the compiler of this target first (v5e:4x4, h100x8, cpu; see `hloom compile`), report on "
    "the optimised module, and show the compiler's figures too.",
) -> Callable[[Function], Function]:
    """Add --for of a command that reports numbers: it gets `target`, the name of one to compile for, or None."""
    return click.option("--for", "target", metavar="TARGET", help=what)


def traced_device_option() -> Callable[[Function], Function]:
    """Add --device of a command with --profile, whose trace may name one: it gets `device`, or None."""
    default = f"{analysis.DEFAULT_DEVICE}, or the device of the --profile trace"
    return device_option(None, f"Device to estimate times for (default: {default}).")


def profile_option() -> Callable[[Function], Function]:
    """Add --profile: the command gets `profile`, the directory of a trace, or None."""
    return path_option(
        "--profile",
        metavar="DIR",
        help="Add measured times from a jax.profiler.trace(DIR) of this module (in a dump: of the optimised one).",
    )


def devices_option() -> Callable[[Function], Function]:
    """Add --devices of a command with --device: it gets `listed`, a file of further devices, or None."""
    what = "TOML file with more devices, as written by `hloom calibrate`."
    return path_option("--devices", "listed", metavar="FILE", help=what)


def batch_option(what: str = "Batch dimension, as in x:0.  [default: detected]") -> Callable[[Function], Function]:
    """Add --batch: the command gets `batch`, a text such as `x:0 y:0`, or None."""

    def joined(context: click.Context, option: click.Parameter, texts: Sequence[str]) -> str | None:
        return " ".join(texts) or None

    return click.option("--batch", metavar="NAME:DIM", multiple=True, callback=joined, help=what)


def load_option(
    what: str = "Execute this Python file first, to define its rules and passes.",
) -> Callable[[Function], Function]:
    """Add --load: the command gets `load`, the Python files of a user's passes."""
    return path_option("--load", metavar="X.py", multiple=True, help=what)


def inputs_option(
    what: str = "Read the inputs from this file, by position or by parameter name.", *, multiple: bool = False
) -> Callable[[Function], Function]:
    """Add --inputs of a command that executes a module: it gets `inputs`, a path or None, or several paths."""
    return path_option("--inputs", metavar="X.npz", multiple=multiple, help=what)


def seed_option(
    what: str = "Seed for random inputs when --inputs is not given.  [default: 0]",
) -> Callable[[Function], Function]:
    """Add --seed of a command that draws numbers: it gets `seed`, or None."""
    return count_option("--seed", least=0, help=what)


def selection_options(verb: str, opcodes: Sequence[str]) -> Callable[[Function], Function]:
    """Add what says which weights are meant: the command gets `selection`, keywords of `SelectionOptions`."""
    decorators = (
        click.option(
            "--opcodes",
            metavar="NAMES",
            default=",".join(opcodes),
            show_default=True,
            help=f"{verb} only weights read by these opcodes.",
        ),
        click.option("--scope", metavar="REGEX", help=f"{verb} only weights whose name or readers' op_name matches."),
        click.option(
            "--only",
            metavar="NAMES",
            help=f"{verb} only these parameters, by name, number or path, as in 1,params.head.w.",
        ),
        count_option("--least", least=0, default=0, help=f"{verb} only weights with at least N elements."),
    )

    def add(function: Any) -> Any:
        @wraps(function)
        def with_selection(
            *arguments: Any, opcodes: str, scope: str | None, only: str | None, least: int, **options: Any
        ):
            selection = {"opcodes": names_of(opcodes) or [], "scope": scope, "only": names_of(only), "least": least}
            return function(*arguments, selection=selection, **options)

        return decorated(with_selection, decorators)

    return add


def names_of(text: str | None) -> list[str] | None:
    """The names in an option that takes several."""
    return None if text is None else [name for name in map(str.strip, text.split(",")) if name]


def check_usage(*rules: tuple[object, str]) -> None:
    """Raise UsageError with the message of the first rule whose condition holds: what does not go together."""
    for is_broken, message in rules:
        if is_broken:
            raise click.UsageError(message)


def check_machine(option: str, value: object, target: str | None) -> None:
    """Raise MissingParameter unless the devices are given, by an option or by --for."""
    if value is None and target is None:
        hint = f"'{option}', or '--for' with a target such as v5e:2x2"
        raise click.MissingParameter(ctx=click.get_current_context(), param_type="option", param_hint=hint)


def check_standard_output(output: Path | None, json_output: bool) -> None:
    """Raise UsageError where -o and --json both ask for the standard output."""
    if output == STDOUT and json_output:
        raise click.UsageError("--json and -o - both write to standard output: give only one")


def check_seed(inputs: Any, seed: int | None) -> None:
    """Raise UsageError where --inputs and --seed are both given."""
    if inputs and seed is not None:
        raise click.UsageError("--seed is for random inputs: give either --seed or --inputs")


def _from_file(function: Function, *, required: bool, preferred: str = BEFORE) -> Function:
    decorators = (
        click.argument("file", metavar="FILE", required=required, shell_complete=complete_file),
        strict_option(),
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

    return decorated(with_source, decorators)


def decorated(function: Any, decorators: Sequence[Callable[[Any], Any]]) -> Any:
    """The function with a group of options, in the order in which `--help` lists them."""
    for decorate in reversed(decorators):
        function = decorate(function)
    return function
