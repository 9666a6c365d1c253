"""Mixed integer programs, row by row: the optimum, the bound, and what has no solution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hloom.distribute.planner.solvers.mixed_integer_program import MixedIntegerProgram


def knapsack(is_integer: bool) -> MixedIntegerProgram:
    """The most value of three things within a weight of 5."""
    program = MixedIntegerProgram()
    things = program.columns([-5, -4, -3], is_integer=is_integer)
    program.row(-math.inf, 5, things, np.array([4, 3, 2]))
    return program


def test_integers():
    solution = knapsack(is_integer=True).solve(10)
    assert solution.is_optimal
    assert solution.values.round().tolist() == [0, 1, 1]
    assert solution.cost == pytest.approx(-7)
    assert solution.bound == pytest.approx(-7)


def test_the_relaxation_bounds_the_integers():
    assert knapsack(is_integer=False).solve(10).cost == pytest.approx(-7)
    program = knapsack(is_integer=False)
    program.row(1, 1, np.array([0]), 1.0)
    assert program.solve(10).cost == pytest.approx(-6.5)


def test_a_known_solution_to_begin_with():
    assert knapsack(is_integer=True).solve(10, start={0: 1.0, 1: 0.0, 2: 0.0}).cost == pytest.approx(-7)


def test_rows_of_columns_added_later():
    program = MixedIntegerProgram()
    first = program.columns([1, 2], upper=10)
    second = program.columns([5], upper=10)
    assert (first.tolist(), second.tolist()) == ([0, 1], [2])
    program.row(3, math.inf, np.concatenate([first, second]), 1.0)
    program.row(-math.inf, 2, first, 1.0)
    assert program.solve(10).values.tolist() == pytest.approx([2, 0, 1])


def test_without_a_solution_there_are_no_values():
    program = knapsack(is_integer=True)
    program.row(4, math.inf, np.array([0, 1, 2]), 1.0)
    solution = program.solve(10)
    assert not solution.is_optimal and solution.values.size == 0
