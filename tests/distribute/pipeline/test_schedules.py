"""Orders of work: each microbatch goes once through each stage, and the order can be run without a deadlock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.distribute.pipeline import Action, ActionKind, PipelinePlan, Schedule, Stage, order
from hloom.distribute.pipeline.schedules import ScheduleTooLarge, dependencies, live_microbatches


def pipeline(groups: int, microbatches: int, schedule: Schedule, chunks: int = 1) -> PipelinePlan:
    stages = tuple(Stage(number, number, (number % groups,)) for number in range(groups * chunks))
    return PipelinePlan(stages, microbatches, schedule)


@st.composite
def pipelines(draw: st.DrawFn) -> PipelinePlan:
    schedule, groups = draw(st.sampled_from(Schedule)), draw(st.integers(1, 6))
    if schedule is not Schedule.INTERLEAVED:
        return pipeline(groups, draw(st.integers(1, 14)), schedule)
    return pipeline(groups, groups * draw(st.integers(1, 4)), schedule, draw(st.integers(1, 4)))


def executed(plan: PipelinePlan) -> list[Action]:
    """All actions in an order in which the groups can run their lists, each waiting for the others."""
    lists = [list(actions) for actions in order(plan)]
    done: dict[Action, None] = {}
    progress = True
    while progress:
        progress = False
        for actions in lists:
            while actions and all(needed in done for needed in dependencies(actions[0], len(plan.stages))):
                done[actions.pop(0)] = None
                progress = True
    assert not any(lists), f"{[str(actions[0]) for actions in lists if actions]} wait for one another"
    return list(done)


@given(pipelines())
def test_every_microbatch_goes_once_through_every_stage_and_nothing_deadlocks(plan: PipelinePlan):
    backwards = [ActionKind.BACKWARD]
    if plan.schedule is Schedule.ZERO_BUBBLE:
        backwards = [ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT]
    expected = {
        Action(action_kind, stage, microbatch)
        for action_kind in (ActionKind.FORWARD, *backwards)
        for stage in range(len(plan.stages))
        for microbatch in range(plan.microbatches)
    }
    actions = executed(plan)
    assert len(actions) == len(expected)
    assert set(actions) == expected
    for group, listed in enumerate(order(plan)):
        assert {plan.group_of(action.stage) for action in listed} == {group}


@pytest.mark.parametrize("microbatches", [1, 3, 4, 9])
def test_live_microbatches(microbatches: int):
    live = {
        schedule: [live_microbatches(listed)[stage] for stage, listed in enumerate(order(pipeline(4, microbatches, schedule)))]
        for schedule in (Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE)
    }
    assert live[Schedule.GPIPE] == [microbatches] * 4
    assert live[Schedule.ONE_F_ONE_B] == [min(4 - stage, microbatches) for stage in range(4)]
    assert live[Schedule.ZERO_BUBBLE] == [min(4, microbatches)] * 4


def test_orders_of_the_papers():
    texts = {
        schedule: [" ".join(f"{action.kind.value}{action.microbatch}" for action in listed) for listed in order(plan)]
        for schedule in Schedule
        for plan in [pipeline(2, 4, schedule)]
    }
    assert texts[Schedule.GPIPE] == ["F0 F1 F2 F3 B3 B2 B1 B0"] * 2
    assert texts[Schedule.ONE_F_ONE_B] == ["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]
    assert texts[Schedule.ZERO_BUBBLE] == [
        "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3",
        "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3",
    ]
    (first, second) = order(pipeline(2, 2, Schedule.INTERLEAVED, chunks=2))
    assert " ".join(map(str, first)) == "F0@0 F1@0 F0@2 F1@2 B0@2 B1@2 B0@0 B1@0"
    assert " ".join(map(str, second)) == "F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 B0@1 B1@1"


def test_too_many_actions_are_refused():
    with pytest.raises(ScheduleTooLarge, match="are more actions than"):
        order(pipeline(2, 10**7, Schedule.GPIPE))
