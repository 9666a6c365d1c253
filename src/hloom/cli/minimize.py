"""`hloom minimize`: the smallest module in which a fault still shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hloom.cli.input import progress, read_program
from hloom.cli.interrupt import INTERRUPTED, MESSAGE
from hloom.cli.options import ModuleSource, file_argument, json_option, output_option
from hloom.cli.output import check_folder, write_json, write_text
from hloom.hlo import print_module
from hloom.ir import Module
from hloom.minimize import (
    STATUSES,
    STEPS,
    TIMEOUT,
    CommandPredicate,
    DiffersBetweenFlags,
    DiffersFromEvaluator,
    FaultPredicate,
    Minimization,
    MinimizationProgress,
    SlowerThan,
    XlaCrashes,
    XlaRefuses,
    minimize,
)

PREDICATES = (
    "--failing", "--xla-refuses", "--xla-crashes", "--differs-from-evaluator", "--differs-between", "--slower-than",
    "--compiles-slower-than",
)  # fmt: skip
"""The options that say what the fault is; one of them is given."""


@click.command("minimize")
@file_argument
@click.option("--failing", metavar="COMMAND", help="Exits with 0 where the fault shows; {} is the file's name.")
@click.option(
    "--status", type=click.Choice(STATUSES), default=STATUSES[0], show_default=True, help="What --failing exits with."
)
@click.option("--xla-refuses", is_flag=True, help="XLA refuses the module, with the same message.")
@click.option("--xla-crashes", is_flag=True, help="XLA dies of the module, at the same place.")
@click.option("--differs-from-evaluator", is_flag=True, help="XLA and numpy compute different numbers.")
@click.option(
    "--differs-between", nargs=2, metavar="FLAGS FLAGS", help="XLA computes different numbers with two sets of flags."
)
@click.option("--slower-than", type=click.FloatRange(min=0), metavar="SECONDS", help="XLA runs it for longer.")
@click.option("--compiles-slower-than", type=click.FloatRange(min=0), metavar="SECONDS", help="XLA compiles longer.")
@click.option("--any-message", is_flag=True, help="Of --xla-refuses and --xla-crashes: whatever XLA says.")
@click.option("--rtol", type=click.FloatRange(min=0), metavar="R", help="Relative tolerance.  [default: by type]")
@click.option("--atol", type=click.FloatRange(min=0), metavar="A", help="Absolute tolerance.  [default: by type]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random inputs.")
@click.option("--steps", type=click.IntRange(min=1), default=STEPS, show_default=True, help="Most candidates checked.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=TIMEOUT, show_default=True,
    help="Seconds for one candidate.",
)  # fmt: skip
@json_option('Write {"module": NAME, "text": TEXT, "instructions": N, ...}, without the text where -o takes it.')
@output_option("Write the module's text into this file, whole or not at all.")
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    json_output: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Make a module smaller for as long as a fault shows, and write what is left.

    One option says what the fault is. --failing COMMAND is run, without a shell, on a file with each candidate in
    place of {}: exit status 0 says that the fault shows, as for creduce and llvm-reduce, anything else that it does
    not; --status nonzero turns this around, for commands that fail where the fault shows, as for XLA's hlo_bisect. What
    is stopped after --timeout does not show it.

    Candidates are verified before they are checked, and XLA and commands run in processes of their own. The exit
    status is 1, and nothing is written, where the fault does not show in FILE itself. Ctrl-C writes the smallest module
    that showed the fault so far, which is whole, or nothing if there is none; the exit status is 130 then.

    \b
    Examples:
      hloom minimize step.hlo --failing './check.sh {}' -o small.hlo
      hloom minimize step.hlo --failing 'python -m my_check {}' --status nonzero
      hloom minimize step.hlo --xla-crashes
      hloom minimize step.hlo --differs-from-evaluator --seed 3 --rtol 1e-3
      hloom minimize step.hlo --differs-between '--xla_cpu_enable_fast_math=true' ''
    """
    predicate = _predicate(options)
    if output is not None:
        check_folder(output)
    module = read_program(source)
    smallest: Module | None = None
    with progress("minimizing") as describe:

        def told(state: MinimizationProgress) -> None:
            nonlocal smallest
            smallest = state.module if state.accepted else None
            describe(f"{state.instructions:,} instructions, {state.steps:,} candidates, {state.reduction}")

        try:
            result = minimize(module, predicate, steps=options["steps"], told=told)
        except KeyboardInterrupt:
            _write_interrupted(module, smallest, json_output, output)
            context.exit(INTERRUPTED)
    _note(result)
    if json_output:
        write_json(_to_json(result, output is None), None)
    if not json_output or output is not None:
        write_text(result.text, output)


def _predicate(options: dict[str, Any]) -> FaultPredicate:
    values = {name: options[name[2:].replace("-", "_")] for name in PREDICATES}
    given = [name for name, value in values.items() if value is not None and value is not False]
    if len(given) != 1:
        said = f", not {' and '.join(given)}" if given else ""
        raise click.UsageError(f"one option says what the fault is{said}: {', '.join(PREDICATES)}")
    seed, timeout = options["seed"], options["timeout"]
    tolerances = {"rtol": options["rtol"], "atol": options["atol"]}
    match given[0]:
        case "--failing":
            return CommandPredicate(options["failing"], status=options["status"], timeout=timeout)
        case "--xla-refuses":
            return XlaRefuses(options["any_message"], timeout)
        case "--xla-crashes":
            return XlaCrashes(seed, options["any_message"], timeout)
        case "--differs-from-evaluator":
            return DiffersFromEvaluator(seed, **tolerances, timeout=timeout)
        case "--differs-between":
            first, second = options["differs_between"]
            return DiffersBetweenFlags(first, second, seed, **tolerances, timeout=timeout)
        case "--slower-than":
            return SlowerThan(options["slower_than"], seed=seed, timeout=timeout)
        case _:
            return SlowerThan(options["compiles_slower_than"], compiling=True, seed=seed, timeout=timeout)


def _note(result: Minimization) -> None:
    click.echo(str(result), err=True)
    if not result.shows:
        click.echo(f"note: the fault does not show any more in the text that is written: {result.reason}", err=True)


def _to_json(result: Minimization, with_text: bool) -> dict[str, Any]:
    fields = {name: getattr(result, name) for name in result.__slots__ if name != "module"}
    record = {"module": result.module.name, **fields}
    return record if with_text else {name: value for name, value in record.items() if name != "text"}


def _write_interrupted(module: Module, smallest: Module | None, json_output: bool, output: Path | None) -> None:
    """Write the smallest module so far where there is one, and say so."""
    if smallest is None:
        click.echo(f"{MESSAGE}: nothing smaller shows the fault so far, and nothing is written", err=True)
        return
    text = print_module(smallest)
    if json_output and output is None:
        write_json({"module": smallest.name, "text": text, "is_finished": False}, None)
    else:
        write_text(text, output)
    counts = f"{smallest.node_count:,} of {module.node_count:,} instructions"
    click.echo(f"{MESSAGE}: the smallest module so far, {counts}, is written", err=True)
