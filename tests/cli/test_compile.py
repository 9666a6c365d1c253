"""`hloom compile` with a fake compiler: tables, JSON, files, sweeps, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hloom.formats.hlo import parse
from tests.cli.conftest import Call
from tests.targets.compiler.fake_compiler import ASSIGNMENT, OPTIMISED, FakeCompiler, fake_compiler


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """The interpreter that all targets find."""
    return fake_compiler(tmp_path, monkeypatch)


def test_the_report(call: Call, step: Path, compiler: FakeCompiler):
    result = call("compile", step, "--for", "v5e")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "memory, by the compiler for v5e:1x1" in text
    assert "temporaries 96 96 B" in text
    assert "VMEM 8.0 KiB 8.0 KiB" in text
    assert "estimated cycles 1,200 of 1 instructions" in text
    assert "libtpu 0.0.42" in text


def test_json(call: Call, step: Path, compiler: FakeCompiler):
    record = json.loads(call("compile", step, "--for", "h100", "--json").stdout)
    assert (record["target"], record["memory"]["peak"], record["fits"]) == ("h100", 7264, True)


def test_a_folder_is_written_whole(call: Call, step: Path, compiler: FakeCompiler, tmp_path: Path):
    folder = tmp_path / "out"
    assert call("compile", step, "--for", "v5e", "-o", folder).exit_code == 0
    assert (folder / "module.hlo").read_text() == OPTIMISED
    assert (folder / "buffer-assignment.txt").read_text() == ASSIGNMENT
    assert json.loads((folder / "report.json").read_text())["memory"]["peak"] == 7264
    again = call("compile", step, "--for", "v5e", "-o", folder)
    assert (again.exit_code, "is not empty" in again.stderr) == (2, True)


def test_nothing_is_written_where_the_compiler_fails(call: Call, step: Path, compiler: FakeCompiler, tmp_path: Path):
    compiler.plays("aborts")
    result = call("compile", step, "--for", "v5e", "-o", tmp_path / "out", "--dump", tmp_path / "dump")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "died (signal SIGABRT) on step:\n  Check failed: a == b (topology.cc:12)" in result.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "dump").exists()


def test_the_module_on_standard_output(call: Call, step: Path, compiler: FakeCompiler):
    result = call("compile", step, "--for", "v5e", "-o", "-")
    assert parse(result.stdout).entry.root.opcode == "fusion"
    assert "temporaries" in result.stderr
    assert call("compile", step, "--for", "v5e", "-o", "-", "--json").exit_code == 2


def test_memory_that_runs_out_is_explained(call: Call, step: Path, compiler: FakeCompiler):
    compiler.plays("out_of_memory")
    result = call("compile", step, "--for", "v5e")
    assert result.exit_code == 1
    assert "step does not fit into the memory of v5e:1x1: RESOURCE_EXHAUSTED" in result.stderr
    assert "56.0 GiB at the peak: exceeds the 15.8 GiB available by 40.2 GiB" in result.stdout
    assert "by hloom's model, of the program before optimisation" in result.stdout
    record = json.loads(call("compile", step, "--for", "v5e", "--json").stdout)
    assert record["fits"] is False
    assert record["why"]["peak"] == 56 << 30


def test_a_sweep(call: Call, step: Path, compiler: FakeCompiler):
    result = call("compile", step, "--for", "v5e", "--sweep", "xla_tpu_a=1, 2,1")
    assert result.exit_code == 0
    assert "xla_tpu_a for v5e:1x1" in result.stdout
    assert [json.loads(request)["flags"] for request in compiler.requests] == [[["xla_tpu_a", 1]], [["xla_tpu_a", 2]]]
    record = json.loads(call("compile", step, "--for", "v5e", "--sweep", "xla_tpu_a=1", "--json").stdout)
    assert record["values"][0]["collectives"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "xla_a"], "'xla_a' is not xla_x=a,b"),
        (["--sweep", "xla_a=1", "-o", "out"], "give no -o"),
        (["--sweep", "foo=1"], "'foo=1' is no flag of XLA"),
        (["--passes"], "--passes needs --dump DIR"),
        (["--dump", "-"], "many files are written: give a folder"),
        (["-o", "same", "--dump", "./same"], "-o and --dump each write a folder of their own"),
        (["--flag", "a"], "'a' is no flag of XLA"),
        (["--seconds", "0"], "not in the range"),
        (["--for", "v9"], "there is no target 'v9'"),
    ],
)
def test_bad_usage(call: Call, step: Path, compiler: FakeCompiler, arguments: list[str], message: str):
    result = call("compile", step, *(["--for", "v5e"] if "--for" not in arguments else []), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert compiler.requests == []


def test_a_sweep_of_which_nothing_compiles(call: Call, step: Path, compiler: FakeCompiler):
    compiler.plays("unknown_flag")
    result = call("compile", step, "--for", "v5e", "--sweep", "xla_y=1,2")
    assert (result.exit_code, "No such compile option" in result.stderr) == (2, True)


def test_a_missing_compiler(call: Call, step: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HLOOM_TPU_PYTHON", "/nowhere/python")
    result = call("compile", step, "--for", "v5e")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "HLOOM_TPU_PYTHON=/nowhere/python is not an executable file" in result.stderr


def test_an_empty_file(call: Call, tmp_path: Path, compiler: FakeCompiler):
    path = tmp_path / "empty.hlo"
    path.write_text("")
    result = call("compile", path, "--for", "v5e")
    assert (result.exit_code, "found an empty text" in result.stderr) == (2, True)
