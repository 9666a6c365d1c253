"""Figures of printing HLO text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.compiled_programs import compiled_programs
from benchmarks.figures import AtMost, Figure, times_the_time, together
from benchmarks.programs import Plan, Program, training_steps
from hloom.formats.hlo import parse, print_module


def printing(plan: Plan) -> Iterator[Figure]:
    """Against XLA's printer, each on a module that it has just read: nothing is remembered from an earlier print."""
    for program in training_steps(plan):
        yield _against_xla(program, plan, AtMost(1))
    compiled = [_against_xla(program, plan, AtMost(2)) for program in compiled_programs(plan)]
    yield from compiled
    yield together("print", compiled, AtMost(1))


def _against_xla(program: Program, plan: Plan, bar: AtMost) -> Figure:
    jobs = [
        Job(print_module, lambda: parse(program.text)),
        Job(peers.xla_print, lambda: peers.xla_parse(program.text)),
    ]
    ours, theirs = take_turns(jobs, plan.seconds)
    return times_the_time("print", program, ours, peers.XLA, theirs, bar)
