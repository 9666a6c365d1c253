"""The order in which stages run microbatches, by schedule.

Each is a list of actions for one group of devices, p groups in all, m microbatches. A group runs its list from left to
right; an action that needs another group's result waits for it. To add a schedule, write its function and give it a
row in `_ORDERS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from hloom.distribute.pipeline.plan import Action, ActionKind, PipelinePlan, Schedule
from hloom.text import HloomError

LARGEST_SCHEDULE = 2**22
"""The maximum number of actions of a schedule."""

FORWARD, BACKWARD = ActionKind.FORWARD, ActionKind.BACKWARD


class ScheduleTooLarge(HloomError):
    """More actions than are ever listed."""


def order(plan: PipelinePlan) -> tuple[tuple[Action, ...], ...]:
    """For each group of devices (`plan.device_groups`) what it runs, in order; but for interleaved stages, each stage.

    >>> from hloom.distribute.pipeline.plan import Stage
    >>> plan = PipelinePlan((Stage(0, 0, (0,)), Stage(1, 1, (1,))), 3)
    >>> for actions in order(plan):
    ...     print(*actions)
    F0@0 F1@0 B0@0 F2@0 B1@0 B2@0
    F0@1 B0@1 F1@1 B1@1 F2@1 B2@1
    """
    groups = len(plan.device_groups)
    check_size(len(plan.stages), plan.microbatches)
    one_group = _ORDERS[plan.schedule]
    return tuple(tuple(one_group(group, groups, plan)) for group in range(groups))


def check_size(stages: int, microbatches: int) -> None:
    """Raise ScheduleTooLarge for more actions than are listed."""
    if 3 * stages * microbatches > LARGEST_SCHEDULE:
        raise ScheduleTooLarge(
            f"{stages} stages times {microbatches} microbatches are more actions than a schedule may have",
            hint=f"at most {LARGEST_SCHEDULE}: use fewer microbatches",
        )


def gpipe(group: int, groups: int, plan: PipelinePlan) -> Iterator[Action]:
    """All forwards, then all backwards from the last microbatch to the first (Huang et al. 2019, figure 2c)."""
    for microbatch in range(plan.microbatches):
        yield Action(FORWARD, group, microbatch)
    for microbatch in reversed(range(plan.microbatches)):
        yield Action(BACKWARD, group, microbatch)


def one_f_one_b(group: int, groups: int, plan: PipelinePlan) -> Iterator[Action]:
    """p - s - 1 forwards of stage s, then forwards and backwards in turn, then the remaining backwards.

    Megatron-LM, megatron/core/pipeline_parallel/schedules.py,
    forward_backward_pipelining_without_interleaving.
    """
    forwards = [Action(FORWARD, group, microbatch) for microbatch in range(plan.microbatches)]
    backwards = [Action(BACKWARD, group, microbatch) for microbatch in range(plan.microbatches)]
    return _alternate(forwards, backwards, groups - group - 1)


def interleaved(group: int, groups: int, plan: PipelinePlan) -> Iterator[Action]:
    """1F1B over v stages of each group: a stage runs p microbatches, then the group's next stage runs the same p.

    Megatron-LM, megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving.
    """
    chunks = len(plan.stages) // groups
    if chunks == 1:
        return one_f_one_b(group, groups, plan)
    forwards, backwards = [], []
    for first in range(0, plan.microbatches, groups):
        for chunk in range(chunks):
            for microbatch in range(first, first + groups):
                forwards.append(Action(FORWARD, chunk * groups + group, microbatch))
                backwards.append(Action(BACKWARD, (chunks - 1 - chunk) * groups + group, microbatch))
    return _alternate(forwards, backwards, 2 * (groups - group - 1) + (chunks - 1) * groups)


def zero_bubble(group: int, groups: int, plan: PipelinePlan) -> Iterator[Action]:
    """ZB-H1: 1F1B whose backward of the weights comes s microbatches after the backward of the inputs in stage s.

    As many microbatches are live in each stage as in the first stage of 1F1B (Qi et al. 2023, section 2.2).
    """
    for action in one_f_one_b(group, groups, plan):
        if action.kind is FORWARD:
            yield action
            continue
        yield Action(ActionKind.BACKWARD_INPUT, group, action.microbatch)
        if action.microbatch >= group:
            yield Action(ActionKind.BACKWARD_WEIGHT, group, action.microbatch - group)
    for microbatch in range(max(0, plan.microbatches - group), plan.microbatches):
        yield Action(ActionKind.BACKWARD_WEIGHT, group, microbatch)


_ORDERS = {
    Schedule.GPIPE: gpipe,
    Schedule.ONE_F_ONE_B: one_f_one_b,
    Schedule.INTERLEAVED: interleaved,
    Schedule.ZERO_BUBBLE: zero_bubble,
}


def dependencies(action: Action, stages: int) -> Iterator[Action]:
    """The actions that must precede an action: of the same microbatch, in its stage or a neighbouring one.

    A backward is named by what gives the gradient of the inputs: whole (BACKWARD) if `action` is, else BACKWARD_INPUT.

    >>> print(*dependencies(Action(ActionKind.BACKWARD, 0, 5), 2))
    F5@0 B5@1
    """
    if action.kind is FORWARD:
        if action.stage:
            yield Action(FORWARD, action.stage - 1, action.microbatch)
        return
    if action.kind is ActionKind.BACKWARD_WEIGHT:
        yield Action(ActionKind.BACKWARD_INPUT, action.stage, action.microbatch)
        return
    yield Action(FORWARD, action.stage, action.microbatch)
    if action.stage + 1 < stages:
        yield Action(action.kind, action.stage + 1, action.microbatch)


def live_microbatches(actions: Sequence[Action]) -> dict[int, int]:
    """The most microbatches that each stage holds activations of at once, from its forward to the end of its backward.

    >>> from hloom.distribute.pipeline.plan import Stage
    >>> live_microbatches(order(PipelinePlan((Stage(0, 0, (0,)), Stage(1, 1, (1,))), 8, Schedule.GPIPE))[1])
    {1: 8}
    """
    live: dict[int, int] = {}
    most: dict[int, int] = {}
    for action in actions:
        if action.kind is FORWARD:
            live[action.stage] = live.get(action.stage, 0) + 1
            most[action.stage] = max(most.get(action.stage, 0), live[action.stage])
        elif action.kind is not ActionKind.BACKWARD_INPUT:
            live[action.stage] -= 1
    return most


def _alternate(forwards: Sequence[Action], backwards: Sequence[Action], warmup: int) -> Iterator[Action]:
    """`warmup` forwards, then one forward and one backward in turn, then the remaining backwards."""
    warmup = min(warmup, len(forwards))
    pairs = zip(forwards[warmup:], backwards, strict=False)
    return chain(forwards[:warmup], chain.from_iterable(pairs), backwards[len(forwards) - warmup :])
