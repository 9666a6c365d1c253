"""The front of time over memory: beside a look at every choice, for repeated layers, and with prices of its own.

Covers `layered_choices.py`, `neighbourhood.py`, `memory_front.py` and `moment_savings.py`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import hloom
from hloom.distribute.planner.budget_search import memory_front
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.layer_order import layer_positions
from hloom.distribute.planner.memory_footprint import footprint
from hloom.distribute.planner.memory_front import MemoryFront
from hloom.distribute.planner.memory_profile import Choice, MemoryProfiler
from hloom.distribute.planner.neighbourhood import buffer_pairs, moves, paired_changes
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.reshard_placement import hoist_reshards
from hloom.distribute.planner.solvers.assignment import Assignment
from hloom.distribute.planner.solvers.factor_graph import quotient_graph
from hloom.distribute.planner.solvers.ilp import plan_shared
from hloom.formats.hlo import parse
from hloom.sharding import Mesh
from tests.distribute.planner.solvers.test_solvers import layers

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


def front_of(problem: Problem, free: Assignment) -> MemoryFront:
    return memory_front(problem, free.strategies, profiler(problem))


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


@pytest.fixture(scope="module")
def front(problem: Problem, free: Assignment) -> MemoryFront:
    return front_of(problem, free)


def test_points_of_the_front_hold_less_and_cost_more(problem: Problem, free: Assignment, front: MemoryFront):
    sizes, costs = [point.bytes for point in front.points], [point.cost for point in front.points]
    assert sizes == sorted(sizes) and costs == sorted(costs, reverse=True) and len(set(sizes)) > 2
    assert front.smallest is front.points[0] and costs[-1] == pytest.approx(free.cost)
    for point in front.points:
        assert point.cost == pytest.approx(problem.cost(point.choice))
        assert point.bytes == held(problem, dict(point.choice))


def test_the_best_that_fits_is_found(problem: Problem, free: Assignment, front: MemoryFront):
    most = held(problem, free.strategies)
    memory = [(problem.cost(choice), held(problem, choice)) for choice in every_choice(problem)]
    for share in (0.98, 0.9, 0.8, 0.7):
        best = front.within(share * most)[0]
        assert best.bytes <= share * most
        assert best.cost <= 1.05 * min(cost for cost, size in memory if size <= share * most)


def test_a_seed_is_never_beaten_by_nothing(problem: Problem, free: Assignment):
    lightest = min(every_choice(problem), key=lambda choice: held(problem, choice))
    front = memory_front(problem, free.strategies, profiler(problem), seeds=[lightest], work=0)
    assert front.within(held(problem, lightest))[0].cost <= problem.cost(lightest)


def test_repeated_layers_save_memory_one_after_the_other():
    problem = build_problem(layers(4), Mesh.parse("x=4"))
    for number, options in problem.options.items():
        problem.node_costs[number] = np.array([1e-3 * len(strategy.after) for strategy in options])
    free = plan_shared(problem)
    most, front = held(problem, free.strategies), front_of(problem, free)
    costs = [front.within(share * most)[0].cost for share in (0.6, 0.7, 0.8, 0.9, 1.0)]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) >= 4


def test_steps_of_the_front_come_down_to_one_layer_each():
    problem = build_problem(layers(16), Mesh.parse("x=4"))
    for number, options in problem.options.items():
        problem.node_costs[number] = np.array([1e-3 * len(strategy.after) for strategy in options])
    front = memory_front(problem, plan_shared(problem).strategies, profiler(problem), work=3000)
    costs = [point.cost for point in front.points]
    assert len(costs) > 12 and all(
        before - after < 1.5e-3 for before, after in itertools.pairwise(costs) if after < 13e-3
    )


def test_nothing_within_a_budget_costs_less_than_its_bound(problem: Problem, free: Assignment, front: MemoryFront):
    for share in (0.7, 0.8, 0.9):
        budget = share * held(problem, free.strategies)
        assert front.bound(budget) <= front.within(budget)[0].cost
    assert front.bound(1000.0) == -math.inf


def test_the_smallest_is_near_the_least(problem: Problem, front: MemoryFront):
    least = min(held(problem, choice) for choice in every_choice(problem))
    assert least <= front.smallest.bytes <= 1.25 * least


def test_points_cost_what_they_are_priced_at(problem: Problem, free: Assignment):
    def price(choice: Choice) -> float:
        return 2.0 * problem.cost(choice)

    front = memory_front(problem, free.strategies, profiler(problem), price=price, work=0)
    assert all(point.cost == pytest.approx(2.0 * problem.cost(point.choice)) for point in front.points)


def test_a_price_that_changes_the_tables_changes_the_others():
    problem = build_problem(parse(LAYER), Mesh.parse("x=4"))
    free = plan_shared(problem)
    surprises: list[Choice] = []

    def correct(choice: Choice) -> bool:
        if surprises:
            return False
        surprises.append(choice)
        for number in problem.node_costs:
            problem.node_costs[number] = problem.node_costs[number] + 1e-3
        return True

    def price(choice: Choice) -> float:
        return problem.cost(choice) + (0.0 if surprises else 1e-3 * len(problem.node_costs))

    front = memory_front(problem, free.strategies, profiler(problem), price=price, correct=correct)
    assert surprises and all(point.cost == pytest.approx(problem.cost(point.choice)) for point in front.points)


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


def test_a_weight_and_its_update_change_together(problem: Problem, free: Assignment):
    graph = quotient_graph(problem)
    base = graph.chosen(free.strategies)
    w, n = (problem.clusters.of(problem.module.entry[name]) for name in "wn")
    assert w is not None and n is not None
    pairs = buffer_pairs(problem)
    assert pairs == ([] if w is n else [(problem.representative[w.number], problem.representative[n.number])])
    pairs = [(first, second) for first, second in itertools.permutations(graph.unary, 2)]
    for rise in (0.0, 1000.0):
        changes = list(paired_changes(graph, base, pairs, rise))
        costs = [graph.cost(change) for change in changes]
        assert (
            costs == pytest.approx(sorted(costs)) and max(costs, default=0.0) <= (1 + rise) * graph.cost(base) * 1.001
        )
        assert all(sum(change[node] != base[node] for node in base) == 2 for change in changes)
        assert len(changes) == 2 * sum(
            problem.cost(choice) <= (1 + rise) * graph.cost(base) * (1 + 1e-9)
            and sum(choice[node] != base[node] for node in base) == 2
            for choice in every_choice(problem)
        )
    assert len(changes) > 1


def test_what_the_tables_overrate_is_forecast(problem: Problem, free: Assignment):
    """Beside a plan on the front that is forecast to cost less, others that the tables say are beaten are looked at."""
    plain = memory_front(problem, free.strategies, profiler(problem))
    first, second = plain.points[0], plain.points[1]
    rivals = [
        point.choice
        for point in plain.simulated
        if point.bytes <= second.bytes and second.cost < point.cost < second.cost * 1.02
    ]

    def price(choice: Choice) -> float:
        return problem.cost(choice) * (0.96 if choice in rivals or choice == first.choice else 1.0)

    front = memory_front(problem, free.strategies, profiler(problem), price=price)
    for choice in rivals:
        known = next(point for point in front.simulated if point.choice == choice)
        assert known.cost == pytest.approx(0.96 * problem.cost(choice))


def test_programs_bound_only_what_they_can_say(problem: Problem, free: Assignment, front: MemoryFront):
    """Where no program has the cheapest choice that is known, there is no bound."""
    assert front.models
    for point in front.points:
        if not any(model.has(point.choice) for model in front.models):
            assert front.bound(point.bytes) == -math.inf
    assert any(model.has(free.strategies) for model in front.models)
    foreign = dict.fromkeys(free.strategies, -1)
    assert not any(model.has(foreign) for model in front.models)


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
