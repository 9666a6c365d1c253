"""Figures of the first reading and printing of a text in a process, as a user meets them: `python -m benchmarks.first
FILE` prints four times, ours and XLA's, of reading and of printing.

jax and hloom are imported before; every cache is cold, on both sides.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any

from benchmarks import peers
from benchmarks.compiled_programs import compiled_programs
from benchmarks.figures import AtLeast, Figure
from benchmarks.programs import Plan, training_step
from hloom.formats.hlo import parse, print_module

ROOT = Path(__file__).parents[1]
DUMPS = (*ROOT.glob("tests/analysis/target_programs/*.gz"), *ROOT.glob("tests/targets/dumps/*.v5p.*.gz"))
"""Programs as compilers for TPUs and GPUs made them."""
SAMPLES = 3
"""Processes for each text."""
Samples = Sequence[tuple[float, ...]]
"""Of one text: our seconds of reading and of printing, then XLA's."""
LARGE = 100_000
"""Characters from which a text is large: start-up is little of the time of reading it."""


def first(plan: Plan) -> Iterator[Figure]:
    """The geometric means over dumps, programs of XLA's CPU compiler and a training step."""
    with TemporaryDirectory() as folder:
        texts = [gzip.decompress(path.read_bytes()).decode() for path in DUMPS]
        texts += [program.text for program in (*compiled_programs(plan), training_step(plan.small, metadata=True))]
        sizes: dict[bool, list[Samples]] = {True: [], False: []}
        for number, text in enumerate(texts):
            path = Path(folder, f"{number}.hlo")
            path.write_text(text)
            sizes[len(text) >= LARGE].append([_times(path) for _ in range(SAMPLES)])
    large, small = sizes[True], sizes[False]
    if large:
        yield _figure(f"first reading: {len(large)} texts of {LARGE // 1000} kB and more", large, 0, AtLeast(1.1))
    yield _figure(f"first reading: {len(small)} texts of less than {LARGE // 1000} kB", small, 0, AtLeast(0.7))
    yield _figure(f"first printing: {len(large + small)} texts", large + small, 1, AtLeast(0.7))


def _times(path: Path) -> tuple[float, ...]:
    command = [sys.executable, "-m", "benchmarks.first", str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return tuple(map(float, answer.split()))


def _figure(subject: str, texts: Sequence[Samples], which: int, bar: AtLeast) -> Figure:
    """The geometric mean of XLA's time as a multiple of ours: of the best samples of each text, and of the medians."""
    best, middle = (
        exp(
            mean(
                log(choose(sample[which + 2] for sample in text) / choose(sample[which] for sample in text))
                for text in texts
            )
        )
        for choose in (min, median)
    )
    return Figure(subject, f"{best:.2f}", peers.XLA, "1", best, middle, bar)


def main(path: str) -> None:
    text = Path(path).read_text()
    times = [*_both(parse, print_module, text), *_both(peers.xla_parse, peers.xla_print, text)]
    print(*times)


def _both(read: Callable[[str], Any], write: Callable[[Any], str], text: str) -> Iterator[float]:
    start = thread_time()
    module = read(text)
    middle = thread_time()
    write(module)
    yield from (middle - start, thread_time() - middle)


if __name__ == "__main__":
    main(sys.argv[1])
