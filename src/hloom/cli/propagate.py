"""`hloom propagate`: sharding propagation from the tiling of some values, and the collectives that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import Table as Rows
from hloom.cli.input import note_sizes, progress, read_program
from hloom.cli.options import ModuleSource, count_option, file_argument, json_option, output_option, top_option
from hloom.cli.tables import add_rest, cut, new_table, write_report
from hloom.distribute.propagation import LIMIT, Enumeration, Propagation, enumerate_tilings, propagate
from hloom.sharding import Mesh
from hloom.text import Record, byte_text

UNKNOWN = "(unknown)"
MOST_LINES = 20
"""How many values, conflicts or collectives are shown, unless told otherwise."""


@click.command("propagate")
@file_argument
@click.option("--mesh", metavar="AXES", help="Mesh axes and their sizes, as in data=2,model=4.")
@click.option(
    "--set",
    "settings",
    metavar="NAME:DIM=AXIS",
    multiple=True,
    help="Split a dimension over an axis, as in x:0=data; may be repeated.",
)
@click.option("--enumerate", "lists", is_flag=True, help="List every complete tiling over one axis; needs no --set.")
@click.option("--prune", is_flag=True, help="With --enumerate, list only Pareto-optimal tilings.")
@count_option("--limit", default=LIMIT, help="With --enumerate, stop after N tilings.")
@click.option("--all", "shows_all", is_flag=True, help="Show every value, not only the entry's parameters and results.")
@top_option(MOST_LINES)
@json_option("Write JSON: every value, collective and conflict.")
@output_option("Write to file OUT, atomically.")
def command(
    source: ModuleSource,
    mesh: str | None,
    settings: tuple[str, ...],
    lists: bool,
    prune: bool,
    limit: int,
    shows_all: bool,
    top: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Propagate a sharding through a module and report what it splits, where sums become partial and what is
    communicated.

    NAME is an instruction of the entry computation, with or without the number after its dot, or COMPUTATION/NAME;
    NAME{LEAF} selects an element of a tuple. Several axes on one dimension are written major to minor: x:0=data.model.
    A value reached by conflicting requirements stays unsplit.

    \b
    Examples:
      hloom propagate step.hlo --mesh data=8 --set x:0=data
      hloom propagate step.hlo --mesh data=2,model=4 --set x:0=data \\
        --set w:1=model --json
      hloom propagate step.hlo --mesh x=8 --enumerate --prune
    """
    program = read_program(source)
    note_sizes(program)
    chosen = _mesh(mesh, settings, lists, prune)
    if lists:
        with progress("listing tilings"):
            listed = enumerate_tilings(program, chosen.names[0], chosen.sizes[0], limit=limit)
            kept = listed.pruned() if prune else listed.tilings
        record: Record = replace(listed, tilings=tuple(kept))
        parts = _enumerated(listed, listed.table(kept), top)
    else:
        with progress("propagating"):
            propagation = propagate(program, settings, chosen)
        record, parts = propagation, _propagated(propagation, shows_all, top)
    write_report(lambda: record, parts, json_output, output)


def _mesh(mesh: str | None, settings: tuple[str, ...], lists: bool, prune: bool) -> Mesh:
    """The mesh, once it is clear what is asked for."""
    if lists == bool(settings):
        raise click.UsageError("choose what to split with --set, or list every tiling with --enumerate")
    if prune and not lists:
        raise click.UsageError("--prune needs --enumerate")
    if mesh is None:
        raise click.UsageError("name the mesh axes with --mesh, as in --mesh data=2,model=4")
    chosen = Mesh.parse(mesh)
    if lists and len(chosen.names) != 1:
        raise click.BadParameter("--enumerate needs a mesh of one axis", param_hint="--mesh")
    return chosen


def _propagated(propagation: Propagation, shows_all: bool, top: int) -> Iterator[RenderableType]:
    """The report: values, conflicts, what is exchanged."""
    yield Text(f"{propagation.module.name} on {propagation.mesh}, set {', '.join(propagation.seeds)}\n", style="bold")
    yield _values(propagation, shows_all, top)
    for conflict in propagation.conflicts[:top]:
        left = f"{conflict.places:,} places stay unsplit" if conflict.places else "only this instruction is unsplit"
        yield f"conflict at {conflict}; {left}"
    if len(propagation.conflicts) > top:
        yield f"{len(propagation.conflicts) - top:,} more conflicts; --top shows them"
    for node, dimension, axis in propagation.alone[:top]:
        yield f"{node.name}: {axis} would split a minor factor of dimension {dimension} whose major factor is unsplit"
    yield _exchanged(propagation, top)


def _values(propagation: Propagation, shows_all: bool, top: int) -> Table:
    table = new_table("values", "value", "type", "spec", "local")
    rows = list(propagation.table())
    entry = propagation.module.entry
    ends = {entry.root.name, *(operand.name for operand in entry.root.operands)}
    if not shows_all:
        rows = [
            row
            for row in rows
            if row["computation"] == entry.name and (row["opcode"] == "parameter" or row["value"] in ends)
        ]
    for row in rows[:top]:
        table.add_row(row["value"], row["type"], row["spec"], row["local"])
    hidden = len(propagation.table()) - len(rows[:top])
    if hidden:
        table.add_row(f"{hidden:,} more split values; --all and --top show them", style="dim")
    return table


def _exchanged(propagation: Propagation, top: int) -> Table:
    title = f"communication: {byte_text(propagation.comm_bytes)} sent by each device per run"
    table = new_table(title, "collective", "instruction", "value", "axes", ">sent", ">runs", "!why")
    ordered = sorted(propagation.collectives, key=lambda collective: -collective.total)
    for collective in ordered[:top]:
        where = collective.scope or collective.source.replace(UNKNOWN, "")
        table.add_row(
            collective.opcode,
            collective.node.name,
            cut(collective.value, 30),
            ".".join(collective.axes),
            byte_text(collective.comm_bytes),
            f"{collective.times:,}",
            f"{collective.reason}{f', {cut(where, 50)}' if where else ''}",
        )
    add_rest(table, len(ordered), top, "")
    return table


def _enumerated(enumeration: Enumeration, rows: Rows, top: int) -> Iterator[RenderableType]:
    """The tilings, the cheapest in FLOPs first."""
    counts = f"{enumeration.components:,} components, {len(enumeration.tilings):,} tilings"
    yield Text(f"{enumeration.module.name} over {enumeration.mesh}: {counts}\n", style="bold")
    table = new_table("tilings", ">flops", ">memory", ">sent", ">parameters split", "seeds")
    for row in rows.top(top):
        prices = f"{row['flops']:.4g}", byte_text(row["bytes"]), byte_text(row["comm_bytes"])
        table.add_row(*prices, f"{row['parameters']:,}", cut(row["seeds"], 200))
    yield table
    if len(rows) > top:
        yield f"{len(rows) - top:,} more; --top shows them"
    if enumeration.is_merged:
        yield "isomorphic parts, such as repeated layers, share a tiling; there are too many to list separately"
    if not enumeration.is_complete:
        yield "the list is incomplete; raise --limit"
