"""Prices of bytes bound what a budget costs, and never more than it does."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hloom.planner.solvers.brute_force import brute_force
from hloom.planner.solvers.budget_relaxation import priced, relax
from hloom.planner.solvers.cost_graph import CostGraph, cost_node
from tests.planner.solvers.cost_graphs import cost_graphs


@given(st.integers(1, 3).flatmap(cost_graphs), st.integers(5, 60))
@settings(deadline=None, max_examples=50)
def test_the_bound_holds(graph: CostGraph, bytes_allowed: int):
    budget = np.full(graph.peaks, float(bytes_allowed))
    expected = brute_force(graph, budget)
    assume(expected is not None)
    best = graph.time_of(expected or ())
    found = relax(graph, budget, best, lambda each: brute_force(each) or ())
    assert found.bound <= best + 1e-9 and (found.prices >= 0).all()
    if found.strategies is not None:
        assert (graph.memory_of(found.strategies) <= budget).all()


def test_bytes_are_paid_for():
    graph = priced(CostGraph((cost_node("a", [1.0, 2.0], [[4, 1], [0, 3]]),)), np.array([0.5, 10.0]))
    assert graph.nodes[0].time.tolist() == [1 + 2 + 10, 2 + 0 + 30]


def test_where_the_hull_reaches_the_optimum_the_bound_is_tight():
    graph = CostGraph((cost_node("a", [0.0, 4.0], [8, 0]), cost_node("b", [0.0, 6.0], [8, 0])))
    found = relax(graph, np.array([8.0]), 6.0, lambda each: brute_force(each) or ())
    assert found.bound > 3.9 and found.strategies is not None and graph.time_of(found.strategies) == 4.0
