"""Figures of differences: what is matched where that is known, seconds for large modules, and how the time grows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from benchmarks.clock import Job, take_turns
from benchmarks.diff_pairs import qualities, together
from benchmarks.figures import AtLeast, AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program, training_step
from hloom.formats.hlo import parse
from hloom.inspection.diff import diff
from hloom.ir import Module
from hloom.passes import apply

LIMIT = 10
"""Seconds of processor time for two modules of 55,079 instructions."""
FEWEST = 2
MOST_PAIRS = 30
LEAST_SHARE = 0.95
"""The least share of known pairs of instructions that is matched, and of what is matched that is right."""


def differences(plan: Plan) -> Iterator[Figure]:
    """Pairs of known changes; a training step with itself, and with what passes make of it, costs included."""
    total = together(list(islice(qualities(), MOST_PAIRS)))
    for name, share in (("precision", total.precision), ("recall", total.recall)):
        subject = f"diff, {name}: {MOST_PAIRS} pairs of modules, {total.known:,} pairs of instructions"
        bar = AtLeast(LEAST_SHARE)
        yield Figure(subject, f"{100 * share:.1f} %", "what was changed", "100 %", share, share, bar)
    programs = training_step(plan.small, True), training_step(plan.large, True)
    for subject, simplified in (("diff with itself", False), ("diff with the simplified", True)):
        jobs = [Job(_compare, partial(_pair, program, simplified)) for program in programs]
        less, more = take_turns(jobs, plan.seconds, FEWEST)
        ours, limit = milliseconds(more.best), f"{LIMIT} s"
        yield Figure(f"{subject}: {programs[1].name}", ours, "limit", limit, more.best / LIMIT, None, AtMost(1))
        yield growth(subject, *programs, less, more, AtMost(2))


def _pair(program: Program, simplified: bool) -> tuple[Module, Module]:
    module = parse(program.text)
    other = apply(module, ["simplify", "cse", "dce"])[0] if simplified else parse(program.text)
    return module, other


def _compare(pair: tuple[Module, Module]) -> object:
    return diff(*pair)
