"""Figures of minimisation: candidates a second where checking costs nothing, and how the time grows with size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program, training_step
from hloom.hlo import parse
from hloom.ir import Module
from hloom.minimize import Minimization, minimize

LIMIT = 300
"""Seconds of processor time in which a training step is to come down to a few instructions."""
FEWEST = 1


def minimization(plan: Plan) -> Iterator[Figure]:
    """A training step in which a square root of a quotient is the fault."""
    programs = training_step(plan.small, True), training_step(plan.large, True)
    jobs = [Job(_minimize, partial(_module, program)) for program in programs]
    less, more = take_turns(jobs, plan.seconds, FEWEST)
    steps = _minimize(_module(programs[1])).steps
    ours, limit = f"{milliseconds(more.best)}, {steps / more.best:,.0f} candidates/s", f"{LIMIT} s"
    yield Figure(f"minimize: {programs[1].name}", ours, "limit", limit, more.best / LIMIT, None, AtMost(1))
    yield growth("minimize", *programs, less, more, AtMost(2))


def _module(program: Program) -> Module:
    return parse(program.text)


def _minimize(module: Module) -> Minimization:
    return minimize(module, _shows)


def _shows(module: Module) -> bool:
    return any(
        node.opcode == "tanh" and any(user.opcode == "multiply" for user in node.users) for node in module.nodes()
    )
