"""The tables of `hloom roofline --timeline`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import Hint, Timeline
from hloom.cli.tables import add_rest, new_table
from hloom.text import percent_text, time_text

MOST_GAPS = 5
"""How many idle gaps are shown."""
ASSUMES = "An estimate: streams do not slow each other down, and each runs one operation at a time."


def timeline_tables(timeline: Timeline, top: int) -> Iterator[RenderableType]:
    """A timeline as tables, each of at most `top` lines."""
    yield Text(f"{timeline.report.report.module.name} on {timeline.device.title}\n", style="bold")
    yield _streams(timeline)
    if timeline.exposed:
        yield _exposed(timeline, top)
    yield _critical_path(timeline, top)
    if timeline.gaps(1):
        yield _gaps(timeline)
    hints = timeline.hints()
    if hints:
        yield _hints(hints)
    yield ASSUMES
    yield from timeline.notes()


def _streams(timeline: Timeline) -> Table:
    table = new_table("timeline", "stream", ">busy", ">idle", ">waited for")
    exposed = timeline.exposed_seconds()
    for name, busy, idle in timeline.streams():
        waited = time_text(exposed[name]) if name in exposed else ""
        table.add_row(name, time_text(busy), time_text(idle), waited)
    least = timeline.report.report.qualifier
    table.add_row("one after the other", f"{least}{time_text(timeline.serial_seconds)}", "", "")
    table.add_row("step (estimate)", f"{least}{time_text(timeline.seconds)}", "", "")
    return table


def _exposed(timeline: Timeline, top: int) -> Table:
    table = new_table("waited for", "instruction", "opcode", ">stream", ">runs", ">waits", ">of", ">% of step")
    for row, times in timeline.exposed[:top]:
        waited = row.seconds * times
        share = percent_text(waited, timeline.seconds)
        columns = (row.stream, f"{times:,.0f}", time_text(waited), time_text(row.duration * times), share)
        table.add_row(row.node.name, row.node.opcode, *columns)
    add_rest(table, len(timeline.exposed), top)
    return table


def _critical_path(timeline: Timeline, top: int) -> Table:
    path = timeline.critical_path()
    table = new_table(
        "critical path, longest first", "instruction", "opcode", ">stream", ">runs", ">time", ">% of step"
    )
    rows = sorted(((event, times, (event.end - event.start) * times) for event, times in path), key=lambda row: -row[2])
    for event, times, spent in rows[:top]:
        share = percent_text(spent, timeline.seconds)
        table.add_row(event.node.name, event.node.opcode, event.stream, f"{times:,.0f}", time_text(spent), share)
    add_rest(table, len(rows), top)
    return table


def _gaps(timeline: Timeline) -> Table:
    table = new_table("idle gaps", "stream", "before", ">runs", ">idle")
    for gap in timeline.gaps(MOST_GAPS):
        table.add_row(gap.stream, gap.node.name, f"{gap.times:,.0f}", time_text(gap.seconds * gap.times))
    return table


def _hints(hints: list[Hint]) -> Table:
    table = new_table("what would help", "exposed", ">could save", "independent work, longest first")
    for hint in hints:
        names = ", ".join(f"{node.name} ({time_text(seconds)})" for node, seconds in hint.independent)
        what = names or "none in its computation"
        is_sync = "" if hint.exposure.is_asynchronous else "made asynchronous: "
        table.add_row(hint.exposure.node.name, time_text(hint.saved), f"{is_sync}{what}")
    return table
