"""`hloom pipeline`: what it shows and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hloom
from hloom.distribute.pipeline import Schedule, load_plan, pipeline_program
from tests.cli.conftest import Call

STEP = """HloModule step
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY step {
  first = f32[256,512] parameter(0)
  second = f32[512,256] parameter(1)
  inputs = f32[64,256] parameter(2)
  low = f32[] constant(0)
  high = f32[] constant(1)
  token = token[] after-all()
  hidden = f32[64,512] dot(inputs, first), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  active = f32[64,512] tanh(hidden)
  outputs = f32[64,256] dot(active, second), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  slope = f32[64,512] dot(outputs, second), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  squares = f32[64,512] multiply(active, active)
  falling = f32[64,512] multiply(slope, squares)
  d_second = f32[512,256] dot(active, outputs), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  d_first = f32[256,512] dot(inputs, falling), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  new_first = f32[256,512] subtract(first, d_first)
  new_second = f32[512,256] subtract(second, d_second)
  ROOT new = (f32[256,512], f32[512,256]) tuple(new_first, new_second)
}
"""
BATCH = ("--batch", "inputs:0")


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo"
    path.write_text(STEP)
    return path


def test_what_is_shown(call: Call, step: Path):
    result = call("pipeline", step, "--devices", 2, "--stages", 2, "--microbatches", 4, *BATCH)
    assert (result.exit_code, result.stderr) == (0, "")
    for text in ("step: 2 layers, 2 stages, 4 microbatches", "0 to 0", "1 to 1", *(s.value for s in Schedule), "bubble"):
        assert text in result.stdout
    assert "no interleaved stages on 2 devices" in " ".join(result.stdout.split())


def test_the_plan_and_the_stages_are_written(call: Call, step: Path, tmp_path: Path):
    options = "--devices", 2, "--stages", 2, "--schedule", "1f1b", "--microbatches", 4, *BATCH
    file, folder = tmp_path / "plan.json", tmp_path / "stages"
    assert call("pipeline", step, *options, "-o", file).exit_code == 0
    assert call("pipeline", step, *options, "-o", folder).exit_code == 0
    plan = load_plan(file)
    assert plan == load_plan(folder / "plan.json")
    piped = call("pipeline", step, *options, "-o", "-")
    assert json.loads(piped.stdout) == plan.to_json() and "stages" in piped.stderr
    record = json.loads(call("pipeline", step, *options, "--json").stdout)
    assert record["plan"] == plan.to_json() and [entry["schedule"] for entry in record["schedules"]] == ["1f1b"]
    listed = json.loads((folder / "programs.json").read_text())
    program = pipeline_program(hloom.load(step), plan, batch={"inputs": 0})
    assert len(listed) == len(program.programs())
    for entry, part in zip(listed, program.programs(), strict=True):
        module = hloom.load(folder / entry["file"])
        assert len(module.entry.parameters) == len(entry["operands"]) == len(part.operands)
        assert entry["sends"] == [{"result": result, "stage": stage} for result, stage in part.sends]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--devices", 4, "--stages", 3), "3 stages of a chain of 2 layers\n  from 1 to 2 stages are possible"),
        (("--devices", 2, "--microbatches", 3), "64 examples cannot be cut into 3 equal slices\n  take a divisor of 64"),
        (("--devices", 2, "--device", "h10"), "no device is called 'h10'\n  did you mean h100"),
        (("--devices", 2, "--memory", "1KiB"), "no pipeline fits into 1,024 bytes of memory on each of 2 devices"),
        (("--devices", 2, "--memory", "much"), "'much' is not a number of bytes"),
        (("--devices", 5000), "a machine of 5000 devices"),
        (("--devices", 0), "0 is not in the range"),
        (("--devices", 2, "--schedule", "interleaved"), "no interleaved stages on 2 devices"),
    ],
)
def test_demands_that_cannot_be_met(call: Call, step: Path, tmp_path: Path, options: tuple, message: str):
    result = call("pipeline", step, *options, *BATCH, "-o", tmp_path / "plan.json")
    assert result.exit_code and message in result.stderr
    assert list(tmp_path.iterdir()) == [step]


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("all-reduce(hidden), replica_groups={{0,1}}, to_apply=add", "active (all-reduce) in step has an effect"),
        ("rng(low, high), distribution=rng_uniform", "active (rng) in step has an effect"),
        (
            'custom-call(hidden), custom_call_target="xla_python_cpu_callback", custom_call_has_side_effect=true',
            "active (custom-call) in step has an effect",
        ),
        (
            "get-tuple-element(fed), index=0\n  fed = (f32[64,512], token[]) infeed(token)",
            "fed (infeed) in step has an effect",
        ),
        ("tanh(missing)", "step is a fragment, and cannot be cut into pipeline stages: the operand missing in step"),
    ],
)
def test_programs_that_are_not_cut(call: Call, step: Path, tmp_path: Path, instruction: str, message: str):
    lines = [f"active = f32[64,512] {instruction.splitlines()[0]}", *instruction.splitlines()[1:]]
    step.write_text(STEP.replace("active = f32[64,512] tanh(hidden)", "\n".join(reversed(lines))))
    result = call("pipeline", step, "--devices", 2, *BATCH, "-o", tmp_path / "plan.json")
    assert result.exit_code == 2 and message in result.stderr
    assert list(tmp_path.iterdir()) == [step]


def test_where_nothing_can_be_written(call: Call, step: Path, tmp_path: Path):
    options = "--devices", 2, *BATCH
    step.with_name("full").mkdir()
    (tmp_path / "full" / "note").write_text("mine")
    for output, message in (
        ("plan.hlo", "write a plan to a .json file"),
        ("full", "full is not empty"),
        ("missing/plan.json", "no such file or directory"),
    ):
        result = call("pipeline", step, *options, "-o", tmp_path / output)
        assert result.exit_code == 2 and message in result.stderr
    assert call("pipeline", step, *options, "--json", "-o", "-").exit_code == 2
    assert call("pipeline", step, "--devices", 2, "--batch", "inputs").exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "step.hlo"]


def test_an_empty_file(call: Call, step: Path):
    step.write_text("")
    result = call("pipeline", step, "--devices", 2)
    assert result.exit_code == 2 and "expected HLO, found an empty text" in result.stderr
