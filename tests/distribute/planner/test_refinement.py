"""What was measured goes back into the tables: what was costlier than predicted is costlier the next time."""

from __future__ import annotations

import pytest

from hloom.analysis import as_device
from hloom.distribute.planner.candidates import Task
from hloom.distribute.planner.cost_model import Rates
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.forecast import predicted_collectives, seconds_by_origin
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.refinement import Refinement, correct_costs
from hloom.distribute.planner.solvers import PLANNERS, Assignment
from hloom.distribute.planner.solvers.ilp import plan_shared
from hloom.formats.hlo import parse
from hloom.sharding import Mesh
from tests.distribute.planner.test_plan import TWO_LAYERS

H100 = Rates.of(as_device("h100"), Mesh.parse("x=8"))


def solved(rates: Rates | None = None) -> tuple[Problem, dict[int, int], dict[str, float]]:
    """A problem, its best choice, and the seconds of what that is expected to send by instruction."""
    problem = build_problem(parse(TWO_LAYERS), Mesh.parse("x=8"), rates)
    choice = PLANNERS["ilp"](problem).strategies
    return problem, choice, seconds_by_origin(predicted_collectives(problem, choice), problem.collectives)


@pytest.mark.parametrize("rates", [None, H100], ids=["alike", "h100"])
def test_what_was_expected_teaches_nothing(rates: Rates | None):
    problem, choice, sent = solved(rates)
    before = problem.cost(choice)
    assert correct_costs(problem, choice, sent) == 0
    assert problem.cost(choice) == before


@pytest.mark.parametrize("rates", [None, H100], ids=["alike", "h100"])
@pytest.mark.parametrize("name", ["h", "y", "dw", "w1"])
def test_a_surprise_makes_the_choice_costlier_by_its_seconds(name: str, rates: Rates | None):
    problem, choice, sent = solved(rates)
    before = problem.cost(choice)
    more = 1e-3
    surprise = correct_costs(problem, choice, {**sent, name: sent.get(name, 0.0) + more})
    assert surprise == pytest.approx(more)
    assert problem.cost(choice) - before == pytest.approx(more)


def test_a_surprise_counts_as_the_objective_weighs_collectives():
    problem, choice, sent = solved(Rates().weighted(0.75))
    before = problem.cost(choice)
    assert correct_costs(problem, choice, {**sent, "h": sent.get("h", 0.0) + 1e-3}) == pytest.approx(0.25e-3)
    assert problem.cost(choice) - before == pytest.approx(0.25e-3)


def test_latency_that_was_not_expected_is_a_surprise():
    problem, choice, sent = solved(H100)
    name = max(sent, key=lambda item: sent[item])
    once_more = dict.fromkeys(sent, 0.0) | {name: 14 * 1.9e-6}  # an all-reduce of a few bytes
    measured = {item: seconds + once_more[item] for item, seconds in sent.items()}
    assert correct_costs(problem, choice, measured) == pytest.approx(14 * 1.9e-6)


def test_differences_that_are_noise_teach_nothing():
    problem, choice, sent = solved()
    total = sum(sent.values())
    assert correct_costs(problem, choice, {**sent, "h": sent.get("h", 0.0) + 1e-4 * total}) == 0


def test_what_is_sent_for_a_reader_that_sends_less_is_no_surprise():
    problem, choice, sent = solved()
    name = max(sent, key=lambda item: sent[item])
    entry = problem.module.entry
    maker = entry[name].operands[0]
    moved = {**sent, maker.name: sent.get(maker.name, 0.0) + sent[name], name: 0.0}
    assert correct_costs(problem, choice, moved) == 0


def test_instructions_that_are_not_there_teach_nothing():
    problem, choice, sent = solved()
    assert correct_costs(problem, choice, {**sent, "somewhere": 1.0}) == 0


@pytest.mark.parametrize("budget", [None, 1e12])
def test_a_better_plan_met_while_proving_is_taken(budget: float | None):
    task = Task(parse(TWO_LAYERS), Mesh.parse("x=8"), Rates(), budget)
    problem = build_problem(task.module, task.mesh)
    best = plan_shared(problem)

    def replicated(problem: Problem, **_: object) -> Assignment:
        strategies = dict.fromkeys(problem.options, 0)
        return Assignment(strategies, problem.cost(strategies), 0.0)

    refinement = Refinement(task, problem, replicated, "replicated")
    refinement.advance(float("inf"))
    assert refinement.waiting is not None and refinement.waiting.cost(task.rates) > 2 * best.cost
    refinement.prove()
    assert refinement.waiting.cost(task.rates) == pytest.approx(best.cost)
    assert refinement.waiting.memory is not None
