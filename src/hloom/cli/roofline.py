"""`hloom roofline`: how long a module takes on a named device, what takes the time and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import BY, Roofline, Timing, device, devices, roofline
from hloom.analysis import Table as Rows
from hloom.cli.cost import trip
from hloom.cli.loglog import characters, shown, svg
from hloom.cli.options import Origin, as_json, from_file, to_output
from hloom.cli.reading import note_whole_program, read, working
from hloom.cli.writing import byte_text, cut, write_json, write_tables, write_text

MOST_LINES = 20
"""How many instructions or groups are shown, unless told otherwise."""
OTHER_PICTURES = frozenset((".gif", ".jpeg", ".jpg", ".pdf", ".png"))
"""Suffixes that ask for a picture that is not made."""
ESTIMATE = "An estimate: peak rates, nothing overlaps, and a simple model of what the compiler fuses."
FUSED = "An estimate: peak rates, nothing overlaps; fusions as the compiler made them."


def _list(context: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    """Write the devices that are known, and end."""
    if is_wanted:
        write_tables([_listed()], None)
        context.exit()


@click.command("roofline")
@from_file
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the devices.")
@click.option("--device", "name", metavar="NAME", default="h100", show_default=True, help="The device.")
@click.option("--devices", "listed", metavar="FILE", type=click.Path(path_type=Path), help="Know these devices too.")
@click.option("--by", type=click.Choice(BY), help="Add times up by this, instead of listing instructions.")
@click.option("--depth", type=click.IntRange(min=1), help="How many levels of a scope or layer make a group.")
@click.option("--top", type=click.IntRange(min=1), default=MOST_LINES, show_default=True, help="Show so many lines.")
@click.option("--trips", metavar="NAME=N", multiple=True, help="The loop of this name runs N times.")
@click.option("--unknown-trips", type=click.IntRange(min=0), default=1, show_default=True, help="Other loops run so.")
@as_json("Write JSON: the time, what limits it, and all instructions.")
@to_output("Write into this file; with the suffix .svg, the plot as a picture.")
def command(
    file: str,
    strict: bool,
    module: str | None,
    stage: str | None,
    name: str,
    listed: Path | None,
    by: str | None,
    depth: int | None,
    top: int,
    trips: tuple[str, ...],
    unknown_trips: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Estimate how long a module takes on a device.

    Each instruction takes the longer of computing and moving its bytes, and its launch; collectives take what the
    links that their groups span take. A text before optimisation is fused by a simple model. Devices come with
    hloom (--list shows them), from --devices, or from the files that HLOOM_DEVICES names; `hloom calibrate` writes one
    for this machine.

    \b
    Examples:
      hloom roofline step.hlo --device h100
      hloom roofline step.hlo --device tpu-v5e --by scope --depth 3
      hloom roofline step.hlo --device h100 -o step.svg
      hloom roofline step.hlo --devices mine.toml --device cpu --json
    """
    if output is not None and output.suffix.lower() in OTHER_PICTURES and not json_output:
        raise click.BadParameter(f"'{output}': the plot as a picture is an .svg", param_hint="-o")
    chosen = device(name, listed)
    program = read(Origin(file, strict, module, stage))
    note_whole_program(program)
    with working("estimating"):
        found = roofline(program, chosen, trip_counts=dict(map(trip, trips)), unknown_trips=unknown_trips)
        groups = found.by(by, depth=depth) if by is not None else None
    if json_output:
        grouped = {"by": by, "groups": groups.to_json()} if groups is not None else {}
        write_json({**found.to_json(), **grouped}, output)
    elif output is not None and output.suffix.lower() == ".svg":
        write_text(svg(found), output)
    else:
        write_tables(tables(found, groups, top), output)


def tables(found: Roofline, groups: Rows | None, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """The report as tables and a plot, each table of at most `top` lines."""
    yield Text(f"{found.report.module.name} on {found.device.title}\n", style="bold")
    yield _totals(found)
    yield _instructions(found.timings, found.seconds, top) if groups is None else _groups(groups, found.seconds, top)
    if shown(found):
        yield Text("\n".join(characters(found)) + "\n")
    yield Text(FUSED if found.is_fused else ESTIMATE)
    unknown = [loop.name for loop in found.report.unknown_loops]
    if unknown:
        yield Text(f"loops whose trip counts the data decide: {', '.join(unknown[:5])}; give them with --trips")
    if found.report.uncounted:
        yield Text(f"not counted: {len(found.report.uncounted):,} custom calls or unknown instructions")


def _table(title: str, *columns: str, names: int = 1) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < names else "right", overflow="fold")
    table.columns[0].style = "cyan"
    return table


def _totals(found: Roofline) -> Table:
    table = _table("time", "bound by", "time", "%")
    for name, seconds in found.bounds().items():
        table.add_row(name, time_text(seconds), _share(seconds, found.seconds))
    if found.device.start_seconds:
        table.add_row("start", time_text(found.device.start_seconds), _share(found.device.start_seconds, found.seconds))
    table.add_row("all, estimated", time_text(found.seconds), "")
    return table


def _instructions(timings: Sequence[Timing], seconds: float, top: int) -> Table:
    columns = ("opcode", "fused", "runs", "time", "%", "bound by", "flops", "bytes", "flop/byte")
    table = _table("instructions", "instruction", *columns, names=2)
    for each in timings[:top]:
        table.add_row(
            Text(cut(each.node.name, 30)),
            Text(each.node.opcode),
            f"{each.instructions:,}",
            f"{each.times:,}",
            time_text(each.total),
            _share(each.total, seconds),
            each.bound,
            f"{each.cost.flops * each.times:.3g}",
            byte_text(each.cost.bytes_accessed * each.times),
            f"{each.intensity:.3g}",
        )
    if len(timings) > top:
        table.add_row(Text(f"{len(timings) - top:,} more; --top shows them"), style="dim")
    return table


def _groups(groups: Rows, seconds: float, top: int) -> Table:
    what, _, _, *bounds = groups.columns
    table = _table(f"time by {what}", what, "time", "%", *(f"{each}-bound" for each in bounds))
    for row in groups.top(top):
        parts = (time_text(row[each]) if row[each] else "" for each in bounds)
        table.add_row(Text(cut(row[what], 60)), time_text(row["seconds"]), _share(row["seconds"], seconds), *parts)
    if len(groups) > top:
        table.add_row(Text(f"{len(groups) - top:,} more; --top shows them"), style="dim")
    return table


def _listed() -> Table:
    table = _table("devices", "name", "device", "matrix bf16", "memory", "size", names=2)
    for name, each in devices().items():
        matrix = each.matrix.get("bf16")
        rate = f"{matrix / 1e12:,.4g} TFLOP/s" if matrix else ""
        bandwidth = f"{each.memory_bandwidth / 1e9:,.4g} GB/s"
        table.add_row(name, each.title, rate, bandwidth, byte_text(int(each.memory_bytes)))
    return table


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}" if whole else ""


def time_text(seconds: float) -> str:
    """Seconds for people.

    >>> time_text(0.0123), time_text(4.5e-6), time_text(75), time_text(0)
    ('12.3 ms', '4.5 us', '75 s', '0 s')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0 s"
