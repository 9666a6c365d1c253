"""A bound under a budget: bytes beyond it are allowed at a price, and the price is raised until it hurts.

Lagrange's relaxation: for any prices of a byte at each peak, the least of time + price * (bytes - budget) is at most
the least time within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hloom.planner.solvers.cost_graph import CostGraph

STEPS = 20
"""How often prices are changed."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What nothing within the budget can beat, the prices that say so, and the fastest choice met within it, if any."""

    bound: float
    prices: np.ndarray
    strategies: Sequence[int] | None


def relax(graph: CostGraph, budget: np.ndarray, known: float, fastest: Callable[[CostGraph], Sequence[int]]) -> Relaxed:
    """The best bound of some prices; `fastest` solves without a budget, `known` is the time of a choice within it."""
    prices = highest = np.zeros(graph.peaks)
    bound, best, best_time = -math.inf, None, known
    for _ in range(STEPS):
        chosen = fastest(priced(graph, prices))
        time, excess = graph.time_of(chosen), graph.memory_of(chosen) - budget
        value = time + float(prices @ excess)
        if value > bound:
            bound, highest = value, prices
        if (excess <= 0).all() and time < best_time:
            best, best_time = chosen, time
        uphill = np.where((prices > 0) | (excess > 0), excess, 0.0)
        if best_time <= bound or not uphill.any():
            break
        prices = np.maximum(0.0, prices + (best_time - value) / float(uphill @ uphill) * uphill)
    return Relaxed(bound, highest, best)


def priced(graph: CostGraph, prices: np.ndarray) -> CostGraph:
    """The graph with its bytes paid for."""
    nodes = (replace(node, time=node.time + node.memory @ prices) for node in graph.nodes)
    edges = (
        edge if edge.memory is None else replace(edge, time=edge.time + edge.memory @ prices) for edge in graph.edges
    )
    return CostGraph(tuple(nodes), tuple(edges))
