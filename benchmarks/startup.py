"""Figures of starting: what short runs of `hloom` take, most of it imports, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.clock import FEWEST, Times
from benchmarks.figures import AtMost, Figure, times_the_time
from benchmarks.programs import Plan, Program, training_step

SMALL = "HloModule small\nENTRY e { a = f32[4] parameter(0)  b = f32[4] negate(a)  ROOT c = f32[4] negate(b) }\n"
SMALL_MLIR = '"builtin.module"() ({ }) : () -> ()\n'
BARS = {"import jax": AtMost(0.5), "xdsl-opt": AtMost(1)}
"""By peer; a program in Python that asks XLA has to import jax."""


def startup(plan: Plan) -> Iterator[Figure]:
    """Seconds of processor time of whole processes, taking turns; byte code is compiled before."""
    program, step = Program("three instructions", SMALL, 3), training_step(plan.small, metadata=True)
    with TemporaryDirectory() as folder:
        path, generic, large = Path(folder, "small.hlo"), Path(folder, "small.mlir"), Path(folder, "step.hlo")
        path.write_text(SMALL)
        generic.write_text(SMALL_MLIR)
        large.write_text(step.text)
        commands = {
            "hloom": ("-m", "hloom", "opt", str(path), "-p", "simplify"),
            "inspect": ("-m", "hloom", "inspect", str(large)),
            "import jax": ("-c", "import jax"),
        }
        if find_spec("xdsl") is not None:
            commands["xdsl-opt"] = ("-m", "xdsl.tools.xdsl_opt", str(generic))
        times = _processes(list(commands.values()), {"PYTHONPYCACHEPREFIX": folder})
    ours, inspecting, *theirs = times
    for peer, taken in zip(list(commands)[2:], theirs, strict=True):
        yield times_the_time("start hloom opt", program, ours, peer, taken, BARS[peer])
    yield times_the_time("start hloom inspect", step, inspecting, "import jax", theirs[0], AtMost(0.6))


def _processes(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[Times]:
    samples: list[list[float]] = [[] for _ in commands]
    for number in range(FEWEST + 1):
        for command, taken in zip(commands, samples, strict=True):
            seconds = _seconds(command, environment)
            taken += [seconds] if number else []  # the first run writes byte code
    return [Times(min(taken), median(taken)) for taken in samples]


def _seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Processor time of a process that may keep its byte code, as an installed program does."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = getrusage(RUSAGE_CHILDREN)
    root = Path(__file__).parents[1]
    subprocess.run(
        [sys.executable, *command], check=True, capture_output=True, cwd=root, env={**inherited, **environment}
    )
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
