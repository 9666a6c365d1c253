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
from hloom.planner.solvers.lagrangian import Within, least_memory, within
from hloom.planner.solvers.message_passing import MessagePassing, descend
from hloom.planner.solvers.reshard_factor import ReshardFactor
from tests.helpers.properties import examples
from tests.planner.solvers.factor_graphs import choices, holdings, networks

PROPERTY = examples(25)


def test_a_spec_is_paid_once_however_many_ask_for_it():
    reader = np.array([0, 1])
    fan = ReshardFactor(
        (Argument(0, np.array([0])), Argument(1, reader), Argument(2, reader)),
        np.array([[7.0, 4.0]]),
        (np.array([0, 1]), np.array([0, 1])),
    )
    network = FactorGraph({0: np.zeros((1, 1)), 1: np.zeros((1, 2)), 2: np.zeros((1, 2))}, [fan], {})
    assert [network.cost({0: 0, 1: a, 2: b}) for a in (0, 1) for b in (0, 1)] == [7, 11, 11, 4]


@given(networks(), st.integers(0, 3))
@PROPERTY
def test_messages_bound_the_optimum_and_rise(network: FactorGraph, sweeps: int):
    optimum = min(map(network.cost, choices(network)))
    messages = MessagePassing(network)
    bounds = [messages.bound()]
    for _ in range(sweeps):
        messages.sweep()
        bounds.append(messages.bound())
    assert bounds == sorted(bounds) or np.diff(bounds).min() > -1e-9
    assert bounds[-1] <= optimum + 1e-9
    assert network.cost(descend(network, messages.suggested())) >= optimum - 1e-9


@given(networks())
@PROPERTY
def test_what_messages_rule_out_is_in_no_better_choice(network: FactorGraph):
    optimum = min(map(network.cost, choices(network)))
    found = ascend(network, math.inf)
    found.narrow()
    assert found.bound <= optimum + 1e-6 * optimum <= found.cost * (1 + 2e-6)
    left = min(map(found.network.cost, choices(found.network)))
    assert left == pytest.approx(optimum)


@given(networks())
@PROPERTY
def test_messages_and_the_integer_program_find_the_optimum(network: FactorGraph):
    optimum = min(map(network.cost, choices(network)))
    assert solve(network, math.inf).cost == pytest.approx(optimum)
    exact = solve_exactly(network, optimum + 1, 30)
    assert exact is not None and exact.choice is not None and network.cost(exact.choice) == pytest.approx(optimum)


@given(networks(), st.integers(0, 1000), st.floats(0, 1))
@PROPERTY
def test_a_budget_is_kept_where_that_is_possible(network: FactorGraph, seed: int, tightness: float):
    held = holdings(network, seed)
    most = {tuple(each.values()): float(held.of(each).max()) for each in choices(network)}
    budget = math.floor(min(most.values()) + tightness * (max(most.values()) - min(most.values())))
    optimum = min(network.cost(each) for each in choices(network) if most[tuple(each.values())] <= budget)
    found = within(network, held, budget, math.inf)
    assert found.held.of(found.choice).max() == pytest.approx(held.of(_whole(network, found)).max())
    if found.missing > 0:  # the search may miss what fits, but says so
        assert found.least <= budget
        return
    assert held.of(_whole(network, found)).max() <= budget
    assert found.bound <= optimum * (1 + 1e-6) + 1e-6 and found.cost >= optimum - 1e-6
    exact = solve_exactly(network, optimum + 1, 30, held, budget)
    assert exact is not None and exact.choice is not None and network.cost(exact.choice) == pytest.approx(optimum)


@given(networks(), st.integers(0, 1000))
@PROPERTY
def test_the_lightest_choice_has_a_proven_floor(network: FactorGraph, seed: int):
    held = holdings(network, seed)
    found = least_memory(network, held, time.monotonic() + 60)
    floor = min(float(held.of(each).max()) for each in choices(network))
    assert found.least <= floor + 1e-6 <= held.of(found.choice).max() + 2e-6
    assert found.missing == held.of(found.choice).max()


def test_nothing_fits_and_what_is_missing_is_said():
    network = FactorGraph({0: np.array([[1.0, 2.0]]), 1: np.array([[0.0]])}, [], {0: np.arange(2), 1: np.arange(1)})
    held = holdings(network, 0)
    found = within(network, held, 1.0, math.inf)
    assert found.missing == min(held.of(each).max() for each in choices(network)) - 1.0


def _whole(network: FactorGraph, found: Within) -> dict[int, int]:
    """The found choice in the numbers of the whole network."""
    fewer = found.network
    return {
        node: int(np.searchsorted(network.kept[node], fewer.kept[node][strategy]))
        for node, strategy in found.choice.items()
    }
