"""The next best plans: the best solutions if an important cluster could not be split as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hloom.distribute.planner.cost_model import itemsize_of
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.assignment import Assignment
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.dual_ascent import ascend
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.message_passing import MessagePassing
from hloom.ir import Node, TensorType

FAMILIES = 12
"""The maximum number of clusters to consider, those with the largest values first."""
SLACK = 0.1
"""The maximum extra cost of an alternative, as a share of the best plan's cost."""
SWEEPS = 10
"""How often messages are passed for an alternative, at most: its order matters, not its last per mille."""


def alternatives(problem: Problem, choice: Assignment, k: int = 5) -> list[Assignment]:
    """The `k` cheapest choices, each without the strategy that some important cluster has, cheapest first.

    Their notes name what was forbidden. Costs are those of the best solution found; the bound is the given choice's.
    """
    graph = quotient_graph(problem)
    known = graph.chosen(choice.strategies)
    messages = MessagePassing(graph)
    for _ in range(SWEEPS):
        messages.sweep()
    kept = messages.possible(choice.cost * (1 + SLACK) - messages.bound(), known)
    few = graph.restricted(kept)
    start = {node: int(kept[node].searchsorted(strategy)) for node, strategy in known.items()}
    others: dict[tuple[int, ...], Assignment] = {}
    for node in _important(problem, few):
        other = _without(problem, few, start, node, choice)
        if other is not None and other.strategies != choice.strategies:
            others.setdefault(tuple(other.strategies.values()), other)
    return sorted(others.values(), key=lambda candidate: candidate.cost)[:k]


def _important(problem: Problem, graph: FactorGraph) -> list[int]:
    """Clusters that can be split in several ways, those with the most bytes in their largest values first."""
    sizes = dict.fromkeys(graph.unary, 0.0)
    for cluster in problem.clusters:
        sizes[problem.representative[cluster.number]] += max(map(_bytes_of, cluster.members))
    open_nodes = [node for node, costs in graph.unary.items() if costs.shape[1] > 1]
    return sorted(open_nodes, key=lambda node: (-sizes[node], node))[:FAMILIES]


def _without(
    problem: Problem, graph: FactorGraph, start: Mapping[int, int], node: int, choice: Assignment
) -> Assignment | None:
    """The best choice in which a node has another strategy, one that looks different from outside."""
    own = start[node]
    looks = [factor.arguments[position].of for factor, positions in graph.touching(node) for position in positions]
    differs = np.any([of != of[own] for of in looks], axis=0) if looks else np.zeros(0, bool)
    if not differs.any():
        return None
    kept = {other: np.arange(costs.shape[1]) for other, costs in graph.unary.items()}
    kept[node] = np.flatnonzero(differs)
    few = graph.restricted(kept)
    costs = graph.given(node, start)[kept[node]]
    ascent = ascend(few, Deadline(), [{**start, node: int(np.argmin(costs))}], sweeps=SWEEPS)
    strategies = ascent.graph.named(problem, ascent.choice)
    lead = problem.options[node][int(graph.kept[node][own])]
    cluster = next(cluster for cluster in problem.clusters if cluster.number == node)
    spec = problem.spec_tables.result_spec(cluster.lead, lead) if isinstance(cluster.lead.type, TensorType) else ""
    note = f"without {cluster.lead.name} as {spec}"
    return replace(choice, strategies=strategies, cost=problem.cost(strategies), notes=(note,))


def _bytes_of(value: Node) -> float:
    """The bytes of an array on all devices together; none of a tuple."""
    return math.prod(value.type.dims) * itemsize_of(value) if isinstance(value.type, TensorType) else 0.0
