"""Figures of reading HLO text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth, times_as_fast
from benchmarks.programs import Plan, Program, alike, repeated, training_step, training_steps, unlike
from hloom.hlo import parse


def reading(plan: Plan) -> Iterator[Figure]:
    """Against XLA's parser: real programs, then texts on which the reader's memos help always and never."""
    for program in training_steps(plan):
        yield _against_xla(program, plan, AtLeast(1.3))
    for program in (alike(plan.rows), unlike(plan.rows)):
        yield _against_xla(program, plan, None)


def reading_against_xdsl(plan: Plan) -> Iterator[Figure]:
    """Against xDSL's reading of the same program in generic MLIR, each in megabytes a second of its own text."""
    program = training_step(plan.small, False)
    generic = peers.generic_mlir(program.text)
    jobs = [Job(lambda _: parse(program.text)), Job(lambda _: peers.xdsl_parse(generic))]
    ours, theirs = take_turns(jobs, plan.seconds, fewest=3)
    rates = [len(program.text) / ours.best / 1e6, len(generic) / theirs.best / 1e6]
    yield Figure(
        f"read, MB/s: {program.name}",
        f"{rates[0]:.1f} MB/s",
        peers.XDSL,
        f"{rates[1]:.2f} MB/s",
        rates[0] / rates[1],
        len(program.text) / ours.median * theirs.median / len(generic),
        AtLeast(50),
        program.instructions / ours.best,
    )


def reading_a_million(plan: Plan) -> Iterator[Figure]:
    """Whether reading is linear: the large program against itself many times over."""
    once = training_step(plan.large, False)
    often = repeated(once, plan.copies)
    jobs = [Job(lambda _, text=program.text: parse(text)) for program in (once, often)]
    less, more = take_turns(jobs, plan.seconds, fewest=3)
    yield growth("read", once, often, less, more, AtMost(1.3))


def _against_xla(program: Program, plan: Plan, bar: AtLeast | None) -> Figure:
    jobs = [Job(lambda _: parse(program.text)), Job(lambda _: peers.xla_parse(program.text))]
    ours, theirs = take_turns(jobs, plan.seconds)
    return times_as_fast("read", program, ours, peers.XLA, theirs, bar)
