"""Work and collectives at the same time: beside a look at every choice."""

from __future__ import annotations

import itertools

import pytest

from hloom.distribute.planner.cost_model import Rates, uniform_device
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.overlap import LOW, plan_balanced, plan_overlapped
from hloom.formats.hlo import parse
from hloom.sharding import Mesh
from tests.distribute.planner.test_budget_search import LAYER

FLOPS = (1e12, 2e13, 1e15)
"""Rates at which work, neither, or sending is the longer one."""


def problems(flops: float) -> list[Problem]:
    """The problem at both weights, and with work or sending counting almost alone."""
    shares = (LOW, 1 - LOW, 1 - 1e-9, 1e-9)
    return [
        build_problem(parse(LAYER), Mesh.parse("x=4"), Rates(uniform_device(flops=flops)).weighted(share))
        for share in shares
    ]


@pytest.mark.parametrize("flops", FLOPS)
def test_the_longer_one_is_as_short_as_can_be(flops: float):
    low, high, work, sending = problems(flops)
    solution = plan_overlapped(low, high)
    numbers = list(low.options)
    counts = [range(len(low.options[number])) for number in numbers]
    choices = [dict(zip(numbers, combination, strict=True)) for combination in itertools.product(*counts)]
    least = min(max(work.cost(choice), sending.cost(choice)) for choice in choices)
    longer = max(work.cost(solution.strategies), sending.cost(solution.strategies))
    assert longer == pytest.approx(least, rel=1e-3) == solution.cost
    assert solution.bound <= solution.cost * (1 + 1e-9) and solution.bound >= solution.cost * (1 - 1e-3)


@pytest.mark.parametrize("flops", FLOPS)
def test_a_sum_of_both_bounds_the_longer_one_and_gives_a_choice(flops: float):
    low, high, work, sending = problems(flops)
    solution, share = plan_balanced(low, high)
    exact = plan_overlapped(low, high)
    longer = max(work.cost(solution.strategies), sending.cost(solution.strategies))
    assert longer == pytest.approx(solution.cost) and 0 < share < 1
    assert solution.bound <= exact.cost * (1 + 1e-9) and exact.cost <= solution.cost * (1 + 1e-9)
