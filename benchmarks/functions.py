"""Figures of compiled functions, beside the same programs written with jax's control flow, and under MindSpore.

MindSpore needs an environment of its own, whose interpreter is HLOOM_MINDSPORE_PYTHON; without one its figures are left
out.
"""

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
from benchmarks.figures import AtMost, Figure, growth, microseconds, milliseconds, times_the_time
from benchmarks.function_programs import divided, multiplied, newton, product
from benchmarks.peers import MINDSPORE, mindspore_function_times
from benchmarks.programs import Plan, Program

ROUNDS = 1_000_000
"""How many rounds the loop has: enough that a call's own time does not count."""
GRADIENT_ROUNDS = 100_000
STATEMENTS = (20, 80)
"""How many branches the smaller and the larger program have, whose compilation is timed."""
CALLS = 100
"""How many warm calls a sample has."""
DEPTHS = (8, 32)
"""How high the smaller and the larger tower are, of functions that call the one below twice."""
CALLS_OF_ONE = (50, 200)
"""How often the smaller and the larger program call one function."""
CALL = AtMost(2)
LOOP = AtMost(1.1)
LINEAR = AtMost(1.5)
FRESH = 5
"""How often a function is compiled anew."""


def functions(plan: Plan) -> Iterator[Figure]:
    """Compiling, warm calls, rounds of loops, and how compiling and running grow."""
    own: dict[str, Times] = {}
    with jax.enable_x64(True):
        yield from _fresh(own)
        yield from _calls(own)
        yield from _rounds(own)
        yield from _tail_calls()
        yield from _trip_counts()
    yield from _compiling(plan)
    yield from _beside_mindspore(own)


def _newton_in_jax(a: Any, tolerance: Any) -> Any:
    return lax.while_loop(lambda x: abs(x * x - a) > tolerance, lambda x: 0.5 * (x + a / x), a)


def _loop_in_jax(step: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x))[1]


_MULTIPLIED = "multiply in a loop"
_DIVIDED = "divide in a loop, zero checked for"
_STEPS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    _MULTIPLIED: (multiplied, lambda x: 3.9 * x * (1.0 - x)),
    _DIVIDED: (divided, lambda x: 0.5 * (x + 2.0 / x)),
}


def _fresh(own: dict[str, Times]) -> Iterator[Figure]:
    """The first call of a function: compiled, and run for one round."""
    pairs: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
        ("newton", newton, _newton_in_jax, (2.0, 1e-12)),
        ("multiplied", multiplied, _loop_in_jax(_STEPS[_MULTIPLIED][1]), (0.3, 1)),
        ("divided", divided, _loop_in_jax(_STEPS[_DIVIDED][1]), (0.3, 1)),
    ]
    for name, ours, theirs, arguments in pairs:
        jobs = [
            Job(lambda _, ours=ours, arguments=arguments: hloom.function(ours)(*arguments)),
            Job(lambda _, theirs=theirs, arguments=arguments: float(jax.jit(lambda *a: theirs(*a))(*arguments))),
        ]
        for job in jobs:
            job.run(None)
        times = _by_the_wall(jobs, FRESH)
        own[f"compile {name}"] = times[0]
        yield times_the_time("compile and call a function", Program(name, "", 1), times[0], "jax.jit", times[1], None)


def _calls(own: dict[str, Times]) -> Iterator[Figure]:
    ours, theirs = hloom.function(newton), jax.jit(_newton_in_jax)
    times = _by_the_wall([_often(lambda: ours(2.0, 1e-12)), _often(lambda: float(theirs(2.0, 1e-12)))])
    own["call newton"] = Times(times[0].best / CALLS, times[0].median / CALLS)
    program = Program(f"Newton's method, {CALLS} times", "", 1)
    yield times_the_time("call a compiled function", program, times[0], "jax.jit", times[1], CALL)


def _by_the_wall(jobs: Sequence[Job], samples_of_each: int = 2 * FEWEST) -> list[Times]:
    """Times of jobs in turn, on the wall's clock: XLA runs them in threads of its own."""
    samples: list[list[float]] = [[] for _ in jobs]
    for _ in range(samples_of_each):
        for job, taken in zip(jobs, samples, strict=True):
            start = perf_counter()
            job.run(None)
            taken.append(perf_counter() - start)
    return [Times(min(taken), median(taken)) for taken in samples]


def _often(call: Callable[[], object]) -> Job:
    def run(_: object) -> None:
        for _ in range(CALLS):
            call()

    call()
    return Job(run)


def _rounds(own: dict[str, Times]) -> Iterator[Figure]:
    for subject, bar in ((_MULTIPLIED, LOOP), (_DIVIDED, None)):
        function, step = _STEPS[subject]
        ours, theirs = hloom.function(function), jax.jit(_loop_in_jax(step))
        jobs = [
            Job(lambda _, ours=ours: ours(0.3, ROUNDS)),
            Job(lambda _, theirs=theirs: float(theirs(0.3, ROUNDS))),
        ]
        for job in jobs:
            job.run(None)
        times = _by_the_wall(jobs)
        own[f"round {function.__name__}"] = Times(times[0].best / ROUNDS, times[0].median / ROUNDS)
        program = Program(f"{ROUNDS:,} rounds", "", 1)
        yield times_the_time(subject, program, times[0], "lax.while_loop", times[1], bar)


def _tail_calls() -> Iterator[Figure]:
    ours = hloom.function(product)
    theirs = jax.jit(
        lambda n, x: lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] - 1, s[1] * (1.0 - 1e-9 * s[0])), (n, x))[1]
    )
    jobs = [Job(lambda _: ours(ROUNDS, 1.0)), Job(lambda _: float(theirs(ROUNDS, 1.0)))]
    for job in jobs:
        job.run(None)
    times = _by_the_wall(jobs)
    program = Program(f"{ROUNDS:,} calls", "", 1)
    yield times_the_time("call itself last", program, times[0], "lax.while_loop", times[1], LOOP)


def _trip_counts() -> Iterator[Figure]:
    """How the value, and the gradient, of a loop grow with its rounds."""
    for subject, function, counts in (
        ("run a loop", hloom.function(multiplied), (ROUNDS // 10, ROUNDS)),
        ("differentiate a loop", hloom.grad(multiplied), (GRADIENT_ROUNDS // 10, GRADIENT_ROUNDS)),
    ):
        jobs = [Job(lambda _, function=function, count=count: function(0.3, count)) for count in counts]
        for job in jobs:
            job.run(None)
        times = _by_the_wall(jobs)
        programs = [Program(f"{count:,} rounds", "", count) for count in counts]
        yield growth(subject, programs[0], programs[1], times[0], times[1], LINEAR)


_SUBJECTS = {"compile": "compile and call a function", "call": "call a compiled function", "round": "a round of a loop"}


def _beside_mindspore(own: dict[str, Times]) -> Iterator[Figure]:
    """The same functions under `mindspore.jit`, where it is installed."""
    theirs = mindspore_function_times()
    for name, samples in theirs.items():
        times = Times(min(samples), median(samples))
        ours = own[name]
        unit = milliseconds if name.startswith("compile") else microseconds
        yield Figure(
            f"{_SUBJECTS[name.partition(' ')[0]]}: {name.partition(' ')[2]}",
            unit(ours.best),
            MINDSPORE,
            unit(times.best),
            ours.best / times.best,
            ours.median / times.median,
        )


def _compiling(plan: Plan) -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        for subject, source, counts, unit in (
            ("make a function's graphs", _branches, STATEMENTS, "branches"),
            ("make the graphs of a tower of functions", _tower, DEPTHS, "functions"),
            ("make the graphs of calls of one function", _calls_of_one, CALLS_OF_ONE, "calls"),
        ):
            made = [_function(Path(folder), f"{unit}{count}", source(count)) for count in counts]
            jobs = [Job(lambda _, function=function: hloom.function(function).program(1.0)) for function in made]
            for job in jobs:
                job.run(None)
            times = take_turns(jobs, plan.seconds)
            programs = [Program(f"{count} {unit}", "", count) for count in counts]
            yield growth(subject, programs[0], programs[1], times[0], times[1], LINEAR)


def _function(folder: Path, name: str, lines: Sequence[str]) -> Callable[[float], float]:
    """The function `program` of a file of these lines."""
    path = folder / f"{name}.py"
    path.write_text("\n".join([*lines, ""]))
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["program"]


def _branches(count: int) -> list[str]:
    """So many branches on data, one after the other."""
    lines = ["def program(x):"]
    for number in range(count):
        lines += [f"    if x > {number}.5:", f"        x = x - {number}.25", "    else:", "        x = x * 1.5"]
    return [*lines, "    return x"]


_POLYNOMIAL = [
    "    for _ in range(4):",
    "        x = x * (1.5 - x) * (0.25 + x * x) - 0.125 / (1.0 + x * x)",
    "    return x",
]


def _tower(count: int) -> list[str]:
    """Functions that call the one below twice, so high: as many calls as two to that power."""
    lines = ["def f0(x):", *_POLYNOMIAL]
    for number in range(1, count):
        lines += [f"def f{number}(x):", f"    return f{number - 1}(x) + f{number - 1}(x * 0.5)"]
    return [*lines, "def program(x):", f"    return f{count - 1}(x)"]


def _calls_of_one(count: int) -> list[str]:
    """So many calls of one function."""
    lines = ["def polynomial(x):", *_POLYNOMIAL, "def program(x):"]
    return [*lines, *["    x = polynomial(x) + 1.0"] * count, "    return x"]
