"""A simulated step against the formulas of the papers, and against what any step must keep to."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.distribute.pipeline import ActionKind, PipelinePlan, Schedule, Stage
from hloom.distribute.pipeline.plan import InvalidPlan
from hloom.distribute.pipeline.schedules import dependencies
from hloom.distribute.pipeline.simulation import simulate
from hloom.distribute.pipeline.stage_costs import StageTimes, step_bound


def pipeline(groups: int, microbatches: int, schedule: Schedule, chunks: int = 1) -> PipelinePlan:
    stages = tuple(Stage(number, number, (number % groups,)) for number in range(groups * chunks))
    return PipelinePlan(stages, microbatches, schedule)


def equal(stages: int, forward: float, backward: float, weight: float) -> list[StageTimes]:
    return [StageTimes(forward, backward, weight, 0.0, 0.0)] * stages


@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.ONE_F_ONE_B])
@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 2), (4, 8), (5, 3)])
def test_the_bubble_of_gpipe_and_1f1b(schedule: Schedule, p: int, m: int):
    result = simulate(pipeline(p, m, schedule), equal(p, 1, 2, 1))
    assert result.step_seconds == 3 * (m + p - 1)
    assert result.bubble == pytest.approx((p - 1) / (m + p - 1))


@pytest.mark.parametrize(("p", "m", "v"), [(2, 2, 2), (4, 4, 2), (4, 8, 3), (3, 9, 4)])
def test_interleaving_divides_the_bubble_by_the_chunks(p: int, m: int, v: int):
    result = simulate(pipeline(p, m, Schedule.INTERLEAVED, v), equal(p * v, 1, 2, 1))
    assert result.step_seconds == 3 * (m * v + p - 1)
    assert result.bubble == pytest.approx((p - 1) / (m * v + p - 1))


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 4), (4, 8), (4, 12)])
def test_zero_bubble_h1(p: int, m: int):
    forward, inputs, weight = 1.0, 1.0, 1.0
    result = simulate(pipeline(p, m, Schedule.ZERO_BUBBLE), equal(p, forward, inputs + weight, weight))
    assert result.step_seconds == m * (forward + inputs + weight) + (p - 1) * (forward + inputs - weight)


SECONDS = st.integers(0, 6).map(float)


@st.composite
def stage_times(draw: st.DrawFn) -> StageTimes:
    weight = draw(SECONDS)
    return StageTimes(draw(SECONDS), weight + draw(SECONDS), weight, draw(SECONDS), draw(SECONDS))


@given(st.sampled_from(Schedule), st.lists(stage_times(), min_size=1, max_size=5), st.integers(1, 7))
def test_every_action_waits_for_what_it_needs(schedule: Schedule, stages: list[StageTimes], m: int):
    result = simulate(pipeline(len(stages), m, schedule), stages)
    ends = {event.action: event.end for events in result.events for event in events}
    for events in result.events:
        for before, after in pairwise(events):
            assert after.start >= before.end
        for event in events:
            for needed in dependencies(event.action, len(stages)):
                boundary = min(needed.stage, event.action.stage)
                transfer = stages[boundary].transfer_seconds if needed.stage != event.action.stage else 0
                assert event.start >= ends[needed] + transfer
    work = [m * (time.forward_seconds + time.backward_seconds) for time in stages]
    assert result.busy_seconds == pytest.approx(work)
    assert 0 <= result.bubble <= 1


@given(st.lists(stage_times(), min_size=1, max_size=5), st.integers(1, 7))
def test_1f1b_takes_no_longer_than_the_bound(stages: list[StageTimes], m: int):
    result = simulate(pipeline(len(stages), m, Schedule.ONE_F_ONE_B), stages)
    assert result.step_seconds <= step_bound(stages, m) + 1e-9


def test_the_step_ends_with_the_last_all_reduce():
    stages = [StageTimes(1, 2, 1, 0.5, 0.0), StageTimes(1, 2, 1, 0.0, 100.0)]
    result = simulate(pipeline(2, 3, Schedule.ONE_F_ONE_B), stages)
    last = max(event.end for event in result.events[1])
    assert result.step_seconds == last + 100
    assert result.live == (2, 1)
    assert result.events[1][1].action.kind is ActionKind.BACKWARD


def test_times_of_each_stage_are_needed():
    with pytest.raises(InvalidPlan, match="times of 1 stages for 2"):
        simulate(pipeline(2, 3, Schedule.GPIPE), equal(1, 1, 1, 1))
