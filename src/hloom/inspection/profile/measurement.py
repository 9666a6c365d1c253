"""Measured times of a program's instructions compared with the model's: shares, rates, model errors, idle time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, sqrt
from statistics import median, quantiles
from typing import Any

from hloom.analysis import BY, Device, Timing, devices, layer, op_name_of, roofline, scopes, source_of
from hloom.analysis import Table as Rows
from hloom.inspection.profile.program_match import MatchedProgram, match_program
from hloom.inspection.profile.trace import OpEvent, ProfilerTrace, read_trace
from hloom.inspection.profile.trace_device import checked_device
from hloom.ir import Module, Node, Trait
from hloom.ops import CONTROL_FLOW, with_trait
from hloom.text import Record, Seconds

PICOSECOND = 1e-12
COLLECTIVES = with_trait(Trait.COLLECTIVE) | with_trait(Trait.POINT_TO_POINT)
"""Opcodes whose time is spent on sending, or on waiting for what others send."""
LONGEST_GAPS = WORST = 20
LEAST_OF_RUN = 0.9
"""A run with less than this share of the events of the fullest one was cut off by the trace's beginning or end."""
MEDIAN_ERROR = 1.2533
"""The standard error of a median relative to that of a mean: the square root of pi / 2."""
QUARTILES = 1.349
"""The distance of the quartiles of a normal distribution, in standard deviations."""
CERTAINTY = ((2, 6.7), (3, 4.0), (5, 3.7), (7, 2.9), (10, 2.7), (20, 2.3))
"""How many standard errors a difference must exceed to be above the noise with 95 % certainty, up to a number of runs.

Quartiles of few runs are too close together. Simulated with 60,000 pairs of traces of equal programs, whose times are
normally distributed; the other trace has as many runs, or up to 100. With 2.0, 20 % of pairs of 3 runs differed.
"""
CERTAINTY_OF_MANY = 2.1
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RunTimes(Record):
    """Seconds over runs: the median, the minimum, and the interquartile range."""

    runs: int
    median: Seconds
    least: Seconds
    spread: Seconds

    @classmethod
    def of(cls, picoseconds: Sequence[int]) -> RunTimes:
        """Of some runs, at least one."""
        seconds = [time * PICOSECOND for time in picoseconds]
        first, _, third = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else (0.0, 0.0, 0.0)
        return cls(len(seconds), median(seconds), min(seconds), third - first)

    @property
    def error(self) -> float | None:
        """The standard error of the median, times being taken as normally distributed; None of a single run."""
        return MEDIAN_ERROR * self.spread / QUARTILES / sqrt(self.runs) if self.runs > 1 else None


@dataclass(frozen=True, slots=True)
class InstructionTime:
    """What an instruction took: `seconds` in a run on one device, on average over `runs`, in so many events of each.

    `times` has the median, the least and the spread over runs; None where events do not say of which run they are.
    `flops` and `bytes` are of a run, and `model_seconds` what the roofline says of it; None for what it does not know.
    """

    node: Node
    seconds: float
    runs: int
    events: float
    flops: float | None
    bytes: float | None
    model_seconds: float | None
    times: RunTimes | None = None
    json_keys = "**node seconds runs events flops bytes model_seconds ratio flop_rate bandwidth times"

    @property
    def ratio(self) -> float | None:
        """Measured against the model: 2 took twice as long; None where the model says nothing."""
        return self.seconds / self.model_seconds if self.model_seconds else None

    @property
    def flop_rate(self) -> float:
        """Operations per second."""
        return (self.flops or 0.0) / self.seconds if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return (self.bytes or 0.0) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class IdleGap:
    """Time in a run in which a device runs none of the program's instructions, and those around it."""

    seconds: float
    after: str
    before: str


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """The time of a collective in a run, and how much of it is not overlapped."""

    node: Node
    seconds: float
    exposed_seconds: float
    json_keys = "**node seconds exposed_seconds"


@dataclass(frozen=True, slots=True)
class Measurement(Record):
    """What was measured of a program.

    A run takes `seconds` from its first instruction to its last, on average over `runs` runs on `devices` devices, and
    `times` over these;
    `busy_seconds` of it any instruction runs. `is_given` says that the instructions are those of the module that was
    asked about; else of `module`, which it was compiled to. `unknown_seconds` are of events of unknown instructions.
    """

    module: Module
    program: str
    device: Device
    runs: int
    devices: int
    seconds: float
    busy_seconds: float
    model_seconds: float
    is_given: bool
    unknown_seconds: float
    instructions: tuple[InstructionTime, ...]
    gaps: tuple[IdleGap, ...]
    collectives: tuple[CollectiveTime, ...]
    notes: tuple[str, ...] = field(default=())
    times: RunTimes | None = None
    json_keys = (
        "program runs devices seconds busy_seconds model_seconds is_given unknown_seconds idle_seconds "
        "measured_seconds scale worst=worst_names times device=device.name instructions gaps collectives notes"
    )

    @property
    def measured_seconds(self) -> float:
        """The sum of all instructions' times, which exceeds `busy_seconds` if they run concurrently."""
        return sum(row.seconds for row in self.instructions)

    @property
    def idle_seconds(self) -> float:
        """The time in a run in which nothing runs."""
        return max(self.seconds - self.busy_seconds, 0.0)

    @property
    def scale(self) -> float:
        """How many times the model's time all instructions take together that it knows."""
        known = [row for row in self.instructions if row.model_seconds]
        modelled = sum(row.model_seconds or 0.0 for row in known)
        return sum(row.seconds for row in known) / modelled if modelled else 1.0

    def worst(self) -> list[InstructionTime]:
        """What the model is furthest from, once it is scaled to the measured total: the largest difference first."""
        scale = self.scale
        known = [row for row in self.instructions if row.model_seconds is not None]
        return sorted(known, key=lambda row: -abs(row.seconds - scale * (row.model_seconds or 0.0)))

    def by(self, what: str, depth: int | None = None) -> Rows:
        """Times added up by opcode, computation, scope, layer or source; raises ValueError for another name."""
        name_of = _namer(self.module, what, depth)
        sums: dict[str, list[float]] = {}
        for row in self.instructions:
            group = sums.setdefault(name_of(row.node), [0, 0.0, 0.0, 0.0, 0.0])
            values = (1, row.seconds, row.model_seconds or 0.0, row.flops or 0.0, row.bytes or 0.0)
            for column, value in enumerate(values):
                group[column] += value
        slowest = sorted(sums.items(), key=lambda item: -item[1][1])
        columns = (what, "instructions", "seconds", "model_seconds", "flops", "bytes")
        return Rows(columns, tuple((name, *values) for name, values in slowest))

    @property
    def worst_names(self) -> list[str]:
        """The names of the instructions of which the model is furthest off."""
        return [row.node.name for row in self.worst()[:WORST]]


def measured_change(before: Measurement, after: Measurement, what: str, depth: int | None = None) -> Rows:
    """Measured seconds of a run before and after, by group, the largest change first; absent groups take none."""
    ours, theirs = ({row[what]: row["seconds"] for row in report.by(what, depth)} for report in (before, after))
    rows = [(name, ours.get(name, 0.0), theirs.get(name, 0.0)) for name in {**ours, **theirs}]
    rows.sort(key=lambda row: -abs(row[2] - row[1]))
    columns = (what, "before", "after", "change", "noise")
    errors = [_errors(report, what, depth) for report in (before, after)]
    runs = _fewest_runs(before, after)
    noises = {name: noise_of([known.get(name, 0.0) for known in errors], runs) for name, _, _ in rows}
    return Rows(columns, tuple((name, old, changed, changed - old, noises[name]) for name, old, changed in rows))


def measured_noise(before: Measurement, after: Measurement) -> float | None:
    """What two programs' times of a run may differ by without being different; None where one has a single run."""
    errors = [None if report.times is None else report.times.error for report in (before, after)]
    return noise_of(errors, _fewest_runs(before, after))


def noise_of(errors: Sequence[float | None], runs: int) -> float | None:
    """What two medians may differ by, from their standard errors and the smaller number of runs; None if one is."""
    before, after = errors
    if before is None or after is None:
        return None
    return next((factor for most, factor in CERTAINTY if runs <= most), CERTAINTY_OF_MANY) * hypot(before, after)


def _fewest_runs(before: Measurement, after: Measurement) -> int:
    return min(1 if report.times is None else report.times.runs for report in (before, after))


def _errors(report: Measurement, what: str, depth: int | None) -> dict[str, float | None]:
    """The standard errors of groups' times, those of instructions being independent; None where one is not known."""
    name_of = _namer(report.module, what, depth)
    errors: dict[str, float | None] = {}
    for row in report.instructions:
        group, own = name_of(row.node), None if row.times is None else row.times.error
        before = errors.get(group, 0.0)
        errors[group] = None if own is None or before is None else hypot(before, own)
    return errors


def measurement(
    module: Module, path: str | os.PathLike[str], device: Device | None = None, **trips: Any
) -> Measurement:
    """What a trace says of a module, beside the roofline of the device that it was made on.

    `device` has the rates of that device, where the trace does not say which it is; `trips` are options of
    `hloom.roofline`. Raises HloomError for what is not a trace, for a trace of other programs, and for one of another
    device.
    """
    trace = read_trace(path)
    matched = match_program(module, trace)
    chosen = checked_device(trace, matched.events, device)
    return _measured(matched, trace, chosen.device, chosen.notes, **trips)


def measurement_without_model(module: Module, path: str | os.PathLike[str], **trips: Any) -> Measurement:
    """As `measurement`, for those who show no time of the model: of a device that nobody knows, too."""
    trace = read_trace(path)
    return _measured(match_program(module, trace), trace, next(iter(devices().values())), (), **trips)


def _measured(
    matched: MatchedProgram, trace: ProfilerTrace, device: Device, notes: Sequence[str], **trips: Any
) -> Measurement:
    report = roofline(matched.module, device, **trips)
    timings: dict[Node, Timing] = {timing.node: timing for timing in report.timings}
    return _Measuring(matched, timings, device, report.seconds, [*trace.notes, *notes]).measure()


def _namer(module: Module, what: str, depth: int | None) -> Callable[[Node], str]:
    if what == "opcode":
        return lambda node: node.opcode
    if what == "computation":
        return lambda node: node.graph.name
    if what == "source":
        return lambda node: source_of(node, module.stack_tables)
    if what == "layer":
        return lambda node: "/".join(layer(op_name_of(node)).split("/")[:depth]) or "(no layer)"
    if what == "scope":
        paths = scopes(module)
        return lambda node: "/".join(paths[node][:depth])
    raise ValueError(f"times cannot be added up by '{what}', only by {', '.join(BY)}")


@dataclass(slots=True)
class _Measuring:
    """Adds the events of a program up."""

    matched: MatchedProgram
    timings: dict[Node, Timing]
    device: Device
    model_seconds: float
    notes: Sequence[str]
    _by_run: dict[Node, dict[tuple[str, int], int]] = field(default_factory=dict)

    def measure(self) -> Measurement:
        """The measurement of the runs that are complete."""
        notes = [*self.notes, *self._drop_cut_runs()]
        nodes = _nodes(self.matched.module, self.timings)
        runs = self._runs()
        count = sum(len(starts) for starts in runs.values()) if self._has_run_ids() else self._counted_runs()
        count = max(count, 1)
        times, events, unknown = self._sums(nodes)
        self._by_run = self._times_by_run(nodes) if self._has_run_ids() else {}
        inside = _measured_containers(times)
        rows = [self._row(node, times[node], events[node], count) for node in times if node not in inside]
        wall, busy, gaps, exposed = self._spans(nodes, inside)
        spans = max(len(wall), 1)
        devices = len({event.device for event in self.matched.events})
        return Measurement(
            module=self.matched.module,
            program=self.matched.program.name,
            device=self.device,
            runs=max(round(count / max(devices, 1)), 1),
            devices=devices,
            seconds=sum(wall) * PICOSECOND / spans,
            busy_seconds=sum(busy) * PICOSECOND / spans,
            model_seconds=self.model_seconds,
            is_given=self.matched.is_given,
            unknown_seconds=unknown * PICOSECOND / count,
            instructions=tuple(sorted(rows, key=lambda row: -row.seconds)),
            gaps=tuple(sorted(gaps, key=lambda gap: -gap.seconds)[:LONGEST_GAPS]),
            collectives=tuple(
                CollectiveTime(node, times[node] * PICOSECOND / count, exposed.get(node, 0) * PICOSECOND / count)
                for node in times
                if node.opcode in COLLECTIVES
            ),
            notes=tuple(notes),
            times=RunTimes.of(wall) if wall and self._has_run_ids() else None,
        )

    def _drop_cut_runs(self) -> Iterator[str]:
        """Leave out the runs that were not traced as a whole."""
        counts: dict[tuple[str, int], int] = {}
        for event in self.matched.events:
            counts[event.device, event.run] = counts.get((event.device, event.run), 0) + 1
        least = LEAST_OF_RUN * max(counts.values())
        cut = {key for key, count in counts.items() if count < least}
        if cut:
            events = [event for event in self.matched.events if (event.device, event.run) not in cut]
            self.matched = replace(self.matched, events=events)
            yield f"{len(cut)} of {len(counts)} runs were not traced from beginning to end, and are left out"

    def _runs(self) -> dict[str, set[int]]:
        runs: dict[str, set[int]] = {}
        for event in self.matched.events:
            runs.setdefault(event.device, set()).add(event.run)
        return runs

    def _has_run_ids(self) -> bool:
        return any(len(starts) > 1 or starts != {0} for starts in self._runs().values())

    def _counted_runs(self) -> int:
        """How many runs there were, where events do not say of which they are: how often most instructions ran."""
        counts: dict[tuple[str, str], int] = {}
        for event in self.matched.events:
            counts[event.device, event.op] = counts.get((event.device, event.op), 0) + 1
        devices = len({device for device, _ in counts})
        return round(median(counts.values())) * devices

    def _sums(self, nodes: dict[str, Node]) -> tuple[dict[Node, int], dict[Node, int], int]:
        times: dict[Node, int] = {}
        events: dict[Node, int] = {}
        unknown = 0
        for event in self.matched.events:
            node = nodes.get(event.op)
            if node is None:
                unknown += event.end - event.start
                continue
            times[node] = times.get(node, 0) + event.end - event.start
            events[node] = events.get(node, 0) + 1
        return times, events, unknown

    def _times_by_run(self, nodes: dict[str, Node]) -> dict[Node, dict[tuple[str, int], int]]:
        """The picoseconds of each instruction in each run on each device."""
        times: dict[Node, dict[tuple[str, int], int]] = {}
        for event in self.matched.events:
            node = nodes.get(event.op)
            if node is not None:
                runs, key = times.setdefault(node, {}), (event.device, event.run)
                runs[key] = runs.get(key, 0) + event.end - event.start
        return times

    def _row(self, node: Node, time: int, events: int, count: int) -> InstructionTime:
        timing = self.timings.get(node)
        return InstructionTime(
            node=node,
            seconds=time * PICOSECOND / count,
            runs=count,
            events=events / count,
            flops=None if timing is None else float(timing.cost.flops * timing.times),
            bytes=None if timing is None else float(timing.cost.bytes_accessed * timing.times),
            model_seconds=None if timing is None else timing.total,
            times=RunTimes.of(list(self._by_run[node].values())) if node in self._by_run else None,
        )

    def _spans(
        self, nodes: dict[str, Node], inside: set[Node]
    ) -> tuple[list[int], list[int], list[IdleGap], dict[Node, int]]:
        """Of the runs on the devices: how long they take, how long anything runs, gaps, what collectives leave bare."""
        runs: dict[tuple[str, int], list[OpEvent]] = {}
        for event in self.matched.events:
            node = nodes.get(event.op)
            if node is None or node not in inside:
                runs.setdefault((event.device, event.run), []).append(event)
        wall: list[int] = []
        busy: list[int] = []
        gaps: list[IdleGap] = []
        exposed: dict[Node, int] = {}
        for events in runs.values():
            events.sort(key=lambda event: event.start)
            others: list[Span] = []
            sent: list[tuple[Node, Span]] = []
            covered, end, last = 0, events[0].start, ""
            for event in events:
                node = nodes.get(event.op)
                if node is not None and node.opcode in COLLECTIVES:
                    sent.append((node, (event.start, event.end)))
                else:
                    others.append((event.start, event.end))
                if event.start > end and last:
                    gaps.append(IdleGap((event.start - end) * PICOSECOND, last, event.op))
                if event.end > end:
                    covered += event.end - max(end, event.start)
                    end, last = event.end, event.op
            wall.append(end - events[0].start)
            busy.append(covered)
            for node, span in sent:
                exposed[node] = exposed.get(node, 0) + _bare(span, others)
        return wall, busy, gaps, exposed


def _nodes(module: Module, timings: Iterable[Node]) -> dict[str, Node]:
    """The instructions by name: of several of one name that which runs as a kernel, else the entry's."""
    table = {node.name: node for node in module.nodes()}
    table.update((node.name, node) for node in module.entry.nodes)
    table.update((node.name, node) for node in timings)
    return table


def _measured_containers(times: dict[Node, int]) -> set[Node]:
    """Loops, branches and calls of which an instruction inside is measured."""
    graphs = {node.graph for node in times}
    return {
        node for node in times if node.opcode in CONTROL_FLOW and any(graph in graphs for graph in node.called_graphs)
    }


def _bare(span: Span, others: Sequence[Span]) -> int:
    """How much of a span none of the others, in order of their starts, covers."""
    bare, position = 0, span[0]
    for start, end in others:
        if start >= span[1]:
            break
        if end > position:
            bare += max(start - position, 0)
            position = max(position, end)
    return bare + max(span[1] - position, 0)
