"""`hloom cost`: FLOPs, transcendental functions and bytes, added up by opcode, scope, layer or source line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table

from hloom.analysis import BY, CollectiveCost, Conditional, Cost, CostReport, CustomCallCost, Loop, cost
from hloom.analysis import Table as Rows
from hloom.cli.input import note_whole_program, progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_usage,
    choice_option,
    depth_option,
    file_argument,
    json_option,
    output_option,
    profile_option,
    target_option,
    top_option,
    trips_option,
    unknown_trips_option,
)
from hloom.cli.output import write_json
from hloom.cli.profile_tables import GroupedMeasurement, measured_tables
from hloom.cli.tables import add_rest, cut, new_table, write_report
from hloom.cli.target import ForTarget, for_target
from hloom.inspection.profile import measurement_without_model
from hloom.inspection.query import speedscope
from hloom.text import Record, byte_text, percent_text

FLAME_GRAPH = ".speedscope.json"
"""The suffix of a file that holds a flame graph."""
ONCE_ROW = "loops once, as in XLA"
"""The total that XLA's own analysis gives: it counts nothing for custom calls."""
MOST_LINES = 30
"""How many groups, loops and transfers are shown, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class CostRecord(Record):
    """The cost of a module, grouped `by` opcode, scope, layer or source line; `compiler` is what --for compiled."""

    report: CostReport
    by: str
    groups: Rows
    profile: GroupedMeasurement | None
    made: ForTarget
    json_keys = "**report by groups profile? **made"


@click.command("cost")
@file_argument
@choice_option("--by", choices=BY, default="opcode", help="How to group the costs.")
@depth_option()
@top_option(MOST_LINES)
@target_option()
@trips_option()
@unknown_trips_option()
@profile_option()
@json_option("Write JSON: totals, loops, collective traffic and every group.")
@output_option(f"Write to file OUT; with the suffix {FLAME_GRAPH}, a flame graph for speedscope.")
def command(
    source: ModuleSource,
    by: str,
    depth: int | None,
    top: int,
    target: str | None,
    trips: dict[str, int],
    unknown_trips: int,
    profile: Path | None,
    json_output: bool,
    output: Path | None,
) -> None:
    """Count the FLOPs and bytes of a module.

    Follows the rules of XLA's HloCostAnalysis, except that a loop body counts once per iteration. The totals also show
    what XLA itself would report (each loop body once) and the mathematical count. Loops with a data-dependent trip
    count are listed; give their counts with --trips. Custom calls of libraries (cuBLAS, cuDNN, LAPACK, Pallas) count
    what they compute; if others leave the cost unknown, totals are "at least" and the report names them.

    Scopes are those of the page, such as forward/layer_0/mlp. A computation with several callers counts in the scope of
    each. With --by source, a group is the source line that created the instruction; --depth N groups by the outermost N
    stack frames instead.

    \b
    Examples:
      hloom cost step.hlo
      hloom cost step.hlo --by layer --depth 1
      hloom cost step.hlo --by scope --depth 3 --top 20
      hloom cost step.hlo --by source --json | jq '.groups[0]'
      hloom cost step.hlo --by scope -o cost.speedscope.json
      hloom cost step.hlo --for v5e
      hloom cost step.hlo --trips while.6=100
      hloom cost step.hlo --by source --profile trace/
    """
    check_usage((target and profile is not None, "--for compiles anew, and --profile is of a module that ran"))
    made = for_target(read_program(source.beside(profile)), target)
    program = made.module
    if made.compiled is None:
        note_whole_program(program)
    with progress("counting"):
        counts = {"trip_counts": trips, "unknown_trips": unknown_trips}
        report = cost(program, **counts)
        groups = report.by(by, depth=depth)
        measured = None if profile is None else measurement_without_model(program, profile, **counts)
        times = None if measured is None else measured.by(by, depth)
    if output is not None and output.name.endswith(FLAME_GRAPH) and not json_output:
        write_json(speedscope(report, by, depth), output)
        return

    shown = [*tables(report, groups, top), *made.lines()]
    if measured is not None:
        shown = [_totals(report), *measured_tables(measured, times, top, has_model=False)]
    profiled = None if measured is None else GroupedMeasurement(measured, by, times)
    write_report(lambda: CostRecord(report, by, groups, profiled, made), shown, json_output, output)


def tables(report: CostReport, groups: Rows, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """The report as tables, each of at most `top` lines."""
    yield _totals(report)
    yield _groups(groups, top) if len(groups) else "no instruction is counted\n"
    if report.loops:
        yield _loops(report.loops, report.unknown_trips, top, report.sizes.qualifier)
    if report.conditionals:
        yield _conditionals(report.conditionals, top, report.sizes.qualifier)
    if report.custom_calls:
        yield _custom_calls(report.custom_calls, top, report.sizes.qualifier)
    if report.collective_costs:
        yield _traffic(report.collective_costs, top, report.sizes.qualifier)
    if report.uncounted:
        names = ", ".join(report.uncounted[:5])
        yield f"not counted: {len(report.uncounted):,} custom calls, unknown instructions or operands: {names}"


def _totals(report: CostReport) -> Table:
    sizes = report.sizes
    title = f"totals, {report.omissions}" if report.omissions else "totals"
    table = new_table(title, "method", ">flops", ">transcendentals", ">bytes accessed")
    lines: list[tuple[str, Cost]] = [
        ("loops per iteration", report.total),
        (ONCE_ROW, report.total_once),
        ("mathematically", report.mathematical),
    ]
    if report.minimum != report.total:
        lines.append(("cheapest branches", report.minimum))
    for name, total in lines:
        counts = (f"{max(total.flops, 0):,}", f"{total.transcendentals:,}")  # XLA counts -1 for a custom call
        accessed = f"{sizes.qualifier}{byte_text(max(total.bytes_accessed, 0))}"
        is_partial = name == ONCE_ROW and any(call.total.flops for call in report.custom_calls)
        least = report.qualifier or ("at least " if is_partial else "")  # XLA counts no custom call
        table.add_row(name, *(f"{least}{count}" for count in counts), accessed)
    return table


def _groups(groups: Rows, top: int) -> Table:
    total = sum(row["flops"] for row in groups)
    name = groups.columns[0]
    table = new_table(name, name, ">count", ">flops", ">%", ">transcendentals", ">bytes accessed")
    for row in groups.top(top):
        least = f"{row['sizes']} " if row.get("sizes") else ""
        numbers = (f"{row['count']:,}", f"{least}{row['flops']:,}", percent_text(row["flops"], total))
        sizes = (f"{least}{row['transcendentals']:,}", f"{least}{byte_text(row['bytes_accessed'])}")
        table.add_row(row[name], *numbers, *sizes)
    add_rest(table, len(groups), top)
    return table


def _loops(loops: Sequence[Loop], unknown_trips: int, top: int, least: str) -> Table:
    table = new_table("loops", "loop", "computation", "trip count", ">runs", ">flops per run")
    for loop in loops[:top]:
        known = f"{loop.trips:,}" if loop.trips is not None else f"{unknown_trips:,}?"
        table.add_row(loop.name, cut(loop.computation, 40), loop.source, known, f"{least}{loop.body.flops:,}")
    add_rest(table, len(loops), top)
    return table


def _conditionals(conditionals: Sequence[Conditional], top: int, least: str) -> Table:
    columns = ("conditional", "computation", "branch", ">flops of one run", ">transcendentals", ">bytes accessed")
    table = new_table("branches of conditionals", *columns)
    lines = [(conditional, name, branch) for conditional in conditionals for name, branch in conditional.branches]
    for conditional, name, branch in lines[:top]:
        counts = (f"{branch.flops:,}", f"{branch.transcendentals:,}", byte_text(branch.bytes_accessed))
        numbers = (f"{least}{count}" for count in counts)
        table.add_row(conditional.name, cut(conditional.computation, 40), cut(name, 40), *numbers)
    add_rest(table, len(lines), top)
    return table


def _custom_calls(calls: Sequence[CustomCallCost], top: int, least: str) -> Table:
    table = new_table("custom calls", "target", "what it is", ">calls", ">flops", ">bytes accessed", "not counted")
    for call in calls[:top]:
        flops = f"{least}{call.total.flops:,}" if call.uncounted < call.count else ""
        accessed = f"{least}{byte_text(call.total.bytes_accessed)}"
        names = (cut(call.target, 40), "" if call.name == call.target else call.name)
        few = f"{call.uncounted:,} of them: " if 0 < call.uncounted < call.count else ""
        table.add_row(*names, f"{call.count:,}", flops, accessed, f"{few}{call.problem}")
    add_rest(table, len(calls), top)
    return table


def _traffic(transfers: Sequence[CollectiveCost], top: int, least: str) -> Table:
    columns = ("instruction", "opcode", ">group", ">runs", ">sent", ">host", ">steps")
    table = new_table("traffic per device, by ring", *columns)
    ordered = sorted(transfers, key=lambda transfer: -transfer.times * (transfer.comm_bytes + transfer.host_bytes))
    for transfer in ordered[:top]:
        sent = byte_text(transfer.comm_bytes * transfer.times)
        host = byte_text(transfer.host_bytes * transfer.times)
        steps = f"{transfer.steps * transfer.times:,}"
        numbers = (f"{transfer.group_size:,}", f"{transfer.times:,}", f"{least}{sent}", f"{least}{host}", steps)
        table.add_row(transfer.name, transfer.opcode, *numbers)
    add_rest(table, len(transfers), top)
    return table
