"""Figures of propagation: the batch of a training step split over one axis, followed through the whole step."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, training_step
from hloom.distribute.propagation import propagate
from hloom.formats.hlo import parse
from hloom.ir import Module, TensorType

SECOND = AtMost(1)
LINEAR = AtMost(2)


def propagation(plan: Plan) -> Iterator[Figure]:
    """Seconds for the small step, collectives counted, and how the time grows to the large one."""
    programs = training_step(plan.small, True), training_step(plan.large, True)
    jobs = [Job(_follow, lambda text=program.text: parse(text)) for program in programs]
    less, more = take_turns(jobs, plan.seconds)
    small = programs[0]
    yield Figure(
        f"propagate: {small.name}",
        milliseconds(less.best),
        "limit",
        "1 s",
        less.best,
        less.median,
        SECOND,
        small.instructions / less.best,
    )
    yield growth("propagate", *programs, less, more, LINEAR)


def _follow(module: Module) -> object:
    propagation = propagate(module, [f"{batch_of(module)}:0=data"], "data=2")
    return propagation.table(), propagation.collectives


def batch_of(module: Module) -> str:
    """The last parameter of whole numbers: what the model is to say."""
    kinds = ((parameter.name, parameter.type) for parameter in reversed(module.entry.parameters))
    return next(
        name
        for name, parameter_type in kinds
        if isinstance(parameter_type, TensorType) and parameter_type.dtype.is_integer and parameter_type.rank
    )
