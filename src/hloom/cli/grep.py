"""`hloom grep`: the instructions that a query asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hloom.analysis import DEFAULT_DEVICE, Table
from hloom.cli.exit_status import NO
from hloom.cli.input import note_sizes, progress, read_program
from hloom.cli.options import ModuleSource, device_option, file_argument, json_option, output_option
from hloom.cli.output import write_record, write_text
from hloom.formats.hlo import STDIN
from hloom.inspection.query import COLUMNS, FIELDS, Matches, grep
from hloom.text import Record, byte_text, time_text


def _fields(context: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    """Write what can be asked for, and end."""
    if is_wanted:
        lines = (f"{name:16} {field.kind.value:7} {field.description}" for name, field in FIELDS.items())
        write_text("\n".join(lines) + "\n", None)
        context.exit()


@dataclass(frozen=True, slots=True)
class MatchList(Record):
    """The instructions that match, in the module's order: the fields that `hloom grep --fields` lists, and their text.

    With --count, `matches` is null. Without an entry, a module's instructions have no costs and times.
    """

    module: str
    count: int
    matches: Table | None


@click.command("grep")
@file_argument
@click.argument("expression", metavar="QUERY")
@click.option(
    "--fields",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_fields,
    help="List the fields that a query may use, and exit.",
)
@click.option("--count", "only_count", is_flag=True, help="Print only the number of matches.")
@click.option(
    "--lines", "only_lines", is_flag=True, help="Print only the HLO lines, without computation names and costs."
)
@device_option(DEFAULT_DEVICE)
@json_option("Write JSON: the fields of every match.")
@output_option("Write to file OUT, atomically.")
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    expression: str,
    only_count: bool,
    only_lines: bool,
    device: str,
    json_output: bool,
    output: Path | None,
) -> None:
    """List the instructions of a module that match a query.

    A query consists of opcodes (`dot`, `all-*`) and comparisons of fields, combined with and, or, not and parentheses;
    `~` matches a regular expression. near(QUERY, 2) selects instructions within 2 edges, uses(QUERY) and used_by(QUERY)
    those on one side, and inside(QUERY) those of called computations. FILE may stand last, as for grep. The exit status
    is 0 if anything matches, 1 if nothing does, and 2 on error.

    \b
    Examples:
      hloom grep step.hlo dot
      hloom grep step.hlo 'dot where bytes > 1MiB and scope ~ "attention"'
      hloom grep step.hlo 'live and bytes > 100MiB' --count
      hloom grep step.hlo 'copy and uses(dot, 2) or all-*' --json
    """
    if not _is_file(source.file) and _is_file(expression):  # in the order of grep
        source, expression = replace(source, file=expression), source.file
    program = read_program(source)
    note_sizes(program)
    with progress("searching"):
        matches = grep(program, expression, device=device)
        text = "" if only_count or json_output else _text(matches, only_lines)
    if json_output:
        rows = None if only_count else matches.table((*_columns(matches), "text"))
        write_record(MatchList(program.name, len(matches), rows), output)
    elif only_count:
        write_text(f"{len(matches)}\n", output)
    elif text or output is not None:
        write_text(text, output)
    if not len(matches):
        context.exit(NO)


def _is_file(name: str) -> bool:
    return name == STDIN or os.path.exists(name)


def _columns(matches: Matches) -> tuple[str, ...]:
    """The fields that are shown; without an entry, costs and times are not known."""
    costs = ("flops", "own_flops", "bytes_accessed", "seconds")
    return COLUMNS if _has_entry(matches) else tuple(name for name in COLUMNS if name not in costs)


def _has_entry(matches: Matches) -> bool:
    module = matches.instructions.module
    return any(module.is_entry(graph) for graph in module.graphs)


def _text(matches: Matches, only_lines: bool) -> str:
    lines = matches.column("text")
    if not only_lines:
        named = zip(matches.column("computation"), lines, _costs(matches), strict=True)
        lines = [f"{computation}: {line}{cost}" for computation, line, cost in named]
    return "".join(f"{line}\n" for line in lines)


def _costs(matches: Matches) -> Iterator[str]:
    """What each costs, as a comment behind its line."""
    if not _has_entry(matches):
        yield from [""] * len(matches)
        return
    for size, flops, seconds in zip(*map(matches.column, ("bytes", "flops", "seconds")), strict=True):
        parts = [byte_text(size), *([f"{flops:.3g} FLOPs"] if flops > 0 else [])]
        yield f"  // {', '.join([*parts, *([time_text(seconds)] if seconds else [])])}"
