"""`hloom quantize`: programs and checkpoints with weights in narrow types."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.compress.quantization import load_checkpoint, save_checkpoint
from tests.cli.conftest import Call

MODEL = """HloModule model
ENTRY model {
  x = f32[16,64] parameter(0)
  up = f32[64,128] parameter(1), metadata={op_name="params['up']"}
  h = f32[16,128] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="mlp/up/dot"}
  a = f32[16,128] tanh(h)
  down = f32[128,8] parameter(2), metadata={op_name="params['down']"}
  ROOT y = f32[16,8] dot(a, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="mlp/down/dot"}
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.hlo"
    path.write_text(MODEL)
    return path


def arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = {"x": (16, 64), "up": (64, 128), "down": (128, 8)}
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "int3"), "'int3' is not one of"),
        (("--per", "channel", "--group", 4), "--group is for scales per group, not per channel"),
        (("--calibrate", "x.npz"), "--calibrate needs --activations static, --smooth, --method gptq or a budget"),
        (("--percentile", 99), "--percentile needs --clipping percentile"),
        (("--method", "gptq", "--calibrate", "x.npz"), "--method gptq changes weight values, not the program"),
        (("--choices", "int8"), "--choices needs --error-budget or --bytes-budget"),
        (("--error-budget", 0.1, "--bytes-budget", "1MB"), "give only one of --error-budget and --bytes-budget"),
        (
            ("--error-budget", 0.1, "--activations", "dynamic"),
            "budgets choose weight formats only",
        ),
        (("--bytes-budget", "much"), "'much' is not a number of bytes"),
        (("--clipping", "mse"), "--clipping needs --activations static"),
        (("--smooth", "0.5"), "--smooth needs --activations static or dynamic"),
        (("--activations", "dynamic", "--smooth", "much"), "'much' is neither a number from 0 to 1 nor 'search'"),
        (("--activations", "dynamic", "--smooth", "nan"), "'nan' is neither a number from 0 to 1 nor 'search'"),
        (("--seed", 1), "--inputs and --seed need --check"),
        (("--check", "--seed", -1), "-1 is not in the range x>=0"),
        (("--cache-only", "k"), "--cache-only needs --cache"),
        (("--format", "none"), "--format none leaves weights unchanged: add --cache, or choose a format"),
        (
            ("--format", "none", "--cache", "int8", "--activations", "dynamic"),
            "need quantised weights: drop --format none",
        ),
        (("--format", "none", "--cache", "int8", "--error-budget", 0.1), "--format none leaves weights unchanged"),
        (("--check", "--seed", 1, "--inputs", "x.npz"), "--seed is for random inputs"),
        (("--json", "-o", "-"), "--json and -o - both write to standard output"),
    ],
)
def test_bad_usage(call: Call, model: Path, options: tuple, message: str):
    result = call("quantize", model, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scope", "("), "'(' is not a regular expression"),
        (("--scope", "attention"), "model has no weight to quantise"),
        (("--only", "v"), "the program has no parameter 'v'"),
        (("--per", "group"), "scales per group need the size of a group"),
        (("--activations", "static"), "static activations need inputs to measure"),
        (("--activations", "static", "--calibrate", "x.npz"), "x.npz"),
        (("--method", "gptq", "--check"), "GPTQ needs inputs to see activations of"),
        (("--error-budget", 0.1), "sensitivities need inputs to measure errors on"),
        (("--activations", "dynamic", "--smooth", 0.5), "smoothing needs inputs to measure activations on"),
        (("--asymmetric", "--format", "e4m3"), "e4m3 is symmetric about zero"),
        (("--opcodes", "add"), "weights of add cannot be quantised"),
        (("--opcodes", ""), "no opcode is given"),
        (("--device", "abacus"), "abacus"),
        (("-o", "nowhere/x.hlo"), "cannot write nowhere/x.hlo: no such file or directory"),
        (("--convert", "old.npz", "new.txt"), "'new.txt' does not end in .npz or .safetensors"),
        (("--convert", "old.npz", "new.npz"), "old.npz"),
        (("--check", "--inputs", "x.npz"), "x.npz"),
    ],
)
def test_errors(call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple, message: str):
    monkeypatch.chdir(tmp_path)
    result = call("quantize", model, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and message in result.stderr
    assert not (tmp_path / "new.npz").exists()


def test_tables(call: Call, model: Path):
    result = call("quantize", model, "--check")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "up f32[64,128] s8[64,128] 32.0 KiB 8.5 KiB 0.266" in lines
    assert "weights: 36.0 KiB -> 9.5 KiB, 0.265" in lines
    assert any(line.startswith("estimated time on h100: ") for line in lines)


def test_the_module_is_written(call: Call, model: Path, tmp_path: Path):
    small = tmp_path / "small.hlo"
    result = call("quantize", model, "--format", "int4", "--group", 32, "--scope", "up", "-o", small)
    assert result.exit_code == 0 and "1 weight as int4" in result.stdout
    types = [str(p.type).partition("{")[0] for p in hloom.load(small).entry.parameters]
    assert types == ["f32[16,64]", "s4[64,128]", "f32[128,8]", "f32[2,128]"]
    dashed = call("quantize", model, "--format", "int4", "--group", 32, "--scope", "up", "-o", "-")
    assert dashed.stdout == small.read_text() and "1 weight as int4" in dashed.stderr


def test_json(call: Call, model: Path):
    record = json.loads(call("quantize", model, "--check", "--seed", 3, "--json").stdout)
    assert [weight["bytes"] for weight in record["weights"]] == [[32768, 8704], [4096, 1056]]
    assert [product["name"] for product in record["products"]] == ["h", "y"]
    assert all(30 < product["snr"] < 60 for product in record["products"])
    assert record["outputs"][0]["error"] < 0.05 and record["exclusions"] == []


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_checkpoints(call: Call, model: Path, tmp_path: Path, suffix: str):
    old, new, small = tmp_path / f"old.{suffix}", tmp_path / f"new.{suffix}", tmp_path / "small.hlo"
    save_checkpoint(old, {name: array for name, array in arrays().items() if name != "x"})
    result = call("quantize", model, "--format", "int4", "--convert", old, new, "-o", small)
    assert result.exit_code == 0
    inputs = {**load_checkpoint(new), "x": arrays()["x"]}
    outputs = hloom.run(hloom.load(small), inputs).outputs
    made = hloom.quantize(hloom.load(model), "int4")
    expected = hloom.run(made.module, made.convert([*arrays().values()])).outputs
    assert (outputs[0] == expected[0]).all()


def test_given_inputs(call: Call, model: Path, tmp_path: Path):
    save_checkpoint(tmp_path / "x.npz", arrays())
    record = json.loads(call("quantize", model, "--check", "--inputs", tmp_path / "x.npz", "--json").stdout)
    assert 20 < record["outputs"][0]["snr"] < 60
    save_checkpoint(tmp_path / "y.npz", {name: array for name, array in arrays().items() if name != "up"})
    result = call("quantize", model, "--check", "--inputs", tmp_path / "y.npz")
    assert (result.exit_code, result.stderr) == (2, "error: no input is given for up\n")


def test_products_of_integers(call: Call, model: Path, tmp_path: Path):
    save_checkpoint(tmp_path / "x.npz", arrays())
    calibrated = ("static", "--calibrate", tmp_path / "x.npz", "--clipping", "mse")
    for options in (("dynamic",), calibrated):
        result = call("quantize", model, "--activations", *options, "--check", "--json", "-o", tmp_path / "small.hlo")
        record = json.loads(result.stdout)
        assert [(product["name"], product["opcode"]) for product in record["products"]] == [("h", "dot"), ("y", "dot")]
        assert all(20 < product["snr"] < 60 for product in record["products"])
        assert "s32[16,128]" in (tmp_path / "small.hlo").read_text()


def test_smoothing(call: Call, model: Path, tmp_path: Path):
    """Outliers of two channels spoil static ranges, and do not once they are in the weights; checkpoints have them too."""
    given = arrays()
    given["x"][:, [3, 7]] *= 50
    given["up"][[3, 7]] /= 50
    given["up"] /= 8
    save_checkpoint(tmp_path / "x.npz", given)
    options = ("--activations", "static", "--calibrate", tmp_path / "x.npz", "--check", "--inputs", tmp_path / "x.npz")
    plain = json.loads(call("quantize", model, *options, "--json").stdout)
    smoothed = ("--smooth", "search", "-o", tmp_path / "small.hlo", "--convert", tmp_path / "x.npz", tmp_path / "y.npz")
    result = call("quantize", model, *options, "--json", *smoothed)
    record = json.loads(result.stdout)
    assert record["outputs"][0]["error"] < 0.5 * plain["outputs"][0]["error"]
    first = record["smoothed"][0]
    assert (first["name"], first["readers"], first["weights"], first["folded"]) == ("x", ["h"], ["up"], [])
    assert first["errors"][1] < 0.5 * first["errors"][0]
    y = hloom.run(hloom.load(tmp_path / "small.hlo"), load_checkpoint(tmp_path / "y.npz")).outputs[0]
    original = hloom.run(hloom.load(model), given).outputs[0]
    assert np.linalg.norm(y - original) / np.linalg.norm(original) == pytest.approx(
        record["outputs"][0]["error"], rel=0.01
    )
    assert "smoothed activations" in call("quantize", model, *options, "--smooth", 0.5).stdout


def test_gptq(call: Call, model: Path, tmp_path: Path):
    """Few directions of x matter: GPTQ leaves the errors to the others. The report says what was measured."""
    given, generator = arrays(), np.random.default_rng(1)
    basis = generator.standard_normal((4, 64)) / 16
    for name in ("x", "y"):
        given["x"] = (generator.standard_normal((16, 4)) @ basis).astype(np.float32)
        save_checkpoint(tmp_path / f"{name}.npz", given)
    options = ("--format", "int4", "--check", "--inputs", tmp_path / "x.npz", "--json", "--scope", "up")
    plain = json.loads(call("quantize", model, *options).stdout)
    calibrated = (
        "--method",
        "gptq",
        "--calibrate",
        tmp_path / "y.npz",
        "--convert",
        tmp_path / "x.npz",
        tmp_path / "z.npz",
    )
    record = json.loads(call("quantize", model, *options, *calibrated, "-o", tmp_path / "small.hlo").stdout)
    assert record["outputs"][0]["error"] < 0.8 * plain["outputs"][0]["error"]
    (rounded,) = record["rounded"]
    assert (rounded["weight"], rounded["slices"], rounded["by_gptq"]) == ("up", 1, 1)
    assert rounded["errors"][1] < rounded["errors"][0]
    y = hloom.run(hloom.load(tmp_path / "small.hlo"), load_checkpoint(tmp_path / "z.npz")).outputs[0]
    original = hloom.run(hloom.load(model), load_checkpoint(tmp_path / "x.npz")).outputs[0]
    assert np.linalg.norm(y - original) / np.linalg.norm(original) == pytest.approx(
        record["outputs"][0]["error"], rel=0.01
    )
    assert "GPTQ rounding" in call("quantize", model, *options[:-3], "--check", *calibrated).stdout


def test_budgets(call: Call, model: Path, tmp_path: Path):
    save_checkpoint(tmp_path / "x.npz", arrays())
    calibrated = ("--calibrate", tmp_path / "x.npz", "--choices", "int8,int4:16")
    record = json.loads(call("quantize", model, "--error-budget", 0.1, *calibrated, "--json").stdout)
    choice = record["choice"]
    assert choice["measured"] <= 0.1 and choice["formats"].keys() <= {"up", "down"}
    assert len(choice["sensitivities"]) == 4
    assert {weight["name"]: weight["format"] for weight in record["weights"]} == choice["formats"]
    assert record["weight_bytes"][1] <= 36 * 1024
    record = json.loads(call("quantize", model, "--bytes-budget", "7KiB", *calibrated, "--json").stdout)
    assert record["choice"]["bytes"][1] <= 7 * 1024
    result = call("quantize", model, "--error-budget", 1e-9, *calibrated)
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        "error: no weight can be quantised within this budget\n" in result.stderr
        and "as int8 has the smallest error" in result.stderr
    )
    result = call("quantize", model, "--bytes-budget", "1GB", *calibrated)
    assert result.exit_code == 2 and "the weights already fit this budget" in result.stderr
    result = call("quantize", model, "--bytes-budget", "10B", *calibrated)
    assert result.exit_code == 1 and "no choice of int8, int4:16 fits into 10 bytes" in result.stderr
    result = call("quantize", model, "--error-budget", 0.1, *calibrated)
    assert "errors with one weight quantised" in result.stdout and " measured" in result.stdout


def test_weights_that_are_not_finite(call: Call, model: Path, tmp_path: Path):
    broken = arrays()
    broken["up"][3, 3] = np.inf
    save_checkpoint(tmp_path / "old.npz", broken)
    result = call("quantize", model, "--convert", tmp_path / "old.npz", tmp_path / "new.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: up cannot be quantised: 1 of its 8,192 values are NaN or infinite\n"
    assert not (tmp_path / "new.npz").exists()


DECODE = """HloModule decode
ENTRY step {
  k = f32[2,8,4] parameter(0)
  row = f32[2,1,4] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  k1 = f32[2,8,4] dynamic-update-slice(k, row, zero, i, zero)
  q = f32[2,4] parameter(3)
  s = f32[2,8] dot(q, k1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}
  ROOT t = (f32[2,8], f32[2,8,4]) tuple(s, k1)
}
"""


def steps(tmp_path: Path, count: int) -> list[str]:
    """Options that give the inputs of some decode steps."""
    generator = np.random.default_rng(0)
    options: list[str] = []
    for step in range(count):
        shapes = {"k": (2, 8, 4), "row": (2, 1, 4), "q": (2, 4)}
        named = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        np.savez(tmp_path / f"step{step}.npz", i=np.int32(step), **named)
        options += ["--inputs", str(tmp_path / f"step{step}.npz")]
    return options


def test_caches_over_steps(call: Call, tmp_path: Path):
    path, output = tmp_path / "decode.hlo", tmp_path / "small.hlo"
    path.write_text(DECODE)
    options = ("--format", "none", "--cache", "int8", "--check", *steps(tmp_path, 3))
    result = call("quantize", path, *options, "-o", output)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "1 cache as int8" in result.stdout
    assert "caches: 256 B -> 128 B, 0.500" in result.stdout
    assert "errors by step" in result.stdout
    assert "k = s8[2,8,4]" in hloom.print(hloom.load(output), "short")
    record = json.loads(call("quantize", path, *options, "--json").stdout)
    assert len(record["steps"]) == 3
    assert all(0 < step[0]["error"] < 0.02 for step in record["steps"])
    assert (record["caches"][0]["name"], record["caches"][0]["output"], record["weights"]) == ("k", 1, [])


def test_what_is_no_cache(call: Call, tmp_path: Path, model: Path):
    path = tmp_path / "decode.hlo"
    path.write_text(DECODE)
    result = call("quantize", path, "--format", "none", "--cache", "int8", "--cache-only", "q")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "q is not a cache: nothing is written into it; as a weight it may be quantised" in result.stderr
    result = call("quantize", path, "--format", "none", "--cache", "int9")
    assert (result.exit_code, result.stdout) == (2, "")
    result = call("quantize", model, "--check", *steps(tmp_path, 2))
    assert result.exit_code == 2
    assert "add --cache" in result.stderr
