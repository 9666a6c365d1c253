"""Figures of microbatches: a training step as a loop over four slices, its memory and FLOPs, and the growth."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, training_step
from benchmarks.propagation import batch_of
from hloom.analysis import cost
from hloom.distribute.microbatch import microbatch
from hloom.formats.hlo import parse, print_module
from hloom.ir import Module, TensorType
from hloom.runtime import memory

SLICES = 4
"""Into how many slices the batch is cut; fewer where it is smaller."""
LESS = AtMost(0.6)
SAME = AtMost(1.05)
LINEAR = AtMost(2)


def microbatches(plan: Plan) -> Iterator[Figure]:
    """Temporaries and FLOPs against the whole batch, by XLA; seconds, and how the time grows to the large step."""
    programs = training_step(plan.small, True), training_step(plan.large, True)
    whole = parse(programs[0].text)
    sliced = _sliced(whole)
    counted = [memory(print_module(module))["temporaries"] for module in (sliced, whole)]
    ratio = counted[0] / counted[1]
    yield Figure(
        f"{SLICES} slices, temporaries: {programs[0].name}",
        f"{counted[0]:,}", "whole batch", f"{counted[1]:,}", ratio, ratio, LESS,
    )  # fmt: skip
    flops = [cost(module).total.flops for module in (sliced, whole)]
    ratio = flops[0] / flops[1]
    yield Figure(
        f"{SLICES} slices, FLOPs: {programs[0].name}",
        f"{flops[0]:,.0f}", "whole batch", f"{flops[1]:,.0f}", ratio, ratio, SAME,
    )  # fmt: skip
    jobs = [Job(_sliced, lambda text=program.text: parse(text)) for program in programs]
    less, more = take_turns(jobs, plan.seconds)
    small = programs[0]
    yield Figure(
        f"microbatch: {small.name}", milliseconds(less.best), "limit", "1 s", less.best, less.median, AtMost(1),
        small.instructions / less.best,
    )  # fmt: skip
    yield growth("microbatch", *programs, less, more, LINEAR)


def _sliced(module: Module) -> Module:
    name = batch_of(module)
    batch = module.entry[name].type
    assert isinstance(batch, TensorType)
    return microbatch(module, gcd(SLICES, batch.dims[0]), batch={name: 0})
