"""`hloom prune`: masks, and checkpoints with zeros. Covers `weight_tables.py`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.compress.quantization import load_checkpoint, save_checkpoint
from tests.cli.conftest import Call
from tests.cli.test_quantize import MODEL, arrays


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.hlo"
    path.write_text(MODEL)
    save_checkpoint(tmp_path / "w.npz", {name: array for name, array in arrays().items() if name != "x"})
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "taylor"), "'taylor' is not one of"),
        (("--inputs", "x.npz"), "--inputs needs --check"),
        (("--calibrate", "x.npz"), "--calibrate needs --method wanda"),
        (("--weights", "w.npz", "--convert", "w.npz", "v.npz"), "--weights and --convert both read weights"),
        (("--structured", "heads"), "--structured needs --weights or --convert"),
        (("--structured", "heads", "--masks", "--weights", "w.npz"), "--masks applies to single elements"),
        (("--structured", "heads", "--method", "wanda", "--weights", "w.npz"), "--method applies to single elements"),
        (("--multiple", "8"), "--multiple needs --structured"),
        (("--pad-outputs",), "--pad-outputs needs --structured"),
        (("--shared-positions",), "--shared-positions needs --structured"),
        (("--json", "-o", "-"), "--json and -o - both write to standard output"),
    ],
)
def test_bad_usage(call: Call, model: Path, options: tuple, message: str):
    result = call("prune", model, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sparsity", "1.5"), "1.5 is not a valid sparsity"),
        (("--pattern", "4:2"), "'4:2' is not a pattern"),
        (("--pattern", "3:5"), "a product sums over 64 of its elements, which are not groups of 5"),
        (("--structured", "rows", "--weights", "w.npz"), "there is no axis 'rows'"),
        (("--structured", "experts", "--weights", "w.npz"), "model has no axis to prune"),
        (("--scope", "attention"), "model has no weight to prune"),
        (("--only", "params.upp"), "the program has no parameter 'params.upp'"),
        (("--method", "wanda"), "Wanda needs inputs"),
        (("--weights", "none.npz"), "none.npz"),
        (("--weights", "none.txt"), "'none.txt' does not end in .npz or .safetensors"),
        (("--convert", "w.npz", "new.txt"), "'new.txt' does not end in .npz or .safetensors"),
        (("--save-masks", "nowhere/m.npz"), "nowhere/m.npz"),
        (("-o", "nowhere/x.hlo"), "cannot write nowhere/x.hlo: no such file or directory"),
        (("--device", "abacus"), "abacus"),
        (("--check", "--inputs", "x.npz"), "x.npz"),
    ],
)
def test_errors(call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple, message: str):
    monkeypatch.chdir(tmp_path)
    result = call("prune", model, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and message in result.stderr


def test_tables(call: Call, model: Path, tmp_path: Path):
    result = call("prune", model, "--weights", tmp_path / "w.npz", "--check", "--pattern", "2:4")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "2 weights by magnitude, 2:4" in lines
    assert "up f32[64,128] 4,096 50.0% 32.0 KiB 17.0 KiB 0.531" in lines
    assert "weights: 50.0% removed; without zeros 36.0 KiB -> 19.1 KiB" in lines
    assert not any("random" in line for line in lines)
    assert "the weights are random; use --weights FILE for real ones" in call("prune", model).stdout


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_checkpoints(call: Call, model: Path, tmp_path: Path, suffix: str):
    old, new, masks = tmp_path / f"old.{suffix}", tmp_path / f"new.{suffix}", tmp_path / "masks.npz"
    save_checkpoint(old, {name: array for name, array in arrays().items() if name != "x"})
    result = call("prune", model, "--convert", old, new, "--sparsity", 0.25, "--save-masks", masks)
    assert result.exit_code == 0
    zeros, saved = load_checkpoint(new), load_checkpoint(masks)
    expected = hloom.prune(hloom.load(model), load_checkpoint(old), 0.25)
    for weight in expected.weights:
        assert (saved[weight.name] == weight.mask).all()
        assert (zeros[weight.name] == arrays()[weight.name] * weight.mask).all()


def test_masks_as_inputs(call: Call, model: Path, tmp_path: Path):
    result = call("prune", model, "--weights", tmp_path / "w.npz", "--masks", "-o", "-")
    assert result.exit_code == 0 and "2 weights by magnitude" in result.stderr
    types = [str(p.type).partition("{")[0] for p in hloom.parse(result.stdout).entry.parameters]
    assert types == ["f32[16,64]", "f32[64,128]", "f32[128,8]", "pred[64,128]", "pred[128,8]"]


def test_wanda(call: Call, model: Path, tmp_path: Path):
    save_checkpoint(tmp_path / "x.npz", {"x": arrays()["x"]})
    options = ("--weights", tmp_path / "w.npz", "--method", "wanda", "--calibrate", tmp_path / "x.npz", "--json")
    record = json.loads(call("prune", model, *options, "--check", "--inputs", tmp_path / "x.npz").stdout)
    assert record["method"] == "wanda" and [weight["kept"] for weight in record["weights"]] == [4096, 512]
    assert [product["flops"][1] * 2 == product["flops"][0] for product in record["products"]] == [True, True]
    assert 0 < record["outputs"][0]["error"] < 0.8
    save_checkpoint(tmp_path / "y.npz", {"y": np.zeros(1)})
    assert (
        "the program has no parameter 'y'"
        in call("prune", model, *options[:-1], "--check", "--inputs", tmp_path / "y.npz").stderr
    )


def test_structured(call: Call, model: Path, tmp_path: Path):
    """The program and its checkpoint are smaller, and compute what zeros make of the original."""
    small, new, kept = tmp_path / "small.hlo", tmp_path / "new.npz", tmp_path / "kept.npz"
    options = ("--structured", "channels", "--multiple", 32, "--convert", tmp_path / "w.npz", new, "--check")
    result = call("prune", model, *options, "-o", small, "--save-masks", kept)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "up.1 channels 128 64 up.1, down.0" in lines
    assert "up f32[64,128] f32[64,64] 32.0 KiB 16.0 KiB 0.500" in lines
    assert "weights: 36.0 KiB -> 18.0 KiB, 0.500" in lines
    outputs = hloom.run(hloom.load(small), {**load_checkpoint(new), "x": arrays()["x"]}).outputs
    zeros = arrays()
    removed = np.setdiff1d(np.arange(128), load_checkpoint(kept)["up.1"])
    zeros["up"][:, removed], zeros["down"][removed] = 0, 0
    assert not hloom.compare(outputs, hloom.run(hloom.load(model), zeros).outputs, rtol=1e-4)
    record = json.loads(call("prune", model, *options, "--json").stdout)
    assert record["axes"][0]["kept"] == 64 and record["outputs"][0]["with_zeros"]["error"] < 1e-5
    assert [product["flops"][0] // product["flops"][1] for product in record["products"]] == [2, 2]


def test_layers_with_positions_of_their_own(call: Call, tmp_path: Path):
    """A loop over two layers: the checkpoint is gathered by layer, and the masks have a row for each."""
    model = tmp_path / "loop.hlo"
    model.write_text(LOOP)
    generator = np.random.default_rng(0)
    weights = {"up": generator.standard_normal((2, 4, 6)), "down": generator.standard_normal((2, 6, 4))}
    save_checkpoint(tmp_path / "w.npz", {name: array.astype(np.float32) for name, array in weights.items()})
    options = ("--structured", "channels", "--convert", tmp_path / "w.npz", tmp_path / "new.npz", "--check")
    kept = tmp_path / "kept.npz"
    result = call("prune", model, *options, "--save-masks", kept)
    assert result.exit_code == 0
    assert "up.2: each layer keeps its own positions" in result.stdout
    rows = load_checkpoint(kept)["up.2"]
    assert rows.shape == (2, 3) and (rows[0] != rows[1]).any()
    new = load_checkpoint(tmp_path / "new.npz")["up"]
    assert all((new[n] == weights["up"][n][:, rows[n]].astype(np.float32)).all() for n in range(2))
    record = json.loads(call("prune", model, *options, "--json").stdout)
    assert record["axes"][0]["dims"][0] == {"weight": "up", "dim": 2, "kept": 3, "layer_dim": 0}
    assert record["outputs"][0]["with_zeros"]["error"] < 1e-5
    shared = call("prune", model, *options, "--shared-positions", "--save-masks", kept)
    assert "up.2: all layers keep the same positions: they were asked for" in shared.stdout
    assert load_checkpoint(kept)["up.2"].shape == (3,)


@pytest.mark.parametrize(("sparsity", "size"), [(0, 128), (0.5, 64), (1, 1)])
def test_structured_programs_on_the_standard_output(
    call: Call, model: Path, tmp_path: Path, sparsity: float, size: int
):
    options = ("--structured", "channels", "--weights", tmp_path / "w.npz", "--sparsity", sparsity)
    result = call("prune", model, *options, "-o", "-")
    assert result.exit_code == 0 and "channels" in result.stderr
    types = [str(p.type).partition("{")[0] for p in hloom.parse(result.stdout).entry.parameters]
    assert types == ["f32[16,64]", f"f32[64,{size}]", f"f32[{size},8]"]


LOOP = """HloModule loop
body { p = (s32[], f32[3,4], f32[2,4,6], f32[2,6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[3,4] get-tuple-element(p), index=1
  up = f32[2,4,6] get-tuple-element(p), index=2
  down = f32[2,6,4] get-tuple-element(p), index=3
  zero = s32[] constant(0)
  a = f32[1,4,6] dynamic-slice(up, i, zero, zero), dynamic_slice_sizes={1,4,6}
  b = f32[1,6,4] dynamic-slice(down, i, zero, zero), dynamic_slice_sizes={1,6,4}
  u = f32[4,6] reshape(a)
  d = f32[6,4] reshape(b)
  h = f32[3,6] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[3,6] tanh(h)
  y = f32[3,4] dot(t, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[3,4], f32[2,4,6], f32[2,6,4]) tuple(next, y, up, down)
}
condition { p = (s32[], f32[3,4], f32[2,4,6], f32[2,6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[3,4] parameter(0)
  up = f32[2,4,6] parameter(1)
  down = f32[2,6,4] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[3,4], f32[2,4,6], f32[2,6,4]) tuple(zero, x, up, down)
  w = (s32[], f32[3,4], f32[2,4,6], f32[2,6,4]) while(t), body=body, condition=condition
  ROOT y = f32[3,4] get-tuple-element(w), index=1
}
"""
