"""Figures of compiled functions, beside the same programs written with jax's control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import jax
from jax import lax

import hloom
from benchmarks.clock import FEWEST, Job, Times, take_turns
from benchmarks.figures import AtMost, Figure, growth, times_the_time
from benchmarks.programs import Plan, Program

ROUNDS = 1_000_000
"""How many rounds the loop has: enough that a call's own time does not count."""
STATEMENTS = (20, 80)
"""How many branches the smaller and the larger program have, whose compilation is timed."""
CALL = AtMost(2)
LOOP = AtMost(1.1)
LINEAR = AtMost(1.5)


def newton(a: float, tolerance: float = 1e-12) -> float:
    x = a
    while abs(x * x - a) > tolerance:
        x = 0.5 * (x + a / x)
    return x


def divided(x: float, n: int) -> float:
    for _ in range(n):
        x = 0.5 * (x + 2.0 / x)
    return x


def multiplied(x: float, n: int) -> float:
    for _ in range(n):
        x = 3.9 * x * (1.0 - x)
    return x


def functions(plan: Plan) -> Iterator[Figure]:
    """Warm calls, rounds of loops, and how compiling grows."""
    with jax.enable_x64(True):
        yield from _calls()
        yield from _rounds()
    yield from _compiling(plan)


def _calls() -> Iterator[Figure]:
    ours = hloom.function(newton)

    @jax.jit
    def theirs(a: Any, tolerance: Any) -> Any:
        return lax.while_loop(lambda x: abs(x * x - a) > tolerance, lambda x: 0.5 * (x + a / x), a)

    times = _by_the_wall([_often(lambda: ours(2.0, 1e-12)), _often(lambda: float(theirs(2.0, 1e-12)))])
    program = Program("Newton's method", "", 1)
    yield times_the_time("call a compiled function", program, times[0], "jax.jit", times[1], CALL)


def _by_the_wall(jobs: Sequence[Job]) -> list[Times]:
    """Times of jobs in turn, on the wall's clock: XLA runs them in threads of its own."""
    samples: list[list[float]] = [[] for _ in jobs]
    for _ in range(2 * FEWEST):
        for job, taken in zip(jobs, samples, strict=True):
            start = perf_counter()
            job.run(None)
            taken.append(perf_counter() - start)
    return [Times(min(taken), median(taken)) for taken in samples]


def _often(call: Callable[[], object]) -> Job:
    def run(_: object) -> None:
        for _ in range(100):
            call()

    call()
    return Job(run)


def _rounds() -> Iterator[Figure]:
    rounds: list[tuple[str, Any, Any, AtMost | None]] = [
        ("multiply in a loop", multiplied, lambda x: 3.9 * x * (1.0 - x), LOOP),
        ("divide in a loop, zero checked for", divided, lambda x: 0.5 * (x + 2.0 / x), None),
    ]
    for subject, function, step, bar in rounds:
        ours = hloom.function(function)

        theirs = jax.jit(
            lambda x, n, step=step: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x))[1]
        )

        jobs = [
            Job(lambda _, ours=ours: ours(0.3, ROUNDS)),
            Job(lambda _, theirs=theirs: float(theirs(0.3, ROUNDS))),
        ]
        for job in jobs:
            job.run(None)
        times = _by_the_wall(jobs)
        program = Program(f"{ROUNDS:,} rounds", "", 1)
        yield times_the_time(subject, program, times[0], "lax.while_loop", times[1], bar)


def _compiling(plan: Plan) -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        made = [_source(Path(folder), count) for count in STATEMENTS]
        jobs = [Job(lambda _, function=function: hloom.function(function).program(1.0)) for function in made]
        for job in jobs:
            job.run(None)
        times = take_turns(jobs, plan.seconds)
        programs = [Program(f"{count} branches", "", count) for count in STATEMENTS]
        yield growth("make a function's graphs", programs[0], programs[1], times[0], times[1], LINEAR)


def _source(folder: Path, count: int) -> Callable[[float], float]:
    """A function of so many branches on data, one after the other."""
    lines = ["def branches(x):"]
    for number in range(count):
        lines += [f"    if x > {number}.5:", f"        x = x - {number}.25", "    else:", "        x = x * 1.5"]
    path = folder / f"branches{count}.py"
    path.write_text("\n".join([*lines, "    return x", ""]))
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["branches"]
