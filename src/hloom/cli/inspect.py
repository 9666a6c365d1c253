"""`hloom inspect`: the account of a module, as tables or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import click
from rich import box
from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import Call, Summary, summary
from hloom.cli.options import Origin, as_json, from_file, to_output
from hloom.cli.reading import read
from hloom.cli.writing import byte_text, cut, write_json, write_tables

MOST_LINES = 30
"""How many lines of one table are shown without --all."""
LEAVES = 3
"""From how many alike leaves on the tree of calls shows them as one line."""

NUMBERS = frozenset(("count", "instructions", "times", "bytes", "bytes of results"))
"""The columns that hold numbers."""


@click.command("inspect")
@from_file
@click.option("--all", "show_all", is_flag=True, help="Cut no table short.")
@as_json()
@to_output("Write into this file, whole or not at all.")
def command(
    file: str,
    strict: bool,
    module: str | None,
    stage: str | None,
    show_all: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Say what is in a module.

    Computations, instructions by opcode, bytes of parameters and outputs, element types, the tree of calls, the
    largest tensors, collectives, custom calls, names that nothing defines, and notes on what is not understood.

    \b
    Examples:
      hloom inspect step.hlo
      hloom inspect step.hlo.pb.gz --json | jq .opcodes
      hloom inspect dump/ --module jit_f --stage after_optimizations
      jax-program | hloom inspect -
    """
    found = summary(read(Origin(file, strict, module, stage), show_notes=False))
    if json_output:
        write_json(found.to_json(), output)
    else:
        write_tables(tables(found, None if show_all else MOST_LINES), output)


def tables(found: Summary, limit: int | None = MOST_LINES) -> Iterator[RenderableType]:
    """The account as tables, each of at most `limit` lines."""
    yield _head(found)
    counts = [_counts("opcodes", found.opcodes, limit), _counts("element types", found.dtypes, limit)]
    yield Columns(counts, padding=(0, 6))
    yield _calls(found.calls, limit)
    if found.largest:
        yield _largest(found)
    if found.collectives:
        yield _collectives(found)
    if found.custom_calls:
        yield _counts("custom calls", found.custom_calls, limit)
    for title, lines in (("unreached", found.unreached), ("unresolved", found.unresolved), ("notes", found.notes)):
        if lines:
            yield _lines(title, lines, limit)


def _table(title: str, *columns: str) -> Table:
    """A table whose first column names something; the columns of NUMBERS stand to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in NUMBERS else "left", overflow="fold")
    table.columns[0].style = "cyan"
    return table


def _head(found: Summary) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _head_rows(found):
        table.add_row(name, Text(value))
    return table


def _head_rows(found: Summary) -> Iterator[tuple[str, str]]:
    yield "module", f"{found.name} ({found.source})"
    yield "entry", f"{found.entry}, {found.entry_instruction_count:,} instructions"
    yield "whole", f"{found.computation_count:,} computations, {found.instruction_count:,} instructions"
    yield "takes", f"{found.parameter_count:,} parameters, {byte_text(found.parameter_bytes)}"
    yield "yields", f"{found.output_count:,} outputs, {byte_text(found.output_bytes)}"
    elided = f"; {found.elided_constant_count:,} left out of the text" if found.elided_constant_count else ""
    yield "constants", f"{byte_text(found.constant_bytes)}{elided}"
    yield "devices", f"{found.replica_count:,} replicas x {found.partition_count:,} partitions"
    if found.sharded_count:
        yield "sharded", f"{found.sharded_count:,} instructions"
    if found.is_scheduled:
        yield "scheduled", "the order of instructions is the order of execution"


def _counts(title: str, counts: Mapping[str, int], limit: int | None) -> Table:
    table = _table(title, title.removesuffix("s"), "count")
    shown = list(counts.items())[:limit]
    for name, count in shown:
        table.add_row(Text(name), f"{count:,}")
    if len(shown) < len(counts):
        rest = sum(counts.values()) - sum(count for _, count in shown)
        table.add_row(Text(f"{len(counts) - len(shown)} more"), f"{rest:,}", style="dim")
    return table


def _calls(calls: Sequence[Call], limit: int | None) -> Table:
    table = _table("calls", "computation", "instructions", "called by", "times")
    rows = list(call_rows(calls))
    for row in rows[:limit]:
        table.add_row(*map(Text, row))
    if limit is not None and len(rows) > limit:
        table.add_row(Text(f"{len(rows) - limit} more lines; --all shows them"), "", "", "", style="dim")
    return table


def call_rows(calls: Sequence[Call]) -> Iterator[tuple[str, str, str, str]]:
    """The tree of calls as rows; neighbours without calls of their own that look alike are one row."""
    numbered = list(enumerate(calls))

    def alike(item: tuple[int, Call]) -> tuple[object, ...]:
        place, call = item
        following = calls[place + 1] if place + 1 < len(calls) else None
        is_leaf = following is None or following.depth <= call.depth
        return (call.depth, call.opcodes, call.instructions, call.is_repeated) if is_leaf else (place,)

    for _, group in groupby(numbered, alike):
        members = [call for _, call in group]
        if len(members) >= LEAVES:
            yield _call_row(members[0], f"{members[0].computation} and {len(members) - 1} like it", members)
        else:
            yield from (_call_row(call, call.computation, [call]) for call in members)


def _call_row(call: Call, name: str, members: Sequence[Call]) -> tuple[str, str, str, str]:
    indent = "  " * min(call.depth, 20)
    again = " (shown above)" if call.is_repeated else ""
    times = sum(member.times for member in members)
    return f"{indent}{cut(name, 60)}{again}", f"{call.instructions:,}", ", ".join(call.opcodes), f"{times:,}"


def _largest(found: Summary) -> Table:
    table = _table("largest tensors", "instruction", "computation", "opcode", "type", "bytes")
    for each in found.largest:
        names = (cut(each.name, 40), cut(each.computation, 40), each.opcode, cut(each.type, 40))
        table.add_row(*map(Text, names), byte_text(each.bytes))
    return table


def _collectives(found: Summary) -> Table:
    table = _table("collectives", "opcode", "count", "bytes of results")
    for each in found.collectives:
        table.add_row(Text(each.opcode), f"{each.count:,}", byte_text(each.bytes))
    return table


def _lines(title: str, lines: Sequence[str], limit: int | None) -> Text:
    shown = list(lines[:limit])
    if len(shown) < len(lines):
        shown.append(f"{len(lines) - len(shown)} more; --all shows them")
    return Text.assemble((f"{title}\n", "bold"), *(f"  {line}\n" for line in shown))
