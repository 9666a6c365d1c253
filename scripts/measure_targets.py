"""Measure hloom's memory and times against the compilers of TPUs and GPUs, and write the outcome into docs/accuracy.md.

    python scripts/measure_targets.py [--targets v5e,h100] [--programs NAME,NAME]

The programs are those of tests/analysis/memory_programs.py, lowered for the CPU and compiled by `hloom.compile`; the
compilers are found as `hloom doctor` says. What a compiler refuses is counted. All of them take some ten minutes for
each target; answers are kept in hloom's cache. The document keeps the rows of targets that are not measured.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import statistics
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import hloom
from hloom.targets.compiler import GPUS, CompiledProgram
from tests.analysis.memory_corpus import compiled, every_name

DOCUMENT = ROOT / "docs" / "accuracy.md"
ERRORS = ROOT / "src" / "hloom" / "targets" / "compiler" / "model_errors.toml"
"""The errors before optimisation, which reports quote where the target's compiler is missing."""
TITLE = "# Peaks before optimisation, hloom's over those of the target's compiler (scripts/measure_targets.py)"
HEADING, NEXT = "\n## TPUs and GPUs\n", "\n## Plans\n"
"""Where the section begins, and the one that follows it."""
TARGETS = ("v5e", "v5p", "v6e", "h100", "a100")
FAR = "\nTemporaries more than 1% off:\n\n| program | target | the compiler's bytes | hloom's |\n|---|---|---|---|\n"
TEXT = """
`scripts/measure_targets.py` compiles {count} programs (training steps, scans, attention, convolutions, sorts, gathers,
loops, branches, linear algebra; all lowered for the CPU) with the targets' own compilers by `hloom compile`:
{versions}.
Errors are relative to the compiler's figures. Two thirds of the programs, chosen by a hash of the name, were looked at
to make the model of XLA's GPU compiler; none to make the others.

### Memory of the optimised module

Temporaries are those of the main memory; where the compiler has 0, only 0 counts as equal. The peak is arguments +
outputs - aliased + temporaries.

| target | compiled | refused | temporaries: equal | within 1% | within 5% | worst | peak: within 1% | worst |
|---|---|---|---|---|---|---|---|---|
{after}

### Memory before optimisation

The same programs before optimisation, without the target's compiler: by the model of XLA's GPU compiler for GPUs; for
TPUs by that of its CPU compiler, which says nothing of temporaries, many of which stand in VMEM.

| target | peak, hloom over compiler: median | 10th to 90th percentile | within 25% |
|---|---|---|---|
{before}

Of the programs that were not looked at:

| target | within 10% | within 25% |
|---|---|---|
{held_out}
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

    @property
    def is_held_out(self) -> bool:
        """Whether nobody looked at the program to make the model of XLA's GPU compiler."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 3 == 0


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
    before, _, rest = DOCUMENT.read_text().partition(HEADING)
    known, _, rest = rest.partition(NEXT)
    text = section(len(names), results, known)
    if not options.programs:
        errors = tomllib.loads(ERRORS.read_text()) | {
            target: error_figures(one) for target, (one, _) in results.items()
        }
        ERRORS.write_text("\n".join([TITLE, *(toml_table(*row) for row in errors.items())]) + "\n")
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
        after, estimate = hloom.memory(made.module), hloom.memory(before, target=target)
        measured.append(Measured(name, made, after.temporaries, after.peak, estimate.peak))
        print(f"{target} {name} {measured[-1].temporary_error:+.2%} {measured[-1].peak_error:+.2%}", flush=True)
    return measured, refused


def ratios_of(measured: Iterable[Measured]) -> list[float]:
    """Peaks before optimisation over the compiler's, in order."""
    return sorted(one.peak_before / one.compiled.memory.peak for one in measured if one.compiled.memory.peak)


def percentiles(ratios: Sequence[float]) -> tuple[float, float]:
    """The 10th and the 90th."""
    return ratios[len(ratios) // 10], ratios[len(ratios) * 9 // 10]


def within(ratios: Sequence[float], most: float) -> str:
    """How many ratios are this near to 1."""
    return f"{sum(abs(ratio - 1) <= most for ratio in ratios)} of {len(ratios)}"


def error_figures(measured: Sequence[Measured]) -> dict[str, float]:
    """The figures of one target for the package."""
    ratios = ratios_of(measured)
    low, high = percentiles(ratios)
    return {"programs": len(ratios), "median": statistics.median(ratios), "low": low, "high": high}


def toml_table(target: str, figures: dict[str, float]) -> str:
    """The figures of one target in the package's file."""
    rows = [f"{name} = {value if isinstance(value, int) else format(value, '.2f')}" for name, value in figures.items()]
    return "\n".join([f"[{target}]", *rows])


def section(count: int, results: dict[str, tuple[list[Measured], list[str]]], known: str) -> str:
    """The text of the document's section; `known` is what it says now, of which rows of other targets stay."""
    others = "|".join(target for target in TARGETS if target not in results) or "none"
    after = re.findall(rf"^\| (?:{others}) \| \d+ \| \d+ \|.*", known, re.MULTILINE)
    before = re.findall(rf"^\| (?:{others}) \| \d+\.\d+ \|.*", known, re.MULTILINE)
    held_out = re.findall(rf"^\| (?:{others}) \| \d+ of \d+ \|.*", known, re.MULTILINE)
    far = re.findall(rf"^\| \w+ \| (?:{others}) \|.*", known, re.MULTILINE)
    reasons = re.findall(rf"^- \w+ on (?:{others}):.*", known, re.MULTILINE)
    versions = dict(re.findall(r"([\w-]+) (\d+(?:\.\d+)+)", known.partition("###")[0]))
    for target, (measured, refused) in results.items():
        if not measured:
            sys.exit(f"{target}: nothing compiled; {refused[0] if refused else 'no programs'}")
        versions |= measured[0].compiled.versions
        after.append(after_row(target, measured, len(refused)))
        before.append(before_row(target, measured))
        if target in GPUS:
            unseen = ratios_of(one for one in measured if one.is_held_out)
            held_out.append(f"| {target} | {within(unseen, 0.1)} | {within(unseen, 0.25)} |")
        far += [
            f"| {one.name} | {target} | {one.compiled.memory.temporaries:,} | {one.temporaries:,} |"
            for one in measured
            if abs(one.temporary_error) > 0.01
        ]
        reasons += [f"- {reason}" for reason in refused]
    rows = FAR + "\n".join(far) + "\n" if far else ""
    rows += "\nRefused:\n\n" + "\n".join(sorted(reasons, key=target_order)) + "\n" if reasons else ""
    return TEXT.format(
        count=count,
        versions=", ".join(f"{package} {version}" for package, version in versions.items()),
        after="\n".join(sorted(after, key=target_order)),
        before="\n".join(sorted(before, key=target_order)),
        held_out="\n".join(sorted(held_out, key=target_order)),
        far=rows,
    )


def after_row(target: str, measured: Sequence[Measured], refused: int) -> str:
    """How near the optimised modules of one target are."""
    sizes = [abs(one.temporary_error) for one in measured]
    peaks = [abs(one.peak_error) for one in measured]
    counts = [sum(size <= most for size in sizes) for most in (0.0, 0.01, 0.05)]
    near = sum(size <= 0.01 for size in peaks)
    return (
        f"| {target} | {len(measured)} | {refused} | {' | '.join(map(str, counts))} | {max(sizes):.2%} | "
        f"{near} | {max(peaks):.2%} |"
    )


def before_row(target: str, measured: Sequence[Measured]) -> str:
    """How near the programs before optimisation are for one target."""
    ratios = ratios_of(measured)
    low, high = percentiles(ratios)
    return f"| {target} | {statistics.median(ratios):.2f} | {low:.2f} to {high:.2f} | {within(ratios, 0.25)} |"


def target_order(row: str) -> int:
    """The place of a row's target among all."""
    return next((place for place, target in enumerate(TARGETS) if re.search(rf"\b{target}\b", row)), len(TARGETS))


if __name__ == "__main__":
    main()
