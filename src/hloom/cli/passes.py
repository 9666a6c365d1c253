"""`hloom passes`: what XLA's passes made of a module, one after the other, from a dump directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import RenderableType
from rich.text import Text

from hloom.cli.diff import tables as diff_tables
from hloom.cli.exit_status import NO
from hloom.cli.input import progress
from hloom.cli.options import json_option, limit_option, output_option
from hloom.cli.output import check_folder
from hloom.cli.tables import cut, new_table, write_report
from hloom.inspection.profile import STAGES, PassTimeline, StateRow, pass_timeline
from hloom.text import Record, byte_text

SHOWN_CHANGES = 3
"""How many opcodes a row names whose numbers changed."""


@dataclass(frozen=True, slots=True)
class StateList(Record):
    """The states of a module between XLA's passes; with --changed, those alone that differ from the one before."""

    module: str
    states: Sequence[StateRow]


@click.command("passes")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--module", metavar="MODULE", help="Module to show if the dump holds several, such as jit_f or module_0004."
)
@click.option("--changed", is_flag=True, help="Show only states that differ from the previous one.")
@click.option(
    "--diff",
    "pair",
    nargs=2,
    metavar="A B",
    help="Diff two states instead, given by number, before or after: --diff 12 after.",
)
@limit_option(20, "Show at most N rows of each table of --diff.")
@json_option()
@output_option("Write to file OUT, atomically.")
@click.pass_context
def command(
    context: click.Context,
    directory: Path,
    module: str | None,
    changed: bool,
    pair: tuple[str, str] | None,
    limit: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Show what each of XLA's passes did: instructions, FLOPs, memory and collectives after each.

    DIR is a dump written with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*'. XLA dumps
    the module when a pipeline starts and after each pass that changed it. A row shows the state after a pass and which
    opcode counts changed since the previous row. States are named by XLA's pass number, or `before` and `after` for the
    ends. A file that cannot be read gets a row with the reason. With --diff, the exit status is that of `hloom diff`: 0
    same, 1 different, 2 error.

    \b
    Examples:
      hloom passes dump
      hloom passes dump --module jit_step --changed
      hloom passes dump --module jit_step --diff 12 after
      hloom passes dump --module module_0010 --json | jq '.states[].instructions'
    """
    if pair is not None:
        _compare(context, directory, module, pair, limit, json_output, output)
        return
    check_folder(output)
    timeline = pass_timeline(directory, module)
    with progress("reading"):
        rows = [row for row in timeline.rows() if row.is_changed or not changed]
    write_report(
        lambda: StateList(timeline.name, rows),
        tables(timeline, rows),
        json_output,
        output,
    )


def _compare(
    context: click.Context,
    directory: Path,
    module: str | None,
    pair: tuple[str, str],
    limit: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Show what differs between two states, with the exit statuses of `hloom diff`."""
    check_folder(output)
    timeline = pass_timeline(directory, module)
    with progress("comparing"):
        difference = timeline.diff(*pair)
    write_report(lambda: difference, diff_tables(difference, limit), json_output, output)
    if not difference.is_equal:
        context.exit(NO)


def tables(timeline: PassTimeline, rows: Sequence[StateRow]) -> Iterator[RenderableType]:
    """The timeline, a row for each state."""
    table = new_table(
        f"{timeline.name}: {len(timeline):,} states", "state", "pipeline", "after", ">instructions", ">FLOPs",
        ">peak (schedule)", "collectives", "!changed",
    )  # fmt: skip
    for row in rows:
        table.add_row(*_cells(row), style="" if row.is_changed else "dim")
    yield table
    count = sum(row.is_changed for row in rows)
    yield f"states that differ from the previous one: {count:,}"


def _cells(row: StateRow) -> list[Text]:
    state, figures = row.state, row.figures
    label = next((short for short, stage in STAGES.items() if state.stage.endswith(stage)), state.label)
    cells = [label, cut(state.pipeline, 24), cut(state.last_pass, 24)]
    if figures is None:
        return [Text(cell) for cell in (*cells, "", "", "", "", f"cannot be read: {row.problem.splitlines()[0]}")]
    collectives = " ".join(f"{count} {opcode}" for opcode, count in (figures.collectives or {}).items())
    least = figures.sizes.qualifier
    numbers = [
        f"{figures.instructions:,}",
        "" if figures.flops is None else f"{figures.flops_qualifier}{figures.flops:,}",
        "" if figures.peak_bytes is None else f"{least}{byte_text(figures.peak_bytes)} ({figures.schedule})",
    ]
    return [Text(cell) for cell in (*cells, *numbers, collectives, _changes(row))]


def _changes(row: StateRow) -> str:
    if row.problem:
        return row.problem.splitlines()[0]
    parts = [f"{count:+,} {opcode}" for opcode, count in row.changes.items()]
    more = f", {len(parts) - SHOWN_CHANGES} more" if len(parts) > SHOWN_CHANGES else ""
    named = ", ".join(parts[:SHOWN_CHANGES]) + more
    return named or ("opcode counts unchanged" if row.is_changed else "")
