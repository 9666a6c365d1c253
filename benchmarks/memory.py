"""Figures of memory: what a module holds after reading, counted in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import AtMost, Figure
from benchmarks.programs import Plan, Program, training_steps

LIMIT = 1000
"""How many bytes an instruction may take."""


def memory(plan: Plan) -> Iterator[Figure]:
    """Bytes for each instruction, the text itself not counted; the ratio is to the limit."""
    for program in training_steps(plan):
        read, indexed = bytes_held(program.text)
        yield _figure("memory after reading", program, read, AtMost(1))
        yield _figure("memory with users indexed", program, indexed, None)


def bytes_held(text: str) -> tuple[int, int]:
    """What a child process counts for a text, after reading and after indexing."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "module.hlo")
        path.write_text(text)
        command = [sys.executable, "-m", "benchmarks.held", str(path)]
        root = Path(__file__).parents[1]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout.split()
    return int(answer[0]), int(answer[1])


def _figure(subject: str, program: Program, held: int, bar: AtMost | None) -> Figure:
    bytes_per_instruction = held / program.instructions
    ours, ratio = f"{bytes_per_instruction:.0f} B", bytes_per_instruction / LIMIT
    return Figure(f"{subject}: {program.name}", ours, "limit", f"{LIMIT} B", ratio, None, bar)
