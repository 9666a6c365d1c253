"""`hloom fusions`: what the fusions of a module hold, read, write and take, and which kernels had better been one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import device as device_of
from hloom.cli.input import note_sizes, note_whole_program, progress, read_program
from hloom.cli.options import (
    ModuleSource,
    choice_option,
    device_option,
    devices_option,
    json_option,
    optimised_file_argument,
    output_option,
    top_option,
)
from hloom.cli.tables import add_rest, cut, new_table, write_report
from hloom.passes.fusion import FusionReport, FusionRow, LibraryCalls, counted, fusions
from hloom.text import byte_text, percent_text, time_text

MOST_LINES = 20
"""How many fusions, and pairs, are shown, unless told otherwise."""
SORTS = {
    "time": lambda row: -row.total,
    "bytes": lambda row: -(row.read + row.written) * row.times,
    "instructions": lambda row: -sum(row.opcodes.values()),
    "name": lambda row: row.node.name,
}
"""The orders in which fusions are shown."""
ESTIMATE = "An estimate: assumes peak rates and no overlap, and counts recomputed elements each time."
NO_FUSIONS = "no fusions: compile the module first, or use `hloom opt FILE -p cluster`"


@click.command("fusions")
@optimised_file_argument
@device_option("cpu")
@devices_option()
@choice_option("--sort", choices=list(SORTS), default="time", help="Show the fusions that have most of this first.")
@top_option(MOST_LINES)
@json_option("Write JSON: every fusion, and every pair worth fusing.")
@output_option("Write to file OUT, atomically.")
def command(
    source: ModuleSource,
    device: str,
    listed: Path | None,
    sort: str,
    top: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Explain the fusions of an optimised module.

    For each fusion: the source instructions it contains, by opcode and scope; the bytes it reads and writes; its time
    on a device by the roofline model; and how often it recomputes an element. Then lists pairs of kernels that would be
    faster fused, or the reason they cannot be.

    \b
    Examples:
      hloom fusions dump/module_0007.jit_step.cpu_after_optimizations.txt
      hloom fusions optimised.hlo --device h100 --sort bytes
      hloom fusions optimised.hlo --json -o fusions.json
    """
    chosen = device_of(device, listed)
    program = read_program(source)
    note_whole_program(program)
    note_sizes(program)
    with progress("estimating"):
        report = fusions(program, chosen)
    write_report(report.to_json, _tables(report, sort, top), json_output, output)


def _tables(report: FusionReport, sort: str, top: int) -> Iterator[RenderableType]:
    yield Text(f"{report.module.name} on {report.device.title}\n", style="bold")
    if report.fusions:
        yield _fusions(sorted(report.fusions, key=SORTS[sort]), report.seconds, top)
    else:
        yield NO_FUSIONS + "\n"
    if report.library_calls:
        yield _library_calls(report.library_calls, top)
    if report.missed:
        yield _missed(report, top)
    yield ESTIMATE
    libraries = sum(not row.is_modelled for row in report.fusions)
    if libraries:
        yield f"{libraries:,} fusions, marked *, are library calls or contain opcodes that the model does not cover"


def _fusions(rows: list[FusionRow], seconds: float, top: int) -> Table:
    columns = (">runs", ">time", ">%", ">reads", ">writes", ">recompute", "contains", "source")
    table = new_table("fusions", "fusion", *columns)
    for row in rows[:top]:
        table.add_row(
            row.node.name + ("" if row.is_modelled else " *"),
            f"{row.times:,}",
            time_text(row.total),
            percent_text(row.total, seconds),
            byte_text(row.read),
            byte_text(row.written),
            f"{row.recomputation:.3g}x",
            counted(row.opcodes),
            cut(counted(row.sources, 2), 40),
        )
    add_rest(table, len(rows), top)
    return table


def _library_calls(calls: Sequence[LibraryCalls], top: int) -> Table:
    table = new_table("custom calls", "target", "what it is", ">calls", ">time", "not counted")
    for call in calls[:top]:
        names = (cut(call.target, 40), "" if call.name == call.target else call.name)
        least = "at least " if call.problem else ""
        table.add_row(*names, f"{call.count:,}", f"{least}{time_text(call.seconds)}", call.problem)
    add_rest(table, len(calls), top)
    return table


def _missed(report: FusionReport, top: int) -> Table:
    table = new_table("worth fusing", "kernel", "with", ">time saved", ">bytes saved", "obstacle")
    for pair in report.missed[:top]:
        table.add_row(
            pair.first.name,
            cut(pair.second.name, 30),
            time_text(pair.saved),
            byte_text(max(0, pair.saved_bytes)),
            pair.obstacle,
        )
    add_rest(table, len(report.missed), top)
    return table
