"""`hloom evaluate`: given and random inputs, JSON, outputs in a file, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hloom.runtime import load_arrays, save_arrays
from tests.cli.conftest import Call

X = np.arange(32, dtype=np.float32).reshape(4, 8)
W = np.ones((8, 2), np.float32)


def test_given_inputs(call: Call, step: Path, tmp_path: Path):
    save_arrays(tmp_path / "in.npz", {"x": X, "w": W})
    result = call("evaluate", step, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert (result.exit_code, result.stderr) == (0, "")
    outputs = load_arrays(tmp_path / "out.npz")
    np.testing.assert_array_equal(outputs["output_0"], X @ W)
    np.testing.assert_array_equal(outputs["output_1"], (X @ W).sum(1))


def test_the_same_seed_gives_the_inputs_of_run(call: Call, step: Path, tmp_path: Path):
    for command in ("evaluate", "run"):
        assert call(command, step, "--seed", 3, "-o", tmp_path / f"{command}.npz").exit_code == 0
    evaluated, compiled = load_arrays(tmp_path / "evaluate.npz"), load_arrays(tmp_path / "run.npz")
    for name in ("output_0", "output_1"):
        np.testing.assert_allclose(evaluated[name], compiled[name], rtol=1e-5)


def test_json(call: Call, step: Path):
    records = json.loads(call("evaluate", step, "--json").stdout)["outputs"]
    assert [record["type"] for record in records] == ["f32[4,2]", "f32[4]"]


def test_a_seed_beside_inputs_is_refused(call: Call, step: Path, tmp_path: Path):
    result = call("evaluate", step, "--inputs", tmp_path / "in.npz", "--seed", 1)
    assert result.exit_code == 2
    assert "--seed is for random inputs: give either --seed or --inputs" in result.stderr


def test_inputs_of_unknown_size_must_be_given(call: Call, tmp_path: Path):
    path = tmp_path / "dynamic.hlo"
    path.write_text("ENTRY e { x = f32[<=4] parameter(0) ROOT y = f32[<=4] negate(x) }")
    result = call("evaluate", path)
    assert result.exit_code == 2
    assert "parameter x of type f32[<=4] has no random values: pass --inputs" in result.stderr


ENDLESS = """
  always { s = s32[] parameter(0)  ROOT yes = pred[] constant(true) }
  step { s = s32[] parameter(0)  ROOT next = s32[] negate(s) }
  ENTRY e { x = s32[] parameter(0)  ROOT w = s32[] while(x), condition=always, body=step }
"""


def test_an_endless_loop_ends_by_its_steps_and_is_named(call: Call, tmp_path: Path):
    file = tmp_path / "endless.hlo"
    file.write_text(ENDLESS)
    result = call("evaluate", file, "--steps", 3000)
    assert result.exit_code == 2
    assert "more than 3,000 instructions would be executed, in round 1,000 of the loop w" in result.stderr
    assert "--steps" in result.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x = f32[1000000000] parameter(0)  ROOT y = f32[1] slice(x), slice={[0:1]}", "generating the inputs may need"),
        ("x = f32[] parameter(0)  ROOT y = f32[1000000000] broadcast(x), dimensions={}", "y: broadcast to"),
        ("ROOT y = f32[1000000000] iota(), iota_dimension=0", "y: iota to f32[1000000000] may take"),
    ],
)
def test_memory_is_checked_before_it_is_taken(call: Call, tmp_path: Path, body: str, message: str):
    file = tmp_path / "large.hlo"
    file.write_text(f"ENTRY e {{ {body} }}")
    result = call("evaluate", file)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "--memory" in result.stderr


def test_memory_may_be_raised_and_lowered(call: Call, step: Path):
    assert call("evaluate", step, "--memory", "1kB").exit_code == 2
    assert call("evaluate", step, "--memory", "1MB").exit_code == 0
    assert call("evaluate", step, "--memory", "much").exit_code == 2


def test_a_loop_whose_condition_is_no_predicate_is_refused(call: Call, tmp_path: Path):
    file = tmp_path / "endless.hlo"
    file.write_text(
        "condition { s = s32[] parameter(0)  ROOT four = s32[] constant(4) }\n"
        "body { s = s32[] parameter(0)  ROOT next = s32[] negate(s) }\n"
        "ENTRY e { x = s32[] parameter(0)  ROOT w = s32[] while(x), condition=condition, body=body }"
    )
    result = call("evaluate", file)
    assert result.exit_code == 2
    assert "pred[]" in result.stderr
