"""Figures of reading and printing MLIR's generic text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth, times_as_fast
from benchmarks.programs import Plan, Program, training_step
from hloom.formats.mlir import parse, to_text


def mlir(plan: Plan) -> Iterator[Figure]:
    """Reading against xDSL on the same text; then whether reading and printing are linear, each against itself."""
    small, large = (_generic(config) for config in (plan.small, plan.large))
    jobs = [Job(lambda _: parse(small.text)), Job(lambda _: peers.xdsl_parse(small.text))]
    ours, theirs = take_turns(jobs, plan.seconds, fewest=3)
    yield times_as_fast("read MLIR", small, ours, peers.XDSL, theirs, AtLeast(10))
    reading = [Job(lambda _, text=program.text: parse(text)) for program in (small, large)]
    less, more = take_turns(reading, plan.seconds, fewest=3)
    yield growth("read MLIR", small, large, less, more, AtMost(1.5))
    printing = [Job(to_text, lambda text=program.text: parse(text)) for program in (small, large)]
    less, more = take_turns(printing, plan.seconds, fewest=3)
    yield growth("print MLIR", small, large, less, more, AtMost(1.5))


def _generic(config) -> Program:
    """A training step as StableHLO in the generic form."""
    step = training_step(config, False)
    text = peers.generic_mlir(step.text)
    return Program(f"{step.name}, as StableHLO", text, text.count("\n"))
