"""Figures of printing HLO text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.compiled_programs import compiled_programs
from benchmarks.figures import AtMost, Figure, times_the_time
from benchmarks.programs import Plan, training_steps
from hloom.hlo import parse, print_module


def printing(plan: Plan) -> Iterator[Figure]:
    """Against XLA's printer, each on a module that it has just read: nothing is remembered from an earlier print."""
    for program in (*training_steps(plan), *compiled_programs(plan)):
        text = program.text
        jobs = [
            Job(print_module, lambda text=text: parse(text)),
            Job(peers.xla_print, lambda text=text: peers.xla_parse(text)),
        ]
        ours, theirs = take_turns(jobs, plan.seconds)
        yield times_the_time("print", program, ours, peers.XLA, theirs, AtMost(1))
