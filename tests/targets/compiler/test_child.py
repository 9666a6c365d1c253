"""A child's time and output are limited."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hloom.targets.compiler.child import KEPT_HEAD, KEPT_TAIL, ChildResult, run_child
from hloom.text import HloomError


def run(code: str, folder: Path, seconds: float = 30.0) -> ChildResult:
    return run_child([sys.executable, "-I", "-c", code], os.environ, str(folder), seconds)


def test_what_a_child_prints_and_its_status(tmp_path: Path):
    result = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (result.status, result.timed_out, result.ending) == (3, False, "exit status 3")
    assert sorted(result.telling_lines()) == ["err", "out"]


def test_a_signal_is_named(tmp_path: Path):
    result = run("import os; os.abort()", tmp_path)
    assert result.ending == "signal SIGABRT"


def test_a_child_that_hangs_is_killed_with_what_it_started(tmp_path: Path):
    code = "import subprocess, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
    result = run(code, tmp_path, seconds=1.0)
    assert result.timed_out
    pid = int(result.printed.split()[0])
    for _ in range(100):  # a killed process may be a zombie for a moment, until its new parent looks
        if not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the grandchild is still there")


def test_long_output_keeps_its_ends(tmp_path: Path):
    result = run("print('begin'); [print('x' * 999) for _ in range(4000)]; print('end')", tmp_path)
    assert result.printed.startswith("begin\n")
    assert result.printed.endswith("end\n")
    assert "bytes left out" in result.printed
    assert len(result.printed) < KEPT_HEAD + 2 * KEPT_TAIL + 100


def test_noise_is_left_out_and_xlas_fatal_message_found():
    printed = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "I0000 00:00:00.1 1 a.cc:1] information\n"
        "F1128 17:00:00.123456   11 platforms/topology.cc:12] Check failed: a == b\n"
        "*** Check failure stack trace: ***\n    @ 0x7f\n"
    )
    assert ChildResult(-6, False, printed).telling_lines() == ["Check failed: a == b (platforms/topology.cc:12)"]
    assert ChildResult(1, False, "E1128 17:00:00.1 11 a.cc:3] words\n   @ x\n").telling_lines() == ["words"]


def test_a_program_that_is_not_there(tmp_path: Path):
    with pytest.raises(HloomError, match="cannot start /nowhere: no such file"):
        run_child(["/nowhere"], {}, str(tmp_path), 1.0)
