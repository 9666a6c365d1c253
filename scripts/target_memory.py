"""Measure `hloom memory` against the compilers of TPUs and GPUs, over a directory of compiled programs.

    python scripts/target_memory.py DIRECTORY [--targets v5e,h100] [--programs a,b] [--table]

DIRECTORY/PROGRAM/TARGET.hlo is an optimised module and TARGET.json the compiler's `memory_analysis()` in bytes;
TARGET.assignment.txt.gz, XLA's dump of its buffer assignment, is read for the memories other than the main one. Each
line shows hloom's figure and the compiler's; `--table` adds up how many programs are within 1 and 5 percent.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

import hloom

TARGETS = ("h100", "a100", "v5e", "v5p", "v6e")
_ALLOCATION = re.compile(r"allocation \d+: size (\d+)(?:, color (\d+))?.*preallocated-temp")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one program: hloom's bytes and the compiler's."""

    program: str
    target: str
    what: str
    ours: int
    theirs: int

    @property
    def error(self) -> float:
        """The relative error; infinite if the compiler says 0 and hloom does not."""
        if self.ours == self.theirs:
            return 0.0
        return self.ours / self.theirs - 1 if self.theirs else float("inf")


def main() -> None:
    """Print the figures of a directory of programs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--programs", default="")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    names = options.programs.split(",") if options.programs else sorted(p.name for p in options.directory.iterdir())
    figures = [one for target in options.targets.split(",") for name in names
               for one in figures_of(options.directory / name, target)]  # fmt: skip
    for one in figures:
        print(f"{one.target:6}{one.program:22}{one.what:14}{one.ours:>15,}{one.theirs:>15,}{one.error:>+9.2%}")
    if options.table:
        head = "| target | figure | programs | exact | within 1 % | within 5 % | worst |"
        print(f"\n{head}\n|---|---|---|---|---|---|---|")
        print(*table(figures), sep="\n")


def figures_of(folder: Path, target: str) -> Iterator[Figure]:
    """The temporaries and the peak of main memory, and the temporaries of other memories; none if not compiled."""
    sizes, text = folder / f"{target}.json", folder / f"{target}.hlo"
    if not sizes.exists() or not text.exists():
        return
    stats = {name.removesuffix("_size_in_bytes"): size for name, size in json.loads(sizes.read_text()).items()}
    report = hloom.memory(hloom.load(text))
    peak = stats["argument"] + stats["output"] - stats["alias"] + stats["temp"]
    yield Figure(folder.name, target, "temporaries", report.temporaries, stats["temp"])
    yield Figure(folder.name, target, "peak", report.peak, peak)
    dump = folder / f"{target}.assignment.txt.gz"
    if dump.exists():
        heaps = allocations(gzip.decompress(dump.read_bytes()).decode())
        for other in report.other_spaces:
            yield Figure(folder.name, target, other.short, other.temporaries, heaps.get(other.space, 0))


def allocations(dump: str) -> dict[int, int]:
    """The bytes of the allocations for temporaries, by memory space."""
    found: dict[int, int] = {}
    for line in dump.splitlines():
        match = _ALLOCATION.match(line)
        if match:
            space = int(match[2] or 0)
            found[space] = found.get(space, 0) + int(match[1])
    return found


def table(figures: list[Figure]) -> Iterator[str]:
    """A row for each target and figure: programs, and how many are near."""
    groups: dict[tuple[str, str], list[float]] = {}
    for one in figures:
        groups.setdefault((one.target, one.what), []).append(abs(one.error))
    for (target, what), errors in groups.items():
        counts = [sum(error <= most for error in errors) for most in (0.0, 0.01, 0.05)]
        yield f"| {target} | {what} | {len(errors)} | {' | '.join(map(str, counts))} | {max(errors):.2%} |"


if __name__ == "__main__":
    main()
