"""Choices within a budget: what is solved again and again until it fits, and what is said where nothing does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from hloom.hlo import parse
from hloom.planner.budget_search import solve_within
from hloom.planner.cost_tables import build_problem
from hloom.planner.memory_footprint import footprint
from hloom.planner.memory_row import MemoryRow
from hloom.planner.problem import Problem
from hloom.planner.reshard_placement import hoist_reshards
from hloom.planner.solvers.assignment import Assignment
from hloom.sharding import Mesh

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


class Exhaustive:
    """Looks at every choice; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float | None]] = []

    def __call__(self, problem: Problem, rows: Sequence[MemoryRow], budget: float | None) -> Assignment | None:
        self.asked.append((len(rows), budget))
        fitting = [
            choice
            for choice in every_choice(problem)
            if budget is None or all(row.bytes(choice) <= budget for row in rows)
        ]
        if not fitting:
            return None
        best = min(fitting, key=problem.cost)
        return Assignment(best, problem.cost(best), problem.cost(best))


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A problem in which whatever is split costs something, so that what holds most is cheapest."""
    result = build_problem(parse(LAYER), Mesh.parse("x=4"))
    for number, options in result.options.items():
        result.node_costs[number] = result.node_costs[number] + np.array(
            [1e-4 * len(strategy.after) for strategy in options]
        )
    return result


def test_without_need_it_is_solved_once(problem: Problem):
    solve = Exhaustive()
    result = solve_within(problem, 1e9, solve)
    assert solve.asked == [(0, None)]
    assert result.fits and result.bytes == held(problem, result.solution.strategies)


def test_the_best_that_fits_is_found(problem: Problem):
    free = held(problem, solve_within(problem, 1e9, Exhaustive()).solution.strategies)
    budget = 0.8 * free
    within = [choice for choice in every_choice(problem) if held(problem, choice) <= budget]
    result = solve_within(problem, budget, Exhaustive())
    assert result.fits and held(problem, result.solution.strategies) <= budget
    assert result.solution.cost <= 1.05 * min(map(problem.cost, within))
    assert result.rows


def test_what_holds_least_does_not_stand_in_for_what_fits(problem: Problem):
    """A planner gives the lightest choice where rows leave none: it is no answer as long as there is a cheaper one."""
    exhaustive, least_memory = Exhaustive(), min(every_choice(problem), key=lambda item: held(problem, item))

    def solve(problem: Problem, rows: Sequence[MemoryRow], budget: float | None) -> Assignment:
        result = exhaustive(problem, rows, budget)
        return result or Assignment(least_memory, problem.cost(least_memory), 0.0, missing=1.0)

    free = held(problem, solve(problem, (), None).strategies)
    for share in (0.98, 0.9, 0.8, 0.7):
        fitting = [choice for choice in every_choice(problem) if held(problem, choice) <= share * free]
        result = solve_within(problem, share * free, solve)
        assert result.fits
        assert result.solution.cost <= 1.1 * min(map(problem.cost, fitting))


def test_the_bound_is_of_all_choices(problem: Problem):
    free = solve_within(problem, 1e9, Exhaustive())
    result = solve_within(problem, 0.8 * free.bytes, Exhaustive())
    assert result.solution.bound == free.solution.bound <= result.solution.cost


def test_what_was_measured_corrects_what_is_expected(problem: Problem):
    free = held(problem, solve_within(problem, 1e9, Exhaustive()).solution.strategies)
    assert solve_within(problem, free, Exhaustive()).bytes == free
    result = solve_within(problem, free, Exhaustive(), scale=1.2)
    assert result.fits and 1.2 * held(problem, result.solution.strategies) <= free


def test_where_nothing_fits_it_says_what_is_missing(problem: Problem):
    result = solve_within(problem, 1000.0, Exhaustive())
    least = min(held(problem, choice) for choice in every_choice(problem))
    assert not result.fits
    assert result.missing >= least - 1000.0
