"""What a pipeline's actions and its step take, measured: the bubble that there is, beside the one of the schedule."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hloom.pipeline.executor import PipelineExecutor, StepRun
from hloom.pipeline.plan import Action, ActionKind
from hloom.pipeline.simulation import Simulation, simulate
from hloom.pipeline.stage_costs import StageTimes
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class StepMeasurement:
    """A step whose actions were measured one by one, and together.

    `times` are by stage the medians over microbatches, with the transfers that follow an action; `simulation` is the
    schedule with these. `seconds` is what all microbatches took, dispatched as in a step.
    """

    times: tuple[StageTimes, ...]
    simulation: Simulation
    seconds: float

    @property
    def bubble(self) -> float:
        """The share of all groups' time that was not spent on actions, as long as these take one by one."""
        busy = self.simulation.busy_seconds
        return max(0.0, 1 - sum(busy) / (len(busy) * self.seconds))


def measure_step(executor: PipelineExecutor, arguments: Sequence[Any]) -> StepMeasurement:
    """Run a step three times: to compile it, each action alone, and as it runs."""
    if not all(group.is_local for group in executor.groups):
        raise HloomError("a pipeline over several processes cannot be measured: none of them sees all actions")
    _wait(executor.step(arguments))
    alone = _prepared(executor, arguments)
    seconds: dict[tuple[ActionKind, int], list[float]] = {}
    for action in executor.order:
        seconds.setdefault((action.kind, action.stage), []).append(_seconds_alone(alone, action))
    together = _prepared(executor, arguments)
    start = time.perf_counter()
    for action in executor.order:
        together.run_action(action)
    _wait(together.arrays())
    total = time.perf_counter() - start
    times = tuple(_stage_times(seconds, stage) for stage in range(len(executor.groups)))
    return StepMeasurement(times, simulate(executor.program.plan, times), total)


def _prepared(executor: PipelineExecutor, arguments: Sequence[Any]) -> StepRun:
    run = StepRun(executor, arguments)
    run.prepare()
    _wait(run.arrays())
    return run


def _seconds_alone(run: StepRun, action: Action) -> float:
    start = time.perf_counter()
    _wait(run.run_action(action))
    return time.perf_counter() - start


def _wait(arrays: Iterable[Any]) -> None:
    for array in arrays:
        if hasattr(array, "block_until_ready"):
            array.block_until_ready()


def _stage_times(seconds: dict[tuple[ActionKind, int], list[float]], stage: int) -> StageTimes:
    forward, backward, inputs, weights = (
        median(seconds.get((part, stage), [0.0]))
        for part in (ActionKind.FORWARD, ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT)
    )
    return StageTimes(forward, backward + inputs + weights, weights, 0.0, 0.0)
