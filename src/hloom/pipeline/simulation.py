"""A step of a pipeline, action by action: when each begins and ends, the bubble, and the microbatches in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.pipeline.plan import Action, ActionKind, InvalidPlan, PipelinePlan, Schedule
from hloom.pipeline.schedules import dependencies, live_microbatches, order
from hloom.pipeline.stage_costs import StageTimes


@dataclass(frozen=True, slots=True)
class Event:
    """An action and when it ran, in seconds from the beginning of the step."""

    action: Action
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a step does: the events of each group of devices, and the ends of the pipeline and of the step.

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
    events: list[list[Event]] = [[] for _ in lists]
    ends: dict[Action, float] = {}
    arrivals: dict[Action, float] = {}
    link_free: dict[tuple[int, ActionKind], float] = {}
    waiting: dict[Action, int] = {}
    ready = list(range(len(lists)))
    while ready:
        group = ready.pop()
        while len(events[group]) < len(lists[group]):
            action = lists[group][len(events[group])]
            missing = next((needed for needed in dependencies(action, len(times)) if needed not in ends), None)
            if missing is not None:
                waiting[missing] = group
                break
            start = _start(action, len(times), events[group], ends, arrivals)
            end = start + _duration(action, times, plan.schedule)
            events[group].append(Event(action, start, end))
            ends[action] = end
            _send(action, times, end, arrivals, link_free)
            if action in waiting:
                ready.append(waiting.pop(action))
    pipeline = max(events[-1].end for events in events)
    last_ends = [0.0] * len(times)
    for event in (event for group_events in events for event in group_events):
        last_ends[event.action.stage] = max(last_ends[event.action.stage], event.end)
    step = max(end + time.all_reduce_seconds for end, time in zip(last_ends, times, strict=True))
    live = {stage: most for actions in lists for stage, most in live_microbatches(actions).items()}
    return Simulation(
        plan, tuple(map(tuple, events)), pipeline, max(step, pipeline), tuple(live[stage] for stage in sorted(live))
    )


def _start(
    action: Action, stages: int, events: Sequence[Event], ends: dict[Action, float], arrivals: dict[Action, float]
) -> float:
    start = events[-1].end if events else 0.0
    for needed in dependencies(action, stages):
        start = max(start, ends[needed] if needed.stage == action.stage else arrivals[needed])
    return start


def _duration(action: Action, times: Sequence[StageTimes], schedule: Schedule) -> float:
    time = times[action.stage]
    if action.kind is ActionKind.FORWARD:
        return time.forward_seconds
    if action.kind is ActionKind.BACKWARD_WEIGHT:
        return time.weight_seconds
    is_split = action.kind is ActionKind.BACKWARD_INPUT
    return time.backward_seconds - (time.weight_seconds if is_split else 0.0)


def _send(
    action: Action,
    times: Sequence[StageTimes],
    end: float,
    arrivals: dict[Action, float],
    link_free: dict[tuple[int, ActionKind], float],
) -> None:
    """Bring a forward's result to the next stage, and a backward's to the one before."""
    if action.kind is ActionKind.BACKWARD_WEIGHT:
        return
    boundary = action.stage if action.kind is ActionKind.FORWARD else action.stage - 1
    if not 0 <= boundary < len(times) - 1:
        return
    link = (boundary, action.kind)
    arrivals[action] = link_free[link] = max(end, link_free.get(link, 0.0)) + times[boundary].transfer_seconds
