"""Choices that change the strategy of one class of isomorphic clusters, best memory savings per cost first."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.cost_model import itemsize_of
from hloom.distribute.planner.device_program import ValueOrigin
from hloom.distribute.planner.entry_results import aliases, output_at
from hloom.distribute.planner.memory_footprint import Footprint
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.ir import Node, TensorType
from hloom.sharding import Spec

HIGH = 0.97
"""The share of the peak from which a moment's values count."""
MOST_MOMENTS = 4
"""At how many such moments is looked at most."""
PER_NODE = 16
"""The maximum number of strategies to try for one node."""
LEAST = 1e-3
"""The share of a cost that every change counts at least, so that large values come before small ones."""
LARGE = 0.003
"""The share of the peak that a node's values must have to be worth a try."""
RESPONSES = 64
"""The maximum number of other nodes that may follow a change."""
SMALL = 1e-9
"""Differences below this share of a cost are ignored."""


@dataclass(frozen=True, slots=True)
class Move:
    """A node, its new strategy, and the choice in which it has that and others have followed."""

    node: int
    strategy: int
    choice: dict[int, int]
    cost: float


def moves(
    problem: Problem,
    graph: FactorGraph,
    base: Mapping[int, int],
    footprint: Footprint,
    most: float,
    known: Set[tuple[int, int]],
) -> Iterator[Move]:
    """Changes of one node each, the best first: in turn those that make a choice cheaper, those that may save
    much for what they cost, and those of the largest values.

    Omits changes that cost more than `most`, and strategies of a node that are `known`.
    """
    bytes_near = bytes_at_peak(problem, graph.named(problem, base), footprint)
    cost, settled = graph.cost(base), _settled(graph, base)
    cheaper: list[tuple[float, int, int]] = []
    efficient: list[tuple[float, int, int]] = []
    large: list[tuple[float, int, int]] = []
    for node in graph.unary:
        costs = graph.given(node, base)
        extra = costs - costs[base[node]]
        ranked = [int(strategy) for strategy in np.argsort(extra, kind="stable") if strategy != base[node]]
        for rank, strategy in enumerate(ranked, 1):
            if (node, strategy) in known:
                continue
            if extra[strategy] < -SMALL * cost:
                cheaper.append((float(extra[strategy]), node, strategy))
            elif bytes_near[node] > LARGE * footprint.bytes and rank <= PER_NODE:
                price = (float(extra[strategy]) + LEAST * cost) / bytes_near[node]
                efficient.append((math.sqrt(rank) * price, node, strategy))
                large.append((math.sqrt(rank) / bytes_near[node], node, strategy))
    seen: set[tuple[int, ...]] = set()
    for _, node, strategy in _in_turn(sorted(cheaper), sorted(efficient), sorted(large)):
        choice = _followed(graph, base, settled, node, strategy)
        key = tuple(choice.values())
        total = graph.cost(choice)
        if key not in seen and total <= most:
            seen.add(key)
            yield Move(node, strategy, choice, total)


def single_changes(
    problem: Problem, graph: FactorGraph, base: Mapping[int, int], footprint: Footprint
) -> Iterator[dict[int, int]]:
    """Choices that differ from a base in one node that makes or reads what is large at the peak, the cheapest first."""
    bytes_near = bytes_at_peak(problem, graph.named(problem, base), footprint)
    ranked: list[tuple[float, int, int]] = []
    for node in graph.unary:
        if bytes_near[node] > LARGE * footprint.bytes:
            costs = graph.given(node, base)
            ranked += [(float(cost - costs[base[node]]), node, strategy) for strategy, cost in enumerate(costs)]
    for _, node, strategy in sorted(ranked):
        if strategy != base[node]:
            yield {**base, node: strategy}


def buffer_pairs(problem: Problem) -> list[tuple[int, int]]:
    """The nodes of parameters, with those of the outputs that take their buffers."""
    entry = problem.module.entry
    parameters = {parameter.number: parameter for parameter in entry.parameters}
    pairs: dict[tuple[int, int], None] = {}
    for alias in aliases(problem.module):
        value = None if entry.output is None else output_at(entry.output, alias.output_index)
        if value is None or alias.parameter_index:
            continue
        clusters = [
            problem.clusters.of(node) for node in (parameters[alias.parameter], problem.clusters.dataflow.origin(value))
        ]
        first, second = (None if cluster is None else problem.representative[cluster.number] for cluster in clusters)
        if first is not None and second is not None and first != second:
            pairs[first, second] = None
    return list(pairs)


def paired_changes(
    graph: FactorGraph, base: Mapping[int, int], pairs: Sequence[tuple[int, int]], rise: float
) -> Iterator[dict[int, int]]:
    """Choices that differ from a base in both nodes of a pair and cost at most this share more, the cheapest first."""
    most = rise * graph.cost(base)
    ranked: list[tuple[float, int, int, int]] = []
    for number, (first, second) in enumerate(pairs):
        alone = graph.given(first, base)
        for strategy, cost in enumerate(alone - alone[base[first]]):
            if strategy == base[first]:
                continue
            beside = graph.given(second, {**base, first: strategy})
            extra = cost + beside - beside[base[second]]
            ranked += [
                (float(extra[other]), number, strategy, other)
                for other in np.flatnonzero(extra <= most).tolist()
                if other != base[second]
            ]
    for _, number, strategy, other in sorted(ranked):
        first, second = pairs[number]
        yield {**base, first: strategy, second: other}


def bytes_at_peak(problem: Problem, choice: Mapping[int, int], footprint: Footprint) -> dict[int, float]:
    """By node the bytes that are held near the peak of values that its clusters make or read."""
    near: dict[int, float] = defaultdict(float)
    for origin, size in held_at_peak(problem, choice, footprint):
        _add_value(problem, near, origin.value, size)
    return near


def held_at_peak(problem: Problem, choice: Mapping[int, int], footprint: Footprint) -> list[tuple[ValueOrigin, float]]:
    """What is held near the peak, and its bytes: temporaries, outputs, and parameters."""
    liveness = footprint.liveness
    line = liveness.timeline()[: liveness.length]
    times: list[int] = []
    for time in np.argsort(-line, kind="stable")[:64].tolist():
        if line[time] >= HIGH * line[times[0] if times else time] and all(abs(time - other) > 4 for other in times):
            times.append(time)
        if len(times) == MOST_MOMENTS:
            break
    nodes = liveness.values.nodes
    buffers = [
        (nodes[value], buffer.size)
        for buffer in liveness.allocation.temporaries
        for start, end, value in buffer.spans
        if any(start <= time <= end for time in times)
    ]
    buffers += [(nodes[buffer.spans[-1].value], buffer.size) for buffer in liveness.output_buffers]
    held = [(origin, float(size)) for node, size in buffers if (origin := footprint.origin(node)) is not None]
    for parameter in problem.module.entry.parameters:
        if isinstance(parameter.type, TensorType) and problem.clusters.of(parameter) is not None:
            spec = problem.chosen_spec(parameter, choice)
            held.append((ValueOrigin(parameter), _local_bytes(problem, parameter, spec)))
    return held


def expected_change(
    problem: Problem, held: Sequence[tuple[ValueOrigin, float]], base: Mapping[int, int], choice: Mapping[int, int]
) -> float:
    """The bytes that a choice adds to those near the peak of another one, if no more than their specs change.

    Both are strategies of all clusters.
    """
    total = 0.0
    for origin, size in held:
        value = origin.value
        if origin.is_partial or problem.clusters.of(value) is None:
            continue
        before, after = (_held_spec(problem, origin, own) for own in (base, choice))
        if before != after:
            scale = _local_bytes(problem, value, before)
            total += size * (_local_bytes(problem, value, after) / scale if after is not None and scale else 0.0) - size
    return total


def _held_spec(problem: Problem, origin: ValueOrigin, choice: Mapping[int, int]) -> Spec | None:
    """The spec that is held of a value, or for a reader of it; None where it reads the value itself."""
    own = problem.chosen_spec(origin.value, choice)
    if origin.read is None or problem.reading_cluster(origin.read) is None:
        return own
    wanted = problem.wanted_spec(origin.read, choice)
    return None if wanted == own else wanted


def _local_bytes(problem: Problem, value: Node, spec: Spec | None) -> float:
    dims = value.type.dims if isinstance(value.type, TensorType) else ()
    return math.prod(dims if spec is None else problem.mesh.local_dims(dims, spec)) * itemsize_of(value)


def _add_value(problem: Problem, near: dict[int, float], value: Node, size: float) -> None:
    clusters = [problem.clusters.of(value), *(problem.reading_cluster(read) for read in problem.reads.get(value, ()))]
    for node in {problem.representative[cluster.number] for cluster in clusters if cluster is not None}:
        near[node] += size


def _in_turn(*ranked: list[tuple[float, int, int]]) -> Iterator[tuple[float, int, int]]:
    """The firsts of some lists, then the seconds; each node and strategy once."""
    seen: set[tuple[int, int]] = set()
    for row in itertools.zip_longest(*ranked):
        for entry in row:
            if entry is not None and entry[1:] not in seen:
                seen.add(entry[1:])
                yield entry


def _settled(graph: FactorGraph, base: Mapping[int, int]) -> set[int]:
    """The nodes that have the strategy that is cheapest beside the others."""
    settled: set[int] = set()
    for node in graph.unary:
        costs = graph.given(node, base)
        if costs[base[node]] <= costs.min() * (1 + SMALL):
            settled.add(node)
    return settled


def _followed(
    graph: FactorGraph, base: Mapping[int, int], settled: set[int], node: int, strategy: int
) -> dict[int, int]:
    """A choice with one node changed, and then those around it that become cheaper by a change of their own."""
    choice = {**base, node: strategy}
    waiting = _around(graph, node)
    for _ in range(RESPONSES):
        if not waiting:
            break
        other = next(iter(waiting))
        del waiting[other]
        if other == node or other not in settled:
            continue
        costs = graph.given(other, choice)
        best = int(np.argmin(costs))
        if costs[best] < costs[choice[other]] * (1 - SMALL):
            choice[other] = best
            waiting.update(_around(graph, other))
    return choice


def _around(graph: FactorGraph, node: int) -> dict[int, None]:
    around = {argument.node: None for factor, _ in graph.touching(node) for argument in factor.arguments}
    around.pop(node, None)
    return around
