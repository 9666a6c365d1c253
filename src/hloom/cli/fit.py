"""`hloom fit`: the best mix of sharding, microbatches, recomputation and stages for the devices there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
from rich.console import RenderableType
from rich.text import Text

from hloom.analysis import DEFAULT_DEVICE, size_note
from hloom.cli.exit_status import NO
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    batch_option,
    check_machine,
    check_standard_output,
    count_option,
    defaults_of,
    device_option,
    file_argument,
    json_option,
    output_option,
    size_option,
    target_option,
)
from hloom.cli.output import write_json, write_note
from hloom.cli.quantities import MOST_DIGITS
from hloom.cli.streams import STDOUT
from hloom.cli.tables import add_rest, new_table, write_report_beside
from hloom.cli.target import before_search
from hloom.distribute.fit import CAUSES, Combination, FitResult, fit
from hloom.formats.hlo import check_new_folder
from hloom.targets.memory import COMPILED
from hloom.text import byte_text, percent_text, time_text

SHOWN = 8
"""How many combinations are shown beside the baselines, unless all are asked for."""


DEFAULTS = defaults_of(fit)


@click.command("fit")
@file_argument
@click.option(
    "--devices", type=int, metavar="N", help="Number of devices to fit the step on (default: those of --for)."
)
@device_option(None, f"Device to price the program for (default: that of --for, or {DEFAULT_DEVICE}).")
@target_option(
    "Compile the best combination, or with --measure the K best ones, with the compiler of this target (v5e:2x2, "
    "h100x8; see `hloom compile`); show its figures beside the estimates, and keep the fastest that fits."
)
@size_option("--memory", is_capacity=True, help="Memory per device, as in 16GiB.  [default: the device's]")
@batch_option()
@click.option(
    "--microbatches", metavar="N,N", help="Microbatch counts to try, as in 1,2,4 (default: divisors of the batch)."
)
@count_option(
    "--measure",
    least=0,
    metavar="K",
    default=DEFAULTS["measure"],
    help="Compile the K best combinations with XLA and show measured beside estimated figures (default: 0, or 1 with "
    "--for).",
)
@click.option("--no-donate", is_flag=True, help="Donate only the parameters that the program itself donates.")
@click.option("--explain", is_flag=True, help="Show every combination tried, and where the best one spends its time.")
@json_option("Write JSON: every combination with its costs, and what was skipped.")
@output_option(
    "Write modules, plan.json and run.py to the new directory OUT, or plan.json alone for -.", keeps_stdout=True
)
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    devices: int | None,
    device: str | None,
    target: str | None,
    memory: int | None,
    batch: str | None,
    microbatches: str | None,
    measure: int,
    no_donate: bool,
    explain: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Find the fastest way to run a training or inference step on N devices.

    Searches meshes, shardings, microbatches, recomputation and pipeline stages together, within the memory of the
    devices.

    \b
    Examples:
      hloom fit step.hlo --devices 8 --memory 16GiB
      hloom fit step.hlo --devices 8 --device tpu-v5e --batch x:0 --measure 3
      hloom fit step.hlo --for v5e:2x4 --measure 3
      hloom fit step.hlo --devices 8 --memory 16GiB -o best --explain
    """
    counts = None if microbatches is None else _counts(microbatches)
    check_standard_output(output, json_output)
    if output is not None and output != STDOUT:
        check_new_folder(output)
    check_machine("--devices", devices, target)
    program = read_program(source)
    made = before_search(program, target, devices, device)
    with progress("searching"):
        result = fit(
            program, devices if made.target is None else made.target.devices, device=made.rates, memory=memory,
            batch=batch, microbatches=counts, measure=0 if made.problem else measure,
            target=made.target if made.is_available else None, donate=not no_donate,
        )  # fmt: skip
    made = replace(made, compiled=result.best.compiled)
    shown = [*tables(result, is_full=explain), *made.lines()]
    write_report_beside(lambda: {**result.to_json(), **made.to_json()}, shown, json_output, output)
    if output is not None and not result.missing_bytes:
        _write(result, output)
    if result.missing_bytes:
        write_note("error: nothing fits; nothing was written")
        context.exit(NO)


def _write(result: FitResult, output: Path) -> None:
    """Write the folder; or `plan.json` alone to the standard output."""
    if output == STDOUT:
        write_json(result.plan_json(), None)
    else:
        result.save(output)


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) <= MOST_DIGITS for part in parts):
        raise click.BadParameter(f"'{text}' is not a list of numbers, as in 1,2,4", param_hint="--microbatches")
    return [int(part) for part in parts]


def tables(result: FitResult, *, is_full: bool) -> Iterator[RenderableType]:
    """The combinations, what was left out, and why the best is the best."""
    best = result.best
    sizes = size_note(result.module)
    heading = f"{result.module.name} on {result.devices} {result.device}"
    table = new_table(
        f"{heading}, {byte_text(result.memory or 0)} each; best first, peaks for the {COMPILED} schedule"
        f"{f'; {sizes}' if sizes else ''}",
        "combination", ">micro", "keeps", ">step", ">sent", ">peak", ">bubble", "limited by", "!",
    )  # fmt: skip
    shown = [
        made
        for number, made in enumerate(result.combinations)
        if is_full or number < SHOWN or made.baseline or made.measured_bytes is not None
    ]
    for made in shown:
        table.add_row(*_row(made, result))
    add_rest(table, len(result.combinations), len(shown), "; --explain shows them")
    yield table
    if result.measured:
        yield _measured(result)
    for omission in result.omissions:
        yield f"skipped: {omission.name}: {omission.reason}"
    yield ""
    if result.missing_bytes:
        least, missing = byte_text(best.peak_bytes), byte_text(result.missing_bytes)
        yield f"nothing fits: the smallest combination needs {least}, {missing} too much"
    else:
        yield f"best: {best.name}, {time_text(best.cost.step_seconds)} per step, limited by {best.cost.binding}"
        if result.target is not None:
            yield f"chosen by its time by hloom's model and its peak by the compiler for {result.target.name}"
        bound = time_text(result.bound_seconds)
        yield f"gap: {result.gap:.1%} above {bound}, the time if the work divided evenly with no communication"
    if is_full:
        yield from _explained(result)
    if result.donated_bytes:
        donated = byte_text(result.donated_bytes)
        yield f"donated: {donated} of parameters are reused for results and must not be read afterwards"
    counts = result.counts
    yield (
        f"{counts.considered} combinations considered: {counts.evaluated} "
        f"planned, {counts.pruned} ruled out by bounds, {counts.left} not reached, in {result.seconds:.1f} s"
    )


def _row(made: Combination, result: FitResult) -> list[Text]:
    keeps = "all" if made.recomputation == 1.0 else f"{made.recomputation:.0%}" if made.recomputation else "inputs"
    cells = (
        _name(made), str(made.microbatches), keeps, time_text(made.cost.step_seconds),
        byte_text(made.cost.comm_bytes), byte_text(made.cost.peak_bytes),
        f"{made.cost.bubble:.0%}" if made.pipeline else "", made.cost.binding,
        "" if made.fits(result.memory) else "does not fit",
    )  # fmt: skip
    return [Text(cell, style="bold" if made is result.best else "") for cell in cells]


def _name(made: Combination) -> str:
    return f"{made.baseline}: {made.name}" if made.baseline and made.baseline not in made.name else made.name


def _measured(result: FitResult) -> RenderableType:
    """What was compiled and run, beside what was expected."""
    by = "by XLA" if result.target is None else f"for {result.target.name}"
    has_cycles = any(made.compiled is not None and made.compiled.cycles is not None for made in result.combinations)
    table = new_table(
        f"compiled {by}: predicted and measured",
        "combination", ">micro", ">sent", ">measured", ">peak", ">measured", ">bubble", ">run",
        *([">cycles"] if has_cycles else []), "",
    )  # fmt: skip
    for made in result.combinations:
        if made.measured_bytes is None:
            continue
        table.add_row(
            _name(made),
            str(made.microbatches),
            byte_text(made.cost.comm_bytes),
            byte_text(made.measured_comm_bytes or 0),
            byte_text(made.cost.peak_bytes),
            byte_text(made.measured_bytes),
            f"{made.cost.bubble:.0%}" if made.pipeline else "",
            "" if made.measured_bubble is None else f"{made.measured_bubble:.0%}",
            *([_cycles(made)] if has_cycles else []),
            "" if made.fits(result.memory) else "does not fit",
        )
    return table


def _cycles(made: Combination) -> str:
    cycles = made.compiled and made.compiled.cycles
    return f"{cycles.total:,}" if cycles else ""


def _explained(result: FitResult) -> Iterator[RenderableType]:
    """What takes the time of the best, and what the runner-up would cost."""
    best, second = result.best, result.runner_up
    names = [("best", best), *([("runner-up", second)] if second is not None else [])]
    headings = [heading for name, _ in names for heading in (f">{name}", ">%")]
    table = new_table("where the time of a step goes", "cause", *headings)
    for cause in CAUSES:
        row = []
        for _, made in names:
            seconds = made.cost.seconds_by_cause.get(cause, 0.0)
            row += [time_text(seconds), percent_text(seconds, made.cost.step_seconds)]
        table.add_row(cause, *row)
    yield table
    if second is not None:
        more = second.cost.step_seconds / best.cost.step_seconds - 1
        held = second.peak_bytes - best.peak_bytes
        yield f"runner-up: {second.name}, {more:+.1%} of time, {held:+,} bytes held"
    for made in result.baselines:
        if made is not best:
            ratio = made.cost.step_seconds / best.cost.step_seconds
            what = f"takes {ratio:.2f} times as long" if made.fits(result.memory) else "does not fit"
            yield f"{made.baseline} {what}"
