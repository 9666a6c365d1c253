"""`--for TARGET` of commands that report numbers: the compiler's module and figures, or hloom's model, and which it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hloom.analysis import devices
from hloom.cli.target import DEVICES
from hloom.targets.compiler import GPUS, TPUS
from tests.cli.conftest import Call
from tests.targets.compiler.fake_compiler import FakeCompiler, fake_compiler

LINE = "by the compiler for v5e:1x1: peak 7.1 KiB, temporaries 96 B, flops 8, 1,200 cycles"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """The interpreter that all targets find."""
    return fake_compiler(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["memory", "cost", "roofline", "why-oom"])
def test_both_figures_are_shown(call: Call, step: Path, compiler: FakeCompiler, name: str):
    result = call(name, step, "--for", "v5e")
    assert result.exit_code == 0, result.stderr
    assert LINE in result.stdout
    assert json.loads(call(name, step, "--for", "v5e", "--json").stdout)["compiler"]["memory"]["peak"] == 7264


@pytest.mark.parametrize("name", ["memory", "cost", "roofline", "why-oom", "diff", "page"])
def test_without_the_compiler_it_is_hlooms_model(
    call: Call, step: Path, monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HLOOM_TPU_PYTHON", "/nowhere/python")
    result = call(name, step, *([step] if name == "diff" else []), "--for", "v5e")
    assert result.exit_code == 0, result.stderr
    text = " ".join((result.stdout + result.stderr).split())
    assert "by hloom's model, of the program before optimisation (its peaks are " in text
    assert "times those of the compiler for v5e for 8 in 10 of" in text
    assert "): HLOOM_TPU_PYTHON=/nowhere/python is not an executable file" in text


def test_the_compilers_peak_decides_on_a_budget(call: Call, step: Path, compiler: FakeCompiler):
    assert call("memory", step, "--for", "v5e", "--budget", "7264").exit_code == 0
    result = call("memory", step, "--for", "v5e", "--budget", "7263")
    assert (result.exit_code, "exceeds 7.1 KiB by 1 B" in result.stdout) == (1, True)
    assert json.loads(call("memory", step, "--for", "v5e", "--budget", "7263", "--json").stdout)["fits"] is False


def test_two_compiled_modules_are_compared(call: Call, step: Path, compiler: FakeCompiler):
    result = call("diff", step, step, "--for", "v5e")
    assert f"A: {LINE}" in result.stdout
    assert f"B: {LINE}" in result.stdout
    assert len(compiler.requests) == 1


def test_the_targets_rates_are_used(call: Call, step: Path, compiler: FakeCompiler):
    assert "TPU v5e" in call("roofline", step, "--for", "v5e").stdout
    assert "A100" in call("roofline", step, "--for", "v5e", "--device", "a100-80").stdout
    assert set(DEVICES.values()) <= set(devices())
    assert set(DEVICES) <= {*TPUS, *GPUS, "cpu"}


def test_memory_that_runs_out_is_explained(call: Call, step: Path, compiler: FakeCompiler):
    compiler.plays("out_of_memory")
    result = call("why-oom", step, "--for", "v5e")
    assert result.exit_code == 0
    assert "56.0 GiB at the peak: exceeds the 15.8 GiB available" in result.stdout
    assert "by hloom's model, of the program before optimisation:" in result.stdout
    assert call("memory", step, "--for", "v5e").exit_code == 1


@pytest.mark.parametrize("name", ["cost", "roofline", "page"])
def test_a_trace_is_of_a_module_that_ran(call: Call, step: Path, compiler: FakeCompiler, name: str):
    result = call(name, step, "--for", "v5e", "--profile", "trace")
    assert (result.exit_code, "--for compiles anew" in result.stderr) == (2, True)
