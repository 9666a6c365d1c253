"""`--profile DIR`: what a profiler measured, as tables beside what the model says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table

from hloom.analysis import Table as Rows
from hloom.cli.tables import add_rest, cut, new_table
from hloom.inspection.profile import InstructionTime, Measurement, measured_noise
from hloom.text import Record, byte_text, count_text, percent_text, time_text

MOST_GAPS = 5


@dataclass(frozen=True, slots=True)
class GroupedMeasurement(Record):
    """What was measured of a module, and its seconds by group."""

    measurement: Measurement
    by: str | None
    groups: Rows | None
    json_keys = "**measurement by? groups?"


@dataclass(frozen=True, slots=True)
class MeasuredChange(Record):
    """What was measured of two modules, seconds by group before and after, and how much of a change may be noise."""

    before: Measurement
    after: Measurement
    by: str
    groups: Rows
    noise_seconds: float | None


def measured_tables(
    measured: Measurement, groups: Rows | None, top: int, *, has_model: bool = True
) -> Iterator[RenderableType]:
    """The measurement: totals, then groups or single instructions, gaps and collectives."""
    yield _totals(measured, has_model)
    if groups is not None:
        yield _groups(groups, measured, top, has_model)
    else:
        yield _instructions("longest instructions", measured.instructions, measured, top)
        title = f"largest errors of the model, after scaling its total by {measured.scale:.3g}"
        yield _instructions(title, measured.worst(), measured, top)
    if measured.gaps:
        yield _gaps(measured)
    if measured.collectives:
        yield _collectives(measured, top)
    yield from _notes(measured)


def changed_tables(before: Measurement, after: Measurement, groups: Rows, top: int) -> Iterator[RenderableType]:
    """Two measurements beside each other: totals, and the groups that changed most."""
    table = new_table(f"measured: {before.program} and {after.program}", "per run", ">before", ">after", ">change")
    names = {"seconds": "from first to last", "busy_seconds": "busy", "idle_seconds": "idle", "measured_seconds": "sum"}
    for name, title in names.items():
        table.add_row(title, *_change(getattr(before, name), getattr(after, name)))
    for title, part in (("median", "median"), ("least", "least"), ("spread", "spread")):
        values = [None if report.times is None else getattr(report.times, part) for report in (before, after)]
        table.add_row(title, *("" if value is None else time_text(value) for value in values), "")
    table.add_row("runs", f"{before.runs:,}", f"{after.runs:,}", "")
    yield table
    yield _verdict(before, after)
    what = groups.columns[0]
    table = new_table(f"change in measured time by {what}", what, ">before", ">after", ">change", ">noise")
    for row in groups.top(top):
        noise = "" if row["noise"] is None else f"±{time_text(row['noise'])}"
        table.add_row(row[what], *_change(row["before"], row["after"]), noise)
    add_rest(table, len(groups), top, "; --limit shows them")
    yield table
    for measured in (before, after):
        yield from _notes(measured)


def _verdict(before: Measurement, after: Measurement) -> str:
    """Whether the times of a run differ by more than runs of one program do."""
    noise = measured_noise(before, after)
    if noise is None or before.times is None or after.times is None:
        return "one of the traces has a single run, so the noise is unknown\n"
    change = after.times.median - before.times.median
    state = "above" if abs(change) > noise else "within"
    return f"the medians differ by {time_text(abs(change))}, {state} the noise of ±{time_text(noise)} (95 %)\n"


def _change(before: float, after: float) -> tuple[str, str, str]:
    return time_text(before), time_text(after), f"{'+' if after > before else ''}{time_text(after - before)}"


def _totals(measured: Measurement, has_model: bool) -> Table:
    runs = f"{measured.runs:,} runs on {count_text(measured.devices, 'device')}"
    table = new_table(f"measured: {measured.program}, {runs}", "per run", ">time", ">%")
    times = measured.times
    spread = [] if times is None else [("median", times.median), ("least", times.least), ("spread", times.spread)]
    rows = [
        ("first to last instruction, mean", measured.seconds),
        *spread,
        ("busy", measured.busy_seconds),
        ("idle", measured.idle_seconds),
        ("sum of instructions", measured.measured_seconds),
    ]
    if has_model:
        rows.append((f"the model, on {measured.device.title}", measured.model_seconds))
    for name, seconds in rows:
        table.add_row(name, time_text(seconds), percent_text(seconds, measured.seconds))
    return table


def _groups(groups: Rows, measured: Measurement, top: int, has_model: bool) -> Table:
    what = groups.columns[0]
    model = [">model", ">measured/model"] if has_model else []
    table = new_table(f"measured time by {what}", what, ">count", ">time", ">%", *model, ">FLOP/s", ">bytes/s")
    for row in groups.top(top):
        seconds, modelled = row["seconds"], row["model_seconds"]
        beside = [time_text(modelled), f"{seconds / modelled:.3g}" if modelled else ""] if has_model else []
        rates = [_rate(row["flops"], seconds), _bandwidth(row["bytes"], seconds)]
        share = percent_text(seconds, measured.measured_seconds)
        cells = [row[what], f"{row['instructions']:,}", time_text(seconds), share, *beside, *rates]
        table.add_row(*cells)
    add_rest(table, len(groups), top)
    return table


def _instructions(title: str, rows: Sequence[InstructionTime], measured: Measurement, top: int) -> Table:
    columns = (">runs", ">time", ">least", ">spread", ">%", ">model", ">measured/model", ">FLOP/s", ">bytes/s")
    table = new_table(title, "instruction", "opcode", *columns)
    for row in rows[:top]:
        model = time_text(row.model_seconds) if row.model_seconds is not None else ""
        ratio = f"{row.ratio:.3g}" if row.ratio is not None else ""
        table.add_row(
            row.node.name,
            row.node.opcode,
            f"{row.events:,.3g}",
            time_text(row.seconds),
            "" if row.times is None else time_text(row.times.least),
            "" if row.times is None else time_text(row.times.spread),
            percent_text(row.seconds, measured.measured_seconds),
            model,
            ratio,
            _rate(row.flops or 0.0, row.seconds),
            _bandwidth(row.bytes or 0.0, row.seconds),
        )
    add_rest(table, len(rows), top)
    return table


def _gaps(measured: Measurement) -> Table:
    table = new_table("longest gaps in any run", "after", "before", ">idle")
    for gap in measured.gaps[:MOST_GAPS]:
        table.add_row(gap.after, cut(gap.before, 40), time_text(gap.seconds))
    return table


def _collectives(measured: Measurement, top: int) -> Table:
    table = new_table("collectives", "instruction", ">time", ">not overlapped", ">%")
    for row in sorted(measured.collectives, key=lambda row: -row.exposed_seconds)[:top]:
        share = percent_text(row.exposed_seconds, row.seconds)
        table.add_row(row.node.name, time_text(row.seconds), time_text(row.exposed_seconds), share)
    add_rest(table, len(measured.collectives), top)
    return table


def _notes(measured: Measurement) -> Iterator[str]:
    if not measured.is_given:
        yield f"instructions are those of {measured.program}, the optimised module in the trace"
    if measured.unknown_seconds:
        yield f"instructions missing from the module: {time_text(measured.unknown_seconds)} in a run"
    yield from measured.notes


def _rate(flops: float, seconds: float) -> str:
    return f"{flops / seconds / 1e9:,.4g} G" if flops and seconds else ""


def _bandwidth(size: float, seconds: float) -> str:
    return f"{byte_text(size / seconds)}/s" if size and seconds else ""
