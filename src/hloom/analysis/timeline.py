"""A module's schedule on streams: computing, copies between memories, the host, and each kind of link.

    compute   |-- a --|-- b --|..wait..|-- d --|
    ICI           |-- all-gather ------|

Instructions issue in the order of the schedule. What starts an asynchronous operation puts it on its stream and returns
at once; what ends it waits. A stream runs one operation at a time, in the order of their starts. A synchronous
collective or transfer takes its stream and stops the computation. Prices are those of `roofline`; streams do not slow
each other down, although copies and computing share a memory's bandwidth.

A loop is one iteration's timeline times its trips, a conditional its longest branch. Whatever is still under way at the
end of a computation is waited for there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from hloom.analysis.collective_cost import HOST, HOST_MEMORY, group_members
from hloom.analysis.control_flow import call_sites, is_branch, is_control_flow, is_loop
from hloom.analysis.cost_analysis import LOOPED
from hloom.analysis.devices import DEFAULT_DEVICE, Device
from hloom.analysis.fusion import VIEWS
from hloom.analysis.roofline import Roofline, roofline
from hloom.analysis.schedule import list_schedule
from hloom.analysis.stored_sizes import memory_space
from hloom.analysis.tpu_kernels import COLLECTIVE_DONE, COLLECTIVE_START, async_collective
from hloom.ir import Apply, Graph, ModuleLike, Node, Runs, Trait, TupleType, paused_collection
from hloom.text import Display, Displayed, DisplayTable, HloomError, Record, Seconds, time_text

Row = TypeVar("Row")

COMPUTE = "compute"
COPIES = "copies"
HOST_STREAM = "host"
NETWORK = "links"
"""The stream of collectives on a device that states no links between devices."""
MOST_SECONDS = 1e300
"""Longer times, which only made-up trip counts have, are taken for this."""
ROUNDING = 1e-11
"""Times closer than this fraction are equal: sums of 20,000 times differ by up to 2e-12 with the order of addition."""
MOST_STEPS_BACK = 10_000
"""How many instructions between an asynchronous end and its start are looked through: tuples and their elements."""
HINTS = 5
"""For how many of the longest exposed operations independent work is sought; each takes one pass over its graph."""


class StreamEvent(NamedTuple):
    """An operation on a stream: seconds from the start of its computation, and what its start waited for.

    `before` is the number of the event whose end let this one start, -1 for none.
    """

    node: Apply
    stream: str
    start: Seconds
    end: Seconds
    before: int
    json_keys = "**node stream start end seconds"

    @property
    def seconds(self) -> float:
        """Seconds of one run."""
        return self.end - self.start


class Exposure(NamedTuple):
    """How long the computation waits for an operation, in one run of its graph, and how long the operation takes."""

    node: Apply
    stream: str
    seconds: float
    duration: float
    is_asynchronous: bool
    json_keys = "**node stream seconds duration asynchronous=is_asynchronous"


class Gap(NamedTuple):
    """A stream idle before an operation: seconds of one run of its graph, and how often it runs."""

    stream: str
    node: Apply
    seconds: float
    times: float
    json_keys = "**node stream seconds times"


class Repeated(NamedTuple, Generic[Row]):
    """A row, and how often it runs in a run of the module."""

    row: Row
    times: float
    json_keys = "**row times"


class StreamUse(NamedTuple):
    """A stream, and the seconds for which it is busy and idle in a run of the module."""

    name: str
    busy: Seconds
    idle: Seconds
    json_keys = "name busy idle"


class IndependentWork(NamedTuple):
    """An instruction that could run beside another, and its seconds."""

    node: Apply
    seconds: float
    json_keys = "**node seconds"


@dataclass(frozen=True, slots=True)
class Hint:
    """What could hide an exposed operation: independent instructions of the same graph, seconds of each, longest first.

    `room` is how much of one run's wait they could cover: no more than the wait itself, nor than the operation's time.
    """

    exposure: Exposure
    times: float
    independent: tuple[IndependentWork, ...]
    room: float
    json_keys = "**exposure.node room saved independent"

    @property
    def saved(self) -> float:
        """Seconds of a run of the module that could be saved."""
        return _times(self.room, self.times)


@dataclass(slots=True)
class GraphTimeline:
    """One run of a computation: its events in the order in which they were issued."""

    graph: Graph
    events: list[StreamEvent] = field(default_factory=list)
    exposures: list[Exposure] = field(default_factory=list)
    calls: dict[Apply, list[tuple[Graph, float]]] = field(default_factory=dict)
    duration: float = 0.0
    last: int = -1
    unstarted: list[Apply] = field(default_factory=list)
    unfinished: list[Apply] = field(default_factory=list)
    json_keys = "name=graph.name seconds=duration events"


class Timeline(Displayed, Record):
    """The timeline of a module on a device; made by `timeline`."""

    report: Roofline
    device: Device
    is_scheduled: bool
    is_estimate: ClassVar[bool] = True
    json_keys = (
        "module=report.report.module.name device=device.name is_estimate is_scheduled seconds serial_seconds streams "
        "exposed critical_path gaps hints computations notes"
    )

    def __init__(self, report: Roofline) -> None:
        self.report = report
        self.device: Device = report.device
        self.is_scheduled = report.report.module.is_scheduled
        self.graphs: dict[Graph, GraphTimeline] = {}
        self.branches: dict[Apply, Graph] = {}
        self._trips = report.report.analysis(LOOPED).trip_counts
        self._build()

    def __repr__(self) -> str:
        return f"<timeline of {self.report.report.module.name} on {self.device.name}: {time_text(self.seconds)}>"

    def display(self) -> Display:
        streams = [(name, busy, idle) for name, busy, idle in self.streams()]
        waits = [(row.node.name, row.stream, _times(row.seconds, times)) for row, times in self.exposed]
        tables = (
            DisplayTable("streams", ("stream", "busy", "idle"), streams, len(streams)),
            DisplayTable("exposed", ("instruction", "stream", "seconds"), waits, len(waits)),
        )
        return Display(repr(self), tables, "timeline.hints()")

    @property
    def entry(self) -> GraphTimeline:
        """The timeline of the entry computation."""
        return self.graphs[self.report.report.module.entry]

    @property
    def seconds(self) -> float:
        """Seconds of one run of the module, with what overlaps overlapped, including its start."""
        return self.device.start_seconds + self.entry.duration

    @property
    def serial_seconds(self) -> float:
        """Seconds of the same operations one after the other."""
        return self.device.start_seconds + sum(busy for _, busy, _ in self.streams())

    @cached_property
    def runs(self) -> Mapping[Graph, float]:
        """How often each computation runs in a run of the module."""
        runs = dict.fromkeys(self.graphs, 0.0)
        runs[self.report.report.module.entry] = 1.0
        for graph in reversed(self.graphs):  # callers first
            for called in self.graphs[graph].calls.values():
                for inner, times in called:
                    runs[inner] = min(MOST_SECONDS, runs[inner] + _times(times, runs[graph]))
        return runs

    def streams(self) -> list[StreamUse]:
        """Each stream that is used, with the seconds for which it is busy and idle in a run of the module."""
        busy: dict[str, float] = {COMPUTE: 0.0}
        for row in self.graphs.values():
            for event in row.events:
                if event.node not in row.calls:
                    spent = _times(event.end - event.start, self.runs[row.graph])
                    busy[event.stream] = min(MOST_SECONDS, busy.get(event.stream, 0.0) + spent)
        return [StreamUse(name, spent, _excess(self.entry.duration, spent)) for name, spent in busy.items()]

    @cached_property
    def exposed(self) -> list[Repeated[Exposure]]:
        """Operations for which the computation waits, longest first in a run of the module, and how often they run."""
        run = [one for one in self.graphs.values() if self.runs[one.graph]]
        rows = [Repeated(row, self.runs[one.graph]) for one in run for row in one.exposures]
        return sorted(rows, key=lambda row: -_times(row[0].seconds, row[1]))

    def exposed_seconds(self) -> dict[str, float]:
        """Seconds of a run of the module for which the computation waits, by stream."""
        seconds: dict[str, float] = {}
        for row, times in self.exposed:
            seconds[row.stream] = min(MOST_SECONDS, seconds.get(row.stream, 0.0) + _times(row.seconds, times))
        return seconds

    def critical_path(self) -> list[Repeated[StreamEvent]]:
        """The operations that determine the time, in order, and how often each runs; loops and calls are entered."""
        path: list[Repeated[StreamEvent]] = []
        pending = [(self.report.report.module.entry, 1.0)]
        while pending:
            graph, times = pending.pop()
            row = self.graphs[graph]
            steps: list[StreamEvent] = []
            number = row.last
            while number >= 0:
                steps.append(row.events[number])
                number = row.events[number].before
            for event in reversed(steps):
                if event.node in row.calls:
                    pending += [(inner, _times(often, times)) for inner, often in reversed(row.calls[event.node])]
                elif event.end > event.start:
                    path.append(Repeated(event, times))
        return path

    def gaps(self, most: int = 10) -> list[Gap]:
        """The longest times for which a stream that is used waits for work, in a run of the module."""
        found: list[Gap] = []
        for row in self.graphs.values():
            if not self.runs[row.graph]:
                continue
            free: dict[str, float] = {}
            for event in row.events:
                idle = _excess(event.start, free.get(event.stream, 0.0))
                if idle > 0:
                    found.append(Gap(event.stream, event.node, idle, self.runs[row.graph]))
                free[event.stream] = event.end
        return nlargest(most, found, key=lambda gap: _times(gap.seconds, gap.times))

    def hints(self, most: int = HINTS) -> list[Hint]:
        """What could hide the longest waits: for each, the instructions of its graph that neither feed nor need it."""
        return [self._hint(row, times) for row, times in self.exposed[:most] if row.seconds > 0]

    def notes(self) -> list[str]:
        """What the timeline assumes about this module, in words."""
        notes = []
        if not self.is_scheduled:
            notes.append("the module is not scheduled: instructions run in the order of hloom's list scheduler")
        if self.branches:
            notes.append(f"conditionals take their longest branch: {_names(self.branches)}")
        unstarted = [node for row in self.graphs.values() for node in row.unstarted]
        if unstarted:
            notes.append(f"ends without a start of their own before them wait for nothing: {_names(unstarted)}")
        unfinished = [node for row in self.graphs.values() for node in row.unfinished]
        if unfinished:
            notes.append(f"starts without an end are waited for at the end of their computation: {_names(unfinished)}")
        unknown = self.report.report.unknown_loops
        if unknown:
            names = ", ".join(loop.name for loop in unknown[:5])
            notes.append(f"loops with a data-dependent trip count: {names}; set it with --trips")
        if self.report.report.omissions:
            notes.append(self.report.report.omissions)
        return notes

    def _build(self) -> None:
        """Lay out every computation that runs, callees first."""
        pending = [self.report.report.module.entry]
        open_graphs: set[Graph] = set()
        while pending:
            graph = pending[-1]
            waiting = [called for called in _entered(graph) if called not in self.graphs]
            if waiting and graph not in open_graphs:
                open_graphs.add(graph)
                pending += waiting
                continue
            pending.pop()
            if graph not in self.graphs:
                self.graphs[graph] = _Layout(self, graph).lay_out()

    def trips(self, loop: Apply) -> int:
        """How often a loop's body runs."""
        return self._trips.get(loop, 1)

    def _hint(self, row: Exposure, times: float) -> Hint:
        graph = row.node.graph
        events = self.graphs[graph].events
        needed = _reached(row.node, graph, lambda node: (*node.operands, *_predecessors(node)))
        ends = [user for user in row.node.users if user.graph is graph] if row.is_asynchronous else [row.node]
        needing: set[Node] = set()
        for end in ends:
            needing |= _reached(end, graph, lambda node: node.users)
        independent = [
            IndependentWork(event.node, event.seconds)
            for event in events
            if event.stream == COMPUTE and event.node not in needed and event.node not in needing
        ]
        running = sum(seconds for _, seconds in independent)
        if row.is_asynchronous:  # what runs meanwhile hides it already
            running = _excess(running, row.duration - row.seconds)
        longest = tuple(nlargest(3, independent, key=lambda pair: pair[1]))
        return Hint(row, times, longest, min(row.seconds, running))

    @property
    def computations(self) -> list[Repeated[GraphTimeline]]:
        """The timelines of the computations that run."""
        runs = self.runs
        return [Repeated(row, runs[graph]) for graph, row in self.graphs.items() if runs[graph]]


class _Layout:
    """The clock of one computation while its instructions issue."""

    def __init__(self, owner: Timeline, graph: Graph) -> None:
        self.owner = owner
        self.report = owner.report
        self.row = GraphTimeline(graph)
        self.now = 0.0
        self.last = -1
        self.free: dict[str, tuple[float, int]] = {}
        self.open: dict[Node, int] = {}
        self.kernels = {kernel.computed[0][0]: kernel.timing for kernel in self.report.kernels(graph)}

    def lay_out(self) -> GraphTimeline:
        graph = self.row.graph
        order: Sequence[Node] = graph.nodes if self.owner.is_scheduled else list_schedule(graph)
        for node in order:
            if isinstance(node, Apply):
                self._issue(node)
        for start, number in self.open.items():
            self._wait(number)
            if isinstance(start, Apply):
                self.row.unfinished.append(start)
        self.row.duration, self.row.last = min(MOST_SECONDS, self.now), self.last
        return self.row

    def _issue(self, node: Apply) -> None:
        if node.has_trait(Trait.ASYNC_UPDATE):
            return
        if node.has_trait(Trait.ASYNC_DONE) or async_collective(node) == COLLECTIVE_DONE:
            self._end(node)
        elif node.has_trait(Trait.ASYNC_START) or async_collective(node) == COLLECTIVE_START:
            self._start(node)
        elif is_control_flow(node):
            self._enter(node)
        elif node in self.kernels:
            seconds = self.kernels[node].seconds
            stream = self._stream(node)
            if stream == COMPUTE:
                self._compute(node, seconds)
            else:
                number = self._occupy(node, stream, seconds)
                self._wait(number, is_asynchronous=False)

    def _compute(self, node: Apply, seconds: float) -> None:
        self.row.events.append(StreamEvent(node, COMPUTE, self.now, min(MOST_SECONDS, self.now + seconds), self.last))
        self.now, self.last = self.row.events[-1].end, len(self.row.events) - 1

    def _occupy(self, node: Apply, stream: str, seconds: float) -> int:
        """Put an operation on a stream, behind what runs there."""
        free, busy = self.free.get(stream, (0.0, -1))
        start, before = (free, busy) if free > self.now else (self.now, self.last)
        number = len(self.row.events)
        self.row.events.append(StreamEvent(node, stream, start, min(MOST_SECONDS, start + seconds), before))
        self.free[stream] = (self.row.events[number].end, number)
        return number

    def _wait(self, number: int, is_asynchronous: bool = True) -> None:
        """Let the computation wait for an operation."""
        event = self.row.events[number]
        waited = _excess(event.end, self.now)
        if waited > 0:
            duration = event.end - event.start
            self.row.exposures.append(Exposure(event.node, event.stream, waited, duration, is_asynchronous))
            self.now, self.last = event.end, number

    def _start(self, node: Apply) -> None:
        self.open[node] = self._occupy(node, self._stream(node), self._seconds(node))

    def _end(self, node: Apply) -> None:
        start = _start_of(node, self.open)
        if start is None:
            self.row.unstarted.append(node)
        else:
            self._wait(self.open.pop(start))

    def _seconds(self, node: Apply) -> float:
        """Seconds of an asynchronous operation: of its own kernel, and of the computation that it wraps."""
        timing = self.kernels.get(node)
        seconds = timing.seconds if timing is not None else self.report.link_seconds(node)
        if is_control_flow(node):
            seconds += sum(self.owner.graphs[site.computation].duration for site in call_sites(node))
        return seconds

    def _enter(self, node: Apply) -> None:
        """A loop, call or conditional: the timelines of what it runs, in its place."""
        sites = [(site, self.owner.graphs[site.computation]) for site in call_sites(node)]
        if not sites:
            return
        if is_loop(node):
            trips = float(self.owner.trips(node)) if self.owner.trips(node) < 1 << 1000 else MOST_SECONDS
            tests = {Runs.PER_ITERATION: trips, Runs.PER_TEST: trips + 1}
            called = [(inner.graph, tests.get(site.runs, 1.0)) for site, inner in sites]
        elif is_branch(node):
            _, longest = max(sites, key=lambda pair: pair[1].duration)
            self.owner.branches[node] = longest.graph
            called = [(longest.graph, 1.0)]
        else:
            called = [(inner.graph, 1.0) for _, inner in sites]
        self.row.calls[node] = called
        seconds = sum(_times(self.owner.graphs[graph].duration, times) for graph, times in called)
        self._compute(node, min(MOST_SECONDS, seconds))

    def _stream(self, node: Apply) -> str:
        """The stream on which an instruction runs."""
        inner = self.report.communicating(node)
        if node.opcode == "async-start":
            wrapped = [one for site in call_sites(node) for one in site.computation.nodes if isinstance(one, Apply)]
            inner = next((one for one in wrapped if one.has_trait(Trait.COLLECTIVE)), node)
            if inner is node:
                is_copy = all(one.has_trait(Trait.MOVES_DATA) or one.opcode in VIEWS | {"copy"} for one in wrapped)
                return _copy_stream(node) if is_copy else node.attributes.get("async_execution_thread") or COPIES
        if inner.attributes.get("is_host_transfer") or inner.has_trait(Trait.HOST_FEED):
            return HOST_STREAM
        if inner.has_trait(Trait.COLLECTIVE) or inner.has_trait(Trait.POINT_TO_POINT):
            return self._link(inner)
        if inner.opcode in ("copy", "copy-start") and _is_on_host(inner) != _is_on_host(inner.operands[0]):
            return HOST_STREAM
        return COPIES if inner.opcode == "copy-start" else COMPUTE

    def _link(self, node: Apply) -> str:
        """The technology of the nearest link that joins a collective's devices."""
        links = [link for link in self.report.device.links if link.topology != HOST]
        try:
            members = group_members(node, self.report.report.module)
        except HloomError:
            members = ()
        for link in links:
            if link.devices is None or len({member // link.devices for member in members}) <= 1:
                return link.technology
        return links[-1].technology if links else NETWORK


@paused_collection()
def timeline(
    module: ModuleLike,
    device: Device | str = DEFAULT_DEVICE,
    *,
    trip_counts: Mapping[str, int] | None = None,
    unknown_trips: int = 1,
) -> Timeline:
    """Lay out a module's schedule on the streams of a device: what overlaps, and what is waited for, in seconds.

    Meant for a scheduled module, as a compiler leaves it; another is ordered by hloom's list scheduler, and the notes
    say so. Arguments and errors are those of `roofline`.
    """
    return Timeline(roofline(module, device, trip_counts=trip_counts, unknown_trips=unknown_trips))


def _entered(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        if isinstance(node, Apply) and is_control_flow(node):
            for site in call_sites(node):
                yield site.computation


def _start_of(node: Apply, started: Mapping[Node, int]) -> Node | None:
    """The start whose operation an instruction ends, looking through tuples and what passes the state on."""
    pending, seen = list(reversed(node.operands)), 0
    visited: set[Node] = set()
    while pending and seen < MOST_STEPS_BACK:
        current = pending.pop()
        seen += 1
        if current in started:
            return current
        if current in visited:
            continue
        visited.add(current)
        if _passes_state(current):
            pending += reversed(current.operands)
    return None


def _passes_state(node: Node) -> bool:
    if not isinstance(node, Apply):
        return False
    if node.opcode in ("get-tuple-element", "tuple", "bitcast", "opt-barrier") or node.has_trait(Trait.ASYNC_UPDATE):
        return True
    return node.opcode == "fusion" and isinstance(node.type, TupleType) and async_collective(node) is None


def _copy_stream(node: Apply) -> str:
    kinds = [kind for kind in (node.type, *(one.type for one in node.operands)) if kind is not None]
    spaces = {memory_space(leaf) for kind in kinds for leaf in kind.leaves()}
    return HOST_STREAM if HOST_MEMORY in spaces else COPIES


def _is_on_host(node: Node) -> bool:
    kind = node.type
    if isinstance(kind, TupleType):
        kind = kind.elements[0] if kind.elements else None
    return kind is not None and memory_space(kind) == HOST_MEMORY


def _predecessors(node: Node) -> Sequence[Node]:
    return node.attributes.get("control-predecessors") or () if isinstance(node, Apply) else ()


def _reached(start: Node, graph: Graph, step: Any) -> set[Node]:
    """A node and all that is reached from it within its graph."""
    reached, pending = {start}, [start]
    while pending:
        for other in step(pending.pop()):
            if other.graph is graph and other not in reached:
                reached.add(other)
                pending.append(other)
    return reached


def _excess(seconds: float, others: float) -> float:
    """By how much a time exceeds another; 0 where only rounding tells them apart."""
    return seconds - others if seconds - others > ROUNDING * seconds else 0.0


def _times(seconds: float, times: float) -> float:
    return min(MOST_SECONDS, seconds * times)


def _names(nodes: Any, most: int = 5) -> str:
    names = [node.name for node in nodes]
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
