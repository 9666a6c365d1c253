"""`hloom memory`: memory in use over a run, the buffers alive at the peak, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import MAIN_MEMORY, LiveBuffer, MemoryReport, SpaceMemory, XlaAccount
from hloom.cli.exit_status import NO
from hloom.cli.input import note_whole_program, progress, read_program
from hloom.cli.options import (
    ModuleSource,
    budget_option,
    choice_option,
    json_option,
    optimised_file_argument,
    output_option,
    target_option,
    top_option,
)
from hloom.cli.output import write_record
from hloom.cli.plots.memory import MARGIN_LEFT, WIDTH, characters, png, svg
from hloom.cli.tables import add_rest, cut, new_table, shown_width, write_tables
from hloom.cli.target import ForTarget, for_target
from hloom.formats.hlo import write_whole
from hloom.targets.memory import FOR_GPU, SCHEDULES, memory
from hloom.text import Bytes, HloomError, byte_text, percent_text

MOST_LINES = 15
"""How many buffers and inputs are shown, unless told otherwise."""
CPU_TARGET = "cpu"
"""The target of a report whose module does not say what it was compiled for."""
WRITERS = {".svg": svg, ".png": png}


class BudgetVerdict(NamedTuple):
    """The bytes of --budget, of the main memory and of each space, and whether the module fits into all of them."""

    budget: Bytes | None
    budgets: Mapping[str, int]
    fits: bool
    json_keys = "budget budgets fits"


class MemoryRecord(NamedTuple):
    """The memory of a module, and with --budget whether it fits; `compiler` is what --for compiled."""

    report: MemoryReport
    verdict: BudgetVerdict | None
    made: ForTarget
    json_keys = "**report **verdict **made"


@click.command("memory")
@optimised_file_argument
@target_option()
@budget_option(help="Exit with status 1 unless the peak fits: 80GiB, 500MB, or for each memory hbm=16GiB,vmem=128MiB.")
@choice_option(
    "--schedule",
    choices=SCHEDULES,
    help="Instruction order: as XLA's CPU or GPU compiler would schedule, hloom's list scheduler, or as in the text.",
)
@top_option(MOST_LINES)
@json_option("Write JSON: sizes, buffers live at the peak, and the timeline.")
@output_option(f"Write the timeline to file OUT ({' '.join(WRITERS)}), or with --json the JSON.")
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    target: str | None,
    budgets: dict[str, int],
    schedule: str | None,
    top: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Report how much memory a run of a module takes.

    Peak = arguments + outputs - aliased + temporaries. A scheduled module (after optimisation) is analysed in its own
    order, with the memories, tiles and aliasing rules of the TPU or GPU that it was compiled for. Any other module is
    analysed in the order chosen by a model of XLA's CPU compiler, or of its GPU compiler if it is for a GPU, so its
    peak is an estimate. If an .hlo.pb contains XLA's own buffer assignment, that is shown alongside.

    \b
    Examples:
      hloom memory step.hlo
      hloom memory step.hlo --budget 80GiB
      hloom memory step.hlo --for h100 --budget 80GiB
      hloom memory step.hlo --for v5e --budget hbm=16GiB,vmem=128MiB
      hloom memory step.hlo --schedule text -o timeline.svg
      hloom memory step.hlo --json | jq '.at_peak[0]'
    """
    writer = WRITERS.get(output.suffix.lower()) if output is not None else None
    if output is not None and writer is None and not json_output:
        raise click.BadParameter(f"'{output}' must end in one of the suffixes {' '.join(WRITERS)}", param_hint="-o")
    made = for_target(read_program(source), target)
    if made.compiled is None:
        note_whole_program(made.module)
    with progress("placing buffers"):
        report = _with_compiler(memory(made.module, schedule=schedule), made)
    check_budgets(report, budgets, made)
    budget = budgets.get(MAIN_MEMORY)
    peak = report.peak if made.compiled is None else made.compiled.memory.peak
    missing = {name for name in report.over_budget(budgets) if name != MAIN_MEMORY}
    fits = not missing and (budget is None or peak <= budget)
    if json_output:
        verdict = BudgetVerdict(budget, budgets, fits) if budgets else None
        write_record(MemoryRecord(report, verdict, made), output)
    else:
        if output is not None and writer is not None:
            write_whole(output, writer(report, budget))
        write_tables([*tables(report, budgets, top, peak), *made.lines()], None)
    if not fits:
        context.exit(NO)


def check_budgets(report: MemoryReport, budgets: Mapping[str, int], made: ForTarget) -> None:
    """Raise HloomError for a budget of a memory whose use is not known: hloom's models put all in the main one."""
    others = [name for name in budgets if name != MAIN_MEMORY]
    if others and (made.problem or report.schedule == FOR_GPU or report.target == CPU_TARGET):
        raise HloomError(
            f"what is in {others[0]} is decided by the compiler for the device, which has not seen this program",
            hint="give --for v5e or another target whose compiler is here (see `hloom doctor`), or an optimised module",
        )


def space_verdicts(report: MemoryReport, budgets: Mapping[str, int]) -> Iterator[str]:
    """Whether the budgets of memories beside the main one are kept."""
    for name, budget in budgets.items():
        if name != MAIN_MEMORY:
            yield _space_verdict(report.space(name), name, budget)


def _with_compiler(report: MemoryReport, made: ForTarget) -> MemoryReport:
    """The report with the compiler's account, if a compiler made the module."""
    if made.compiled is None:
        return report
    own = made.compiled.memory
    constants = sum(space.constants for space in made.compiled.spaces)
    account = XlaAccount(own.arguments, own.outputs, own.aliases, own.temporaries, constants, ())
    return replace(report, xla=account)


def tables(
    report: MemoryReport, budgets: Mapping[str, int] | None = None, top: int = MOST_LINES, peak: int | None = None
) -> Iterator[RenderableType]:
    """The report as tables and lines.

    `budgets` are bytes by the short names of memories; `peak` is the compiler's, if it has the last word on the budget.
    """
    budgets = budgets or {}
    yield _sizes(report)
    for line in characters(report, min(WIDTH, shown_width() - MARGIN_LEFT)):
        yield Text(line, no_wrap=True, overflow="ellipsis")
    yield _buffers("live at the peak", report.at_peak, report.peak, top)
    if report.donatable:
        yield _donatable(report, top)
    if report.opaque_calls:
        yield f"calls not analysed: {report.opaque_calls:,}; memory used inside them is not counted"
    if report.note:
        yield report.note
    if MAIN_MEMORY in budgets:
        yield from _verdict(report, budgets[MAIN_MEMORY], top, report.peak if peak is None else peak)
    yield from space_verdicts(report, budgets)


def _sizes(report: MemoryReport) -> Table:
    xla = report.xla
    sizes = f", {report.sizes}" if report.sizes else ""
    target = "" if report.target == CPU_TARGET else f", {report.main_space} of a {report.target}"
    title = f"memory, schedule: {report.schedule}{target}{sizes}"
    table = new_table(title, "part", ">bytes", ">", *([">XLA's own"] if xla else []))
    for name in ("arguments", "outputs", "aliases", "temporaries", "peak"):
        size = getattr(report, name)
        bytes_text = f"{report.sizes.qualifier}{size:,}"
        table.add_row(name, bytes_text, byte_text(size), *([f"{getattr(xla, name):,}"] if xla else []))
    for other in report.other_spaces:
        cells = f"{other.name} S({other.space})", f"{other.peak:,}", byte_text(other.peak)
        table.add_row(*cells, *([""] if xla else []))
    return table


def _space_verdict(used: SpaceMemory | None, name: str, budget: int) -> str:
    if used is None:
        return f"nothing is in {name}"
    spare = budget - used.peak
    if spare >= 0:
        return f"{used.name}: fits into {byte_text(budget)} with {byte_text(spare)} to spare"
    return f"{used.name}: does not fit: exceeds {byte_text(budget)} by {byte_text(-spare)}"


def _buffers(title: str, buffers: Sequence[LiveBuffer], peak: int, top: int) -> Table:
    table = new_table(title, "value", "kind", "type", "scope", "source", ">bytes", ">%")
    for buffer in buffers[:top]:
        element = "".join(f"{{{index}}}" for index in buffer.index)
        texts = (
            buffer.name + element,
            buffer.role,
            cut(buffer.type, 24),
            cut(buffer.scope, 36),
            cut(Path(buffer.source).name, 24),
        )
        size = f"{buffer.sizes} {byte_text(buffer.bytes)}" if buffer.sizes else byte_text(buffer.bytes)
        table.add_row(*(text for text in texts), size, percent_text(buffer.bytes, peak))
    add_rest(table, len(buffers), top)
    return table


def _donatable(report: MemoryReport, top: int) -> Table:
    table = new_table("inputs that could be donated", "input", "type", "output", "no copy needed", ">bytes")
    for donation in report.donatable[:top]:
        name = donation.name + "".join(f"{{{index}}}" for index in donation.index)
        output = "{" + ",".join(map(str, donation.output_index)) + "}"
        table.add_row(
            cut(name, 40),
            cut(donation.type, 30),
            output,
            "yes" if donation.is_free else "no",
            byte_text(donation.bytes),
        )
    add_rest(table, len(report.donatable), top)
    return table


def _verdict(report: MemoryReport, budget: int, top: int, peak: int) -> Iterator[RenderableType]:
    if peak <= budget:
        known = "the counted part " if report.sizes.unbounded_count else ""
        yield f"{known}fits into {byte_text(budget)} with {byte_text(budget - peak)} to spare"
        return
    missing = peak - budget
    yield f"does not fit: exceeds {byte_text(budget)} by {byte_text(missing)}"
    if report.donatable_bytes:
        yield f"donating these inputs would save {byte_text(report.donatable_bytes)}"
    title = "freeing these would be enough"
    yield _buffers(title, report.to_shrink(budget), report.peak, top)
