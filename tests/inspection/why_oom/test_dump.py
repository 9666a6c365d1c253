"""Dump directories: which module takes most, and XLA's own account of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.inspection.why_oom import why_dump_oom
from hloom.inspection.why_oom.dump import read_buffer_assignment
from hloom.text import HloomError

MODULE = "HloModule jit_{name}{header}\nENTRY e {{ x = f32[{size}] parameter(0) y = f32[{size}] tanh(x) ROOT z = f32[{size}] negate(y) }}\n"
ASSIGNMENT = """BufferAssignment:
allocation 0: size {bytes}, parameter 0, shape |f32[{size}]| at ShapeIndex {{}}:
 value: <3 x @0> (size={bytes},offset=0): f32[{size}]{{0}}
allocation 1: size {bytes}, maybe-live-out:
 value: <4 z @0> (size={bytes},offset=0): f32[{size}]{{0}}
allocation 2: size {bytes}, preallocated-temp:
 value: <5 y @0> (size={bytes},offset=0): f32[{size}]{{0}}
allocation 3: size 4, thread-local:
 value: <6 a @0> (size=4,offset=0): f32[]
"""


def dump(folder: Path, number: int, name: str, size: int, *, assigned: bool) -> None:
    stem = folder / f"module_{number:04}.jit_{name}"
    Path(f"{stem}.before_optimizations.txt").write_text(MODULE.format(name=name, size=size, header=""))
    Path(f"{stem}.cpu_after_optimizations.txt").write_text(
        MODULE.format(name=name, size=size, header=", is_scheduled=true")
    )
    if assigned:
        text = ASSIGNMENT.format(size=size, bytes=4 * size)
        Path(f"{stem}.cpu_after_optimizations-buffer-assignment.txt").write_text(text)


def test_the_module_that_takes_most(tmp_path: Path):
    dump(tmp_path, 0, "small", 64, assigned=True)
    dump(tmp_path, 1, "large", 4096, assigned=True)
    report = why_dump_oom(tmp_path, memory="40KiB")
    assert (report.name, report.origin, report.peak) == ("module_0001.jit_large", "dump", 3 * 4 * 4096)
    assert report.xla_sums == {
        "arguments": 16384,
        "outputs": 16384,
        "aliases": 0,
        "temporaries": 16384,
        "constants": 0,
        "peak": 49152,
    }
    assert "takes most of the 2 modules, by XLA's buffer assignments" in report.notes[-1]
    assert (
        report.remedies
        and str(tmp_path / "module_0001.jit_large.before_optimizations.txt") in report.remedies[0].command
    )
    assert why_dump_oom(tmp_path, module="jit_small", quick=True).name == "module_0000.jit_small"


def test_without_buffer_assignments_the_model_says_which(tmp_path: Path):
    dump(tmp_path, 0, "small", 64, assigned=False)
    dump(tmp_path, 1, "large", 4096, assigned=False)
    report = why_dump_oom(tmp_path, quick=True)
    assert report.name == "module_0001.jit_large" and report.xla_sums == {}


def test_bad_directories(tmp_path: Path):
    with pytest.raises(HloomError, match="holds no HLO"):
        why_dump_oom(tmp_path)
    dump(tmp_path, 0, "small", 64, assigned=True)
    with pytest.raises(HloomError, match="holds no module 'jit_none'"):
        why_dump_oom(tmp_path, module="jit_none")
    (tmp_path / "module_0000.jit_small.cpu_after_optimizations-buffer-assignment.txt").write_text("nothing")
    with pytest.raises(HloomError, match="lists no allocation"):
        why_dump_oom(tmp_path)


def test_an_account_read_from_text():
    account = read_buffer_assignment(ASSIGNMENT.format(size=8, bytes=32))
    assert (account.arguments, account.outputs, account.temporaries, account.peak) == (32, 32, 32, 96)
    assert account.allocations[0].values == ("x",)
    aliased = read_buffer_assignment(
        "allocation 0: size 8, parameter 0, shape |f32[2]| at ShapeIndex {}, maybe-live-out:\n"
    )
    assert (aliased.arguments, aliased.outputs, aliased.aliases, aliased.peak) == (8, 8, 8, 8)
