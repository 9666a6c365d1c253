"""A single order for all stages of a pipeline, in which one process dispatches their work."""

from __future__ import annotations

from hloom.distribute.pipeline.plan import Action, ActionKind, PipelinePlan
from hloom.distribute.pipeline.schedules import dependencies, order
from hloom.text import HloomError

_UNITS = {
    ActionKind.FORWARD: 1,
    ActionKind.BACKWARD: 2,
    ActionKind.BACKWARD_INPUT: 1,
    ActionKind.BACKWARD_WEIGHT: 1,
}


def dispatch_order(plan: PipelinePlan) -> list[Action]:
    """The actions of all groups of devices by the time at which they would start, if a backward takes two forwards.

    Each group keeps the order of its schedule, and an action comes after all that it depends on.

    >>> from hloom.distribute.pipeline.plan import Stage
    >>> plan = PipelinePlan((Stage(0, 0, (0,)), Stage(1, 1, (1,))), 2)
    >>> print(*dispatch_order(plan))
    F0@0 F1@0 F0@1 B0@1 B0@0 F1@1 B1@1 B1@0
    """
    groups = order(plan)
    stages = len(plan.stages)
    following = [0] * len(groups)
    clocks = [0] * len(groups)
    finished: dict[Action, int] = {}
    dispatched: list[Action] = []
    total = sum(map(len, groups))
    while len(dispatched) < total:
        candidates: list[tuple[int, int]] = []
        for group, actions in enumerate(groups):
            if following[group] == len(actions):
                continue
            needed = list(dependencies(actions[following[group]], stages))
            if all(action in finished for action in needed):
                start = max([clocks[group], *[finished[action] for action in needed]])
                candidates.append((start, group))
        if not candidates:
            waiting = [str(actions[at]) for actions, at in zip(groups, following, strict=True) if at < len(actions)]
            raise HloomError(f"the schedule never goes on: {', '.join(waiting)} wait for each other")
        start, group = min(candidates)
        action = groups[group][following[group]]
        following[group] += 1
        clocks[group] = finished[action] = start + _UNITS[action.kind]
        dispatched.append(action)
    return dispatched
