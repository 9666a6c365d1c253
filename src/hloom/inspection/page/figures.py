"""The numbers that a page shows per instruction: cost, time and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hloom.analysis import (
    MALFORMED,
    CollectiveCost,
    Device,
    MemoryReport,
    NodeCost,
    Roofline,
    awaits_partitioning,
    build_call_graph,
    roofline,
    uncounted_text,
)
from hloom.inspection.page.numerics import ValueStatistics
from hloom.inspection.profile import Measurement
from hloom.ir import Graph, Module, Node
from hloom.targets.memory import memory
from hloom.text import HloomError, time_text

SECTIONS = ("flops", "bytes", "seconds", "peak_bytes", "comm_bytes")
"""The numbers that every instruction may have: of all its runs together; bytes held at the peak; bytes sent."""

MEASURED = "measured_seconds"
"""The numbers that there are beside these where a trace is shown."""


@dataclass(slots=True)
class Figures:
    """The numbers of a module's instructions, by instruction; what could not be worked out is said in `notes`."""

    module: Module
    values: dict[str, dict[Node, float]] = field(default_factory=lambda: {section: {} for section in SECTIONS})
    times: dict[Node, int] = field(default_factory=dict)
    collectives: dict[Node, CollectiveCost] = field(default_factory=dict)
    roofline: Roofline | None = None
    memory: MemoryReport | None = None
    peak_nodes: list[Node | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numerics: dict[Node, ValueStatistics] = field(default_factory=dict)


def figures(
    module: Module, device: Device, *, trip_counts: Mapping[str, int] | None = None, unknown_trips: int = 1
) -> Figures:
    """Work out what a module's instructions cost, take on a device and hold.

    Of a fragment or a module that cannot be followed, what can be; the notes say the rest. Raises HloomError for trip
    counts of a loop that there is not one of.
    """
    result = Figures(module)
    if not module.graphs:
        result.notes.append("the module has no computations")
        return result
    nodes = _named_nodes(module)
    _add_costs(result, device, trip_counts, unknown_trips, nodes)
    _add_memory(result, nodes)
    if awaits_partitioning(module):
        result.notes.append("the module is not partitioned yet: numbers are of the whole program, not of one device")
    return result


def add_measured(result: Figures, measured: Measurement) -> None:
    """Add what a trace says of the module: seconds of a run by instruction, and the sums as a note."""
    result.values[MEASURED] = {row.node: row.seconds for row in measured.instructions}
    result.notes.append(
        f"measured in {measured.runs:,} runs on {measured.devices:,} devices: {time_text(measured.seconds)} a run, of "
        f"which {time_text(measured.idle_seconds)} idle; the model says {time_text(measured.model_seconds)}"
    )
    if not measured.is_given:
        result.notes.append("shown is the optimised program out of the trace, to which the module was compiled")
    result.notes += measured.notes


def _named_nodes(module: Module) -> dict[tuple[str, str], Node]:
    return {(graph.name, node.name): node for graph in module.graphs for node in graph.nodes}


def _add_costs(
    result: Figures,
    device: Device,
    trip_counts: Mapping[str, int] | None,
    unknown_trips: int,
    nodes: Mapping[tuple[str, str], Node],
) -> None:
    try:
        estimate = roofline(result.module, device, trip_counts=trip_counts, unknown_trips=unknown_trips)
        per_node: Iterable[NodeCost] = estimate.report.per_node
        timings = estimate.timings
        collectives = estimate.report.collective_costs
    except MALFORMED as problem:
        result.notes.append(f"costs are not known: {problem}")
        return
    except HloomError as problem:
        if trip_counts:
            raise
        result.notes.append(f"costs are not known: {problem.message}")
        return
    result.roofline = estimate
    flops, sizes = result.values["flops"], result.values["bytes"]
    for row in per_node:
        total = row.total
        if total.flops > 0:
            flops[row.node] = total.flops
        if total.bytes_accessed > 0:
            sizes[row.node] = total.bytes_accessed
        result.times[row.node] = row.times.bytes_accessed or row.times.flops
    result.values["seconds"] = {timing.node: timing.total for timing in timings}
    for transfer in collectives:
        node = nodes.get((transfer.computation, transfer.name))
        if node is not None:
            result.collectives[node] = transfer
            result.values["comm_bytes"][node] = (transfer.comm_bytes + transfer.host_bytes) * transfer.times
    if estimate.report.sizes:
        sizes = estimate.report.sizes
        result.notes.append(f"costs and memory are {sizes.qualifier}what is shown: {sizes}")
    unknown = [loop.name for loop in estimate.report.unknown_loops]
    if unknown:
        names = ", ".join(unknown[:5])
        result.notes.append(f"loops whose trip counts the data decide count {unknown_trips} times: {names}")
    if estimate.report.uncounted:
        omitted = uncounted_text(estimate.report.uncounted_kinds)
        result.notes.append(f"FLOPs and times are at least what is shown: {omitted}")


def _add_memory(result: Figures, nodes: Mapping[tuple[str, str], Node]) -> None:
    module = result.module
    try:
        build_call_graph(module)  # refuses computations that call each other in a circle
        report = memory(module)
    except HloomError as problem:
        result.notes.append(f"memory is not known: {problem.message}")
        return
    result.memory = report
    held = result.values["peak_bytes"]
    entry: Graph = module.entry
    for buffer in report.at_peak:
        node = nodes.get((buffer.computation, buffer.name)) or nodes.get((entry.name, buffer.name))
        result.peak_nodes.append(node)
        if node is not None:
            held[node] = held.get(node, 0) + buffer.bytes
