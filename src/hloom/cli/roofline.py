"""`hloom roofline`: how long a module takes on a named device, what takes the time and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import BY, DEFAULT_DEVICE, Device, Roofline, Timing, devices, qualifier, roofline
from hloom.analysis import Table as Rows
from hloom.analysis import device as device_of
from hloom.analysis import timeline as timeline_of
from hloom.cli.input import note_whole_program, progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_usage,
    choice_option,
    depth_option,
    devices_option,
    file_argument,
    json_option,
    output_option,
    profile_option,
    target_option,
    top_option,
    traced_device_option,
    trips_option,
    unknown_trips_option,
)
from hloom.cli.output import write_json, write_text
from hloom.cli.plots.roofline import COLUMNS, MARGIN_LEFT, characters, plotted, svg
from hloom.cli.profile_tables import GroupedMeasurement, measured_tables
from hloom.cli.tables import add_rest, new_table, shown_width, write_report
from hloom.cli.target import ForTarget, for_target
from hloom.cli.timeline_tables import timeline_tables
from hloom.formats.hlo import STDIN
from hloom.inspection.profile import Measurement, measurement, perfetto, timeline_speedscope
from hloom.text import Record, byte_text, percent_text, time_text

MOST_LINES = 20
"""How many instructions or groups are shown, unless told otherwise."""
OTHER_PICTURES = frozenset((".gif", ".jpeg", ".jpg", ".pdf", ".png"))
"""Suffixes that ask for a picture that is not made."""
TRACES = {".perfetto.json": perfetto, ".speedscope.json": timeline_speedscope}
"""The suffixes of files that a timeline is written to, and what writes them."""
ESTIMATE = "An estimate: assumes peak rates, no overlap, and a simple model of fusion."
FUSED = "An estimate: assumes peak rates and no overlap; fusions are the compiler's."


class _Roofline(click.Command):
    """Takes no file with --list."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [*args])
        except click.MissingParameter:
            if "--list" not in args:
                raise
            return super().parse_args(ctx, [*args, STDIN])


@dataclass(frozen=True, slots=True)
class DeviceList(Record):
    """The devices whose rates are known, and where each rate is from."""

    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class RooflineRecord(Record):
    """The estimated time of a module, with --by by group; with --profile beside what was measured, and its groups."""

    report: Roofline
    by: str | None
    groups: Rows | None
    profile: GroupedMeasurement | None
    made: ForTarget
    json_keys = "**report by? groups? profile? **made"


@click.command("roofline", cls=_Roofline)
@file_argument
@click.option("--list", "is_list", is_flag=True, help="List the known devices and exit; needs no FILE.")
@click.option(
    "--timeline",
    "is_timeline",
    is_flag=True,
    help="Lay the schedule out on streams (computing, copies, links): what overlaps, and what is waited for.",
)
@traced_device_option()
@target_option()
@devices_option()
@choice_option("--by", choices=BY, help="Group times by this (default: list instructions).")
@depth_option()
@top_option(MOST_LINES)
@trips_option()
@unknown_trips_option()
@profile_option()
@json_option("Write JSON: the time, what limits it, and every instruction.")
@output_option("Write to file OUT: .svg is the plot; with --timeline, .perfetto.json and .speedscope.json are traces.")
def command(
    source: ModuleSource,
    is_list: bool,
    is_timeline: bool,
    device: str | None,
    target: str | None,
    listed: Path | None,
    by: str | None,
    depth: int | None,
    top: int,
    trips: dict[str, int],
    unknown_trips: int,
    profile: Path | None,
    json_output: bool,
    output: Path | None,
) -> None:
    """Estimate how long a module takes on a device.

    Each instruction takes the longer of its compute time and its memory time, plus its launch; a collective takes the
    time of the links that its groups span. A module that has not been optimised yet is fused by a simple model first.
    Devices come with hloom (see --list), from --devices, or from files named in HLOOM_DEVICES; `hloom calibrate` writes
    one for this machine.

    With --timeline, the instructions run in the order of the schedule, and asynchronous copies and collectives overlap
    with what stands between their start and their end.

    \b
    Examples:
      hloom roofline step.hlo --device h100
      hloom roofline step.hlo --device tpu-v5e --by scope --depth 3
      hloom roofline step.hlo --for v5e
      hloom roofline step.hlo --device h100 -o step.svg
      hloom roofline step.hlo --device tpu-v5e --timeline -o step.perfetto.json
      hloom roofline step.hlo --devices mine.toml --device cpu --json
      hloom roofline step.hlo --device h100 --profile trace/
    """
    if is_list:
        known = devices(listed)
        write_report(lambda: DeviceList(tuple(known.values())), [_listed(known)], json_output, output)
        return
    if output is not None and output.suffix.lower() in OTHER_PICTURES and not json_output:
        raise click.BadParameter(f"'{output}' must end in .svg to hold the plot", param_hint="-o")
    _check_timeline(is_timeline, by, profile, output, json_output)
    check_usage((target and profile is not None, "--for compiles anew, and --profile is of a module that ran"))
    made = for_target(read_program(source.beside(profile)), target, device, listed)
    named, program = made.rates, made.module
    if made.compiled is None:
        note_whole_program(program)
    counts: dict[str, Any] = {"trip_counts": trips, "unknown_trips": unknown_trips}
    if is_timeline:
        _write_timeline(made, named or device_of(DEFAULT_DEVICE, listed), counts, top, json_output, output)
        return
    with progress("estimating"):
        measured = None if profile is None else measurement(program, profile, named, **counts)
        chosen = named or (device_of(DEFAULT_DEVICE, listed) if measured is None else measured.device)
        report = roofline(program, chosen, **counts)
        grouping = report if measured is None else measured
        groups = None if by is None else grouping.by(by, depth=depth)
    if measured is not None:
        shown = measured_tables(measured, groups, top)
    elif output is not None and output.suffix.lower() == ".svg" and not json_output:
        write_text(svg(report), output)
        return
    else:
        shown = [*tables(report, groups, top), *made.lines()]

    write_report(lambda: _record(report, by, groups, measured, made), shown, json_output, output)


def _record(
    report: Roofline, by: str | None, groups: Rows | None, measured: Measurement | None, made: ForTarget
) -> RooflineRecord:
    """The report as JSON: groups are those of what was measured, where something was."""
    if measured is None:
        return RooflineRecord(report, by, groups, None, made)
    return RooflineRecord(report, None, None, GroupedMeasurement(measured, by, groups), made)


def _check_timeline(
    is_timeline: bool, by: str | None, profile: Path | None, output: Path | None, json_output: bool
) -> None:
    """Raise click's errors for options that do not go together."""
    is_trace = output is not None and _trace_suffix(output) is not None and not json_output
    if is_trace and not is_timeline:
        raise click.UsageError(f"'{output}' is a file of a timeline: add --timeline")
    if not is_timeline:
        return
    for option, value in (("--by", by), ("--profile", profile)):
        if value is not None:
            raise click.UsageError(f"--timeline does not go with {option}")
    if output is not None and output.suffix.lower() == ".svg" and not json_output:
        raise click.BadParameter(f"a timeline is written to {' or '.join(TRACES)}, not to .svg", param_hint="-o")


def _trace_suffix(output: Path) -> str | None:
    return next((suffix for suffix in TRACES if output.name.endswith(suffix)), None)


def _write_timeline(
    made: ForTarget, on: Device, counts: dict[str, Any], top: int, json_output: bool, output: Path | None
) -> None:
    with progress("estimating"):
        laid_out = timeline_of(made.module, on, **counts)
    suffix = None if output is None or json_output else _trace_suffix(output)
    if suffix is not None:
        write_json(TRACES[suffix](laid_out), output)
        return
    shown = [*timeline_tables(laid_out, top), *made.lines()]
    write_report(lambda: {**laid_out.to_json(), **made.to_json()}, shown, json_output, output)


def tables(report: Roofline, groups: Rows | None, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """The report as tables and a plot, each table of at most `top` lines."""
    omissions = f": {report.report.omissions}" if report.report.omissions else ""
    yield Text(f"{report.report.module.name} on {report.device.title}{omissions}\n", style="bold")
    yield _totals(report)
    yield _instructions(report.timings, report.seconds, top) if groups is None else _groups(groups, report.seconds, top)
    if plotted(report):
        yield "\n".join(characters(report, min(COLUMNS, shown_width() - MARGIN_LEFT))) + "\n"
    yield FUSED if report.is_fused else ESTIMATE
    estimate = report.compiler_estimate()
    if estimate is not None:
        yield str(estimate)
    unknown = [loop.name for loop in report.report.unknown_loops]
    if unknown:
        yield f"loops with a data-dependent trip count: {', '.join(unknown[:5])}; set it with --trips"
    if report.report.uncounted:
        yield "instructions of unknown cost take the time of reading their operands and writing their results"


def _totals(report: Roofline) -> Table:
    table = new_table("time", "bound by", ">time", ">%")
    start = report.device.start_seconds
    for name, seconds in [*report.bounds().items(), *([("start", start)] if start else [])]:
        least = report.report.qualifier if name != "start" and seconds else ""
        table.add_row(name, f"{least}{time_text(seconds)}", percent_text(seconds, report.seconds))
    table.add_row("total (estimate)", f"{report.report.qualifier}{time_text(report.seconds)}", "")
    return table


def _instructions(timings: Sequence[Timing], seconds: float, top: int) -> Table:
    columns = ("opcode", ">fused", ">runs", ">time", ">%", ">bound by", ">flops", ">bytes", ">flop/byte")
    table = new_table("instructions", "instruction", *columns)
    for timing in timings[:top]:
        least = qualifier(timing.kinds)
        table.add_row(
            timing.node.name,
            timing.node.opcode,
            f"{timing.instructions:,}",
            f"{timing.times:,}",
            f"{least}{time_text(timing.total)}",
            percent_text(timing.total, seconds),
            timing.bound,
            f"{least}{timing.cost.flops * timing.times:.3g}",
            f"{least}{byte_text(timing.cost.bytes_accessed * timing.times)}",
            f"{timing.intensity:.3g}",
        )
    add_rest(table, len(timings), top)
    return table


def _groups(groups: Rows, seconds: float, top: int) -> Table:
    what, _, _, *bounds = (column for column in groups.columns if column != "sizes")
    table = new_table(f"time by {what}", what, ">time", ">%", *(f">{bound}-bound" for bound in bounds))
    for row in groups.top(top):
        least = f"{row['sizes']} " if row.get("sizes") else ""
        parts = (f"{least}{time_text(row[bound])}" if row[bound] else "" for bound in bounds)
        share = percent_text(row["seconds"], seconds)
        table.add_row(row[what], f"{least}{time_text(row['seconds'])}", share, *parts)
    add_rest(table, len(groups), top)
    return table


def _listed(known: Mapping[str, Device]) -> Table:
    table = new_table("devices", "name", "device", ">matrix bf16", ">memory", ">size")
    for name, row in known.items():
        matrix = row.matrix.get("bf16")
        rate = f"{matrix / 1e12:,.4g} TFLOP/s" if matrix else ""
        bandwidth = f"{row.memory_bandwidth / 1e9:,.4g} GB/s"
        table.add_row(name, row.title, rate, bandwidth, byte_text(row.memory_bytes))
    return table
