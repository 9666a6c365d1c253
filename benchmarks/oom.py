"""Figures of memory that runs out: seconds to say what fills it, how they grow, and seconds to try what helps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, training_step
from hloom.formats.hlo import parse
from hloom.inspection.why_oom import OomReport, why_oom
from hloom.ir import Module
from hloom.targets.memory import memory

LIMIT, QUICK_LIMIT = 60, 30
"""Seconds of processor time for all that is tried on a step, and for the tables of the large one."""
LINEAR = AtMost(2)


def out_of_memory(plan: Plan) -> Iterator[Figure]:
    """Tables of the small and the large step; what is tried on either, for half of what it takes."""
    programs = training_step(plan.small, True), training_step(plan.large, True)
    jobs = [Job(_tables, partial(parse, program.text)) for program in programs]
    less, more = take_turns(jobs, plan.seconds)
    yield Figure(
        f"why-oom --quick: {programs[1].name}", milliseconds(more.best), "limit", f"{QUICK_LIMIT} s",
        more.best / QUICK_LIMIT, None, AtMost(1),
    )  # fmt: skip
    yield growth("why-oom --quick", *programs, less, more, LINEAR)
    for program in programs:
        (tried,) = take_turns([Job(_tried, partial(parse, program.text))], 0, 1)
        yield Figure(
            f"why-oom: {program.name}", milliseconds(tried.best), "limit", f"{LIMIT} s",
            tried.best / LIMIT, None, AtMost(1),
        )  # fmt: skip


def _tables(module: Module) -> OomReport:
    return why_oom(module, quick=True)


def _tried(module: Module) -> OomReport:
    return why_oom(module, memory=memory(module).peak // 2)
