"""The moments of a choice at which most is held, as rows: what another choice would hold then.

A row knows the buffers of its moment, and the copies that are live then where a reader requires another spec than the
value has: a copy is made as soon as the value is there and kept until it is read. Where a buffer is larger than its
spec says, only the strategies of the choice pay for the rest, for others may not need it. What is left (padding between
buffers, values that are small in any spec) is a constant, so that the row is right about the choice itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hloom.ir import Node, TensorType
from hloom.partitioner import reshard_collectives
from hloom.planner.clusters import Cluster
from hloom.planner.cost_model import itemsize_of
from hloom.planner.memory_footprint import Footprint
from hloom.planner.memory_row import MemoryRow
from hloom.planner.problem import Problem, Read
from hloom.planner.spec_tables import StrategySpecs
from hloom.sharding import Spec

NEAR = 0.9
"""The share of the peak, in bytes, from which a moment becomes a constraint: others seldom become the peak."""
MOST = 6
"""How many moments of a choice become constraints at most: each is a row more in all later problems."""
OVERLAP = 0.9
"""Of two moments that have so large a share of their bytes in common, only the larger becomes a constraint: they would
say the same."""
SMALL = 1e-4
"""Values whose bytes on all devices are less than this share of the peak stay in the constant: they cannot
change which plan fits, and tables without them are smaller."""


def peak_rows(problem: Problem, choice: Mapping[int, int], footprint: Footprint) -> list[MemoryRow]:
    """A row for each moment at which nearly the most is held, the highest first."""
    writer = _Rows(problem, choice, footprint)
    return [writer.row(time) for time in _moments(footprint)]


def _moments(footprint: Footprint) -> list[int]:
    """The highest local maxima that differ in what they hold."""
    liveness = footprint.liveness
    line = liveness.timeline()[: liveness.length]
    if not len(line):
        return []
    rises = np.concatenate(([True], line[1:] >= line[:-1])) & np.concatenate((line[:-1] > line[1:], [True]))
    times = sorted(np.flatnonzero(rises & (line >= NEAR * line.max())), key=lambda time: (-line[time], time))
    kept: list[tuple[int, dict[int, int]]] = []
    for time in times:
        held = {number: size for number, size, _ in _held(footprint, int(time))}
        if all(_shared(held, other) < OVERLAP * max(sum(held.values()), 1) for _, other in kept):
            kept.append((int(time), held))
        if len(kept) == MOST:
            break
    return [time for time, _ in kept]


def _shared(held: Mapping[int, int], other: Mapping[int, int]) -> int:
    return sum(size for number, size in held.items() if number in other)


def _held(footprint: Footprint, time: int) -> Iterator[tuple[int, int, Node]]:
    """The temporaries of a moment: each buffer's number, its bytes, and the node whose value it holds."""
    nodes = footprint.liveness.values.nodes
    for number, buffer in enumerate(footprint.liveness.allocation.temporaries):
        for start, end, value in buffer.spans:
            if start <= time <= end:
                yield number, buffer.size, nodes[value]
                break


@dataclass(frozen=True, slots=True)
class _Buffer:
    """The node whose value a buffer holds, and its bytes."""

    node: Node
    size: int

    def stored(self, value: Node, table: np.ndarray, now: tuple[int, ...]) -> np.ndarray:
        """The bytes of a value by strategies, as they are stored: wider, or in part; the choice `now` pays the rest."""
        width = itemsize_of(self.node)
        stored_bytes = table * (width / itemsize_of(value) if width else 1.0)
        if stored_bytes[now] > self.size:
            return stored_bytes * (self.size / stored_bytes[now])
        stored_bytes[now] = self.size
        return stored_bytes


class _Rows:
    """Makes the rows of one footprint."""

    def __init__(self, problem: Problem, choice: Mapping[int, int], footprint: Footprint) -> None:
        self.problem, self.choice, self.footprint = problem, choice, footprint
        self.times, self.line = _times(footprint), footprint.liveness.timeline()
        self._copies: dict[tuple, np.ndarray] = {}
        self._views: dict[Node, float] = {}

    def row(self, time: int) -> MemoryRow:
        """The row of a moment."""
        liveness = self.footprint.liveness
        row = MemoryRow(name=liveness.steps[time].name)
        for parameter in self.problem.module.entry.parameters:
            self._add(row, parameter)
        buffers = [(liveness.values.nodes[buffer.spans[-1].value], buffer.size) for buffer in liveness.output_buffers]
        buffers += [(node, size) for _, size, node in _held(self.footprint, time)]
        known: set[tuple[Node, int]] = set()
        for node, size in buffers:
            origin = self.footprint.origin(node)
            if origin is not None and origin.read is None:
                self._add(row, origin.value, _Buffer(node, size), is_partial=origin.is_partial)
            elif origin is not None and origin.read is not None:
                self._add_copy(row, origin.value, origin.read, _Buffer(node, size), known)
        for value, reads in self.problem.reads.items():
            self._add_copies(row, value, reads, time, known)
        row.constant = float(self.line[time] + self.footprint.bytes - self.line.max()) - row.bytes(self.choice)
        return row

    def _add(self, row: MemoryRow, value: Node, buffer: _Buffer | None = None, *, is_partial: bool = False) -> None:
        """The bytes of a value under each strategy."""
        cluster = self.problem.clusters.of(value)
        if cluster is None or self._is_small(value):
            return
        demand = self.problem.produced_specs(cluster, value, is_partial=is_partial and value is cluster.lead)
        table = self._bytes(value, demand.specs)[demand.index]
        now = (self.choice[cluster.number],)
        row.add(cluster.number, table if buffer is None else buffer.stored(value, table, now))

    def _add_copy(self, row: MemoryRow, value: Node, read: Read, buffer: _Buffer, known: set[tuple[Node, int]]) -> None:
        """A copy that is live, wherever a reader requires another spec; what is computed again for it in any case."""
        own, reader = self.problem.clusters.of(value), self.problem.reading_cluster(read)
        if reader is None or self._is_small(value):
            return
        target = self.problem.required_specs(reader, read)
        sizes = self._bytes(value, target.specs)
        if own is None:
            table = sizes[target.index]
            row.add(reader.number, buffer.stored(value, table, (self.choice[reader.number],)))
            return
        known.add((value, reader.number))
        source = self.problem.produced_specs(own, value)
        differs = np.array([[have != want for want in target.specs] for have in source.specs])
        table = (differs * sizes)[source.index][:, target.index]
        now = (self.choice[own.number], self.choice[reader.number])
        row.add_pair(own.number, reader.number, buffer.stored(value, table, now))

    def _add_copies(
        self, row: MemoryRow, value: Node, reads: list[Read], time: int, known: set[tuple[Node, int]]
    ) -> None:
        """Other copies of a value for those that read it later, who mostly share one: each pays its part.

        A copy that would be live under the choice, and is not, is made later: other choices make it later too.
        """
        own = self.problem.clusters.of(value)
        if own is None or self._is_small(value) or self._making(value) > time:
            return
        source = self.problem.produced_specs(own, value)
        asking: dict[tuple[int, int], tuple[Cluster, StrategySpecs]] = {}
        for read in reads:
            cluster = self.problem.reading_cluster(read)
            if cluster is not None and self._reading(read.reader) >= time and (value, cluster.number) not in known:
                demand = self.problem.required_specs(cluster, read)
                asking.setdefault((cluster.number, id(demand)), (cluster, demand))
        for cluster, demand in asking.values():
            table = self._copied(value, source, demand)
            is_foretold = table[self.choice[own.number], self.choice[cluster.number]] > 0
            if table.any() and not is_foretold:
                row.add_pair(own.number, cluster.number, table / len(asking))

    def _reading(self, reader: Node) -> float:
        """When a node runs, or where it is no more than a view, the last one that reads it.

        What is passed on in a tuple is read at the end. Results have buffers of their own.
        """
        if reader.is_output and reader.graph is self.problem.module.entry:
            return -1
        if reader.opcode == "tuple":
            return math.inf
        if reader in self.times:
            return self.times[reader]
        if reader not in self._views:
            self._views[reader] = max((self._reading(user) for user in reader.users), default=-1)
        return self._views[reader]

    def _making(self, value: Node) -> float:
        """When a value is there: a view as soon as what it shows."""
        while value not in self.times and value.inputs:
            value = value.inputs[0]
        return self.times.get(value, math.inf)

    def _copied(self, value: Node, source: StrategySpecs, target: StrategySpecs) -> np.ndarray:
        """The bytes of a copy from each strategy's spec to each other's; none where nothing is sent: that is a cut."""
        assert isinstance(value.type, TensorType)
        key = (value.type.dims, itemsize_of(value), id(source), id(target))
        if key not in self._copies:
            mesh, sizes = self.problem.mesh, self._bytes(value, target.specs)
            small = np.zeros((len(source.specs), len(target.specs)))
            for row, have in enumerate(source.specs):
                for column, want in enumerate(target.specs):
                    if reshard_collectives(value.type.dims, have, want, mesh):
                        small[row, column] = sizes[column]
            self._copies[key] = small[source.index][:, target.index]
        return self._copies[key]

    def _bytes(self, value: Node, specs: tuple[Spec, ...]) -> np.ndarray:
        assert isinstance(value.type, TensorType)
        dims, width = value.type.dims, itemsize_of(value)
        return np.array([math.prod(self.problem.mesh.local_dims(dims, spec)) * width for spec in specs])

    def _is_small(self, value: Node) -> bool:
        if not isinstance(value.type, TensorType):
            return True
        return math.prod(value.type.dims) * itemsize_of(value) < SMALL * self.footprint.bytes


def _times(footprint: Footprint) -> dict[Node, float]:
    """When each value of the original program is made, as a device runs; parameters are there from the start."""
    times: dict[Node, float] = {}
    for time, node in enumerate(footprint.liveness.steps):
        origin = footprint.origins.get(node)
        if origin is not None and origin.read is None:
            times[origin.value] = time
    return times
