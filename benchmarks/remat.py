"""Figures of recomputation: a training step at half its peak, by XLA's buffer assignment, its FLOPs, and the growth."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, training_step
from hloom.hlo import parse, print_module
from hloom.ir import Module
from hloom.remat import Rematerialization, rematerialize
from hloom.runtime import memory

SHARE = 0.5
"""The budget, as a share of the peak."""
UNBOUNDED = 2**60
HALF = AtMost(SHARE * 1.02)
"""The model of the compiler may be off by a little."""
CHEAP = AtMost(1.15)
LINEAR = AtMost(2)


def remat(plan: Plan) -> Iterator[Figure]:
    """Peak and FLOPs against the step that keeps everything; seconds, and how the time grows to the large step."""
    small, large = training_step(plan.small, False), training_step(plan.large, False)
    whole = parse(small.text)
    made = _halved(whole)
    taken = [memory(print_module(module))["peak"] for module in (made.module, whole)]
    ratio = taken[0] / taken[1]
    yield Figure(
        f"half the memory, peak: {small.name}", f"{taken[0]:,}", "as it is", f"{taken[1]:,}", ratio, ratio, HALF,
    )  # fmt: skip
    ratio = made.flops / made.original_flops
    yield Figure(
        f"half the memory, FLOPs: {small.name}",
        f"{made.flops:,.0f}", "as it is", f"{made.original_flops:,.0f}", ratio, ratio, CHEAP,
    )  # fmt: skip
    jobs = [Job(_halved, lambda text=program.text: parse(text)) for program in (small, large)]
    less, more = take_turns(jobs, plan.seconds)
    yield Figure(
        f"remat: {large.name}", milliseconds(more.best), "limit", "60 s", more.best / 60, more.median / 60, AtMost(1),
        large.instructions / more.best,
    )  # fmt: skip
    yield growth("remat", small, large, less, more, LINEAR)


def _halved(module: Module) -> Rematerialization:
    return rematerialize(module, int(SHARE * rematerialize(module, UNBOUNDED).peak))
