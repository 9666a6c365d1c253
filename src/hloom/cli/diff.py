"""`hloom diff`: what was added, removed, changed and moved between two modules, and what that costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import RenderableType
from rich.table import Table

from hloom.analysis import DEFAULT_DEVICE, shape_bytes, size_note
from hloom.analysis import Table as Rows
from hloom.analysis import device as device_of
from hloom.cli.exit_status import NO
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_usage,
    choice_option,
    defaults_of,
    depth_option,
    device_option,
    json_option,
    limit_option,
    output_option,
    strict_option,
    target_option,
)
from hloom.cli.output import check_folder
from hloom.cli.profile_tables import MeasuredChange, changed_tables
from hloom.cli.tables import add_rest, cut, new_table, write_report
from hloom.cli.target import ForTarget, for_target
from hloom.inspection.diff import BY, ChangedInstruction, CostDifference, ModuleDiff, diff
from hloom.inspection.profile import Measurement, measured_change, measured_noise, measurement
from hloom.ir import Module, Node
from hloom.text import Record, byte_text, time_text

Item = TypeVar("Item")

MOST_LINES = 10
"""How many lines of each list are shown, unless told otherwise."""
LISTS = ("added", "removed", "changed", "moved")
"""What --limit cuts."""


DEFAULTS = defaults_of(diff)


@dataclass(frozen=True, slots=True)
class DiffRecord(Record):
    """The differences of two modules, with --profile what was measured of them, with --for what was compiled."""

    result: ModuleDiff
    profile: MeasuredChange | None
    compilers: Sequence[ForTarget]
    json_keys = "**result profile? compilers?"


@click.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@limit_option(MOST_LINES)
@choice_option("--by", choices=BY, default=DEFAULTS["by"], help="Group costs by this.")
@depth_option("Group by this many levels of the scope.", DEFAULTS["depth"])
@device_option(None, f"Device to estimate times for (default: {DEFAULT_DEVICE}, or the device of the traces).")
@target_option()
@click.option("--module", "name", metavar="NAME", help="Module to read from dump directories that hold several.")
@click.option("--exact", is_flag=True, help="Also count different names and instruction order as differences.")
@strict_option()
@click.option("--costs/--no-costs", default=DEFAULTS["costs"], help="Compare costs as well as instructions.")
@click.option(
    "--profile",
    nargs=2,
    metavar="DIR_A DIR_B",
    type=click.Path(path_type=Path),
    help="Compare measured times from the profiler traces of A and B.",
)
@json_option("Write JSON, with every row unless --limit is given.")
@output_option("Write to file OUT, atomically.")
@click.pass_context
def command(
    context: click.Context,
    before: str,
    after: str,
    limit: int,
    by: str,
    depth: int,
    device: str | None,
    target: str | None,
    name: str | None,
    exact: bool,
    strict: bool,
    costs: bool,
    profile: tuple[Path, Path] | None,
    json_output: bool,
    output: Path | None,
) -> None:
    """Compare two modules, ignoring names and instruction order.

    A and B are files that any subcommand can read, or dump directories, where DIR/MODULE or --module picks the module.
    Instructions are matched by what they compute and by how they are used, with op_name as a hint. The comparison looks
    inside calls and fusions, so modules from before and after optimisation can be compared. The exit status is 0 if the
    modules are the same, 1 if they differ, and 2 on error.

    \b
    Examples:
      hloom diff old.hlo new.hlo
      hloom diff old.hlo new.hlo --by source --limit 50
      hloom diff old_dump new_dump --module jit_step
      hloom diff old.hlo new.hlo --for v5e
      hloom diff old.hlo new.hlo --profile old_trace new_trace
      hloom diff old.hlo new.hlo --json | jq '.counts'
    """
    check_folder(output)
    check_usage((target and profile is not None, "--for compiles anew, and --profile is of modules that ran"))
    made = [for_target(read_program(_source(file, name, strict)), target, device) for file in (before, after)]
    modules = [one.module for one in made]
    device = made[1].rates and made[1].rates.name
    with progress("comparing"):
        measured = _measured(modules, profile, device) if profile is not None else None
        rates = device or (DEFAULT_DEVICE if measured is None else measured[1].device)
        result = diff(modules[0], modules[1], costs=costs, device=rates, by=by, depth=depth, exact=exact)
    is_given = context.get_parameter_source("limit") is not click.core.ParameterSource.DEFAULT

    def record() -> dict[str, Any]:
        change = None if measured is None else _change(*measured, by, depth)
        whole = DiffRecord(result, change, made if target else ()).to_json()
        return whole | {name: whole[name][:limit] for name in LISTS} if is_given else whole

    shown = [*tables(result, limit), *_compiler_lines(made)]
    if measured is not None:
        shown = [*shown, *changed_tables(*measured, measured_change(*measured, by, depth), limit)]
    write_report(record, shown, json_output, output)
    if not result.is_equal:
        context.exit(NO)


def _compiler_lines(made: Sequence[ForTarget]) -> Iterator[RenderableType]:
    for letter, one in zip("AB", made, strict=True):
        yield from (f"{letter}: {line}" for line in one.lines())


def _measured(
    modules: Sequence[Module], profiles: tuple[Path, Path], device: str | None
) -> tuple[Measurement, Measurement]:
    """What the modules' traces say of them."""
    named = None if device is None else device_of(device)
    before, after = (measurement(*pair, named) for pair in zip(modules, profiles, strict=True))
    return before, after


def _change(before: Measurement, after: Measurement, by: str, depth: int) -> MeasuredChange:
    groups = measured_change(before, after, by, depth)
    return MeasuredChange(before, after, by, groups, measured_noise(before, after))


def _source(file: str, name: str | None, strict: bool) -> ModuleSource:
    """A file, or a module of a dump directory; a name says nothing of a file."""
    return ModuleSource(file, strict, module=name if os.path.isdir(file) else None)


def tables(result: ModuleDiff, limit: int = MOST_LINES) -> Iterator[RenderableType]:
    """The differences as lines and tables, each of at most `limit` lines."""
    yield str(result)
    if result.is_equal:
        return
    if result.is_unrelated:
        yield "the modules have almost nothing in common; they may be different programs"
    for name, one, other in result.header:
        yield f"header: {name}: {cut(one, 50)} -> {cut(other, 50)}"
    if isinstance(result.costs, CostDifference):
        yield from _costs(result.costs, limit, result.before, result.after)
    elif result.costs:
        yield result.costs
    yield _opcodes(result, limit)
    if limit:
        yield from _lists(result, limit)


def _opcodes(result: ModuleDiff, limit: int) -> Table:
    table = new_table("instructions", "opcode", ">added", ">removed", ">changed", ">moved")
    rows = result.by_opcode()
    for opcode, *counts in rows[: limit or None]:
        table.add_row(opcode, *[f"{count:,}" if count else "" for count in counts])
    add_rest(table, len(rows), limit or len(rows), "; --limit shows them")
    return table


def _lists(result: ModuleDiff, limit: int) -> Iterator[RenderableType]:
    for title, nodes in (("removed", result.removed), ("added", result.added)):
        if nodes:
            alike = _largest_first(nodes)
            table = new_table(title, "instruction", ">alike", "computation", "opcode", "type")
            for first, *others in alike[:limit]:
                count = f"{1 + len(others):,}" if others else ""
                table.add_row(first.name, count, cut(first.graph.name, 30), first.opcode, cut(str(first.type), 40))
            add_rest(table, len(alike), limit, " kinds; --limit shows them")
            yield table
    if result.changed:
        alike = _alike(sorted(result.changed, key=lambda change: not change.own_differences), _what_changed)
        table = new_table("changed", "before", ">alike", "after", "property", "from", "to")
        for first, *others in alike[:limit]:
            count = f"{1 + len(others):,}" if others else ""
            for number, difference in enumerate(first.differences):
                names = (first.before.name, count, first.after.name) if number == 0 else ("", "", "")
                texts = (cut(difference.before, 30), cut(difference.after, 30))
                table.add_row(*names, difference.what, *texts)
        add_rest(table, len(alike), limit, " kinds; --limit shows them")
        yield table
    if result.moved:
        table = new_table("moved", "instruction", "changed", "from", "to")
        for move in result.moved[:limit]:
            texts = (cut(move.origin, 35), cut(move.destination, 35))
            table.add_row(move.before.name, move.what, *texts)
        add_rest(table, len(result.moved), limit, "; --limit shows them")
        yield table


def _alike(items: Iterable[Item], kind: Callable[[Item], Hashable]) -> list[list[Item]]:
    """Items of one kind together, in the order of the first of each kind."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(kind(item), []).append(item)
    return list(groups.values())


def _largest_first(nodes: Iterable[Node]) -> list[list[Node]]:
    """Instructions of one opcode and type together, those that make the most bytes first."""
    groups = _alike(nodes, lambda node: (node.opcode, node.type))
    return sorted(groups, key=lambda group: -len(group) * shape_bytes(group[0].type))


def _what_changed(change: ChangedInstruction) -> Hashable:
    """The kind of a change: opcodes and differences, whatever the names of operands."""
    return change.before.opcode, change.after.opcode, change.own_differences


def _costs(costs: CostDifference, limit: int, before: Module, after: Module) -> Iterator[RenderableType]:
    title = f"costs (times on {costs.device}; memory schedules: {costs.before.schedule}, {costs.after.schedule})"
    notes = {name: size_note(module) for name, module in (("before", before), ("after", after))}
    counted = {"before": costs.before, "after": costs.after}
    title += "".join(f"; {name}: {side.omissions}" for name, side in counted.items() if side.omissions)
    table = new_table(title, "metric", ">before", ">after", ">change")
    for row in costs.totals():
        if not row["before"] and not row["after"]:
            continue
        is_counted = row["figure"] in ("flops", "seconds")  # bytes are known of instructions that are not
        least = {name: side.qualifier if is_counted else notes[name].qualifier for name, side in counted.items()}
        sides = [f"{least[name]}{_figure(row['figure'], row[name])}" for name in notes]
        roughly = "roughly " if any(least.values()) else ""
        numbers = [*sides, f"{roughly}{_figure(row['figure'], row['change'])}"]
        table.add_row(row["figure"], *numbers)
    yield table
    collectives = costs.collectives()
    if len(collectives):
        table = new_table("collectives", "opcode", ">runs before", ">after", ">change")
        for row in collectives:
            table.add_row(row["opcode"], f"{row['before']:,}", f"{row['after']:,}", f"{row['change']:+,}")
        yield table
    groups = costs.groups()
    if len(groups) and limit:
        yield _groups(groups, limit)


def _groups(groups: Rows, limit: int) -> Table:
    by, *figures = (column for column in groups.columns if column != "sizes")
    table = new_table(f"change by {by}", by, *[f">{figure}" for figure in figures])
    for row in groups.top(limit):
        roughly = f"{row['sizes']} " if row.get("sizes") else ""
        cells = (_signed(figure, row[figure]) for figure in figures)
        table.add_row(row[by], *(f"{roughly}{cell}" if cell else "" for cell in cells))
    add_rest(table, len(groups), limit, "; --limit shows them")
    return table


def _figure(name: str, value: float) -> str:
    if name == "flops":
        return f"{value:,.0f}"
    return time_text(value) if name == "seconds" else byte_text(value)


def _signed(name: str, value: float) -> str:
    return "" if not value else f"+{_figure(name, value)}" if value > 0 else _figure(name, value)
