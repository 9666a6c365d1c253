"""Simulates a step of a pipeline, action by action: start and end times, the bubble, and microbatches in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from hloom.distribute.pipeline.plan import Action, ActionKind, InvalidPlan, PipelinePlan
from hloom.distribute.pipeline.schedules import dependencies, live_microbatches, order
from hloom.distribute.pipeline.stage_costs import StageTimes


@dataclass(frozen=True, slots=True)
class Event:
    """An action and when it ran, in seconds from the beginning of the step."""

    action: Action
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """The simulated step: the events of each device group, and the end times of the pipeline and the step.

    The step ends when the last all-reduce of gradients does; `live` has the most microbatches of each stage.
    """

    plan: PipelinePlan
    events: tuple[tuple[Event, ...], ...]
    pipeline_seconds: float
    step_seconds: float
    live: tuple[int, ...]

    @property
    def busy_seconds(self) -> tuple[float, ...]:
        """How long each group of devices runs actions."""
        return tuple(sum(event.end - event.start for event in events) for events in self.events)

    @property
    def bubble(self) -> float:
        """The share of all devices' time in which they wait, until the pipeline's end."""
        widths = [len(devices) for devices in self.plan.device_groups]
        if not self.pipeline_seconds:
            return 0.0
        busy = sum(width * seconds for width, seconds in zip(widths, self.busy_seconds, strict=True))
        return max(0.0, 1 - busy / (sum(widths) * self.pipeline_seconds))


def simulate(plan: PipelinePlan, times: Sequence[StageTimes]) -> Simulation:
    """Run a step's actions in the schedule's order, each as soon as its group is free and what it needs has arrived.

    A boundary between stages brings one microbatch after the other in each direction, while both stages go on.
    """
    if len(times) != len(plan.stages):
        raise InvalidPlan(f"times of {len(times)} stages for {len(plan.stages)}", hint="give one a stage")
    lists = order(plan)
    spans = _run(lists, _durations(times), [time.transfer_seconds for time in times], max)
    events = tuple(
        tuple(Event(action, *span) for action, span in zip(*pair, strict=True))
        for pair in zip(lists, spans, strict=True)
    )
    pipeline = max(group_events[-1].end for group_events in events)
    step = max(end + time.all_reduce_seconds for end, time in zip(_last_ends(lists, spans), times, strict=True))
    live = {stage: most for actions in lists for stage, most in live_microbatches(actions).items()}
    return Simulation(plan, events, pipeline, max(step, pipeline), tuple(live[stage] for stage in sorted(live)))


def step_seconds(plan: PipelinePlan, choices: Sequence[Sequence[StageTimes]]) -> np.ndarray:
    """The seconds of a step for several choices of the stages' times, as `simulate` has it, all at once."""
    lists = order(plan)
    fields = np.array([[astuple(time) for time in times] for times in choices]).transpose(1, 2, 0)
    columns = [StageTimes(*stage_fields) for stage_fields in fields]
    spans = _run(lists, _durations(columns), [time.transfer_seconds for time in columns], np.maximum)
    ends = _last_ends(lists, spans)
    return np.max([end + time.all_reduce_seconds for end, time in zip(ends, columns, strict=True)], axis=0)


def _durations(times: Sequence[StageTimes]) -> dict[ActionKind, list[Any]]:
    """By kind of action its seconds in each stage."""
    return {
        ActionKind.FORWARD: [time.forward_seconds for time in times],
        ActionKind.BACKWARD: [time.backward_seconds for time in times],
        ActionKind.BACKWARD_INPUT: [time.backward_seconds - time.weight_seconds for time in times],
        ActionKind.BACKWARD_WEIGHT: [time.weight_seconds for time in times],
    }


def _run(
    lists: Sequence[Sequence[Action]],
    durations: dict[ActionKind, list[Any]],
    transfers: Sequence[Any],
    latest: Callable[[Any, Any], Any],
) -> list[list[tuple[Any, Any]]]:
    """When each action of each list begins and ends. Seconds are numbers, or arrays of several steps' at once."""
    spans: list[list[tuple[Any, Any]]] = [[] for _ in lists]
    known: dict[Action, Any] = {}
    link_free: dict[tuple[int, ActionKind], Any] = {}
    waiting: dict[Action, int] = {}
    ready = list(range(len(lists)))
    while ready:
        group = ready.pop()
        while len(spans[group]) < len(lists[group]):
            action = lists[group][len(spans[group])]
            needed = list(dependencies(action, len(transfers)))
            missing = next((other for other in needed if other not in known), None)
            if missing is not None:
                waiting[missing] = group
                break
            start = spans[group][-1][1] if spans[group] else 0.0
            for other in needed:
                if other.stage != action.stage:
                    start = latest(start, known[other])
            end = start + durations[action.kind][action.stage]
            spans[group].append((start, end))
            known[action] = _arrival(action, transfers, end, link_free, latest)
            if action in waiting:
                ready.append(waiting.pop(action))
    return spans


def _arrival(
    action: Action,
    transfers: Sequence[Any],
    end: Any,
    link_free: dict[tuple[int, ActionKind], Any],
    latest: Callable[[Any, Any], Any],
) -> Any:
    """When a forward's result is in the next stage, and a backward's in the one before; the end, where none is."""
    boundary = action.stage if action.kind is ActionKind.FORWARD else action.stage - 1
    if action.kind is ActionKind.BACKWARD_WEIGHT or not 0 <= boundary < len(transfers) - 1:
        return end
    link = (boundary, action.kind)
    link_free[link] = latest(end, link_free.get(link, 0.0)) + transfers[boundary]
    return link_free[link]


def _last_ends(lists: Sequence[Sequence[Action]], spans: Sequence[Sequence[tuple[Any, Any]]]) -> list[Any]:
    """When each stage ends its last action."""
    ends: dict[int, Any] = {}
    for actions, group_spans in zip(lists, spans, strict=True):
        ends.update({action.stage: end for action, (_, end) in zip(actions, group_spans, strict=True)})
    return [ends[stage] for stage in sorted(ends)]
