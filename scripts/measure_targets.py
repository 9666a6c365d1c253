"""Measure hloom's memory and times against the compilers of TPUs and GPUs, and write the outcome into docs/accuracy.md.

    python scripts/measure_targets.py [--targets v5e,h100] [--programs NAME,NAME]

The programs are those of tests/analysis/memory_programs.py, lowered for the CPU and compiled by `hloom.compile`; the
compilers are found as `hloom doctor` says. What a compiler refuses is counted. All of them take some ten minutes for
each target; answers are kept in hloom's cache.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import hloom
from hloom.targets.compiler import CompiledProgram
from tests.analysis.memory_corpus import compiled, every_name

DOCUMENT = ROOT / "docs" / "accuracy.md"
ERRORS = ROOT / "src" / "hloom" / "targets" / "compiler" / "model_errors.toml"
"""The errors before optimisation, which reports quote where the target's compiler is missing."""
TITLE = "# Peaks before optimisation, hloom's over those of the target's compiler (scripts/measure_targets.py)"
HEADING, NEXT = "\n## TPUs and GPUs\n", "\n## Plans\n"
"""Where the section begins, and the one that follows it."""
TARGETS = ("v5e", "v5p", "v6e", "h100", "a100")
TEXT = """
`scripts/measure_targets.py` compiles {count} programs (training steps, scans, attention, convolutions, sorts, gathers,
loops, branches, linear algebra; all lowered for the CPU) with the targets' own compilers by `hloom compile`:
{versions}. None of them was used to make the models. Errors are relative to the compiler's figures.

### Memory of the optimised module

Temporaries are those of the main memory; where the compiler has 0, only 0 counts as equal. The peak is arguments +
outputs - aliased + temporaries.

| target | compiled | refused | temporaries: equal | within 1% | within 5% | worst | peak: within 1% | worst |
|---|---|---|---|---|---|---|---|---|
{after}

### Memory before optimisation

The same programs before optimisation, by the model of XLA's CPU compiler, which is all there is without the target's
compiler: an order of magnitude for GPUs, and of no use for a TPU's temporaries, many of which stand in VMEM.

| target | peak, hloom over compiler: median | 10th to 90th percentile | within 25% |
|---|---|---|---|
{before}
{far}"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One program on one target: bytes by hloom's models and by the compiler."""

    name: str
    compiled: CompiledProgram
    temporaries: int
    peak: int
    peak_before: int

    @property
    def temporary_error(self) -> float:
        return error(self.temporaries, self.compiled.memory.temporaries)

    @property
    def peak_error(self) -> float:
        return error(self.peak, self.compiled.memory.peak)


def error(ours: int, theirs: int) -> float:
    """The relative error; infinite if the compiler has nothing and hloom something."""
    return 0.0 if ours == theirs else ours / theirs - 1 if theirs else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--programs", default="")
    options = parser.parse_args()
    names = options.programs.split(",") if options.programs else every_name()
    results: dict[str, tuple[list[Measured], list[str]]] = {}
    for target in options.targets.split(","):
        results[target] = measure(names, target)
    text = section(len(names), results)
    if not options.programs:
        before, _, rest = DOCUMENT.read_text().partition(HEADING)
        before, rest = (
            (before, rest.partition(NEXT)[2]) if rest else (before.partition(NEXT)[0], before.partition(NEXT)[2])
        )
        ERRORS.write_text("\n".join([TITLE, *map(error_row, results.items())]) + "\n")
        DOCUMENT.write_text(f"{before}{HEADING}{text}{NEXT}{rest}")
    print(text)


def measure(names: Sequence[str], target: str) -> tuple[list[Measured], list[str]]:
    """The programs that compile for a target, measured, and why the others do not."""
    measured: list[Measured] = []
    refused: list[str] = []
    for name in names:
        before = hloom.parse(compiled(name).before)
        try:
            made = hloom.compile(before, target)
        except hloom.HloomError as problem:
            refused.append(f"{name} on {target}: {str(problem).splitlines()[0]}")
            continue
        after = hloom.memory(made.module)
        measured.append(Measured(name, made, after.temporaries, after.peak, hloom.memory(before).peak))
        print(f"{target} {name} {measured[-1].temporary_error:+.2%} {measured[-1].peak_error:+.2%}", flush=True)
    return measured, refused


def ratios_of(measured: Sequence[Measured]) -> tuple[list[float], float, float]:
    """Peaks before optimisation over the compiler's, in order, with their 10th and 90th percentiles."""
    ratios = sorted(one.peak_before / one.compiled.memory.peak for one in measured if one.compiled.memory.peak)
    return ratios, ratios[len(ratios) // 10], ratios[len(ratios) * 9 // 10]


def error_row(result: tuple[str, tuple[list[Measured], list[str]]]) -> str:
    """The figures of one target for the package."""
    target, (measured, _) = result
    ratios, low, high = ratios_of(measured)
    median = statistics.median(ratios)
    return f"[{target}]\nprograms = {len(ratios)}\nmedian = {median:.2f}\nlow = {low:.2f}\nhigh = {high:.2f}"


def section(count: int, results: dict[str, tuple[list[Measured], list[str]]]) -> str:
    """The text of the document's section."""
    after, before, far, reasons = [], [], [], []
    versions: dict[str, str] = {}
    for target, (measured, refused) in results.items():
        if not measured:
            sys.exit(f"{target}: nothing compiled; {refused[0] if refused else 'no programs'}")
        versions |= measured[0].compiled.versions
        sizes = [abs(one.temporary_error) for one in measured]
        peaks = [abs(one.peak_error) for one in measured]
        counts = [sum(size <= most for size in sizes) for most in (0.0, 0.01, 0.05)]
        near = sum(size <= 0.01 for size in peaks)
        after.append(
            f"| {target} | {len(measured)} | {len(refused)} | {' | '.join(map(str, counts))} | {max(sizes):.2%} | "
            f"{near} | {max(peaks):.2%} |"
        )
        ratios, low, high = ratios_of(measured)
        within = sum(abs(ratio - 1) <= 0.25 for ratio in ratios)
        before.append(
            f"| {target} | {statistics.median(ratios):.2f} | {low:.2f} to {high:.2f} | {within} of {len(ratios)} |"
        )
        far += [
            f"| {one.name} | {target} | {one.compiled.memory.temporaries:,} | {one.temporaries:,} |"
            for one in measured
            if abs(one.temporary_error) > 0.01
        ]
        reasons += [f"- {reason}" for reason in refused]
    head = (
        "\nTemporaries more than 1% off:\n\n| program | target | the compiler's bytes | hloom's |\n|---|---|---|---|\n"
    )
    rows = head + "\n".join(far) + "\n" if far else ""
    rows += "\nRefused:\n\n" + "\n".join(reasons) + "\n" if reasons else ""
    return TEXT.format(
        count=count,
        versions=", ".join(f"{package} {version}" for package, version in versions.items()),
        after="\n".join(after),
        before="\n".join(before),
        far=rows,
    )


if __name__ == "__main__":
    main()
