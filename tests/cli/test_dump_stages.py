"""Which module of a dump directory a subcommand takes where stages are missing, and what it says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import STEP, Call

BEFORE, AFTER = "before_optimizations", "cpu_after_optimizations"
PASS = "0003.pipe.after_dce.before_cse"
CASES = [
    ((BEFORE, PASS, AFTER), "cost", None, BEFORE, ""),
    ((BEFORE, PASS, AFTER), "fusions", None, AFTER, ""),
    ((BEFORE, PASS, AFTER), "memory", None, AFTER, ""),
    ((AFTER,), "cost", None, AFTER, " (no before_optimizations)"),
    ((BEFORE,), "fusions", None, BEFORE, " (no after_optimizations)"),
    ((PASS,), "memory", None, PASS, " (no after_optimizations)"),
    ((BEFORE, PASS), "memory", "before", BEFORE, ""),
    ((BEFORE, PASS), "memory", "3", PASS, ""),
    ((BEFORE, PASS), "memory", "0003", PASS, ""),
    ((BEFORE, AFTER), "inspect", "after", AFTER, ""),
    ((BEFORE, AFTER), "inspect", "3", None, "module_0001.jit_f has no stage '3'"),
    ((PASS,), "inspect", "after", None, "module_0001.jit_f has no stage 'after'"),
    ((AFTER, "gpu_after_optimizations"), "inspect", "after", None, "module_0001.jit_f has 2 stages 'after'"),
]


@pytest.mark.parametrize(("stages", "name", "asked", "taken", "said"), CASES)
def test_the_stage(
    call: Call, tmp_path: Path, stages: tuple[str, ...], name: str, asked: str | None, taken: str | None, said: str
):
    for stage in stages:
        (tmp_path / f"module_0001.jit_f.{stage}.txt").write_text(STEP)
    result = call(name, tmp_path, *(() if asked is None else ("--stage", asked)))
    first = result.stderr.split("\n")[0]
    if taken is None:
        assert (result.exit_code, first) == (2, f"error: {said}")
    else:
        assert result.exit_code == 0
        assert first.partition(";")[0] == f"note: module_0001.jit_f at stage {taken}{said}"


@pytest.mark.parametrize("name", ["cost", "roofline", "page"])
def test_a_profile_is_of_the_optimised_module(call: Call, tmp_path: Path, name: str):
    for stage in (BEFORE, AFTER):
        (tmp_path / f"module_0001.jit_f.{stage}.txt").write_text(STEP)
    result = call(name, tmp_path, "--profile", tmp_path / "no_trace")
    assert result.exit_code == 2
    assert result.stderr.split("\n")[0].partition(";")[0] == f"note: module_0001.jit_f at stage {AFTER}"


def test_several_modules_are_listed(call: Call, tmp_path: Path):
    for module, stage in (("module_0001.jit_f", AFTER), ("module_0002.jit_g", BEFORE)):
        (tmp_path / f"{module}.{stage}.txt").write_text(STEP)
    for name in ("inspect", "memory", "fusions", "cost"):
        result = call(name, tmp_path)
        assert result.exit_code == 2 and "module_0001.jit_f" in result.stderr and "module_0002.jit_g" in result.stderr
        assert call(name, tmp_path, "--module", "jit_g").exit_code == 0
