"""The costs of two modules side by side: FLOPs, bytes, time, peak memory and traffic, by scope or otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hloom.analysis import NO_SCOPE, Device, Roofline, Table, cost, scopes, source_of, varieties
from hloom.ir import Module, Node
from hloom.targets.memory import memory
from hloom.text import HloomError, Record

BY = ("scope", "opcode", "computation", "source")
FIGURES = ("flops", "bytes_accessed", "seconds", "peak_bytes", "comm_bytes")
"""FLOPs and bytes by `hloom cost`, seconds by the roofline, bytes at the peak, bytes that a device sends."""
Row = list[float]


@dataclass(frozen=True, slots=True)
class ModuleCosts:
    """The figures of one module, in total and by group, and the runs of its collectives by opcode."""

    total: tuple[float, ...]
    groups: dict[str, Row] = field(default_factory=dict)
    collectives: dict[str, int] = field(default_factory=dict)
    schedule: str = ""
    vague: frozenset[str] = frozenset()
    """The groups whose figures leave out or assume sizes that vary."""
    qualifier: str = ""
    """The word before FLOPs and seconds: "at least" if an instruction is not counted or a size is unknown."""
    omissions: str = ""
    """What the figures omit or assume."""


def module_costs(module: Module, device: Device, by: str, depth: int | None) -> ModuleCosts:
    """Work out what a module costs; raises HloomError where it cannot be followed, ValueError for an unknown group.

    Memory is what `hloom.memory` says, which names the schedule.
    """
    if by not in BY:
        raise ValueError(f"differences of costs cannot be added up by '{by}', only by {', '.join(BY)}")
    name_of = _namer(module, by, depth)
    report = cost(module)
    times = Roofline(report, device)
    buffers = memory(module)
    groups: dict[str, Row] = {}
    vague: set[str] = set()
    graphs = {graph.name: graph for graph in module.graphs}

    def add(node: Node | None, column: int, amount: float) -> None:
        if amount:
            name = name_of(node) if node is not None else NO_SCOPE
            row = groups.get(name)
            if row is None:
                row = groups[name] = [0] * len(FIGURES)
            row[column] += amount
        if node is not None and report.sizes and varieties([node]):
            vague.add(name_of(node))

    def node_of(computation: str, name: str) -> Node | None:
        graph = graphs.get(computation)
        return graph[name] if graph is not None and name in graph else None

    for counted in report.per_node:
        spent = counted.total
        add(counted.node, 0, max(spent.flops, 0))
        add(counted.node, 1, max(spent.bytes_accessed, 0))
    for timing in times.timings:
        add(timing.node, 2, timing.total)
    for buffer in buffers.at_peak:
        add(node_of(buffer.computation, buffer.name), 3, buffer.bytes)
    runs: dict[str, int] = {}
    for transfer in report.collective_costs:
        add(node_of(transfer.computation, transfer.name), 4, transfer.comm_bytes * transfer.times)
        opcode = transfer.opcode.removesuffix("-start")
        runs[opcode] = runs.get(opcode, 0) + transfer.times
    sent = sum(row[4] for row in groups.values())
    total = (max(report.total.flops, 0), max(report.total.bytes_accessed, 0), times.seconds, buffers.peak, sent)
    return ModuleCosts(total, groups, runs, buffers.schedule, frozenset(vague), report.qualifier, report.omissions)


def _namer(module: Module, by: str, depth: int | None) -> Callable[[Node], str]:
    if by == "opcode":
        return lambda node: node.opcode
    if by == "computation":
        return lambda node: node.graph.name
    if by == "source":
        return lambda node: source_of(node, module.stack_tables)
    paths = scopes(module)
    names: dict[tuple[str, ...], str] = {}

    def scope_of(node: Node) -> str:
        path = paths[node]
        name = names.get(path)
        if name is None:
            name = names[path] = "/".join(path[:depth]) or NO_SCOPE
        return name

    return scope_of


@dataclass(frozen=True, slots=True)
class CostDifference(Record):
    """The costs of two modules side by side."""

    device: str
    by: str
    before: ModuleCosts
    after: ModuleCosts
    json_keys = "device by totals omissions collectives groups"

    def totals(self) -> Table:
        """The totals: name, before, after, change."""
        rows = zip(FIGURES, self.before.total, self.after.total, strict=True)
        return Table(("figure", "before", "after", "change"), tuple((n, a, b, b - a) for n, a, b in rows))

    def collectives(self) -> Table:
        """The number of runs of collectives, by opcode."""
        ours, others = self.before.collectives, self.after.collectives
        counts = [(opcode, ours.get(opcode, 0), others.get(opcode, 0)) for opcode in {**ours, **others}]
        return Table(("opcode", "before", "after", "change"), tuple((o, a, b, b - a) for o, a, b in counts))

    def groups(self) -> Table:
        """The change of every group that changed, the largest change of time first.

        Where a module has sizes that vary, `sizes` says of which groups the change is only "roughly" so.
        """
        zeros: Row = [0] * len(FIGURES)
        rows = []
        for name in {**self.before.groups, **self.after.groups}:
            pair = self.before.groups.get(name, zeros), self.after.groups.get(name, zeros)
            change = [after - before for before, after in zip(*pair, strict=True)]
            if any(change):
                rows.append((name, *change))
        rows.sort(key=lambda row: (-abs(row[3]), -abs(row[1]), -abs(row[2]), row[0]))
        vague = self.before.vague | self.after.vague
        if vague:
            return Table((self.by, *FIGURES, "sizes"), tuple((*row, "roughly" * (row[0] in vague)) for row in rows))
        return Table((self.by, *FIGURES), tuple(rows))

    @property
    def omissions(self) -> dict[str, str]:
        """What the costs leave out, of each module."""
        return {"before": self.before.omissions, "after": self.after.omissions}


def cost_difference(before: Module, after: Module, device: Device, by: str, depth: int | None) -> CostDifference | str:
    """The costs side by side; a sentence where a module cannot be followed, as a fragment."""
    try:
        return CostDifference(
            device.name, by, module_costs(before, device, by, depth), module_costs(after, device, by, depth)
        )
    except HloomError as problem:
        return f"costs are not compared: {problem.message}"
