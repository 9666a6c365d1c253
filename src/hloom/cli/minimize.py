"""`hloom minimize`: the smallest module in which a fault still shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np

from hloom.cli.exit_status import INTERRUPTED
from hloom.cli.input import progress, read_program
from hloom.cli.interrupt import MESSAGE
from hloom.cli.options import (
    ModuleSource,
    check_usage,
    choice_option,
    count_option,
    file_argument,
    inputs_option,
    json_option,
    load_option,
    number_option,
    output_option,
    path_option,
)
from hloom.cli.output import check_folder, write_note, write_record, write_text
from hloom.cli.pass_pipeline import named_passes, pipeline_reader
from hloom.formats.hlo import print_module, replacing
from hloom.inspection.minimize import (
    STATUSES,
    STEPS,
    TIMEOUT,
    CommandPredicate,
    DiffersBetweenFlags,
    DiffersFromEvaluator,
    FaultPredicate,
    Minimization,
    MinimizationProgress,
    NumericPredicate,
    PassesChangeNumbers,
    PassFault,
    ShowsAfterPasses,
    SlowerThan,
    XlaCrashes,
    XlaPassFault,
    XlaRefuses,
    bisect_passes,
    bisect_xla_passes,
    minimize,
)
from hloom.inspection.profile import changing_passes
from hloom.ir import Module
from hloom.runtime import open_arrays, save_arrays
from hloom.text import Record

NUMERIC = "--differs-from-evaluator, --differs-between, --passes"
MOST_SHOWN = 8
"""How many inputs a note shows, and how many numbers of an array."""


@dataclass(frozen=True, slots=True)
class MinimizeRecord(Record):
    """The smallest module, its text unless -o has it, and the passes that make the fault."""

    result: Minimization
    text: str | None
    fault: PassFault | None
    xla_passes: XlaPassFault | None
    json_keys = "**result text? pass?=fault xla_passes?"


@dataclass(frozen=True, slots=True)
class InterruptedRecord(Record):
    """The smallest module when Ctrl-C ended the search."""

    module: str
    text: str
    is_finished: ClassVar[bool] = False
    json_keys = "module text is_finished"


@click.command("minimize")
@file_argument
@click.option(
    "--failing",
    metavar="COMMAND",
    help="Command that exits with 0 if the fault shows; {} stands for the candidate file.",
)
@choice_option(
    "--status", choices=STATUSES, default=STATUSES[0], help="Exit status of --failing that means the fault shows."
)
@click.option("--xla-refuses", is_flag=True, help="Fault: XLA rejects the module with the same message.")
@click.option("--xla-crashes", is_flag=True, help="Fault: XLA crashes on the module at the same source location.")
@click.option("--differs-from-evaluator", is_flag=True, help="Fault: XLA and hloom's numpy evaluator disagree.")
@click.option(
    "--differs-between",
    nargs=2,
    metavar="FLAGS FLAGS",
    help="Fault: XLA disagrees with itself under two sets of flags.",
)
@number_option("--slower-than", min=0, metavar="SECONDS", help="Fault: XLA takes longer than this to run the module.")
@number_option(
    "--compiles-slower-than", min=0, metavar="SECONDS", help="Fault: XLA takes longer than this to compile the module."
)
@click.option(
    "--passes", metavar="PASSES", help="Find which of these passes introduces the fault, and reduce its input."
)
@load_option()
@click.option(
    "--xla-passes", is_flag=True, help="Find the smallest set of XLA passes to disable so that the fault disappears."
)
@click.option(
    "--any-message",
    is_flag=True,
    help="With --xla-refuses or --xla-crashes, accept a different message as the same fault.",
)
@number_option("--rtol", min=0, metavar="R", help="Relative tolerance for comparing numbers.  [default: by type]")
@number_option("--atol", min=0, metavar="A", help="Absolute tolerance for comparing numbers.  [default: by type]")
@inputs_option("Compare numbers on these inputs (default: random).")
@path_option("--save-inputs", metavar="X.npz", help="Save the inputs on which the reduced module shows the fault.")
@count_option("--seed", least=0, default=0, help="Seed for random inputs.")
@count_option("--steps", default=STEPS, help="Stop after checking N candidates.")
@number_option(
    "--timeout", min=0, min_open=True, metavar="S", default=TIMEOUT, help="Give up on a candidate after S seconds."
)
@json_option('Write {"module": NAME, "text": TEXT, "instructions": N, ...}, without the text if -o is given.')
@output_option("Write the reduced module to file OUT, atomically.")
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    json_output: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Reduce a module while a fault persists, and write the smallest one found.

    One option describes the fault. --failing COMMAND runs a command, without a shell, on each candidate file, which
    replaces {}. Exit status 0 means that the fault shows, as in creduce and llvm-reduce; any other status means that it
    does not. --status nonzero inverts this, as in XLA's hlo_bisect. A command stopped by --timeout counts as not
    showing the fault.

    --passes P,Q runs passes as `hloom opt -p` does, finds the pass application that introduces the fault, and reduces
    the input of that application. If no option describes the fault, it is wrong numbers or a failing pass. --xla-passes
    finds the smallest set of XLA passes to disable so that a fault of XLA disappears.

    Candidates are verified before they are checked, and XLA and commands run in separate processes. If the fault does
    not show in FILE itself, the exit status is 1 and nothing is written. Ctrl-C writes the smallest failing module
    found so far, if there is one, and exits with status 130.

    \b
    Examples:
      hloom minimize step.hlo --failing './check.sh {}' -o small.hlo
      hloom minimize step.hlo --failing 'python -m my_check {}' --status nonzero
      hloom minimize step.hlo --xla-crashes
      hloom minimize step.hlo --differs-from-evaluator --seed 3 --rtol 1e-3
      hloom minimize step.hlo --passes simplify,cse
      hloom minimize step.hlo --load my_passes.py --passes my_passes -o input.hlo
      hloom minimize step.hlo --differs-from-evaluator --xla-passes
      hloom minimize step.hlo \\
        --differs-between '--xla_cpu_enable_fast_math=true' '' \\
        --save-inputs small.npz
    """
    predicate = _predicate(options)
    passes = (
        None if options["passes"] is None else named_passes(pipeline_reader(options["load"], {}), options["passes"])
    )
    _check_options(options, predicate)
    check_folder(output)
    check_folder(options["save_inputs"])
    module = read_program(source)
    smallest: Module | None = None
    fault: PassFault | None = None
    with progress("minimizing") as describe:

        def told(state: MinimizationProgress) -> None:
            nonlocal smallest
            smallest = state.module if state.accepted else None
            describe(f"{state.instructions:,} instructions, {state.steps:,} candidates, {state.reduction}")

        try:
            if passes is not None:
                fault = bisect_passes(module, passes, predicate)
                module, predicate = fault.module, _of_pass(fault, predicate, options)
            assert predicate is not None, "options are checked: without passes there is one"
            result = minimize(module, predicate, steps=options["steps"], told=told)
            xla_passes = _xla_passes(result.module, predicate) if options["xla_passes"] else None
        except KeyboardInterrupt:
            _write_interrupted(module, smallest, json_output, output)
            context.exit(INTERRUPTED)
    _note(result, options["save_inputs"])
    for told_of in (fault, xla_passes):
        if told_of is not None:
            write_note(str(told_of))
    if options["save_inputs"] is not None:
        with replacing(options["save_inputs"]) as beside:
            save_arrays(beside, result.inputs or {})
    if json_output:
        text = result.text if output is None else None
        write_record(MinimizeRecord(result, text, fault, xla_passes), None)
    if not json_output or output is not None:
        write_text(result.text, output)


def _check_options(options: dict[str, Any], predicate: FaultPredicate | None) -> None:
    """Raise UsageError for options that do not go with what the fault is."""
    compares = isinstance(predicate, NumericPredicate) or predicate is None
    given = [name for name in ("inputs", "save_inputs") if options[name] is not None]
    runs_no_xla = predicate is None or isinstance(predicate, CommandPredicate)
    check_usage(
        (given and not compares, f"--{''.join(given[:1]).replace('_', '-')} applies only to wrong numbers: {NUMERIC}"),
        (options["load"] and options["passes"] is None, "--load needs --passes"),
        (
            options["xla_passes"] and runs_no_xla,
            "--xla-passes needs a fault of XLA: --failing and --passes alone do not run XLA passes",
        ),
        (options["xla_passes"] and options["passes"] is not None, "give only one of --passes and --xla-passes"),
    )


def _of_pass(fault: PassFault, predicate: FaultPredicate | None, options: dict[str, Any]) -> FaultPredicate:
    """What the input of a pass is made smaller by."""
    if predicate is None:
        return PassesChangeNumbers(fault.guilty, **_numbers(options))
    return ShowsAfterPasses(fault.guilty, predicate)


def _xla_passes(module: Module, predicate: FaultPredicate) -> XlaPassFault:
    return bisect_xla_passes(module, predicate, changing_passes(module))


def _numbers(options: dict[str, Any]) -> dict[str, Any]:
    """The options that say how numbers are compared."""
    arrays = None if options["inputs"] is None else open_arrays(options["inputs"])
    return {**{name: options[name] for name in ("seed", "rtol", "atol", "timeout")}, "inputs": arrays}


def _predicate(options: dict[str, Any]) -> FaultPredicate | None:
    values = {name: options[name[2:].replace("-", "_")] for name in PREDICATES}
    given = [name for name, value in values.items() if value is not None and value is not False]
    if not given and options["passes"] is not None:
        return None
    if len(given) != 1:
        said = f", not {' and '.join(given)}" if given else ""
        raise click.UsageError(f"give one option that describes the fault{said}: {', '.join(PREDICATES)}")
    return PREDICATES[given[0]](options)


PREDICATES: dict[str, Callable[[dict[str, Any]], FaultPredicate]] = {
    "--failing": lambda given: CommandPredicate(given["failing"], status=given["status"], timeout=given["timeout"]),
    "--xla-refuses": lambda given: XlaRefuses(given["any_message"], given["timeout"]),
    "--xla-crashes": lambda given: XlaCrashes(given["seed"], given["any_message"], given["timeout"]),
    "--differs-from-evaluator": lambda given: DiffersFromEvaluator(**_numbers(given)),
    "--differs-between": lambda given: DiffersBetweenFlags(*given["differs_between"], **_numbers(given)),
    "--slower-than": lambda given: SlowerThan(given["slower_than"], seed=given["seed"], timeout=given["timeout"]),
    "--compiles-slower-than": lambda given: SlowerThan(
        given["compiles_slower_than"], compiling=True, seed=given["seed"], timeout=given["timeout"]
    ),
}
"""The options that say what the fault is, of which one is given."""


def _note(result: Minimization, saved: Path | None) -> None:
    write_note(str(result))
    if result.needs_inputs and saved is None and result.inputs is not None:
        shown = ", ".join(f"{name} = {_short(array)}" for name, array in list(result.inputs.items())[:MOST_SHOWN])
        write_note(
            f"note: the fault shows only on values taken from the program; save them with --save-inputs X.npz: {shown}"
        )
    if result.arbitration is not None:
        write_note(str(result.arbitration))
    if not result.shows:
        write_note(f"note: the written text no longer shows the fault: {result.reason}")


def _short(array: np.ndarray) -> str:
    """An array's numbers, on one line; its shape where they are many."""
    return str(array.tolist()) if array.size <= MOST_SHOWN else f"an array of {'x'.join(map(str, array.shape))}"


def _write_interrupted(module: Module, smallest: Module | None, json_output: bool, output: Path | None) -> None:
    """Write the smallest module so far where there is one, and say so."""
    if smallest is None:
        write_note(f"{MESSAGE}: no smaller module shows the fault yet; nothing was written")
        return
    text = print_module(smallest)
    if json_output and output is None:
        write_record(InterruptedRecord(smallest.name, text), None)
    else:
        write_text(text, output)
    counts = f"{smallest.node_count:,} of {module.node_count:,} instructions"
    write_note(f"{MESSAGE}: wrote the smallest module so far, {counts}")
