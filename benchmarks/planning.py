"""Figures of planning: long cost graphs through dynamic programming."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure
from benchmarks.programs import Plan
from hloom.sharding.planners.cost_graph import CostGraph, cost_edge, cost_node
from hloom.sharding.planners.dp import solve

STRATEGIES = 20
SECONDS = 2.0
"""What a chain of ten thousand operators may take."""


def planning(plan: Plan) -> Iterator[Figure]:
    """A chain of operators, against the bar of two seconds, and against one of half its length."""
    whole, half = _chain(plan.chain), _chain(plan.chain // 2)
    chain, part = take_turns([Job(lambda _: solve(whole)), Job(lambda _: solve(half))], plan.seconds)
    bar = SECONDS * plan.chain / 10_000
    subject = f"dp: a chain of {plan.chain:,} with {STRATEGIES} strategies"
    ours = f"{chain.best:.2f} s"
    yield Figure(subject, ours, "bar", f"{bar:g} s", chain.best / bar, chain.median / bar, AtMost(1))
    growth, median = chain.best / part.best, chain.median / part.median
    yield Figure("dp: twice the chain", ours, "half of it", f"{part.best:.2f} s", growth, median, AtMost(2.5))


def _chain(count: int) -> CostGraph:
    random = np.random.default_rng(0)
    nodes = tuple(cost_node(f"n{number}", random.random(STRATEGIES)) for number in range(count))
    tables = random.random((count - 1, STRATEGIES, STRATEGIES))
    return CostGraph(nodes, tuple(cost_edge(number, number + 1, table) for number, table in enumerate(tables)))
