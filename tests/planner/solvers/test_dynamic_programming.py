"""Dynamic programming finds what exhaustive search finds, with a budget and without; what it cannot, it says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hloom.planner.solvers.brute_force import brute_force
from hloom.planner.solvers.cost_graph import CostGraph, cost_edge, cost_node
from hloom.planner.solvers.dense import solve_dense
from hloom.planner.solvers.dynamic_programming import solve
from hloom.planner.solvers.tables import Table
from hloom.text import HloomError
from tests.planner.solvers.cost_graphs import cost_graphs

PROPERTY = settings(deadline=None, max_examples=150)


@given(cost_graphs(), st.integers(1, 4))
@PROPERTY
def test_the_optimum_is_found_whatever_the_width(graph: CostGraph, width: int):
    expected = brute_force(graph)
    assume(expected is not None)
    found = solve(graph, width=width)
    assert found.is_exact and found.time == found.bound == graph.time_of(expected) == graph.time_of(found.strategies)


@given(cost_graphs())
@PROPERTY
def test_the_integer_program_agrees(graph: CostGraph):
    expected = brute_force(graph)
    assume(expected is not None)
    nodes = [Table((number,), node.time) for number, node in enumerate(graph.nodes)]
    tables = dict(enumerate(nodes + [Table((edge.source, edge.target), edge.time) for edge in graph.edges]))
    solved = solve_dense(tables, graph.sizes, None, 60)
    assert solved.is_optimal
    assert graph.time_of([solved.strategies[number] for number in range(len(graph.nodes))]) == graph.time_of(expected)


@given(st.integers(1, 3).flatmap(cost_graphs), st.floats(0, 1), st.integers(1, 4))
@PROPERTY
def test_the_optimum_within_a_budget_is_found(graph: CostGraph, tightness: float, width: int):
    budget = _budget(graph, tightness)
    found = solve(graph, budget, width=width, states=512)
    expected = brute_force(graph, budget)
    if expected is None:
        least = min(_shortfalls(graph, budget))
        assert (found.missing, found.time) == least if found.is_exact else found.missing >= least[0]
        assert found.is_exact or (width < 4 and graph.peaks > 1)  # with a dense rest only the light choices are tried
    else:
        assert found.is_exact and found.missing == 0 and (np.array(found.memory) <= budget).all()
        assert found.time == graph.time_of(expected)


@given(st.integers(1, 2).flatmap(cost_graphs), st.floats(0, 1))
@PROPERTY
def test_with_too_few_states_the_result_says_so(graph: CostGraph, tightness: float):
    budget = _budget(graph, tightness)
    expected = brute_force(graph, budget)
    assume(expected is not None)
    found = solve(graph, budget, states=2)
    best = graph.time_of(expected)
    if found.is_exact:
        assert (found.missing, found.time) == (0, best)
    if found.missing == 0:
        assert found.bound <= best + 1e-9 and best <= found.time
        assert (np.array(found.memory) <= budget).all()


def test_a_cell_of_many_states_is_thinned_and_the_gap_is_known():
    random = np.random.default_rng(7)
    nodes = tuple(cost_node(f"n{number}", random.random(8), random.random(8)) for number in range(24))
    graph = CostGraph(nodes, tuple(cost_edge(n, n + 1, random.random((8, 8)) * 0.1) for n in range(23)))
    found = solve(graph, budget=8.0, states=16)
    assert not found.is_exact and found.missing == 0 and found.memory[0] <= 8.0
    assert 0 < (found.time - found.bound) / found.time < 0.1


def test_a_choice_that_is_impossible_everywhere_is_refused():
    graph = CostGraph((cost_node("a", [1, 2]), cost_node("b", [1])), (cost_edge(0, 1, [[np.inf], [np.inf]]),))
    with pytest.raises(HloomError) as error:
        solve(graph)
    assert str(error.value) == (
        "no choice of strategies is allowed\n  every one has an infinite time somewhere (or HiGHS needs more than 60 s)"
    )


def test_the_same_graph_gives_the_same_choice():
    random = np.random.default_rng(3)
    nodes = tuple(cost_node(f"n{number}", np.zeros(3), random.integers(0, 3, 3)) for number in range(8))
    edges = tuple(cost_edge(a, b, np.zeros((3, 3))) for a in range(8) for b in range(a))
    graph = CostGraph(nodes, edges)
    assert solve(graph, 4.0, width=2) == solve(graph, 4.0, width=2)


def test_a_chain_of_ten_thousand_is_shrunk_to_a_point():
    random = np.random.default_rng(0)
    nodes = tuple(cost_node(f"n{number}", random.random(4)) for number in range(10_000))
    graph = CostGraph(nodes, tuple(cost_edge(n, n + 1, random.random((4, 4))) for n in range(9_999)))
    found = solve(graph)
    assert found.is_exact and found.time == pytest.approx(_along_a_chain(graph))
    assert {step.kind for step in found.eliminations} == {"operator", "merge", "search"}


def _along_a_chain(graph: CostGraph) -> float:
    best = graph.nodes[0].time
    for edge, node in zip(graph.edges, graph.nodes[1:], strict=True):
        best = (best[:, None] + edge.time).min(axis=0) + node.time
    return float(best.min())


def _budget(graph: CostGraph, tightness: float) -> np.ndarray:
    """Between what the lightest strategies hold together and what the fastest do; whole, so that sums are exact."""
    fastest = brute_force(graph)
    assume(fastest is not None)
    assert fastest is not None
    least = np.sum([node.memory.min(axis=0) for node in graph.nodes], axis=0)
    return np.floor(least + (graph.memory_of(fastest) - least) * tightness)


def _shortfalls(graph: CostGraph, budget: np.ndarray) -> Iterator[tuple[float, float]]:
    for choice in product(*map(range, graph.sizes)):
        time = graph.time_of(choice)
        if np.isfinite(time):
            yield float((graph.memory_of(choice) - budget).max()), time
