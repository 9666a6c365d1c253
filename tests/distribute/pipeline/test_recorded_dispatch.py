"""What an executor dispatches, recorded without running it: the order of work and the live microbatches of a schedule.

The devices' groups stand in for jax's: their modules compute nothing. `on_eight_devices.py` runs steps of the same
programs.

Covers `executor.py`, `dispatch.py`, `measurement.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import pytest

import hloom
from hloom.distribute.pipeline import (
    Action,
    ActionKind,
    PipelineExecutor,
    PipelinePlan,
    Schedule,
    Simulation,
    StageTimes,
    layers,
    order,
    pipeline_program,
    simulate,
)
from hloom.distribute.pipeline.executor import StepRun
from hloom.distribute.pipeline.extraction import result_types
from hloom.distribute.pipeline.measurement import replay
from hloom.distribute.pipeline.schedules import dependencies, live_microbatches
from hloom.distribute.pipeline.simulation import Event
from hloom.ir import Module
from tests.distribute.pipeline.on_eight_devices import (
    TOKENS,
    convolutional_loss,
    language_loss,
    language_model,
    normal,
    plan_of,
)

MICROBATCHES = 4


class IdleGroup:
    """A group of devices on which every array is, and whose modules yield zeros."""

    is_local = True
    devices = ()

    def holds(self, array: Any, split: object) -> bool:
        return True

    def put(self, array: Any, split: object = None) -> Any:
        return array

    def compiled(self, module: Module, splits: object, donated: object) -> Callable[..., tuple[np.ndarray, ...]]:
        arrays = tuple(np.zeros(result.dims, result.dtype.numpy) for result in result_types(module))
        return lambda *operands: arrays


def descent(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(weights: Any, *batch: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, *batch)
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), value

    return step


def gpt() -> Any:
    return language_loss, language_model(2), (TOKENS,)


def scan() -> Any:
    weights = language_model(4)
    return (
        language_loss,
        weights | {"layers": jax.tree.map(lambda *rows: np.stack(rows), *weights["layers"])},
        (TOKENS,),
    )


def convolutions() -> Any:
    weights = {"stages": [(normal(4, c, 3, 3), 1 + normal(4)) for c in (3, 4, 4)], "out": normal(64, 5)}
    return convolutional_loss, weights, (normal(8, 3, 8, 8), np.arange(8, dtype=np.int32) % 5)


PROGRAMS = {"GPT": gpt, "scan over layers": scan, "convolutional network": convolutions}


@lru_cache
def lowered(name: str) -> tuple[Module, list[Any], int]:
    """A step of a program, its arguments, and how many layers it has."""
    loss, weights, batch = PROGRAMS[name]()
    module = hloom.load(jax.jit(descent(loss)).lower(weights, *batch))
    return module, jax.tree.leaves((weights, *batch)), len(layers(module, microbatches=MICROBATCHES))


def dispatched(name: str, plan: PipelinePlan) -> StepRun:
    """A step of a program whose microbatches are dispatched, to groups that compute nothing."""
    module, arguments, _ = lowered(name)
    executor = PipelineExecutor(pipeline_program(module, plan), devices=["a device"] * 8)
    executor.groups = [IdleGroup() for _ in plan.stages]  # pyright: ignore[reportAttributeAccessIssue]
    run = StepRun(executor, arguments)
    run.prepare()
    for action in executor.order:
        run.run_action(action)
    return run


def plan_on(name: str, groups: int, schedule: Schedule) -> PipelinePlan:
    stages = 4 if schedule is Schedule.INTERLEAVED else groups
    return plan_of(lowered(name)[2], stages, MICROBATCHES, schedule, groups=groups)


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize("name", PROGRAMS)
def test_work_is_in_the_order_of_the_schedule(name: str, schedule: Schedule):
    groups = 2 if schedule is Schedule.INTERLEAVED else 4
    plan = plan_on(name, groups, schedule)
    record = dispatched(name, plan).record
    assert by_group(plan, record.actions) == order(plan)
    live = {stage: count for actions in order(plan) for stage, count in live_microbatches(actions).items()}
    assert record.live_microbatches == live
    for action in record.actions:
        needed = {other for other in dependencies(action, len(plan.stages)) if other.stage != action.stage}
        if action not in record.sources:  # nothing needs the gradient of the first stage's inputs
            assert (action.kind, action.stage) == (ActionKind.BACKWARD_INPUT, 0)
        else:
            assert needed <= record.sources[action], f"{action} reads {record.sources[action]}"


@pytest.mark.parametrize("schedule", Schedule)
def test_a_replay_of_equal_actions_is_the_simulation(schedule: Schedule):
    name = "convolutional network"
    plan = plan_on(name, 2, schedule)
    record = dispatched(name, plan).record
    is_split = schedule is Schedule.ZERO_BUBBLE
    times = [StageTimes(1.0, 2.0, (1.0 if stage else 2.0) * is_split, 0.0, 0.0) for stage in range(len(plan.stages))]
    simulated = simulate(plan, times)
    seconds = {event.action: event.end - event.start for events in simulated.events for event in events}
    replayed = replay(plan, record, seconds)
    assert working(replayed) == working(simulated)
    assert (replayed.bubble, replayed.live) == (simulated.bubble, simulated.live)


def test_a_replay_waits_for_what_was_read():
    name = "convolutional network"
    plan = plan_on(name, 2, Schedule.GPIPE)
    record = dispatched(name, plan).record
    first, second = replay(plan, record, dict.fromkeys(record.actions, 1.0)).events
    assert second[0].start == first[0].end and first[MICROBATCHES].start == second[MICROBATCHES].end
    slow = {action: 3.0 if action.stage else 1.0 for action in record.actions}
    assert replay(plan, record, slow).bubble == pytest.approx(1 - (8 + 24) / (2 * 26))


def working(step: Simulation) -> list[list[Event]]:
    """The events of each group that take any time."""
    return [[event for event in events if event.end > event.start] for events in step.events]


def by_group(plan: PipelinePlan, actions: Sequence[Action]) -> tuple[tuple[Action, ...], ...]:
    groups: list[list[Action]] = [[] for _ in plan.device_groups]
    for action in actions:
        groups[plan.group_of(action.stage)].append(action)
    return tuple(map(tuple, groups))
