"""`hloom why-oom`: modules, errors' texts, dump directories, and what is not one of these.

Covers `why_oom.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import STEP, Call
from tests.inspection.why_oom.test_error_text import TPU


def test_a_module(call: Call, step: Path):
    result = call("why-oom", step, "--memory", "200B")
    assert result.exit_code == 0, result.output
    assert "step: 256 B at the peak" in result.stdout and "exceeds the 200 B available by 56 B" in result.stdout
    assert "by scope" in result.stdout and "does not help: " in result.stdout


def test_a_module_that_fits(call: Call, step: Path):
    assert "it fits, so no remedies were simulated" in call("why-oom", step, "--memory", "1GiB").stdout


def test_an_errors_text(call: Call, tmp_path: Path):
    path = tmp_path / "error.txt"
    path.write_text(TPU)
    result = call("why-oom", path)
    assert "exceeds the 16.0 GiB available by 25.5 GiB" in result.stdout
    assert result.stdout == call("why-oom", "-", input=TPU).stdout == call("why-oom", path, "-o", "-").stdout
    assert json.loads(call("why-oom", path, "--json").stdout)["buffers"][0]["name"] == "copy.4"


def test_a_dump_directory(call: Call, tmp_path: Path):
    (tmp_path / "module_0000.jit_f.before_optimizations.txt").write_text(STEP)
    result = call("why-oom", tmp_path, "--quick", "-o", tmp_path / "report.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "report.txt").read_text().startswith("module_0000.jit_f: ")


def test_a_module_from_the_standard_input(call: Call):
    assert call("why-oom", "-", "--quick", input=STEP).stdout.startswith("step: 256 B")


def test_what_is_neither(call: Call, tmp_path: Path):
    path = tmp_path / "prose.txt"
    path.write_text("It did not fit.\n")
    result = call("why-oom", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: {path} is neither a module nor the text of an error about memory\n"
        "  give a module, a directory that XLA dumped into, or all of the error's text\n"
    )
    path.write_text("")
    assert call("why-oom", path).exit_code == 2
    assert call("why-oom", path, "--memory", "much").exit_code == 2
    assert call("why-oom", "-", input="RESOURCE_EXHAUSTED").stderr.startswith(
        "error: the text says that memory ran out"
    )
    assert call("why-oom", tmp_path / "none" / "x").exit_code == 2
