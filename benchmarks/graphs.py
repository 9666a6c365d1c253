"""Figures of what is done with a module in memory: protos, drawings, verifying, comparing, copying, indexing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.compiled_programs import compiled_programs
from benchmarks.figures import AtMost, Figure, growth, times_the_time, together
from benchmarks.programs import Plan, Program, training_step
from hloom.formats.hlo import parse
from hloom.formats.hlo.proto import read_proto, write_proto
from hloom.inspection.viz import to_dot, to_json
from hloom.ir import Module, equal, verify

LINEAR = AtMost(2)
"""Caches and the garbage collector make large modules more expensive; what is quadratic would pass this by far."""

Make = Callable[[str], Any]
"""Makes a job's argument from a program's text."""


def protos(plan: Plan) -> Iterator[Figure]:
    """Reading and writing HloModuleProto bytes, against XLA: training steps, and optimised programs."""
    read = Pair(read_proto, _to_bytes, peers.xla_read, _to_bytes)
    write = Pair(write_proto, _from_xla, peers.xla_write, peers.xla_parse)
    for subject, pair in (("read proto", read), ("write proto", write)):
        yield from _both(subject, pair, _programs(plan), plan, AtMost(3))
        compiled = list(_both(subject, pair, compiled_programs(plan), plan, None))
        yield from compiled
        yield together(subject, compiled, AtMost(3))
        yield from _alone(subject, pair.ours, pair.our_make, plan)


def drawings(plan: Plan) -> Iterator[Figure]:
    """DOT against XLA's, and JSON, for which there is no peer."""
    yield from _both("to_dot", Pair(to_dot, parse, peers.xla_dot, peers.xla_parse), _programs(plan), plan, None)
    yield from _alone("to_dot", to_dot, parse, plan)
    yield from _alone("to_json", to_json, parse, plan)


def editing(plan: Plan) -> Iterator[Figure]:
    """What a pass does besides its own work: none of it has a peer."""
    yield from _alone("verify", verify, parse, plan)
    yield from _alone("equal", lambda pair: equal(*pair), lambda text: (parse(text), parse(text)), plan)
    yield from _alone("clone", lambda module: module.clone(), parse, plan)
    yield from _alone("index users", lambda module: module.index_users(), parse, plan)


@dataclass(frozen=True, slots=True)
class Pair:
    """What is timed on our side and on the peer's, and what makes their arguments from a program's text."""

    ours: Callable
    our_make: Make
    theirs: Callable
    their_make: Make


def _both(subject: str, pair: Pair, programs: Iterable[Program], plan: Plan, bar: AtMost | None) -> Iterator[Figure]:
    for program in programs:
        jobs = [_job(pair.ours, pair.our_make, program), _job(pair.theirs, pair.their_make, program)]
        our_times, their_times = take_turns(jobs, plan.seconds)
        yield times_the_time(subject, program, our_times, peers.XLA, their_times, bar)


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


def _from_xla(text: str) -> Module:
    """The module with all its data: texts of compiled programs elide large constants, which no proto can."""
    return read_proto(_to_bytes(text))
