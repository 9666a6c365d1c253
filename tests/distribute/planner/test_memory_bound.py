"""What every choice holds, and what those within a budget cost: beside simulations, and beside a look at every choice."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import hloom
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.memory_bound import bound_within, least_held
from hloom.distribute.planner.solvers.ilp import plan
from hloom.formats.hlo import parse
from hloom.sharding import Mesh
from tests.distribute.planner.solvers.test_solvers import layers
from tests.distribute.planner.test_budget_search import LAYER, every_choice, held
from tests.distribute.planner.test_plan import TWO_LAYERS


@pytest.mark.parametrize(("text", "mesh"), [(LAYER, "x=4"), (TWO_LAYERS, "x=2,y=2"), (hloom.print(layers(3)), "x=8")])
def test_no_choice_holds_less(text: str, mesh: str):
    problem, draw = build_problem(parse(text), Mesh.parse(mesh)), random.Random(1)
    times = least_held(problem)
    for _ in range(20):
        choice = {number: draw.randrange(len(options)) for number, options in problem.options.items()}
        assert max(time.of(choice) for time in times) <= held(problem, choice)
    assert max(time.least for time in times) > 0


def test_parameters_and_outputs_are_held_as_they_are_split():
    problem = build_problem(parse(LAYER), Mesh.parse("x=4"))
    always = least_held(problem)[0]
    replicated = dict.fromkeys(problem.options, 0)
    assert always.of(replicated) == 4 * (256 * 512 + 512 * 512 + 256 * 512)
    assert always.least == always.of(replicated) / 4


def test_what_a_contraction_made_is_held_until_it_is_read():
    text = """ENTRY e {
  x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,64] sine(a)
  b = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,64] dot(c, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[] custom-call(d), custom_call_target="sum"
}"""
    after = least_held(build_problem(parse(text), Mesh.parse("x=2")))[1]
    size = 4 * 64 * 64
    assert after.constant == 2 * size / 2  # s and what is computed, in two parts


def test_the_bound_rises_as_the_budget_falls_and_is_below_every_choice_that_keeps_it():
    problem = build_problem(parse(LAYER), Mesh.parse("x=4"))
    for number, options in problem.options.items():
        extra = np.array([1e-4 * len(strategy.after) for strategy in options])
        problem.node_costs[number] = problem.node_costs[number] + extra
    free = plan(problem)
    always = least_held(problem)[0]
    most, least = always.of(free.strategies), always.least
    choices = [(problem.cost(choice), always.of(choice)) for choice in every_choice(problem)]
    bounds = []
    for share in (0.9, 0.5, 0.1, 0.0):
        budget = least + share * (most - least)
        bounds.append(bound_within(problem, always, budget, free.bound))
        assert bounds[-1] <= (1 + 1e-9) * min(cost for cost, size in choices if size <= budget)
    assert bounds == sorted(bounds) and bounds[-1] > 1.5 * free.bound
    assert math.isinf(bound_within(problem, always, 0.99 * least, free.bound))
