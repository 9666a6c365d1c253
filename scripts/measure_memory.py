"""Measure `hloom memory` against XLA's buffer assignment, and write the outcome into docs/memory.md.

    python scripts/measure_memory.py

The programs are those of tests/analysis/memory_programs.py, compiled by XLA's CPU client.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import hloom
from hloom.xla_cpu import memory
from tests.analysis.memory_corpus import Compiled, compiled, every_name

DOCUMENT = ROOT / "docs" / "memory.md"
LEAST = 1_000_000
"""Programs whose peak is smaller, in bytes, are left out."""
WORST = 8
TEXT = """# How accurate `hloom memory` is

This page is made by `scripts/measure_memory.py`: {count} programs of 1 MB or more (training steps with and without
donation, scans with rematerialisation, attention, convolutions, sorts, transforms, gathers and scatters, loops,
branches, linear algebra), compiled by XLA's CPU client (jaxlib 0.10.2). The peak is arguments + outputs - aliased +
temporaries; the error is `hloom memory` against XLA's own buffer assignment.

| module | schedule | median | 90% within | worst | signed, 5% to 95% |
|---|---|---|---|---|---|
{summary}

Of the {held} programs where temporaries are a fifth of the peak or more, the temporaries alone are off by {temporary}
(median), {worst_temporary} at worst, after optimisation.

After optimisation the text holds the schedule, the fusions and the copies that XLA chose, so the peak is nearly XLA's.
Before it, a model of XLA's CPU compiler simplifies, converts, lays out, fuses and orders the program (`hloom.xla_cpu`:
each of its files names the XLA file that it follows), and the buffers are those of what comes out; `list` and `text`
(`--schedule`) only take elementwise work as fused into what reads it, and say how the program's own order does.

## The programs that are furthest off

{tables}
"""
Measure = Callable[[Compiled], int]
MEASURES: tuple[tuple[str, str, Measure], ...] = (
    ("after optimisation", "XLA's own", lambda program: memory(hloom.parse(program.after)).peak),
    ("before optimisation", "cpu", lambda program: memory(hloom.parse(program.before)).peak),
    ("before optimisation", "list", lambda program: memory(hloom.parse(program.before), schedule="list").peak),
    ("before optimisation", "text", lambda program: memory(hloom.parse(program.before), schedule="text").peak),
)


def main() -> None:
    programs = [program for program in map(compiled, every_name()) if program.peak >= LEAST]
    rows, tables = [], []
    for module, schedule, measure in MEASURES:
        errors = {program.name: measure(program) / program.peak - 1 for program in programs}
        rows.append(f"| {module} | {schedule} | {' | '.join(_summary(list(errors.values())))} |")
        if schedule not in ("list", "text"):
            tables.append(f"### {module.capitalize()}\n\n{_worst(errors, programs)}")
    held = [program for program in programs if program.sizes["temporaries"] >= program.peak / 5]
    off = [abs(memory(hloom.parse(program.after)).temporaries / program.sizes["temporaries"] - 1) for program in held]
    text = TEXT.format(
        count=len(programs),
        held=len(held),
        temporary=f"{statistics.median(off):.2%}",
        worst_temporary=f"{max(off):.2%}",
        summary="\n".join(rows),
        tables="\n\n".join(tables),
    )
    DOCUMENT.write_text(text)
    print(text)


def _summary(errors: Sequence[float]) -> list[str]:
    sizes, signed = sorted(map(abs, errors)), sorted(errors)
    last = len(sizes) - 1
    return [
        f"{statistics.median(sizes):.2%}",
        f"{sizes[round(0.9 * last)]:.2%}",
        f"{sizes[-1]:.2%}",
        f"{signed[round(0.05 * last)]:+.2%} to {signed[round(0.95 * last)]:+.2%}",
    ]


def _worst(errors: dict[str, float], programs: Sequence[Compiled]) -> str:
    peaks = {program.name: program.peak for program in programs}
    names = sorted(errors, key=lambda name: -abs(errors[name]))[:WORST]
    lines = [f"| {name} | {peaks[name]:,} | {errors[name]:+.2%} |" for name in names]
    return "\n".join(["| program | XLA's peak, bytes | error |", "|---|---|---|", *lines])


if __name__ == "__main__":
    main()
