"""Choices in which one class of isomorphic clusters has another strategy, those first that may save memory cheaply."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np

from hloom.ir import Node, TensorType
from hloom.planner.cost_model import itemsize_of
from hloom.planner.memory_footprint import Footprint
from hloom.planner.problem import Problem
from hloom.planner.solvers.factor_graph import FactorGraph

HIGH = 0.97
"""The share of the peak from which a moment's values count."""
MOST_MOMENTS = 4
"""At how many such moments is looked at most."""
PER_NODE = 16
"""How many strategies of one node are tried at most."""
LEAST = 1e-3
"""The share of a cost that every change counts at least, so that large values come before small ones."""
LARGE = 0.003
"""The share of the peak that a node's values must have to be worth a try."""
RESPONSES = 64
"""How many other nodes may follow a change at most."""
SMALL = 1e-9
"""The share of a cost below which a difference is none."""


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

    What costs more than `most` is left out, and so are the strategies of a node that are `known`.
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


def bytes_at_peak(problem: Problem, choice: Mapping[int, int], footprint: Footprint) -> dict[int, float]:
    """By node the bytes that are held near the peak of values that its clusters make or read."""
    liveness = footprint.liveness
    line = liveness.timeline()[: liveness.length]
    near: dict[int, float] = defaultdict(float)
    if not len(line):
        return near
    times: list[int] = []
    for time in np.argsort(-line, kind="stable")[:64].tolist():
        if line[time] >= HIGH * line[times[0] if times else time] and all(abs(time - other) > 4 for other in times):
            times.append(time)
        if len(times) == MOST_MOMENTS:
            break
    nodes = liveness.values.nodes
    for buffer in liveness.allocation.temporaries:
        for start, end, value in buffer.spans:
            if any(start <= time <= end for time in times):
                _add(problem, footprint, near, nodes[value], buffer.size)
    for buffer in liveness.output_buffers:
        _add(problem, footprint, near, nodes[buffer.spans[-1].value], buffer.size)
    for parameter in problem.module.entry.parameters:
        if isinstance(parameter.type, TensorType) and problem.clusters.of(parameter) is not None:
            local = problem.mesh.local_dims(parameter.type.dims, problem.chosen_spec(parameter, choice))
            _add_value(problem, near, parameter, math.prod(local) * itemsize_of(parameter))
    return near


def _add(problem: Problem, footprint: Footprint, near: dict[int, float], node: Node, size: float) -> None:
    origin = footprint.origin(node)
    if origin is not None:
        _add_value(problem, near, origin.value, size)


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
