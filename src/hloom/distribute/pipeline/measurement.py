"""Measured times of a pipeline's actions and of its step: the schedule's bubble, and that of the dispatched step.

The actions are run one by one, so that none waits for a core that another has: what they take is the same on a machine
of fewer cores than devices. When each would run is replayed from the recorded dispatch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hloom.distribute.pipeline.executor import PipelineExecutor, StepRecord, StepRun
from hloom.distribute.pipeline.plan import Action, ActionKind, PipelinePlan
from hloom.distribute.pipeline.simulation import Event, Simulation, simulate
from hloom.distribute.pipeline.stage_costs import StageTimes
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class StepMeasurement:
    """A step whose actions were measured one by one, and together.

    `times` are by stage the medians over microbatches, with the transfers that follow an action; `simulation` is the
    schedule with these: what is predicted. `replay` has what was recorded, each action with its own seconds: it begins
    when its group has ended what was dispatched to it before, and the actions are done whose results it read.
    `seconds` is what all microbatches took, dispatched as in a step.
    """

    times: tuple[StageTimes, ...]
    simulation: Simulation
    replay: Simulation
    seconds: float

    @property
    def wall_bubble(self) -> float:
        """The share of all groups' time that was not spent on actions, as long as these take one by one.

        It says nothing where the machine has fewer free cores than the plan has devices.
        """
        busy = self.replay.busy_seconds
        return max(0.0, 1 - sum(busy) / (len(busy) * self.seconds))


def measure_step(executor: PipelineExecutor, arguments: Sequence[Any], repeats: int = 1) -> StepMeasurement:
    """Run a step to compile it, so often with each action alone, and so often as it runs; the least seconds count."""
    if not all(group.is_local for group in executor.groups):
        raise HloomError("a pipeline over several processes cannot be measured: no process sees all actions")
    if repeats < 1:
        raise HloomError(f"a step cannot be measured {repeats} times", hint="measure it once, or more often")
    _wait(executor.step(arguments))
    seconds: dict[Action, float] = {}
    record = StepRecord()
    for _ in range(repeats):
        alone = _prepared(executor, arguments)
        for action in executor.order:
            seconds[action] = min(_seconds_alone(alone, action), seconds.get(action, float("inf")))
        record = alone.record
    together = min(_seconds_together(executor, arguments) for _ in range(repeats))
    plan = executor.program.plan
    times = tuple(_stage_times(seconds, stage) for stage in range(len(executor.groups)))
    return StepMeasurement(times, simulate(plan, times), replay(plan, record, seconds), together)


def replay(plan: PipelinePlan, record: StepRecord, seconds: Mapping[Action, float]) -> Simulation:
    """When each action of a record would run, where it takes so long, and its group does one after the other."""
    events: list[list[Event]] = [[] for _ in plan.device_groups]
    ends: dict[Action, float] = {}
    for action in record.actions:
        group = events[plan.group_of(action.stage)]
        free = group[-1].end if group else 0.0
        start = max([free, *[ends[source] for source in record.sources.get(action, ())]])
        ends[action] = start + seconds[action]
        group.append(Event(action, start, ends[action]))
    last = max(ends.values(), default=0.0)
    live = tuple(record.live_microbatches[stage] for stage in sorted(record.live_microbatches))
    return Simulation(plan, tuple(map(tuple, events)), last, last, live)


def _prepared(executor: PipelineExecutor, arguments: Sequence[Any]) -> StepRun:
    run = StepRun(executor, arguments)
    run.prepare()
    _wait(run.arrays())
    return run


def _seconds_alone(run: StepRun, action: Action) -> float:
    start = time.perf_counter()
    _wait(run.run_action(action))
    return time.perf_counter() - start


def _seconds_together(executor: PipelineExecutor, arguments: Sequence[Any]) -> float:
    run = _prepared(executor, arguments)
    start = time.perf_counter()
    for action in executor.order:
        run.run_action(action)
    _wait(run.arrays())
    return time.perf_counter() - start


def _wait(arrays: Iterable[Any]) -> None:
    for array in arrays:
        if hasattr(array, "block_until_ready"):
            array.block_until_ready()


def _stage_times(seconds: Mapping[Action, float], stage: int) -> StageTimes:
    forward, backward, inputs, weights = (
        median([spent for action, spent in seconds.items() if (action.kind, action.stage) == (part, stage)] or [0.0])
        for part in (ActionKind.FORWARD, ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT)
    )
    return StageTimes(forward, backward + inputs + weights, weights, 0.0, 0.0)
