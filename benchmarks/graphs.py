"""Figures of what is done with a module in memory: protos, drawings, verifying, comparing, copying, indexing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, times_the_time
from benchmarks.programs import Plan, Program, training_step
from hloom.hlo import parse
from hloom.hlo.proto import read_proto, write_proto
from hloom.ir import equal, verify
from hloom.viz import to_dot, to_json

LINEAR = AtMost(2)
"""Caches and the garbage collector make large modules more expensive; what is quadratic would pass this by far."""

Make = Callable[[str], Any]
"""Makes a job's argument from a program's text."""


def protos(plan: Plan) -> Iterator[Figure]:
    """Reading and writing HloModuleProto bytes, against XLA."""
    yield from _both("read proto", read_proto, _to_bytes, plan, peers.xla_read, _to_bytes)
    yield from _both("write proto", write_proto, parse, plan, peers.xla_write, peers.xla_parse)


def drawings(plan: Plan) -> Iterator[Figure]:
    """DOT against XLA's, and JSON, for which there is no peer."""
    yield from _both("to_dot", to_dot, parse, plan, peers.xla_dot, peers.xla_parse)
    yield from _alone("to_json", to_json, parse, plan)


def editing(plan: Plan) -> Iterator[Figure]:
    """What a pass does besides its own work: none of it has a peer."""
    yield from _alone("verify", verify, parse, plan)
    yield from _alone("equal", lambda pair: equal(*pair), lambda text: (parse(text), parse(text)), plan)
    yield from _alone("clone", lambda module: module.clone(), parse, plan)
    yield from _alone("index users", lambda module: module.index_users(), parse, plan)


def _both(
    subject: str, ours: Callable, our_make: Make, plan: Plan, theirs: Callable, their_make: Make
) -> Iterator[Figure]:
    for program in _programs(plan):
        jobs = [_job(ours, our_make, program), _job(theirs, their_make, program)]
        our_times, their_times = take_turns(jobs, plan.seconds)
        yield times_the_time(subject, program, our_times, peers.XLA, their_times, None)
    yield from _alone(subject, ours, our_make, plan)


def _alone(subject: str, run: Callable, make: Make, plan: Plan) -> Iterator[Figure]:
    small, large = _programs(plan)
    less, more = take_turns([_job(run, make, small), _job(run, make, large)], plan.seconds)
    yield growth(subject, small, large, less, more, LINEAR)


def _job(run: Callable, make: Make, program: Program) -> Job:
    return Job(run, lambda: make(program.text))


def _programs(plan: Plan) -> tuple[Program, Program]:
    return training_step(plan.small, True), training_step(plan.large, True)


def _to_bytes(text: str) -> bytes:
    return peers.xla_write(peers.xla_parse(text))
