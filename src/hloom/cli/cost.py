"""`hloom cost`: FLOPs, transcendental functions and bytes, added up by opcode, scope, layer or source line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import BY, CollectiveCost, Conditional, Cost, CostReport, Loop, cost
from hloom.analysis import Table as Rows
from hloom.cli.options import Origin, as_json, from_file, to_output
from hloom.cli.reading import note_whole_program, read, working
from hloom.cli.writing import byte_text, cut, write_json, write_tables

MOST_LINES = 30
"""How many groups, loops and transfers are shown, unless told otherwise."""


@click.command("cost")
@from_file
@click.option("--by", type=click.Choice(BY), default="opcode", show_default=True, help="Add costs up by this.")
@click.option("--depth", type=click.IntRange(min=1), help="How many levels of a scope or layer make a group.")
@click.option("--top", type=click.IntRange(min=1), default=MOST_LINES, show_default=True, help="Show so many lines.")
@click.option("--trips", metavar="NAME=N", multiple=True, help="The loop of this name runs N times.")
@click.option("--unknown-trips", type=click.IntRange(min=0), default=1, show_default=True, help="Other loops run so.")
@as_json("Write JSON: totals, loops, traffic, and all groups.")
@to_output("Write into this file, whole or not at all.")
def command(
    file: str,
    strict: bool,
    module: str | None,
    stage: str | None,
    by: str,
    depth: int | None,
    top: int,
    trips: tuple[str, ...],
    unknown_trips: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Say what a module costs.

    FLOPs and bytes by the rules of XLA's own HloCostAnalysis, but loops count as often as they run; what XLA would say
    (each loop's body once) and the mathematical count stand beside. Loops whose trip counts depend on the data are
    listed: give their counts with --trips.

    \b
    Examples:
      hloom cost step.hlo
      hloom cost step.hlo --by layer --depth 1
      hloom cost step.hlo --by scope --depth 3 --top 20
      hloom cost step.hlo --by source --json | jq '.groups[0]'
      hloom cost step.hlo --trips while.6=100
    """
    program = read(Origin(file, strict, module, stage))
    note_whole_program(program)
    with working("counting"):
        found = cost(program, trip_counts=dict(map(trip, trips)), unknown_trips=unknown_trips)
        groups = found.by(by, depth=depth)
    if json_output:
        write_json({**found.to_json(), "by": by, "groups": groups.to_json()}, output)
    else:
        write_tables(tables(found, groups, top), output)


def trip(text: str) -> tuple[str, int]:
    """The name of a loop and how often it runs, from NAME=N."""
    name, equals, count = text.rpartition("=")
    if not equals or not name or not count.isdecimal():
        raise click.BadParameter(f"'{text}' is not NAME=N", param_hint="--trips")
    return name, int(count)


def tables(found: CostReport, groups: Rows, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """The report as tables, each of at most `top` lines."""
    yield _totals(found)
    yield _groups(groups, top)
    if found.loops:
        yield _loops(found.loops, found.unknown_trips, top)
    if found.conditionals:
        yield _conditionals(found.conditionals, top)
    if found.collective_costs:
        yield _traffic(found.collective_costs, top)
    if found.uncounted:
        names = ", ".join(found.uncounted[:5])
        yield Text(f"not counted: {len(found.uncounted):,} custom calls, unknown instructions or operands: {names}")


def _table(title: str, *columns: str, names: int = 1) -> Table:
    """A table whose first columns name something; the others hold numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < names else "right", overflow="fold")
    table.columns[0].style = "cyan"
    return table


def _totals(found: CostReport) -> Table:
    table = _table("totals", "counted", "flops", "transcendentals", "bytes accessed")
    lines: list[tuple[str, Cost]] = [
        ("loops as often as they run", found.total),
        ("loops once, as XLA does", found.total_once),
        ("mathematically", found.mathematical),
    ]
    if found.minimum != found.total:
        lines.append(("cheapest branches", found.minimum))
    for name, each in lines:
        table.add_row(name, f"{each.flops:,}", f"{each.transcendentals:,}", byte_text(each.bytes_accessed))
    return table


def _groups(groups: Rows, top: int) -> Table:
    total = sum(row["flops"] for row in groups)
    table = _table(groups.columns[0], groups.columns[0], "count", "flops", "%", "transcendentals", "bytes accessed")
    for row in groups.top(top):
        share = f"{100 * row['flops'] / total:.1f}" if total else ""
        numbers = (f"{row['count']:,}", f"{row['flops']:,}", share, f"{row['transcendentals']:,}")
        table.add_row(Text(cut(row[groups.columns[0]], 70)), *numbers, byte_text(row["bytes_accessed"]))
    if len(groups) > top:
        table.add_row(Text(f"{len(groups) - top:,} more; --top shows them"), style="dim")
    return table


def _loops(loops: Sequence[Loop], unknown_trips: int, top: int) -> Table:
    table = _table("loops", "loop", "computation", "how known", "runs", "flops of one run", names=3)
    for loop in loops[:top]:
        known = f"{loop.trips:,}" if loop.trips is not None else f"{unknown_trips:,}?"
        table.add_row(
            Text(loop.name), Text(cut(loop.computation, 40)), Text(loop.source), known, f"{loop.body.flops:,}"
        )
    if len(loops) > top:
        table.add_row(Text(f"{len(loops) - top:,} more; --top shows them"), style="dim")
    return table


def _conditionals(conditionals: Sequence[Conditional], top: int) -> Table:
    columns = ("conditional", "computation", "branch", "flops of one run", "transcendentals", "bytes accessed")
    table = _table("branches of conditionals", *columns, names=3)
    lines = [(each, name, branch) for each in conditionals for name, branch in each.branches]
    for each, name, branch in lines[:top]:
        numbers = (f"{branch.flops:,}", f"{branch.transcendentals:,}", byte_text(branch.bytes_accessed))
        table.add_row(Text(each.name), Text(cut(each.computation, 40)), Text(cut(name, 40)), *numbers)
    if len(lines) > top:
        table.add_row(Text(f"{len(lines) - top:,} more; --top shows them"), style="dim")
    return table


def _traffic(transfers: Sequence[CollectiveCost], top: int) -> Table:
    table = _table(
        "traffic per device, by ring", "instruction", "opcode", "group", "runs", "sent", "host", "steps", names=2
    )
    ordered = sorted(transfers, key=lambda transfer: -transfer.times * (transfer.comm_bytes + transfer.host_bytes))
    for transfer in ordered[:top]:
        sent = byte_text(transfer.comm_bytes * transfer.times)
        host = byte_text(transfer.host_bytes * transfer.times)
        steps = f"{transfer.steps * transfer.times:,}"
        numbers = (f"{transfer.group_size:,}", f"{transfer.times:,}", sent, host, steps)
        table.add_row(Text(cut(transfer.name, 50)), Text(transfer.opcode), *numbers)
    if len(transfers) > top:
        table.add_row(Text(f"{len(transfers) - top:,} more; --top shows them"), style="dim")
    return table
