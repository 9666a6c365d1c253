"""Choices within a budget: beside a look at every choice, on a curve over budgets, and where nothing fits.

Covers `neighbourhood.py`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import hloom
from hloom.hlo import parse
from hloom.planner.budget_search import BudgetResult, solve_within
from hloom.planner.cost_tables import build_problem
from hloom.planner.layer_order import layer_positions
from hloom.planner.memory_footprint import footprint
from hloom.planner.memory_profile import MemoryProfiler
from hloom.planner.neighbourhood import moves
from hloom.planner.problem import Problem
from hloom.planner.reshard_placement import hoist_reshards
from hloom.planner.solvers.assignment import Assignment
from hloom.planner.solvers.factor_graph import quotient_graph
from hloom.planner.solvers.ilp import plan_shared
from hloom.sharding import Mesh
from tests.planner.solvers.test_solvers import layers

LAYER = """HloModule layer, input_output_alias={ {0}: (1, {}, may-alias) }

ENTRY main {
  x = f32[256,512] parameter(0)
  w = f32[512,512] parameter(1)
  y = f32[256,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[256,512] tanh(y)
  g = f32[512,512] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n = f32[512,512] subtract(w, g)
  ROOT r = (f32[512,512], f32[256,512]) tuple(n, t)
}
"""


def every_choice(problem: Problem) -> list[dict[int, int]]:
    numbers = list(problem.options)
    counts = [range(len(problem.options[number])) for number in numbers]
    return [dict(zip(numbers, combination, strict=True)) for combination in itertools.product(*counts)]


def held(problem: Problem, choice: dict[int, int]) -> int:
    return footprint(problem, choice, hoist_reshards(problem, choice))


def profiler(problem: Problem) -> MemoryProfiler:
    return MemoryProfiler(problem, lambda choice: hoist_reshards(problem, choice))


def within(problem: Problem, budget: float, free: Assignment, **options: float) -> BudgetResult:
    return solve_within(problem, budget, free, profiler(problem), **options)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A problem in which whatever is split costs something, so that what holds most is cheapest."""
    result = build_problem(parse(LAYER), Mesh.parse("x=4"))
    for number, options in result.options.items():
        result.node_costs[number] = result.node_costs[number] + np.array(
            [1e-4 * len(strategy.after) for strategy in options]
        )
    return result


@pytest.fixture(scope="module")
def free(problem: Problem) -> Assignment:
    best = min(every_choice(problem), key=problem.cost)
    return Assignment(best, problem.cost(best), problem.cost(best))


def test_without_need_one_choice_is_simulated(problem: Problem, free: Assignment):
    result = within(problem, 1e9, free)
    assert result.solution.strategies == free.strategies and len(result.points) == 1
    assert result.fits and result.bytes == held(problem, result.solution.strategies)


def test_the_best_that_fits_is_found(problem: Problem, free: Assignment):
    most = held(problem, free.strategies)
    memory = [(problem.cost(choice), held(problem, choice)) for choice in every_choice(problem)]
    for share in (0.98, 0.9, 0.8, 0.7):
        result = within(problem, share * most, free)
        assert result.fits and held(problem, result.solution.strategies) <= share * most
        assert result.solution.cost <= 1.05 * min(cost for cost, size in memory if size <= share * most)


def test_a_seed_is_never_beaten_by_nothing(problem: Problem, free: Assignment):
    lightest = min(every_choice(problem), key=lambda choice: held(problem, choice))
    budget = held(problem, lightest)
    result = solve_within(problem, budget, free, profiler(problem), seeds=[lightest], work=0)
    assert result.fits and result.solution.cost <= problem.cost(lightest)


def test_a_larger_budget_takes_no_longer():
    """Repeated layers save memory one after the other, so that the curve has a step for each."""
    problem = build_problem(layers(4), Mesh.parse("x=4"))
    for number, options in problem.options.items():
        problem.node_costs[number] = np.array([1e-3 * len(strategy.after) for strategy in options])
    free = plan_shared(problem)
    most = held(problem, free.strategies)
    results = [within(problem, share * most, free) for share in (0.6, 0.7, 0.8, 0.9, 1.0)]
    costs = [result.solution.cost for result in results]
    assert all(result.fits for result in results)
    assert costs == sorted(costs, reverse=True) and len(set(costs)) >= 4


def test_the_bound_is_of_all_choices(problem: Problem, free: Assignment):
    result = within(problem, 0.8 * held(problem, free.strategies), free)
    assert result.solution.bound == free.bound <= result.solution.cost
    assert result.model_bound <= result.solution.cost * 1.05


def test_what_was_measured_corrects_what_is_expected(problem: Problem, free: Assignment):
    most = held(problem, free.strategies)
    assert within(problem, most, free).bytes == most
    result = within(problem, most, free, scale=1.2)
    assert result.fits and 1.2 * held(problem, result.solution.strategies) <= most


def test_where_nothing_fits_it_says_what_is_missing(problem: Problem, free: Assignment):
    result = within(problem, 1000.0, free)
    least = min(held(problem, choice) for choice in every_choice(problem))
    assert not result.fits and result.solution.missing == result.missing
    assert least - 1000.0 <= result.missing <= 1.25 * least - 1000.0


def test_changes_around_a_choice_differ_in_one_node_and_what_follows(problem: Problem, free: Assignment):
    graph = quotient_graph(problem)
    base = graph.chosen(free.strategies)
    footprint = profiler(problem).footprint(free.strategies)
    changes = list(moves(problem, graph, base, footprint, math.inf, set()))
    assert changes and all(move.choice[move.node] == move.strategy != base[move.node] for move in changes)
    assert all(move.cost == pytest.approx(graph.cost(move.choice)) for move in changes)
    assert len({tuple(move.choice.values()) for move in changes}) == len(changes)
    known = {(changes[0].node, changes[0].strategy)}
    again = list(moves(problem, graph, base, footprint, math.inf, known))
    assert (changes[0].node, changes[0].strategy) not in {(move.node, move.strategy) for move in again}
    most = sorted(move.cost for move in changes)[len(changes) // 2]
    assert all(move.cost <= most for move in moves(problem, graph, base, footprint, most, set()))


def test_layers_are_counted_the_same_way_round():
    problem = build_problem(layers(6), Mesh.parse("x=4"))
    positions = layer_positions(problem)
    for name in ("w", "y"):
        clusters = [problem.clusters.of(problem.module.entry[f"{name}{layer}"]) for layer in range(6)]
        inner = [cluster.number for cluster in clusters[2:5] if cluster is not None]
        assert len({problem.representative[number] for number in inner}) == 1
        assert [positions[number] for number in inner] == sorted(positions[number] for number in inner)


def test_a_device_holds_something():
    module = hloom.parse("ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }")
    for memory in ("0GiB", 0, float("nan")):
        with pytest.raises(hloom.HloomError, match="a device cannot hold"):
            hloom.plan(module, "x=2", memory=memory)
