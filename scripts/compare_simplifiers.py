"""Compare the bytes that `simplify-xla` leaves with those that XLA's own simplifier leaves, module by module.

    python scripts/compare_simplifiers.py DUMP...

XLA compiles each dump for the CPU, and writes its module before and after each run of the algebraic simplifier. What
counts is `hloom cost` of the last module of the pipeline `simplification`, and of the first one after `simplify-xla`.
A line for each dump; the exit status is 1 where hloom's moves more.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

DIRECTORY = tempfile.TemporaryDirectory(prefix="simplifiers-")
os.environ["XLA_FLAGS"] = (
    f"--xla_dump_to={DIRECTORY.name} --xla_dump_hlo_as_text --xla_dump_large_constants"
    " --xla_dump_hlo_pass_re=.*algsimp.* --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import hloom
from hloom.ir import Module
from hloom.runtime.run import placement_of
from hloom.runtime.xla import compile_text
from hloom.text import HloomError

PASSES = ["simplify-xla"]
_NUMBERED = re.compile(r"\.(\d{4})\.simplification\.")


def main(arguments: Sequence[str]) -> int:
    warnings.simplefilter("ignore")
    above = compared = 0
    for path in map(Path, arguments):
        for before, after in simplified(path):
            given, theirs = bytes_accessed(before), bytes_accessed(after)
            ours = bytes_accessed(hloom.opt(before, PASSES)[0])
            compared += 1
            above += ours > theirs
            mark = "MORE" if ours > theirs else "same" if ours == theirs else "less"
            print(f"{mark}  {path.name}: {given:,} given, {theirs:,} by XLA, {ours:,} by hloom", flush=True)
    print(f"{compared} modules, {above} of which move more bytes")
    return int(above > 0)


def simplified(path: Path) -> Iterator[tuple[Module, Module]]:
    """The module before XLA's simplifier and the one that it leaves."""
    folder = Path(DIRECTORY.name)
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    text = path.read_text()
    try:
        compile_text(text, placement_of(text))
        files = {int(match[1]): file for file in folder.iterdir() if (match := _NUMBERED.search(file.name))}
        if files:
            yield hloom.load(files[min(files)]), hloom.load(files[max(files)])
    except (HloomError, RuntimeError) as error:
        print(f"none  {path.name}: {str(error)[:200]}", flush=True)


def bytes_accessed(module: Module) -> float:
    """What a run of the module reads and writes, in bytes."""
    return hloom.cost(module).total.bytes_accessed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
