"""The planners on problems of small programs: they agree with each other and with a look at every choice.

Covers `recursive.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from hloom.distribute.planner.constraints import Constraints, constrain_problem
from hloom.distribute.planner.cost_tables import add_strategy_cost, build_problem
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers import PLANNERS
from hloom.distribute.planner.solvers.alternatives import alternatives
from hloom.distribute.planner.solvers.decoupled_bound import ENOUGH
from hloom.distribute.planner.solvers.ilp import PROVEN, plan_shared, prove_apart
from hloom.formats.hlo import load, parse
from hloom.ir import Module
from hloom.sharding import Mesh, parse_spec
from tests.distribute.propagation.programs import random_program

TRAINING_STEPS = Path(__file__).resolve().parents[3] / "training_steps"
MOST = 30_000
"""Problems of more choices are not looked at one by one."""


def layers(count: int) -> Module:
    """Alike layers, each read by the next one and by a sum at the end."""
    lines, value = ["x = f32[512,1024] parameter(0)"], "x"
    for number in range(count):
        lines += [
            f"w{number} = f32[1024,1024] parameter({number + 1})",
            f"y{number} = f32[512,1024] dot({value}, w{number}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"t{number} = f32[512,1024] tanh(y{number})",
            f"z{number} = f32[512,1024] add(t{number}, {value})",
        ]
        value = f"z{number}"
    lines.append(f"ROOT out = f32[512,1024] negate({value})")
    return parse("HloModule layers\n\nENTRY main {\n  " + "\n  ".join(lines) + "\n}")


def small_problems() -> Iterator[Problem]:
    """Problems of random programs with few choices, though more than one."""
    for seed in range(60):
        problem = build_problem(parse(random_program(seed).text), Mesh.parse("x=2"))
        if 1 < np.prod([len(strategy) for strategy in problem.options.values()], dtype=float) <= MOST:
            yield problem


def every_choice(problem: Problem) -> Iterator[dict[int, int]]:
    counts = [range(len(strategy)) for strategy in problem.options.values()]
    return (dict(zip(problem.options, combination, strict=True)) for combination in product(*counts))


def test_the_planners_find_the_best_of_all_choices():
    looked_at = 0
    for problem in small_problems():
        costs = [(problem.cost(choice), choice) for choice in every_choice(problem)]
        least = min(cost for cost, _ in costs)
        isomorphic_reshards = min(
            cost for cost, item in costs if all(item[a] == item[b] for a, b in problem.representative.items())
        )
        result = PLANNERS["ilp"](problem)
        assert result.cost == problem.cost(result.strategies) == pytest.approx(isomorphic_reshards, rel=1e-6)
        assert result.shared_bound <= isomorphic_reshards * (1 + 1e-9) and (
            result.is_shared or result.bound <= least * (1 + 1e-9)
        )
        assert PLANNERS["recursive"](problem).cost >= isomorphic_reshards * (1 - 1e-9)
        looked_at += 1
    assert looked_at >= 20


def test_alike_layers_are_decided_once_and_the_bound_is_of_layers_that_choose_apart():
    problem = build_problem(layers(6), Mesh.parse("x=2,y=2"))
    result = PLANNERS["ilp"](problem)
    assert len(set(problem.representative.values())) < len(problem.options)
    assert all(result.strategies[a] == result.strategies[b] for a, b in problem.representative.items())
    assert not result.is_shared and result.bound <= result.shared_bound * (1 + 1e-9) <= result.cost * (1 + 2e-9)
    assert result.shared_bound == pytest.approx(result.cost, rel=1e-5)


def test_a_problem_whose_costs_have_changed_is_solved_as_well_as_a_new_one():
    problem = build_problem(layers(3), Mesh.parse("x=2,y=2"))
    first = PLANNERS["ilp"](problem)
    for cluster in problem.clusters:
        add_strategy_cost(problem, first.strategies, cluster.lead, 0.1 * first.cost)
    again, problem.solver_state = PLANNERS["ilp"](problem), None
    anew = PLANNERS["ilp"](problem)
    assert again.cost == pytest.approx(anew.cost, rel=PROVEN) and again.strategies != first.strategies
    assert again.bound <= anew.cost and anew.bound <= again.cost


@pytest.mark.parametrize("count", [1, 6])
def test_a_solution_is_proven_of_layers_that_choose_apart_as_if_it_were_solved_anew(count: int):
    problem = build_problem(layers(count), Mesh.parse("x=2,y=2"))
    solution = plan_shared(problem)
    proven = prove_apart(problem, solution)
    anew = PLANNERS["ilp"](build_problem(layers(count), Mesh.parse("x=2,y=2")))
    assert proven.strategies == solution.strategies and not proven.is_shared
    assert proven.bound <= solution.cost and proven.bound == pytest.approx(anew.bound, rel=ENOUGH)


@pytest.mark.parametrize(("case", "mesh"), [("mlp", "x=8"), ("mlp", "a=2,b=4"), ("dlrm", "a=2,b=4")])
def test_the_planners_agree_on_training_steps_and_close_the_gap(case: str, mesh: str):
    problem = build_problem(load(TRAINING_STEPS / f"{case}.hlo"), Mesh.parse(mesh))
    default = PLANNERS["ilp"](problem)
    assert default.cost == pytest.approx(default.shared_bound, rel=PROVEN)
    assert default.gap <= ENOUGH and not default.is_shared
    assert PLANNERS["recursive"](problem).cost < 1.2 * default.cost


@pytest.mark.long
def test_a_transformer_on_three_axes_is_solved_to_the_optimum():
    problem = build_problem(load(TRAINING_STEPS / "gpt4.hlo.gz"), Mesh.parse("a=2,b=2,c=2"))
    default = PLANNERS["ilp"](problem)
    assert default.cost == pytest.approx(default.shared_bound, rel=PROVEN)
    assert default.gap <= ENOUGH and not default.is_shared


def test_the_same_problem_gives_the_same_choice():
    result = [
        PLANNERS[name](build_problem(layers(4), Mesh.parse("x=4,y=2"))) for name in ("ilp", "recursive") for _ in "ab"
    ]
    for first, second in zip(result[::2], result[1::2], strict=True):
        assert first == second


def test_a_start_is_never_made_worse():
    problem = build_problem(layers(3), Mesh.parse("x=4,y=2"))
    best = PLANNERS["ilp"](problem)
    again = PLANNERS["ilp"](problem, starts=[best.strategies])
    assert again.cost <= best.cost


def test_pins_hold():
    problem, _ = constrain_problem(
        build_problem(layers(2), Mesh.parse("x=4")), Constraints({"w1": parse_spec("[-,x]")})
    )
    for name in ("ilp", "recursive"):
        specs = problem.specs(PLANNERS[name](problem).strategies)
        assert {str(spec) for node, spec in specs.items() if node.name == "w1"} == {"[-,x]"}


def test_alternatives_differ_and_come_in_order():
    problem = build_problem(layers(2), Mesh.parse("x=4,y=2"))
    best = PLANNERS["ilp"](problem)
    others = alternatives(problem, best, 3)
    assert others and all(other.cost >= best.cost * (1 - 1e-9) and other.notes for other in others)
    assert [other.cost for other in others] == sorted(other.cost for other in others)
    chosen = [tuple(item.strategies.values()) for item in (best, *others)]
    assert len(set(chosen)) == len(chosen)


def test_of_many_axes_none_is_forgotten():
    problem = build_problem(layers(1), Mesh.parse("a=2,b=2,c=2,d=2,e=2"))
    used = {
        axis
        for options in problem.options.values()
        for strategy in options
        for _, axes in strategy.before
        for axis in axes
    }
    assert used == {"a", "b", "c", "d", "e"}
