"""`hloom inspect`: the summary of a module, as tables or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import click
from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import Call, Summary, inspect
from hloom.cli.input import progress, read_module
from hloom.cli.options import ModuleSource, file_argument, json_option, output_option
from hloom.cli.tables import cut, new_table, write_report
from hloom.text import byte_text, count_text

MOST_LINES = 30
"""How many lines of one table are shown without --all."""
LEAVES = 3
"""From how many similar leaves on the tree of calls shows them as one line."""


@click.command("inspect")
@file_argument
@click.option("--all", "show_all", is_flag=True, help="Show every row of every table.")
@json_option()
@output_option("Write to file OUT, atomically.")
def command(
    source: ModuleSource,
    show_all: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Summarise what is in a module.

    Shows computations, instructions by opcode, sizes of parameters and outputs, element types, the call graph, the
    largest tensors, collectives, custom calls, undefined names, and notes on anything hloom did not understand.

    \b
    Examples:
      hloom inspect step.hlo
      hloom inspect step.hlo.pb.gz --json | jq .opcodes
      hloom inspect dump/ --module jit_f --stage after_optimizations
      jax-program | hloom inspect -
    """
    module = read_module(source, show_notes=False)
    with progress("counting"):
        report = inspect(module)
    write_report(report.to_json, tables(report, None if show_all else MOST_LINES), json_output, output)


def tables(report: Summary, limit: int | None = MOST_LINES) -> Iterator[RenderableType]:
    """The summary as tables, each of at most `limit` lines."""
    yield _head(report)
    counts = [_counts("opcodes", report.opcodes, limit), _counts("element types", report.dtypes, limit)]
    yield Columns(counts, padding=(0, 6))
    yield _calls(report.calls, limit)
    if report.largest:
        yield _largest(report)
    if report.collectives:
        yield _collectives(report)
    if report.custom_calls:
        yield _custom_calls(report, limit)
    for title, lines in (("unreached", report.unreached), ("unresolved", report.unresolved), ("notes", report.notes)):
        if lines:
            yield _lines(title, lines, limit)


def _head(report: Summary) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _head_rows(report):
        table.add_row(name, Text(value))
    return table


def _head_rows(report: Summary) -> Iterator[tuple[str, str]]:
    yield "module", f"{report.name} ({report.source})"
    yield "entry", f"{report.entry}, {count_text(report.entry_instruction_count, 'instruction')}"
    total = count_text(report.computation_count, "computation"), count_text(report.instruction_count, "instruction")
    yield "total", ", ".join(total)
    least = report.sizes.qualifier
    yield "inputs", f"{count_text(report.parameter_count, 'parameter')}, {least}{byte_text(report.parameter_bytes)}"
    yield "outputs", f"{count_text(report.output_count, 'output')}, {least}{byte_text(report.output_bytes)}"
    if report.sizes:
        yield "bytes", str(report.sizes)
    elided = f"; {report.elided_constant_count:,} elided in the text" if report.elided_constant_count else ""
    yield "constants", f"{byte_text(report.constant_bytes)}{elided}"
    counts = count_text(report.replica_count, "replica"), count_text(report.partition_count, "partition")
    yield "devices", " x ".join(counts)
    if report.sharded_count:
        yield "sharded", count_text(report.sharded_count, "instruction")
    if report.is_scheduled:
        yield "scheduled", "instruction order is execution order"


def _counts(title: str, counts: Mapping[str, int], limit: int | None) -> Table:
    table = new_table(title, title.removesuffix("s"), ">count")
    shown = list(counts.items())[:limit]
    for name, count in shown:
        table.add_row(name, f"{count:,}")
    if len(shown) < len(counts):
        rest = sum(counts.values()) - sum(count for _, count in shown)
        table.add_row(f"{len(counts) - len(shown)} more", f"{rest:,}", style="dim")
    return table


def _custom_calls(report: Summary, limit: int | None) -> Table:
    table = new_table("custom calls", "target", "what it is", ">count")
    shown = list(report.custom_calls.items())[:limit]
    for target, count in shown:
        table.add_row(target, report.custom_call_names.get(target, ""), f"{count:,}")
    if len(shown) < len(report.custom_calls):
        rest = sum(report.custom_calls.values()) - sum(count for _, count in shown)
        table.add_row(f"{len(report.custom_calls) - len(shown)} more", "", f"{rest:,}", style="dim")
    return table


def _calls(calls: Sequence[Call], limit: int | None) -> Table:
    table = new_table("calls", "computation", ">instructions", "caller", ">calls")
    rows = list(call_rows(calls))
    for row in rows[:limit]:
        table.add_row(*row)
    if limit is not None and len(rows) > limit:
        table.add_row(f"{len(rows) - limit} more lines; --all shows them", "", "", "", style="dim")
    return table


def call_rows(calls: Sequence[Call]) -> Iterator[tuple[str, str, str, str]]:
    """The tree of calls as rows; adjacent leaves of the same size and opcodes are one row."""
    numbered = list(enumerate(calls))

    def key(item: tuple[int, Call]) -> tuple[object, ...]:
        index, call = item
        following = calls[index + 1] if index + 1 < len(calls) else None
        is_leaf = following is None or following.depth <= call.depth
        return (call.depth, call.opcodes, call.instructions, call.is_repeated) if is_leaf else (index,)

    for _, group in groupby(numbered, key):
        members = [call for _, call in group]
        if len(members) >= LEAVES:
            yield _call_row(members[0], f"{members[0].computation} and {len(members) - 1} like it", members)
        else:
            yield from (_call_row(call, call.computation, [call]) for call in members)


def _call_row(call: Call, name: str, members: Sequence[Call]) -> tuple[str, str, str, str]:
    indent = "  " * min(call.depth, 20)
    again = " (shown above)" if call.is_repeated else ""
    times = sum(member.times for member in members)
    return f"{indent}{name}{again}", f"{call.instructions:,}", ", ".join(call.opcodes), f"{times:,}"


def _largest(report: Summary) -> Table:
    table = new_table("largest tensors", "instruction", "computation", "opcode", "type", ">bytes")
    for tensor in report.largest:
        names = (tensor.name, cut(tensor.computation, 40), tensor.opcode, cut(tensor.type, 40))
        table.add_row(*names, byte_text(tensor.bytes))
    return table


def _collectives(report: Summary) -> Table:
    table = new_table("collectives", "opcode", ">count", ">result bytes")
    for group in report.collectives:
        table.add_row(group.opcode, f"{group.count:,}", byte_text(group.bytes))
    return table


def _lines(title: str, lines: Sequence[str], limit: int | None) -> Text:
    shown = list(lines[:limit])
    if len(shown) < len(lines):
        shown.append(f"{len(lines) - len(shown)} more; --all shows them")
    return Text.assemble((f"{title}\n", "bold"), *(f"  {line}\n" for line in shown))
