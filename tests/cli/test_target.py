"""`--for TARGET` of commands that report numbers: the compiler's module and figures, or hloom's model, and which it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.test_plan import LAYERS
from tests.targets.compiler.fake_compiler import FakeCompiler, fake_compiler

LINE = "by the compiler for v5e:1x1: peak 7.1 KiB, temporaries 96 B, flops 8, 1,200 cycles"

LINE_OF_FOUR = LINE.replace("v5e:1x1", "v5e:2x2")


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """A step that can be sharded."""
    path = tmp_path / "layers.hlo"
    path.write_text(LAYERS)
    return path


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
    assert "compiled for" not in text


def test_the_compilers_peak_decides_on_a_budget(call: Call, step: Path, compiler: FakeCompiler):
    assert call("memory", step, "--for", "v5e", "--budget", "7264").exit_code == 0
    result = call("memory", step, "--for", "v5e", "--budget", "7263")
    assert (result.exit_code, "exceeds 7.1 KiB by 1 B" in result.stdout) == (1, True)
    assert json.loads(call("memory", step, "--for", "v5e", "--budget", "7263", "--json").stdout)["fits"] is False


def test_a_timeline_has_the_compilers_lines(call: Call, step: Path, compiler: FakeCompiler):
    assert LINE in call("roofline", step, "--timeline", "--for", "v5e").stdout
    record = json.loads(call("roofline", step, "--timeline", "--for", "v5e", "--json").stdout)
    assert record["compiler"]["cycles"]["total"] == 1200


def test_two_compiled_modules_are_compared(call: Call, step: Path, compiler: FakeCompiler):
    result = call("diff", step, step, "--for", "v5e")
    assert f"A: {LINE}" in result.stdout
    assert f"B: {LINE}" in result.stdout
    assert len(compiler.requests) == 1


def test_the_targets_rates_are_used(call: Call, step: Path, compiler: FakeCompiler):
    assert "TPU v5e" in call("roofline", step, "--for", "v5e").stdout
    assert "A100 SXM4, 40 GB" in call("roofline", step, "--for", "a100", "--device", "a100-40").stdout


@pytest.mark.parametrize("name", ["roofline", "diff", "page"])
@pytest.mark.parametrize("device", ["a100-80", "tpu-v6e"])
def test_rates_of_another_machine_are_refused(call: Call, step: Path, compiler: FakeCompiler, name: str, device: str):
    result = call(name, step, *([step] if name == "diff" else []), "--for", "v5e", "--device", device)
    assert (result.exit_code, result.stderr) == (
        2, f"error: {device} is no device of v5e:1x1\n  its rates are those of tpu-v5e\n"
    )  # fmt: skip
    assert not compiler.requests


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


SEARCHES = {
    "plan": ["--planner", "expert"],
    "fit": ["--batch", "x:0", "--microbatches", "1"],
    "opt": ["-p", "simplify"],
}


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_found_is_compiled(call: Call, layers: Path, compiler: FakeCompiler, name: str):
    size = [] if name == "opt" else [":2x2"]
    result = call(name, layers, "--for", "".join(["v5e", *size]), *SEARCHES[name])
    assert result.exit_code == 0, result.stderr
    text = " ".join((result.stdout + result.stderr).split())
    for figure in {"plan": ["for v5e:2x2", LINE_OF_FOUR], "fit": ["compiled for v5e:2x2", "1,200", LINE_OF_FOUR],
                   "opt": ["compiled for v5e:1x1", "peak by hloom's model", "cycles 1,200 1,200 +0.0"]}[name]:  # fmt: skip
        assert figure in text
    record = json.loads(call(name, layers, "--for", "".join(["v5e", *size]), *SEARCHES[name], "--json").stdout)
    compiled = record["compilers"]["after"]["compiler"] if name == "opt" else record["compiler"]
    assert (compiled["memory"]["peak"], compiled["cycles"]["total"]) == (7264, 1200)


def test_shardings_of_a_plan_reach_the_compiler(call: Call, layers: Path, compiler: FakeCompiler):
    assert call("plan", layers, "--for", "h100x8", "--planner", "expert").exit_code == 0
    (request,) = map(json.loads, compiler.requests)
    assert (request["partitions"], request["partitioner"], request["topology"]["topology"]) == (8, "gspmd", "1x1x8")


def test_so_many_plans_are_compiled(call: Call, layers: Path, compiler: FakeCompiler):
    asked = ("plan", layers, "--for", "v5e:2x2", "--planner", "expert", "--measure", "2", "--json")
    record = json.loads(call(*asked).stdout)
    assert [made["measured"] is not None for made in record["candidates"]][:3] == [True, True, False]
    assert len(compiler.requests) == 2


def test_the_compilers_peak_decides_on_a_plan(call: Call, layers: Path, compiler: FakeCompiler, tmp_path: Path):
    output = tmp_path / "plan.json"
    asked = ("plan", layers, "--for", "v5e:2x2", "--planner", "expert", "-o", output)
    result = call(*asked, "--memory", "7263B")
    assert (result.exit_code, output.exists()) == (1, False)
    assert "exceeds the memory by 1 B" in result.stdout
    assert call("fit", layers, "--for", "v5e:2x2", "--batch", "x:0", "--memory", "7263B").exit_code == 1


@pytest.mark.parametrize("name", ["plan", "fit"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--"),
        (["--for", "v5e"], "v5e alone does not say how many devices there are"),
        (["--for", "v9:2x2"], "there is no target 'v9:2x2'"),
        (["--for", "v5e:3x3"], "'v5e:3x3' is not a slice of TPU v5e"),
        (["--for", "v5e:2x2", "{number}", "8"], "v5e:2x2 has 4 devices, and 8 are asked for"),
        (["--for", "v5e", "{number}", "6"], "no slice of TPU v5e has 6 devices"),
        (["--for", "v5e:2x2", "--device", "h100"], "h100 is no device of v5e:2x2"),
    ],
)
def test_machines_that_contradict_each_other(
    call: Call, layers: Path, compiler: FakeCompiler, name: str, options: list[str], message: str
):
    number = {"plan": "--mesh", "fit": "--devices"}[name]
    result = call(name, layers, *(option.format(number=number) for option in options))
    assert (result.exit_code, message in result.stderr, compiler.requests) == (2, True, [])


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_found_without_the_compiler_is_by_hlooms_model(
    call: Call, layers: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("HLOOM_TPU_PYTHON", "/nowhere/python")
    result = call(name, layers, "--for", "v5e:1x1" if name == "opt" else "v5e:2x2", *SEARCHES[name])
    assert result.exit_code == 0, result.stderr
    text = " ".join((result.stdout + result.stderr).split())
    assert "by hloom's model, of the program before optimisation (its peaks are " in text
    assert "): HLOOM_TPU_PYTHON=/nowhere/python is not an executable file" in text


@pytest.mark.parametrize("name", ["plan", "fit"])
def test_what_no_compiler_takes(call: Call, layers: Path, compiler: FakeCompiler, name: str):
    compiler.plays("out_of_memory")
    result = call(name, layers, "--for", "v5e:2x2", *SEARCHES[name])
    assert (result.exit_code, "does not fit into the memory of v5e:2x2" in result.stderr) == (1, True)


def test_opt_says_which_side_does_not_fit(call: Call, layers: Path, compiler: FakeCompiler):
    compiler.plays("out_of_memory")
    result = call("opt", layers, "--for", "v5e", "-p", "simplify")
    assert result.exit_code == 0
    text = " ".join(result.stderr.split())
    assert "before: layers does not fit into the memory of v5e:1x1" in text
    assert "after: layers does not fit" in text
