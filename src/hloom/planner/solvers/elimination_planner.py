"""The planner by dynamic programming: a problem as a cost graph, which eliminations shrink to a point."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hloom.planner.memory_row import MemoryRow
from hloom.planner.problem import Problem
from hloom.planner.solvers.assignment import Choice
from hloom.planner.solvers.cost_graph import CostEdge, CostGraph, CostNode
from hloom.planner.solvers.dominance import undominated
from hloom.planner.solvers.dual_ascent import CLOSED, ascend
from hloom.planner.solvers.dynamic_programming import Choice as Found
from hloom.planner.solvers.dynamic_programming import solve
from hloom.planner.solvers.factor_graph import Network, tied
from hloom.planner.solvers.factors import Pair
from hloom.planner.solvers.ilp import plan_tied
from hloom.planner.solvers.memory_prices import Holding, holding
from hloom.planner.solvers.shared_value import Fan

MOST_CELLS = 1 << 18
"""What stays dense of tables with more cells in all is too much for the solver."""
TOO_LARGE = "too large for eliminations: found by the default planner"
JOINED = 1 << 18
"""How many sums one elimination may look at."""


def plan(
    problem: Problem,
    seconds: float = 20.0,
    *,
    rows: Sequence[MemoryRow] = (),
    budget: float | None = None,
    starts: Sequence[Mapping[int, int]] = (),
) -> Choice:
    """The cheapest choice within a budget by eliminations; where nothing fits, the one that holds least.

    Without a budget, strategies that messages prove to be in no better choice are left out before. Where more are left
    than eliminations can deal with, the choice is the default planner's, and a note says so.
    """
    deadline = time.monotonic() + seconds
    network = tied(problem)
    if budget is not None and rows:
        held = holding(problem, network, rows)
        kept = undominated(network, held)
        few, less = network.restricted(kept), held.restricted(kept)
        if _cells(few, less) > MOST_CELLS:
            return _default(problem, deadline, rows, budget, starts)
        within = budget - less.constants
        found = solve(cost_graph(few, less), within, cells=JOINED, seconds=max(deadline - time.monotonic(), 1.0))
        return _choice(problem, few, found, found.bound)
    known = [each for start in starts if (each := network.numbered(start)) is not None]
    begun = ascend(network, deadline, known)
    kept = begun.messages.possible(begun.cost * (1 - CLOSED) - begun.messages.bound(), begun.choice)
    few = begun.network.restricted(kept)
    few = few.restricted(undominated(few))
    if _cells(few) > MOST_CELLS:
        return _default(problem, deadline, (), None, starts)
    found = solve(cost_graph(few), cells=JOINED, seconds=max(deadline - time.monotonic(), 1.0))
    bound = min(max(begun.bound, min(found.bound, begun.cost * (1 - CLOSED))), found.time)
    return _choice(problem, few, found, bound)


def _default(
    problem: Problem,
    deadline: float,
    rows: Sequence[MemoryRow],
    budget: float | None,
    starts: Sequence[Mapping[int, int]],
) -> Choice:
    found = plan_tied(problem, deadline - time.monotonic(), rows=rows, budget=budget, starts=starts)
    return replace(
        found, planner="dp", notes=(*found.notes, "too large for eliminations: found by the default planner")
    )


def _cells(network: Network, held: Holding | None = None) -> int:
    """The cells of all tables between nodes."""
    sizes = {node: costs.shape[1] for node, costs in network.unary.items()}
    tables = [*network.terms, *(held.pairs if held is not None else ())]
    return sum(sizes[each.sides[0].node] * sizes[side.node] for each in tables for side in each.sides[1:])


def _choice(problem: Problem, network: Network, found: Found, bound: float) -> Choice:
    strategies = network.named(problem, dict(zip(network.unary, found.strategies, strict=False)))
    notes = (f"{found.dense} nodes stayed dense and went to the solver",) if found.dense else ()
    cost = problem.cost(strategies)
    return Choice(strategies, cost, bound, planner="dp", notes=notes, tied_bound=bound, missing=found.missing)


def cost_graph(network: Network, held: Holding | None = None) -> CostGraph:
    """A network as a cost graph: its nodes first, then one for each spec of a value that several may ask for.

    Such a node says whether its change of spec is paid for: if so, that costs what the source's strategy makes it; if
    not, no reader may ask for it. The best of both is what the value costs, so the graph's optimum is the network's.
    """
    moments = 0 if held is None else len(held.constants)
    places = {node: place for place, node in enumerate(network.unary)}
    nodes = [
        CostNode(str(node), costs[0], np.zeros((costs.shape[1], 0)) if held is None else held.unary[node])
        for node, costs in network.unary.items()
    ]
    edges: list[CostEdge] = []
    for term in network.terms:
        if isinstance(term, Pair):
            first, second = term.sides
            edges.append(CostEdge(places[first.node], places[second.node], term.table[first.of][:, second.of]))
        elif isinstance(term, Fan):
            for spec in range(term.costs.shape[1]):
                tables = _paid(term, spec)
                is_shared = len(tables) > 2 or len({node for node, _ in tables}) < len(tables)
                if is_shared:
                    edges += (CostEdge(places[node], len(nodes), table) for node, table in tables)
                    nodes.append(CostNode(f"spec {spec}", np.zeros(2), np.zeros((2, moments))))
                elif tables[1:]:
                    (source, paid), (reader, asked) = tables
                    edges.append(CostEdge(places[source], places[reader], _alone(paid, asked)))
    for each in held.pairs if held is not None else ():
        first, second = each.sides
        tables = np.moveaxis(each.tables[:, first.of][:, :, second.of], 0, -1)
        edges.append(CostEdge(places[first.node], places[second.node], np.zeros(tables.shape[:2]), tables))
    return CostGraph(tuple(nodes), tuple(edges))


def _paid(fan: Fan, spec: int) -> list[tuple[int, np.ndarray]]:
    """Tables of the source and of those who may ask for a spec with the spec's node: not to pay for it, and to pay.

    Nothing where the spec costs nothing.
    """
    source, *readers = fan.sides
    price = fan.costs[source.of, spec]
    if not price.any():
        return []
    found = [(source.node, np.stack([np.zeros_like(price), price], axis=1))]
    for side, specs in zip(readers, fan.specs, strict=True):
        asks = specs[side.of] == spec
        if asks.any():
            found.append((side.node, np.stack([np.where(asks, math.inf, 0.0), np.zeros(len(asks))], axis=1)))
    return found


def _alone(paid: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The cost of a spec that only one may ask for."""
    return (paid[:, None] + asked[None]).min(axis=2)
