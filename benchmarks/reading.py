"""Figures of reading HLO text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.compiled_programs import compiled_programs
from benchmarks.figures import AtLeast, AtMost, Figure, growth, times_as_fast, together
from benchmarks.growing import GROWING
from benchmarks.programs import Plan, Program, all_different, all_equal, repeated, training_step, training_steps
from hloom.formats.hlo import parse
from hloom.text import HloomWarning


def reading(plan: Plan) -> Iterator[Figure]:
    """Against XLA's parser: training steps, optimised modules, texts where the reader's memos help always and never."""
    for program in training_steps(plan):
        yield _against_xla(program, plan, AtLeast(1.3))
    compiled = [_against_xla(program, plan, AtLeast(0.8)) for program in compiled_programs(plan)]
    yield from compiled
    yield together("read", compiled, AtLeast(1.3))
    for program in (all_equal(plan.rows), all_different(plan.rows)):
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


def reading_repetitions(plan: Plan) -> Iterator[Figure]:
    """Whether reading is linear in texts that repeat one thing: the one of all that grows fastest."""
    growths = {name: list(_growth(text, plan)) for name, text in GROWING.items()}
    name = max(growths, key=lambda name: growths[name])
    best, median = growths[name]
    subject = f"read: a character of {len(GROWING)} texts, each four times as long"
    yield Figure(subject, f"{name}: {best:.2f} times", "itself", "1", best, median, AtMost(2))


def _growth(text: Callable[[int], str], plan: Plan) -> Iterator[float]:
    texts = text(plan.rows // 5), text(plan.rows // 5 * 4)
    jobs = [Job(_parse_quietly, lambda made=made: made) for made in texts]
    less, more = take_turns(jobs, plan.seconds / 10, fewest=3)
    lengths = len(texts[1]) / len(texts[0])
    yield from (more.best / less.best / lengths, more.median / less.median / lengths)


def _parse_quietly(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        parse(text)


def _against_xla(program: Program, plan: Plan, bar: AtLeast | None) -> Figure:
    jobs = [Job(lambda _: parse(program.text)), Job(lambda _: peers.xla_parse(program.text))]
    ours, theirs = take_turns(jobs, plan.seconds)
    return times_as_fast("read", program, ours, peers.XLA, theirs, bar)
