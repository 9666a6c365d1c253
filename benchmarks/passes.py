"""Figures of the standard passes on a training step: what an instruction costs, and how that grows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth
from benchmarks.programs import Plan, training_step
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.passes import apply_in_place

PASSES = (
    "simplify", "simplify-xla", "fold", "cse", "dce", "inline", "hoist", "outline", "merge-dots", "sink-slices",
    "move-converts", "simplify-loops", "sink-reshapes", "carry-concatenations",
    "move-into-branches", "move-out-of-branches", "conditional-to-select", "fold-transposes", "hoist-slices",
    "canonical-dots", "canonical-gathers", "propagate-constants", "simplify-collectives", "sink-all-reduces",
    "simplify-tuples", "eliminate-dead-updates",
)  # fmt: skip
LINEAR = AtMost(2)
"""As for other edits of a module in memory."""
SORT = AtMost(3)
"""What sorts all suffixes of a program, over and over while it gets smaller; what is quadratic would show about 7.5."""


def passes(plan: Plan) -> Iterator[Figure]:
    """Each pass alone, on a small and on a large step; XLA offers none of its own to be timed from Python."""
    small, large = training_step(plan.small, True), training_step(plan.large, True)
    for name in PASSES:
        jobs = [Job(partial(_run, name), partial(parse, program.text)) for program in (small, large)]
        less, more = take_turns(jobs, plan.seconds, fewest=2)
        yield growth(name, small, large, less, more, SORT if name == "outline" else LINEAR)


def _run(name: str, module: Module) -> None:
    apply_in_place(module, name)
