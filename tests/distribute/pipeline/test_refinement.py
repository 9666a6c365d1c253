"""Refined cuts: never slower than before, and no single move is left that saves time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.analysis import Interconnect
from hloom.distribute.pipeline import Chain, LayerCost, Machine, PipelinePlan, Schedule, Stage, StageCosts, simulate
from hloom.distribute.pipeline.refinement import refine_cuts
from hloom.distribute.pipeline.simulation import step_seconds
from tests.distribute.pipeline.test_simulation import pipeline, stage_times

LINK = Interconnect("link", "link", "ring", 100.0, 0.0)


@given(st.sampled_from(Schedule), st.lists(st.lists(stage_times(), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 5))
def test_steps_simulated_at_once_are_those_simulated_alone(schedule: Schedule, choices: list, microbatches: int):
    plan = pipeline(3, microbatches, schedule)
    alone = [simulate(plan, times).step_seconds for times in choices]
    assert step_seconds(plan, choices).tolist() == alone


def costs_of(seconds: list[float], memory: float = 1e9) -> StageCosts:
    layers = tuple(LayerCost(str(number), time, 2 * time, 10, 1, 1) for number, time in enumerate(seconds))
    return StageCosts(Chain(layers, 1), Machine(3, memory, (LINK,)), 1)


def plan_of(*firsts: int, layers: int) -> PipelinePlan:
    ends = [*(first - 1 for first in firsts[1:]), layers - 1]
    stages = tuple(Stage(first, end, (number,)) for number, (first, end) in enumerate(zip(firsts, ends, strict=True)))
    return PipelinePlan(stages, 4)


def test_unequal_stages_are_made_equal():
    refined = refine_cuts(costs_of([1.0] * 9), plan_of(0, 1, 2, layers=9))
    assert [(stage.first, stage.last) for stage in refined.stages] == [(0, 2), (3, 5), (6, 8)]


def test_no_move_goes_beyond_the_memory():
    costs = costs_of([1.0] * 9, memory=3 * 2 + 7 * 10)  # the last stage keeps one microbatch of seven layers
    refined = refine_cuts(costs, plan_of(0, 1, 2, layers=9))
    assert max(costs.peak_bytes(refined)) <= costs.machine.memory_bytes
    assert simulate(refined, costs.stage_times(refined)).step_seconds < 90


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 5).map(float), min_size=3, max_size=8))
def test_refined_cuts_are_never_slower(seconds: list[float]):
    costs, plan = costs_of(seconds), plan_of(0, 1, 2, layers=len(seconds))
    refined = refine_cuts(costs, plan)
    before, after = (simulate(cut, costs.stage_times(cut)).step_seconds for cut in (plan, refined))
    assert after <= before
    assert refine_cuts(costs, refined) == refined
