"""The steps of a pipeline, numbered over all its passes, and the module as it was after one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from hloom.ir import Module
from hloom.passes import Pass, leaf_passes
from hloom.rewrite import Report, Step, replay
from hloom.text import HloomError


def steps_of(report: Report) -> list[Step]:
    """The steps of a pass and of what it runs, in order."""
    return [*report.steps, *(step for inner in report.passes for step in steps_of(inner))]


def replay_until(module: Module, pipeline: Pass, report: Report, last: int) -> None:
    """Bring a module, as it was before a pipeline, to where it was after a step, in place; step 0 is the beginning.

    Passes that end before the step run entirely. Raises HloomError where there is no such step.
    """
    total = len(steps_of(report))
    if last > total:
        raise HloomError(f"there is no step {last:,}: the passes took {total:,}", hint="--steps lists them")
    left = last
    for leaf, account in leaf_passes(pipeline, report):
        if left == 0:
            return
        steps = steps_of(account)
        if left < len(steps):
            _replay(module, leaf, account, left)
            return
        leaf.run(module)
        left -= len(steps)


def _replay(module: Module, leaf: Pass, account: Report, count: int) -> None:
    if account.passes:
        raise HloomError(
            f"pass {leaf.name} cannot be stopped between its steps because it runs other passes",
            hint="build it with hloom.passes.sequence or fixpoint",
        )
    rules = [rule_report.rule for rule_report in account.rules]
    for _ in islice(replay(module, rules, account.steps), count):
        pass


def step_lines(pipeline: Pass, report: Report) -> Iterator[str]:
    """The steps with their numbers, and between them what passes without rules did."""
    number = 0
    for leaf, account in leaf_passes(pipeline, report):
        steps: Sequence[Step] = steps_of(account)
        for step in steps:
            number += 1
            yield f"{number:>6,}  {step}"
        if not steps and account.changed:
            yield f"{'':>6}  {leaf.name}{f': {account.erased:,} erased' if account.erased else ''}"
