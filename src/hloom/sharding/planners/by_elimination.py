"""The planner by dynamic programming: a problem as a cost graph, which eliminations shrink to a point."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hloom.sharding.planners.ascent import ascend
from hloom.sharding.planners.choice import Choice
from hloom.sharding.planners.cost_graph import CostEdge, CostGraph, CostNode
from hloom.sharding.planners.dp import solve
from hloom.sharding.planners.equals import undominated
from hloom.sharding.planners.fans import Fan
from hloom.sharding.planners.holding import Holding, holding
from hloom.sharding.planners.network import Network, tied
from hloom.sharding.planners.terms import Pair
from hloom.sharding.problem import Problem
from hloom.sharding.rows import MemoryRow


def plan(
    problem: Problem,
    seconds: float = 20.0,
    *,
    rows: Sequence[MemoryRow] = (),
    budget: float | None = None,
    starts: Sequence[Mapping[int, int]] = (),
) -> Choice:
    """The cheapest choice within a budget by eliminations; where nothing fits, the one that holds least.

    Without a budget, strategies that messages prove to be in no better choice are left out before.
    """
    deadline = time.monotonic() + seconds
    network = tied(problem)
    if budget is None or not rows:
        begun = ascend(network, deadline, [each for s in starts if (each := network.numbered(s)) is not None])
        begun.narrow()
        network, held, most = begun.network, None, None
        network = network.restricted(undominated(network))
    else:
        held = holding(problem, network, rows)
        kept = undominated(network, held)
        network, held = network.restricted(kept), held.restricted(kept)
        most = budget - held.constants
    graph = cost_graph(network, held)
    found = solve(graph, most, seconds=max(deadline - time.monotonic(), 1.0))
    choice = dict(zip(network.unary, found.strategies, strict=False))
    strategies = network.named(problem, choice)
    notes = (f"{found.dense} nodes stayed dense and went to the solver",) if found.dense else ()
    return Choice(
        strategies,
        problem.cost(strategies),
        found.bound,
        planner="dp",
        notes=notes,
        tied_bound=found.bound,
        missing=found.missing,
    )


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
                paid = len(nodes)
                nodes.append(CostNode(f"spec {spec}", np.zeros(2), np.zeros((2, moments))))
                edges += (CostEdge(places[node], paid, table) for node, table in _paid(term, spec))
    for each in held.pairs if held is not None else ():
        first, second = each.sides
        tables = np.moveaxis(each.tables[:, first.of][:, :, second.of], 0, -1)
        edges.append(CostEdge(places[first.node], places[second.node], np.zeros(tables.shape[:2]), tables))
    return CostGraph(tuple(nodes), tuple(edges))


def _paid(fan: Fan, spec: int) -> Iterator[tuple[int, np.ndarray]]:
    """Tables of a fan's nodes with the node of a spec, whose strategies are not to pay for it, and to pay."""
    source, *readers = fan.sides
    price = fan.costs[source.of, spec]
    yield source.node, np.stack([np.zeros_like(price), price], axis=1)
    for side, specs in zip(readers, fan.specs, strict=True):
        asks = specs[side.of] == spec
        yield side.node, np.stack([np.where(asks, math.inf, 0.0), np.zeros(len(asks))], axis=1)
