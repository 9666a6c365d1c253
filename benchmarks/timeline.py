"""Figures of timelines of passes: what a state takes, and how the time grows with the number of states."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, microseconds
from benchmarks.programs import Plan
from hloom.inspection.profile import pass_timeline

STATES = (100, 1_000)
"""How many states the two directories have; of every ten, one differs from the one before."""
INSTRUCTIONS = 100
"""How many instructions each has."""
FEWEST = 2


def timelines(plan: Plan) -> Iterator[Figure]:
    """Directories of states of a chain of additions, which is one longer after every tenth."""
    with tempfile.TemporaryDirectory() as folder:
        folders = [_dump(Path(folder) / str(count), count) for count in STATES]
        jobs = [Job(_read, partial(_same, path)) for path in folders]
        less, more = take_turns(jobs, plan.seconds, FEWEST)
    few, many = STATES
    ours, theirs = microseconds(more.best / many), microseconds(less.best / few)
    ratio = more.best / less.best * few / many
    yield Figure(f"passes: a state among {many:,} against {few:,}", ours, "itself", theirs, ratio, None, AtMost(2))


def _dump(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        path = folder / f"module_0001.jit_f.{number:04}.simplification.after_algsimp.before_dce.txt"
        path.write_text(_text(INSTRUCTIONS + number // 10 % INSTRUCTIONS))
    return folder


def _text(length: int) -> str:
    lines = "".join(f"  x{n + 1} = f32[64] add(x{n}, x{n})\n" for n in range(length))
    return f"HloModule jit_f\nENTRY e {{\n  x0 = f32[64] parameter(0)\n{lines}  ROOT y = f32[64] tanh(x{length})\n}}\n"


def _same(path: Path) -> Path:
    return path


def _read(path: Path) -> int:
    return len(list(pass_timeline(path).rows()))
