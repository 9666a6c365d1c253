"""On small networks messages bound the optimum, and every way to search finds it: all choices are looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.distribute.planner.solvers import ilp
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.dual_ascent import ascend
from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.factors import Argument
from hloom.distribute.planner.solvers.ilp import solve, solve_roughly
from hloom.distribute.planner.solvers.ilp_model import solve_exactly
from hloom.distribute.planner.solvers.message_passing import MessagePassing, descend
from hloom.distribute.planner.solvers.moment_program import solve_within_moments
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor
from tests.distribute.planner.solvers.factor_graphs import choices, factor_graphs, held, holdings
from tests.helpers.properties import examples

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


@given(factor_graphs(), st.integers(1, 4))
@PROPERTY
def test_messages_that_are_kept_between_sweeps_are_those_that_would_be_passed(graph: FactorGraph, sweeps: int):
    kept = MessagePassing(graph)
    for _ in range(sweeps):
        kept.sweep()
    messages = [argument.message.copy() for part in kept.parts for argument in part.arguments]
    for argument in (argument for part in kept.parts for argument in part.arguments):
        argument.message[:] = 0.0
    for _ in range(sweeps):
        MessagePassing(graph).sweep()  # begins by passing all
    anew = [argument.message for part in kept.parts for argument in part.arguments]
    assert all(np.array_equal(*pair) for pair in zip(messages, anew, strict=True))


@given(factor_graphs())
@PROPERTY
def test_what_messages_rule_out_is_in_no_better_choice(graph: FactorGraph):
    optimum = min(map(graph.cost, choices(graph)))
    result = ascend(graph, Deadline())
    result.narrow()
    assert result.bound <= optimum + 1e-6 * optimum <= result.cost * (1 + 2e-6)
    left = min(map(result.graph.cost, choices(result.graph)))
    assert left == pytest.approx(optimum)


@given(factor_graphs())
@PROPERTY
def test_messages_and_the_integer_program_find_the_optimum(graph: FactorGraph):
    optimum = min(map(graph.cost, choices(graph)))
    assert solve(graph, Deadline()).cost == pytest.approx(optimum)
    exact = solve_exactly(graph, optimum + 1, Deadline())
    assert exact is not None and exact.choice is not None and graph.cost(exact.choice) == pytest.approx(optimum)


@given(factor_graphs())
@PROPERTY
def test_large_programs_are_solved_as_well_and_roughly_in_fewer_steps(graph: FactorGraph):
    optimum = min(map(graph.cost, choices(graph)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ilp, "FEW_COLUMNS", 0)
        assert solve(graph, Deadline()).cost == pytest.approx(optimum)
        rough = solve_roughly(graph, Deadline())
    assert rough.bound <= optimum + 1e-6 and rough.cost >= optimum - 1e-6


@given(factor_graphs(), st.integers(0, 1000), st.floats(0, 1))
@PROPERTY
def test_a_budget_is_kept_where_that_is_possible(graph: FactorGraph, seed: int, tightness: float):
    use = holdings(graph, seed)
    most = {tuple(choice.values()): float(held(use, choice).max()) for choice in choices(graph)}
    budget = math.floor(min(most.values()) + tightness * (max(most.values()) - min(most.values())))
    optimum = min(graph.cost(choice) for choice in choices(graph) if most[tuple(choice.values())] <= budget)
    result = solve_within_moments(graph, use, budget, optimum + 1, dict.fromkeys(graph.unary, 1))
    assert result is not None and result.missing == 0
    choice = {node: int(np.argmax(shares)) for node, shares in result.shares.items()}
    assert held(use, choice).max() <= budget * (1 + 1e-5) + 1e-5
    assert result.bound <= optimum * (1 + 1e-6) + 1e-6
    assert graph.cost(choice) == pytest.approx(optimum, rel=1e-3, abs=1e-3)


@given(factor_graphs(), st.integers(0, 1000), st.integers(2, 4))
@PROPERTY
def test_several_clusters_of_a_node_may_take_several_strategies(graph: FactorGraph, seed: int, count: int):
    use = holdings(graph, seed)
    budget = float(np.mean([held(use, choice).max() for choice in choices(graph)]))
    counts = dict.fromkeys(graph.unary, count)
    alone, several = (
        solve_within_moments(graph, use, budget, 10.0, own) for own in (dict.fromkeys(graph.unary, 1), counts)
    )
    assert alone is not None and several is not None
    assert several.missing <= alone.missing + 1e-4 * budget
    if not alone.missing:
        assert several.bound <= alone.bound * (1 + 1e-3) + 1e-3
    for shares in several.shares.values():
        assert (count * shares) == pytest.approx(np.round(count * shares), abs=1e-4)


def test_nothing_fits_and_what_is_missing_is_said():
    graph = FactorGraph({0: np.array([[1.0, 2.0]]), 1: np.array([[0.0]])}, [], {0: np.arange(2), 1: np.arange(1)})
    use = holdings(graph, 0)
    result = solve_within_moments(graph, use, 1.0, 1.0, {0: 1, 1: 1})
    assert result is not None
    assert result.missing == pytest.approx(min(held(use, choice).max() for choice in choices(graph)) - 1.0)
