"""On small networks messages bound the optimum, and every way to search finds it: all choices are looked at."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.planner.solvers.dual_ascent import ascend
from hloom.planner.solvers.factor_graph import FactorGraph
from hloom.planner.solvers.factors import Argument
from hloom.planner.solvers.ilp import solve
from hloom.planner.solvers.ilp_model import solve_exactly
from hloom.planner.solvers.lagrangian import LagrangianResult, least_memory, solve_within_budget
from hloom.planner.solvers.message_passing import MessagePassing, descend
from hloom.planner.solvers.reshard_factor import ReshardFactor
from tests.helpers.properties import examples
from tests.planner.solvers.factor_graphs import choices, factor_graphs, holdings

PROPERTY = examples(25)


def test_a_spec_is_paid_once_however_many_ask_for_it():
    reader = np.array([0, 1])
    reshard = ReshardFactor(
        (Argument(0, np.array([0])), Argument(1, reader), Argument(2, reader)),
        np.array([[7.0, 4.0]]),
        (np.array([0, 1]), np.array([0, 1])),
    )
    graph = FactorGraph({0: np.zeros((1, 1)), 1: np.zeros((1, 2)), 2: np.zeros((1, 2))}, [reshard], {})
    assert [graph.cost({0: 0, 1: a, 2: b}) for a in (0, 1) for b in (0, 1)] == [7, 11, 11, 4]


@given(factor_graphs(), st.integers(0, 3))
@PROPERTY
def test_messages_bound_the_optimum_and_rise(graph: FactorGraph, sweeps: int):
    optimum = min(map(graph.cost, choices(graph)))
    messages = MessagePassing(graph)
    bounds = [messages.bound()]
    for _ in range(sweeps):
        messages.sweep()
        bounds.append(messages.bound())
    assert bounds == sorted(bounds) or np.diff(bounds).min() > -1e-9
    assert bounds[-1] <= optimum + 1e-9
    assert graph.cost(descend(graph, messages.suggested())) >= optimum - 1e-9


@given(factor_graphs())
@PROPERTY
def test_what_messages_rule_out_is_in_no_better_choice(graph: FactorGraph):
    optimum = min(map(graph.cost, choices(graph)))
    result = ascend(graph, math.inf)
    result.narrow()
    assert result.bound <= optimum + 1e-6 * optimum <= result.cost * (1 + 2e-6)
    left = min(map(result.graph.cost, choices(result.graph)))
    assert left == pytest.approx(optimum)


@given(factor_graphs())
@PROPERTY
def test_messages_and_the_integer_program_find_the_optimum(graph: FactorGraph):
    optimum = min(map(graph.cost, choices(graph)))
    assert solve(graph, math.inf).cost == pytest.approx(optimum)
    exact = solve_exactly(graph, optimum + 1, 30)
    assert exact is not None and exact.choice is not None and graph.cost(exact.choice) == pytest.approx(optimum)


@given(factor_graphs(), st.integers(0, 1000), st.floats(0, 1))
@PROPERTY
def test_a_budget_is_kept_where_that_is_possible(graph: FactorGraph, seed: int, tightness: float):
    memory = holdings(graph, seed)
    most = {tuple(choice.values()): float(memory.of(choice).max()) for choice in choices(graph)}
    budget = math.floor(min(most.values()) + tightness * (max(most.values()) - min(most.values())))
    optimum = min(graph.cost(choice) for choice in choices(graph) if most[tuple(choice.values())] <= budget)
    result = solve_within_budget(graph, memory, budget, math.inf)
    assert result.memory.of(result.choice).max() == pytest.approx(memory.of(_whole(graph, result)).max())
    if result.missing > 0:  # the search may miss what fits, but says so
        assert result.least <= budget
        return
    assert memory.of(_whole(graph, result)).max() <= budget
    assert result.bound <= optimum * (1 + 1e-6) + 1e-6 and result.cost >= optimum - 1e-6
    exact = solve_exactly(graph, optimum + 1, 30, memory, budget)
    assert exact is not None and exact.choice is not None and graph.cost(exact.choice) == pytest.approx(optimum)


@given(factor_graphs(), st.integers(0, 1000))
@PROPERTY
def test_the_lightest_choice_has_a_proven_floor(graph: FactorGraph, seed: int):
    memory = holdings(graph, seed)
    result = least_memory(graph, memory, time.monotonic() + 60)
    floor = min(float(memory.of(choice).max()) for choice in choices(graph))
    assert result.least <= floor + 1e-6 <= memory.of(result.choice).max() + 2e-6
    assert result.missing == memory.of(result.choice).max()


def test_nothing_fits_and_what_is_missing_is_said():
    graph = FactorGraph({0: np.array([[1.0, 2.0]]), 1: np.array([[0.0]])}, [], {0: np.arange(2), 1: np.arange(1)})
    memory = holdings(graph, 0)
    result = solve_within_budget(graph, memory, 1.0, math.inf)
    assert result.missing == min(memory.of(choice).max() for choice in choices(graph)) - 1.0


def _whole(graph: FactorGraph, result: LagrangianResult) -> dict[int, int]:
    """The found choice in the numbers of the whole network."""
    fewer = result.graph
    return {
        node: int(np.searchsorted(graph.kept[node], fewer.kept[node][strategy]))
        for node, strategy in result.choice.items()
    }
