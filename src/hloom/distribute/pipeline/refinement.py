"""Refines the cuts between stages, one at a time, while the simulated step gets shorter.

The search minimises a bound or an estimate (`search.py`); in between is how transfers overlap with the work of stages
that are less busy than their neighbours, and that early stages go on while later ones do their first backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from hloom.distribute.pipeline.plan import PipelinePlan
from hloom.distribute.pipeline.simulation import step_seconds
from hloom.distribute.pipeline.stage_costs import StageCosts, StageTimes

MOST_ACTIONS = 2**18
"""The maximum number of actions of neighbouring plans to simulate; those simulated together count once."""
LEAST_GAIN = 1e-9
"""The share of the step that a move has to save."""


def refine_cuts(costs: StageCosts, plan: PipelinePlan) -> PipelinePlan:
    """The plan after the moves of single cuts that save most, each within memory, until none saves anything."""
    actions = 2 * len(plan.stages) * plan.microbatches
    times = costs.stage_times(plan)
    seconds = float(step_seconds(plan, [times])[0])
    for _ in range(MOST_ACTIONS // actions):
        neighbours = list(_neighbours(plan))
        if not neighbours:
            return plan
        choices = [_changed(costs, times, neighbour, number) for number, neighbour in neighbours]
        steps = step_seconds(plan, choices)
        better = next(
            (int(i) for i in steps.argsort() if _is_better(costs, neighbours[i][1], float(steps[i]), seconds)), None
        )
        if better is None:
            return plan
        plan, times, seconds = neighbours[better][1], choices[better], float(steps[better])
    return plan


def _is_better(costs: StageCosts, plan: PipelinePlan, step: float, seconds: float) -> bool:
    if step >= seconds * (1 - LEAST_GAIN):
        return False
    return max(costs.peak_bytes(plan)) <= costs.machine.memory_bytes


def _neighbours(plan: PipelinePlan) -> Iterator[tuple[int, PipelinePlan]]:
    """The plans with the end of one stage elsewhere in it or in the next, with the stage's number."""
    for number, (left, right) in enumerate(pairwise(plan.stages)):
        for last in range(left.first, right.last):
            if last != left.last:
                stages = list(plan.stages)
                stages[number : number + 2] = replace(left, last=last), replace(right, first=last + 1)
                yield number, replace(plan, stages=tuple(stages))


def _changed(
    costs: StageCosts, times: tuple[StageTimes, ...], plan: PipelinePlan, number: int
) -> tuple[StageTimes, ...]:
    """The times of a plan whose stages are those of before but for two."""
    two = (costs.times_of_stage(plan, number), costs.times_of_stage(plan, number + 1))
    return (*times[:number], *two, *times[number + 2 :])
