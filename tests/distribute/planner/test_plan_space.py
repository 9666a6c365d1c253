"""All plans of a module on a mesh from one problem: as planned alone, completed as alone, within a budget of bytes.

Covers `plan_space.py`.
"""

from __future__ import annotations

from functools import cache

import pytest

from hloom.analysis import device
from hloom.distribute.planner import Plan, PlanSpace, Rates, complete_plan, experts, search_plans
from hloom.sharding import Mesh, parse_spec
from tests.distribute.fit.programs import perceptron

MESH = Mesh.parse("data=2,model=2")
RATES = Rates.of(device("h100"), MESH)


@cache
def space() -> PlanSpace:
    return PlanSpace(perceptron(layers=4, width=256, batch=2048), MESH, RATES)


def test_the_best_is_that_of_a_search_alone():
    alone = search_plans(space().task.module, MESH, rates=RATES).best
    assert space().search().cost(RATES) == pytest.approx(alone.cost(RATES), rel=1e-3)
    assert space().search() is space().search()


@pytest.mark.parametrize("number", range(3))
def test_given_plans_are_completed_as_alone(number: int):
    plan = experts(space().task.module, MESH)[number]
    completed, alone = space().complete(plan), complete_plan(space().task.module, plan, RATES)
    assert completed.cost(RATES) == pytest.approx(alone.cost(RATES), rel=1e-2)
    assert {n: completed.plan.parameters[n] for n in plan.parameters} == plan.parameters


def test_values_that_are_decided_on_together_are_kept_apart():
    """The first weight as no strategy of its cluster has it beside what the plan says of the value that it is read for."""
    plan = Plan(MESH, parameters={0: parse_spec("[model,data]"), 1: parse_spec("[data,-]")}, name="odd")
    completed = space().complete(plan)
    assert {n: completed.plan.parameters[n] for n in (0, 1)} == plan.parameters


def test_within_a_budget():
    free = space().search()
    free.predict_memory()
    assert free.memory is not None
    roomy = space().within(2 * free.memory)
    assert [candidate.cost(RATES) for candidate in roomy] == [pytest.approx(free.cost(RATES), rel=1e-2)]
    tight = space().within(0.8 * free.memory)
    assert all((candidate.memory or 0) <= 0.8 * free.memory for candidate in tight)
    assert [made.cost(RATES) for made in tight] == sorted(made.cost(RATES) for made in tight)
    assert tight[0].cost(RATES) >= free.cost(RATES) * (1 - 1e-3)


def test_where_nothing_fits_it_is_the_one_that_holds_least():
    (smallest,) = space().within(1.0)
    free = space().search()
    free.predict_memory()
    assert 1.0 < (smallest.memory or 0) <= (free.memory or 0)
