"""Figures of starting: what a short run of `hloom opt` takes, nearly all of it imports, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.clock import FEWEST, Times
from benchmarks.figures import AtMost, Figure, times_the_time
from benchmarks.programs import Plan, Program

SMALL = "HloModule small\nENTRY e { a = f32[4] parameter(0)  b = f32[4] negate(a)  ROOT c = f32[4] negate(b) }\n"
SMALL_MLIR = '"builtin.module"() ({ }) : () -> ()\n'
BAR = AtMost(1)
"""Against importing jax, which a program in Python that asks XLA has to do."""


def startup(plan: Plan) -> Iterator[Figure]:
    """Seconds of processor time of whole processes, taking turns; byte code is compiled before."""
    del plan  # three instructions are enough: the time is that of imports
    program = Program("three instructions", SMALL, 3)
    with TemporaryDirectory() as folder:
        path, generic = Path(folder, "small.hlo"), Path(folder, "small.mlir")
        path.write_text(SMALL)
        generic.write_text(SMALL_MLIR)
        commands = {
            "hloom": ("-m", "hloom", "opt", str(path), "-p", "simplify"),
            "import jax": ("-c", "import jax"),
        }
        if find_spec("xdsl") is not None:
            commands["xdsl-opt"] = ("-m", "xdsl.tools.xdsl_opt", str(generic))
        times = _processes(list(commands.values()))
    ours, *theirs = times
    for peer, taken in zip(list(commands)[1:], theirs, strict=True):
        yield times_the_time("start hloom opt", program, ours, peer, taken, BAR)


def _processes(commands: Sequence[Sequence[str]]) -> list[Times]:
    samples: list[list[float]] = [[] for _ in commands]
    for number in range(FEWEST + 1):
        for command, taken in zip(commands, samples, strict=True):
            seconds = _seconds(command)
            taken += [seconds] if number else []  # the first run writes byte code
    return [Times(min(taken), median(taken)) for taken in samples]


def _seconds(command: Sequence[str]) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    root = Path(__file__).parents[1]
    subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=root)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
