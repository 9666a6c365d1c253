"""Timelines as files: trace events, which Perfetto opens, and speedscope's evented profiles.

Loops and calls are drawn with one run of what they run inside, at their start; their arguments say how often it runs.

Source: the Trace Event Format (Google, "Trace Event Format", complete events); speedscope's
src/lib/file-format-spec.ts (FileFormat.EventedProfile).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hloom.analysis import StreamEvent, Timeline
from hloom.ir import Graph

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
MOST_SLICES = 200_000
"""How many operations are drawn, about 40 MB of JSON; computations that are called often are drawn as often."""
MICROSECONDS = 1e6


class Slice(NamedTuple):
    """An operation to draw: seconds from the start of the module, and how often it runs there."""

    event: StreamEvent
    start: float
    end: float
    times: float


def perfetto(timeline: Timeline) -> dict[str, Any]:
    """A timeline as the JSON value of a trace that Perfetto opens: a thread for each stream, times in microseconds."""
    slices = drawn(timeline)
    threads = {name: number for number, (name, _, _) in enumerate(timeline.streams(), start=1)}
    module, device = timeline.report.report.module.name, timeline.device.name
    named = [_metadata("process_name", 0, f"{module} on {device}")]
    named += [_metadata("thread_name", number, name) for name, number in threads.items()]
    events = [
        {
            "ph": "X",
            "name": row.event.node.name,
            "cat": row.event.node.opcode,
            "pid": 1,
            "tid": threads.setdefault(row.event.stream, len(threads) + 1),
            "ts": row.start * MICROSECONDS,
            "dur": (row.end - row.start) * MICROSECONDS,
            "args": {"computation": row.event.node.graph.name, "opcode": row.event.node.opcode, "times": row.times},
        }
        for row in slices
    ]
    return {"displayTimeUnit": "ns", "traceEvents": [*named, *events]}


def timeline_speedscope(timeline: Timeline) -> dict[str, Any]:
    """A timeline as the JSON value of a speedscope file: one profile for each stream, in seconds."""
    frames: dict[str, int] = {}
    streams: dict[str, list[Slice]] = {name: [] for name, _, _ in timeline.streams()}
    for row in drawn(timeline):
        streams.setdefault(row.event.stream, []).append(row)
    end = timeline.entry.duration
    profiles = [
        {
            "type": "evented",
            "name": name,
            "unit": "seconds",
            "startValue": 0,
            "endValue": end,
            "events": list(_opened_and_closed(rows, frames)),
        }
        for name, rows in streams.items()
    ]
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": "hloom",
        "name": timeline.report.report.module.name,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }


def drawn(timeline: Timeline) -> list[Slice]:
    """The operations that take time, with one run of each loop, call and branch inside it; at most MOST_SLICES."""
    slices: list[Slice] = []
    pending: list[tuple[Graph, float, float]] = [(timeline.report.report.module.entry, 0.0, 1.0)]
    while pending and len(slices) < MOST_SLICES:
        graph, offset, times = pending.pop()
        row = timeline.graphs[graph]
        for event in row.events:
            if event.end <= event.start or len(slices) >= MOST_SLICES:
                continue
            slices.append(Slice(event, offset + event.start, offset + event.end, times))
            inside = offset + event.start
            for called, often in row.calls.get(event.node, ()):
                pending.append((called, inside, times * often))
                inside += timeline.graphs[called].duration
    return slices


def _opened_and_closed(rows: list[Slice], frames: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Openings and closings in order, so that what is inside a loop lies between its own."""
    stack: list[tuple[float, int]] = []
    last = 0.0
    for row in sorted(rows, key=lambda one: (one.start, -one.end)):
        while stack and stack[-1][0] <= row.start:
            last = max(last, stack[-1][0])
            yield {"type": "C", "frame": stack.pop()[1], "at": last}
        frame = frames.setdefault(row.event.node.name, len(frames))
        last = max(last, row.start)
        yield {"type": "O", "frame": frame, "at": last}
        stack.append((min(row.end, stack[-1][0]) if stack else row.end, frame))
    while stack:
        last = max(last, stack[-1][0])
        yield {"type": "C", "frame": stack.pop()[1], "at": last}


def _metadata(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": thread, "args": {"name": name}}
