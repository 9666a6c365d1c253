"""`hloom run`: random and given inputs, files of outputs, comparisons, and errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from hloom.runtime import load_arrays, save_arrays
from tests.cli.conftest import STEP, Call

X = np.arange(32, dtype=np.float32).reshape(4, 8)
W = np.ones((8, 2), np.float32)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """The same step, but for one op."""
    path = tmp_path / "wrong.hlo"
    path.write_text(STEP.replace("f32[] add(f32[] %a, f32[] %b)", "f32[] subtract(f32[] %a, f32[] %b)"))
    return path


def test_given_inputs(call: Call, step: Path, tmp_path: Path):
    for names in (("arr_0", "arr_1"), ("x", "w"), ("output_0", "output_1")):
        save_arrays(tmp_path / "in.npz", dict(zip(names, (X, W), strict=True)))
        result = call("run", step, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
        assert (result.exit_code, result.stderr) == (0, "")
        outputs = load_arrays(tmp_path / "out.npz")
        assert list(outputs) == ["output_0", "output_1"]
        np.testing.assert_array_equal(outputs["output_0"], X @ W)
        np.testing.assert_array_equal(outputs["output_1"], (X @ W).sum(1))
        assert sorted(os.listdir(tmp_path)) == ["in.npz", "out.npz", "step.hlo"]
    assert "      0   f32[4,2]    28   220\n" in result.stdout


def test_json_and_seeds(call: Call, step: Path):
    first, again, other = (json.loads(call("run", step, "--json", "--seed", seed).stdout) for seed in (1, 1, 2))
    assert first["outputs"] == again["outputs"] != other["outputs"]
    assert set(first) == {"schema_version", "seconds", "compile_seconds", "outputs"}
    assert set(first["outputs"][0]) == {"number", "type", "minimum", "maximum", "not_finite"}
    assert [output["type"] for output in first["outputs"]] == ["f32[4,2]", "f32[4]"]


def test_check(call: Call, step: Path, wrong: Path):
    result = call("run", step, "--check", step)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"all 2 outputs agree with those of {step}\n")
    result = call("run", step, "--check", wrong)
    assert (result.exit_code, result.stderr) == (1, "")
    assert f"1 of 2 outputs differ from those of {wrong}\n  output 1: f32[4]: " in result.stdout
    assert call("run", step, "--check", wrong, "--rtol", "10").exit_code == 0
    record = json.loads(call("run", step, "--check", wrong, "--json").stdout)["check"]
    assert (record["other"], record["agrees"]) == (str(wrong), False)
    assert [difference["output"] for difference in record["differences"]] == [1]


def test_devices(call: Call, tmp_path: Path):
    path = tmp_path / "sharded.hlo"
    path.write_text(
        "HloModule m\nENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]} ROOT y = f32[8] negate(x) }\n"
    )
    result = call("run", path, "--devices", "4")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith(" on 4 devices")


def test_elided_constants_are_not_invented(call: Call, step: Path, tmp_path: Path):
    path = tmp_path / "elided.hlo"
    path.write_text(call("print", step, "--elide", "10").stdout)
    result = call("run", path, "-o", tmp_path / "out.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "left out of the text, as {...}" in result.stderr
    assert not (tmp_path / "out.npz").exists()


def test_inputs_that_do_not_fit(call: Call, step: Path, tmp_path: Path):
    save_arrays(tmp_path / "in.npz", {"x": X, "w": X})
    result = call("run", step, "--inputs", tmp_path / "in.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: input 1 (w) is f32[4,8], the program takes f32[8,2]\n"
    result = call("run", step, "--inputs", tmp_path / "none.npz")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: cannot read {tmp_path / 'none.npz'}: no such file or directory\n  near: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", "1", "--inputs", "x.npz"), "--seed is for random inputs: give either --seed or --inputs"),
        (("--rtol", "1"), "--rtol needs --check"),
        (("-o", "out.txt"), "'out.txt' does not end in .npz"),
        (("--devices", "0"), "0 is not in the range x>=1"),
    ],
)
def test_bad_usage(call: Call, step: Path, options: tuple[str, ...], message: str):
    result = call("run", step, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_the_mesh_of_a_headers_shardings_gives_the_devices(call: Call, tmp_path: Path):
    path = tmp_path / "shard_map.hlo"
    path.write_text(
        """HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}
        ENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]} ROOT y = f32[8] negate(x) }"""
    )
    result = call("run", path)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1].endswith(" on 4 devices")
