"""`hloom why-oom`: why a program does not fit into memory, and what would help."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import MAIN_MEMORY
from hloom.cli.input import note_whole_program, progress, read_program
from hloom.cli.memory import check_budgets, space_verdicts
from hloom.cli.options import (
    ModuleSource,
    batch_option,
    budget_option,
    file_argument,
    json_option,
    output_option,
    target_option,
    top_option,
)
from hloom.cli.output import check_folder
from hloom.cli.tables import add_rest, command_line, cut, new_table, write_report, write_tables
from hloom.cli.target import MODEL, ForTarget, for_target
from hloom.formats.hlo import STDIN, read_bytes
from hloom.inspection.why_oom import (
    BufferGroup,
    HeldBuffer,
    OomReport,
    Remedy,
    error_text_in,
    error_text_of,
    why_dump_oom,
    why_oom,
    with_remedies,
)
from hloom.ir import Module
from hloom.targets.compiler import CompilerOutOfMemory
from hloom.targets.memory import memory as memory_report
from hloom.text import Bytes, HloomError, Record, byte_text, percent_text

MOST_LINES = 10
"""How many lines of a table are shown, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class OtherMemories(Record):
    """Budgets given for each memory, and the names of those that are exceeded."""

    budgets: dict[str, Bytes]
    over_budget: dict[str, Bytes]
    lines: tuple[str, ...]
    json_keys = "budgets over_budget"


class OomRecord(NamedTuple):
    """Why a module, as it was given or as the target's compiler made it, does or does not fit."""

    report: OomReport
    others: OtherMemories | None
    made: ForTarget | None = None
    json_keys = "**report **others **made"


@dataclass(frozen=True, slots=True)
class CompilerRefusal(Record):
    """A program that the target's compiler refuses: its message, what that says of memory, and what the model says."""

    message: str
    why: OomReport | None
    by_model: OomReport | None
    fits: ClassVar[bool] = False
    json_keys = "fits message why by_model"


@click.command("why-oom")
@file_argument
@target_option()
@budget_option(
    "--memory",
    help="Memory of the device: 16GiB, or for each memory hbm=16GiB,vmem=128MiB (default: as the error text states).",
)
@click.option("--quick", is_flag=True, help="Report what is in memory and why, without simulating remedies.")
@batch_option()
@top_option(MOST_LINES)
@json_option("Write JSON: every buffer live at the peak, and every remedy tried.")
@output_option("Write to file OUT, atomically.")
def command(
    source: ModuleSource,
    target: str | None,
    budgets: dict[str, int],
    quick: bool,
    batch: str | None,
    top: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Explain what fills memory at the peak, what still needs it, and what would help.

    FILE is a module, a text file with XLA's or JAX's error (RESOURCE_EXHAUSTED...), or a dump directory, of which the
    module with the highest peak is used. Simulates donation, recomputation, microbatches, sharding and half precision
    one at a time and predicts the new peak; --quick skips that.

    \b
    Examples:
      hloom why-oom step.hlo --budget 16GiB
      hloom why-oom error.txt
      hloom why-oom dump/ --quick
      hloom why-oom step.hlo --for v5e
      jq -r .error log.json | hloom why-oom - --json
    """
    check_folder(output)
    if target is not None:
        _report_for(source, target, budgets, top, json_output, output)
        return
    report, program = _report(source, budgets.get(MAIN_MEMORY), quick, batch)
    others = _other_memories(None if program is None else ForTarget(program), budgets)
    shown = chain(tables(report, top), others.lines if others else ())
    if program is not None and not quick and not report.fits:
        if not json_output and output is None:  # what takes seconds comes first, what takes long behind it
            write_tables(shown, None)
            shown = iter([""])
        with progress("trying remedies"):
            report = with_remedies(report, program, peak=report.peak, batch=batch, file=source.file)
    shown = chain(shown, remedy_lines(report, is_tried=not quick))
    write_report(lambda: OomRecord(report, others), shown, json_output, output)


def _other_memories(made: ForTarget | None, budgets: dict[str, int]) -> OtherMemories | None:
    """Whether the budgets of memories beside the main one are kept; None if none are given."""
    if not budgets.keys() - {MAIN_MEMORY}:
        return None
    if made is None:
        raise HloomError("budgets of several memories are for one module", hint="give its file, and no error text")
    report = memory_report(made.module)
    check_budgets(report, budgets, made)
    return OtherMemories(budgets, report.over_budget(budgets), tuple(space_verdicts(report, budgets)))


def _report_for(
    source: ModuleSource, target: str, budgets: dict[str, int], top: int, json_output: bool, output: Path | None
) -> None:
    """What fills memory in the module that the target's compiler makes, or why it makes none.

    Remedies change the program before optimisation: without `--for` they are tried on it.
    """
    program = read_program(source)
    try:
        made = for_target(program, target)
    except CompilerOutOfMemory as error:
        refusal = why_refused(error, program)
        write_report(lambda: refusal, [error.message, *refusal_tables(refusal, top)], json_output, output)
        return
    with progress("placing buffers"):
        limit = budgets.get(MAIN_MEMORY) or _memory_of(made)
        report = why_oom(made.module, memory=limit, quick=True, file=source.file)
        others = _other_memories(made, budgets)
    further = others.lines if others else ()
    shown = chain(tables(report, top), remedy_lines(report, is_tried=False), further, made.lines())
    write_report(lambda: OomRecord(report, others, made), shown, json_output, output)


def _memory_of(made: ForTarget) -> int | None:
    """The memory of the target's device, where hloom knows it."""
    if made.compiled is not None and made.compiled.target.memory is not None:
        return made.compiled.target.memory
    return None if made.rates is None else round(made.rates.memory_bytes)


def why_refused(error: CompilerOutOfMemory, program: Module) -> CompilerRefusal:
    """The reports of a compiler's message about memory and of the program, where there are any."""
    said = modelled = None
    with suppress(HloomError):  # a message without sizes
        said = why_oom(error.text)
    with suppress(HloomError), progress("placing buffers"):
        modelled = why_oom(program, memory=said.memory if said is not None else None, quick=True)
    return CompilerRefusal(error.message, said, modelled)


def refusal_tables(refusal: CompilerRefusal, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """Both reports of a program that the compiler refuses."""
    if refusal.why is not None:
        yield from tables(refusal.why, top)
        yield from remedy_lines(refusal.why, is_tried=False)
    if refusal.by_model is not None:
        yield f"\n{MODEL}, of the program before optimisation:"
        yield from tables(refusal.by_model, top)
        yield from remedy_lines(refusal.by_model, is_tried=False)


def _report(source: ModuleSource, limit: int | None, quick: bool, batch: str | None) -> tuple[OomReport, Module | None]:
    """The report of whatever FILE is, and the program whose remedies are not tried yet, if it is one."""
    if source.file != STDIN and os.path.isdir(source.file) and source.stage is None:
        with progress("trying" if not quick else "placing buffers"):
            return why_dump_oom(source.file, memory=limit, module=source.module, quick=quick, batch=batch), None
    data = read_bytes(STDIN) if source.file == STDIN else None
    text = error_text_of(source.file) if data is None else error_text_in(data, source.name)
    if text is not None:
        return why_oom(text, memory=limit), None
    program = read_program(source, data)
    note_whole_program(program)
    with progress("placing buffers"):
        return why_oom(program, memory=limit, quick=True, batch=batch, file=source.file), program


def tables(report: OomReport, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """What is in memory, as tables and lines."""
    yield Text(_verdict(report), style="bold")
    if report.sums:
        yield _sums(report)
    if report.buffers:
        yield _groups("by reason", report.by_reason(), report, top, named_reason=False)
        yield _groups("by scope (* stands for any number)", report.by_scope(), report, top)
        yield _groups("by source line", report.by_source(), report, top)
        yield _buffers(report.buffers, report, top)


def remedy_lines(report: OomReport, *, is_tried: bool) -> Iterator[RenderableType]:
    """What was tried, and what is to be said of the report."""
    for note in report.notes:
        yield f"note: {note}"
    if report.remedies:
        yield from _remedies(report)
    elif is_tried and report.fits:
        yield "it fits, so no remedies were simulated"


def _verdict(report: OomReport) -> str:
    at = f", at {report.peak_instruction}" if report.peak_instruction else ""
    step = f" (step {report.peak_step:,} of {report.steps:,})" if report.steps else ""
    sizes = f"; {report.sizes}" if report.sizes else ""
    line = f"{report.name}: {report.sizes.qualifier}{byte_text(report.peak)} at the peak{at}{step}{sizes}"
    if report.memory is None:
        return line
    if report.fits:
        counted = "the counted part " if report.sizes.unbounded_count else ""
        left = byte_text(report.memory - report.peak)
        return f"{line}: {counted}fits into {byte_text(report.memory)} with {left} to spare"
    return f"{line}: exceeds the {byte_text(report.memory)} available by {byte_text(report.missing)}"


def _sums(report: OomReport) -> Table:
    has_xla = bool(report.xla_sums)
    schedule = f", schedule: {report.schedule}" if report.schedule else ""
    table = new_table(f"memory{schedule}", "part", ">bytes", ">", *([">XLA's own"] if has_xla else []))
    sums = {**report.sums, **({"padding (included)": report.padding} if report.padding else {}), "peak": report.peak}
    for name, size in sums.items():
        own = f"{report.xla_sums[name]:,}" if name in report.xla_sums else ""
        table.add_row(name, f"{size:,}", byte_text(size), *([own] if has_xla else []))
    return table


def _groups(
    title: str, groups: Sequence[BufferGroup], report: OomReport, top: int, *, named_reason: bool = True
) -> Table:
    columns = ["group", ">buffers", ">bytes", ">%", *([">padding"] if report.padding else []), "largest"]
    table = new_table(title, *columns, *(["main reason"] if named_reason else []))
    for group in groups[:top]:
        padding = [byte_text(group.padding) if group.padding else ""] if report.padding else []
        cells = [
            group.name,
            f"{group.count:,}",
            byte_text(group.bytes),
            percent_text(group.bytes, report.peak),
        ]
        cells += [*padding, cut(group.largest, 28), *([cut(group.reason, 44)] if named_reason else [])]
        table.add_row(*cells)
    add_rest(table, len(groups), top)
    return table


def _buffers(buffers: Sequence[HeldBuffer], report: OomReport, top: int) -> Table:
    columns = ["value", ">bytes", *([">padding"] if report.padding else []), "type", "produced by", "!why"]
    table = new_table("largest buffers", *columns)
    for buffer in buffers[:top]:
        padding = [byte_text(buffer.padding) if buffer.padding else ""] if report.padding else []
        space = f" in space {buffer.space}" if buffer.space else ""
        made_by = cut(buffer.made_by + space, 26)
        why = buffer.reason or cut(buffer.scope, 60)
        cells = [buffer.name, byte_text(buffer.bytes), *padding, cut(buffer.type, 30), made_by, cut(why, 90)]
        table.add_row(*cells)
    add_rest(table, len(buffers), top)
    return table


def _remedies(report: OomReport) -> Iterator[RenderableType]:
    columns = ("remedy", ">peak", ">saved", ">%", ">FLOPs", ">sent", "")
    table = new_table("remedies (each simulated on its own)", "", *columns)
    for number, remedy in enumerate(report.helpful, 1):
        sends = byte_text(remedy.comm_bytes) if remedy.comm_bytes else ""
        fits = "" if report.memory is None else "fits" if remedy.fits(report.memory) else "does not fit"
        cells = (
            str(number), remedy.what, byte_text(remedy.peak or 0), byte_text(remedy.saved),
            percent_text(remedy.saved, remedy.original_peak), f"{remedy.flops_factor:.3f}x", sends, fits,
        )  # fmt: skip
        table.add_row(*cells)
    if report.helpful:
        yield table
    for number, remedy in enumerate(report.helpful, 1):
        yield command_line(f"{number}: {remedy.command}")
    for remedy in report.useless:
        yield f"does not help: {remedy.what}: {_problem(remedy)}"
    is_enough = any(remedy.fits(report.memory) for remedy in report.helpful)
    if report.fits is False and not is_enough:
        yield "no single remedy is enough; `hloom fit` searches combinations of them over devices"


def _problem(remedy: Remedy) -> str:
    if remedy.peak is None:
        return remedy.problem
    change = f"{byte_text(abs(remedy.saved))} {'less' if remedy.saved >= 0 else 'more'}"
    return f"the peak would be {byte_text(remedy.peak)}, {change}"
