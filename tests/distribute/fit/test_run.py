"""The folder of a result: read again, run by jax alone as one device does, refused where it is damaged; measurement.

Covers `files.py`, `run_record.py`, `measurement.py`, `runtime/runner.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.analysis import device
from hloom.distribute.fit import Combination, DeviceCost, FitResult, donate_state
from hloom.distribute.fit.measurement import compiled_pipeline, measure
from hloom.distribute.fit.programs import ProgramVariants
from hloom.distribute.fit.sharding_search import Counts
from hloom.distribute.pipeline import PipelinePlan, Schedule, Stage, layers
from hloom.distribute.planner import Plan, experts
from hloom.ir import Module
from hloom.runtime import random_inputs
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError
from tests.distribute.fit import models
from tests.distribute.fit.programs import perceptron, softplus_text

COST = DeviceCost({"compute": 1e-3, "links": 1e-4}, 1e4, 100_000)


def combination(step: Module, **options: Any) -> Combination:
    return Combination("manual", step, options.pop("microbatches", 1), 1.0, COST, **options)


def result_of(step: Module, made: Combination, devices: int = 4) -> FitResult:
    return FitResult(step, "h100", devices, None, [made], [], Counts())


@cache
def fsdp(mesh: str = "data=4") -> FitResult:
    """FSDP of a step with donated weights, as the planner's experts write it."""
    step = donate_state(perceptron(batch=256))[0]
    plan = next(plan for plan in experts(step, Mesh.parse(mesh)) if plan.name == "FSDP on data")
    return result_of(perceptron(batch=256), combination(step, plan=plan))


def pipelined(plan: PipelinePlan, batch: int = 64) -> FitResult:
    step = donate_state(perceptron(batch=batch))[0]
    made = combination(step, pipeline=plan, batch={"x": 0}, microbatches=plan.microbatches)
    return result_of(perceptron(batch=batch), made)


def run(folder: Path, *options: object) -> str:
    """Output of the script, run without hloom on its path."""
    command = [sys.executable, "-I", str(folder / "run.py"), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_sharded_step_runs_as_on_one_device(tmp_path: Path):
    folder = fsdp().save(tmp_path / "best")
    out = run(folder, "--cpu", 4, "--check", "--steps", 2, "--time")
    assert out.startswith("step 0: ") and "as on one device" in out and "manual on 4 cpu devices" in out
    lines = dict(line.split(": ") for line in out.splitlines() if ": " in line)
    assert float(lines["peak bytes"]) < 0.6 * hloom.memory(fsdp().module).peak


def test_microbatches_and_recomputation_run_as_on_one_device(tmp_path: Path):
    """The reference is the step as it was: what was changed in the program is checked too."""
    step = hloom.parse(softplus_text(layers=4, batch=1024))
    variants = ProgramVariants(donate_state(step)[0], device("h100"), 8, {"x": 0})
    kept, variant = variants.variant(4, 1.0), variants.variant(4, 0.8)
    assert kept is not None and variant is not None
    logarithms = [sum(node.opcode == "log-plus-one" for node in made.module.nodes()) for made in (kept, variant)]
    assert logarithms[0] < logarithms[1]
    assert variant.peak_bytes < variants.live.peak / 2
    plan = next(plan for plan in experts(variant.module, Mesh.parse("data=8")) if plan.name.startswith("data parallel"))
    folder = result_of(step, combination(variant.module, plan=plan), 8).save(tmp_path / "best")
    assert "as on one device" in run(folder, "--cpu", 8, "--check")


def test_a_pipeline_runs_as_on_one_device(tmp_path: Path):
    stages = Stage(0, 0, (0, 1)), Stage(1, 2, (2, 3))
    folder = pipelined(PipelinePlan(stages, 4, recompute=(True, False))).save(tmp_path / "best")
    out = run(folder, "--cpu", 4, "--check", "--steps", 2, "--time")
    assert "as on one device" in out and "bubble: " in out


@pytest.mark.long
@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.ZERO_BUBBLE, Schedule.INTERLEAVED])
def test_schedules_and_stages_with_meshes(tmp_path: Path, schedule: Schedule):
    groups = [(0, 1), (2, 3), (0, 1) if schedule is Schedule.INTERLEAVED else (4, 5)]
    groups += [(2, 3)] if schedule is Schedule.INTERLEAVED else [(6, 7)]
    step = perceptron(layers=4)
    plan = PipelinePlan(tuple(Stage(n, n, group, "model=2") for n, group in enumerate(groups)), 4, schedule)
    made = combination(donate_state(step)[0], pipeline=plan, batch={"x": 0}, microbatches=4)
    folder = result_of(step, made, 8).save(tmp_path / "best")
    assert "as on one device" in run(folder, "--cpu", 8, "--check", "--steps", 2)


def test_a_scan_cut_into_uneven_stages_goes_on_from_its_own_results(tmp_path: Path):
    """Weights and Adam's state are in the stages by rows; the second step starts where the first one ended."""
    module = models.scan()
    plan = PipelinePlan((Stage(0, 0, (0,)), Stage(1, 3, (1, 2))), 4)
    made = combination(donate_state(module)[0], pipeline=plan, microbatches=4)
    folder = result_of(module, made).save(tmp_path / "best")
    types = {node.name: node.type for node in module.entry.parameters}
    arrays = random_inputs(list(types.values()))  # pyright: ignore[reportArgumentType]
    arrays[2] = np.abs(arrays[2])
    np.savez(tmp_path / "in.npz", **dict(zip(types, arrays, strict=True)))  # pyright: ignore[reportArgumentType]
    run(folder, "--cpu", 3, "--steps", 2, "--inputs", tmp_path / "in.npz", "--save", tmp_path / "out.npz")
    expected = hloom.evaluate(module, [*hloom.evaluate(module, arrays)[:3], *arrays[3:]])
    with np.load(tmp_path / "out.npz") as out:
        for number, array in enumerate(expected):
            np.testing.assert_allclose(out[f"result{number}"], array, rtol=2e-3, atol=2e-4)


@pytest.mark.long
@pytest.mark.parametrize("is_pipeline", [False, True])
@pytest.mark.parametrize("model", [models.attention, models.convolutions, models.scan])
def test_models(tmp_path: Path, model: Callable[[], Module], is_pipeline: bool) -> None:
    """Tied embeddings, convolutions and a scan, by Adam, over eight devices."""
    module = model()
    program = donate_state(module)[0]
    if is_pipeline:
        count = len(layers(module))
        stages = Stage(0, 0, (0, 1, 2, 3)), Stage(1, count - 1, (4, 5, 6, 7))
        made = combination(program, pipeline=PipelinePlan(stages, 2), microbatches=2)
    else:
        plan = next(plan for plan in experts(program, Mesh.parse("data=8")) if plan.name.startswith("FSDP"))
        made = combination(program, plan=plan)
    folder = result_of(module, made, 8).save(tmp_path / "best")
    assert "as on one device" in run(folder, "--cpu", 8, "--check", "--steps", 2)


TYPES = """
ENTRY types {
  half = bf16[8,4] parameter(0)
  weights = bf16[4,4] parameter(1)
  complex = c64[8] parameter(2)
  small = s8[8] parameter(3)
  packed = u4[8] parameter(4)
  mask = pred[8] parameter(5)
  wide = s64[2] parameter(6)
  none = f32[0,3] parameter(7)
  product = bf16[8,4] dot(half, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  squares = c64[8] multiply(complex, complex)
  twice = s8[8] add(small, small)
  sums = u4[8] add(packed, packed)
  opposite = pred[8] not(mask)
  wider = s64[2] add(wide, wide)
  ROOT all = (bf16[8,4], c64[8], s8[8], u4[8], pred[8], s64[2], f32[0,3], c64[8])
    tuple(product, squares, twice, sums, opposite, wider, none, squares)
}
"""


def test_all_types(tmp_path: Path):
    module = hloom.parse(TYPES)
    plan = Plan(Mesh.parse("data=2"), {0: Spec((("data",), ()))})
    folder = result_of(module, combination(module, plan=plan), 2).save(tmp_path / "best")
    assert "as on one device" in run(folder, "--cpu", 2, "--check", "--steps", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t = (f32[8], f32[8]) parameter(0)\n ROOT x = f32[8] get-tuple-element(t), index=0", "is not an array of jax's"),
        (
            "x = f32[8] parameter(0)\n t = token[] after-all()\n ROOT r = (f32[8], token[]) tuple(x, t)",
            "its elements cannot be planned",
        ),
        ("x = f32[8] parameter(0)\n c = f32[8] constant({...})\n ROOT y = f32[8] add(x, c)", "constants were left out"),
    ],
)
def test_what_jax_cannot_take_is_refused_and_nothing_is_written(tmp_path: Path, text: str, message: str) -> None:
    module = hloom.parse(f"ENTRY e {{\n {text}\n}}")
    made = combination(module, plan=Plan(Mesh.parse("data=2")))
    with pytest.raises(HloomError, match=message):
        result_of(module, made, 2).save(tmp_path / "best")
    assert not (tmp_path / "best").exists()


def test_inputs_from_a_file_and_results_into_one(tmp_path: Path):
    folder = fsdp().save(tmp_path / "best")
    generator = np.random.default_rng(0)
    arrays = {
        node.name: generator.standard_normal(node.type.dims).astype(np.float32)  # pyright: ignore
        for node in fsdp().module.entry.parameters
    }
    np.savez(tmp_path / "in.npz", **arrays)  # pyright: ignore[reportArgumentType]
    run(folder, "--cpu", 4, "--inputs", tmp_path / "in.npz", "--save", tmp_path / "out.npz")
    expected = hloom.evaluate(fsdp().module, list(arrays.values()))
    with np.load(tmp_path / "out.npz") as out:
        for number, array in enumerate(expected):
            np.testing.assert_allclose(out[f"result{number}"], array, rtol=1e-3, atol=1e-3)


def test_too_few_devices_and_missing_inputs_are_said(tmp_path: Path):
    folder = fsdp().save(tmp_path / "best")
    np.savez(tmp_path / "in.npz", w0=np.zeros((64, 64), np.float32))
    for options, message in (
        (["--cpu", "2"], "this runs on 4 devices, and jax has 2: --cpu 4 makes virtual ones"),
        (["--cpu", "4", "--inputs", str(tmp_path / "in.npz")], "in.npz has no array for w1, w2, x"),
    ):
        command = [sys.executable, "-I", str(folder / "run.py"), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr.strip().endswith(message)


def test_written_and_read_again(tmp_path: Path):
    for name, made in (("sharded", fsdp()), ("pipeline", pipelined(PipelinePlan((Stage(0, 2, (0, 1)),), 2)))):
        folder = made.save(tmp_path / name)
        read, best = hloom.load_fit(folder), made.best
        assert (read.name, read.cost, read.pipeline, read.batch) == (best.name, best.cost, best.pipeline, best.batch)
        assert (None if read.plan is None else read.plan.to_json()) == (
            None if best.plan is None else best.plan.to_json()
        )
        assert hloom.equal(read.module, best.module)
        assert hloom.load_fit(folder / "plan.json").name == best.name


def test_devices_of_ones_own(tmp_path: Path):
    """Stages on meshes are planned with the rates of a device that has no name in the table."""
    own = replace(device("h100"), name="own", memory_bytes=1e9)
    made = hloom.fit(perceptron(layers=2), 2, device=own, batch={"x": 0}, microbatches=[2])
    plan = PipelinePlan((Stage(0, 1, (0, 1), "model=2"),), 2)
    best = replace(made.best, plan=None, pipeline=plan, batch={"x": 0})
    folder = replace(made, combinations=[best]).save(tmp_path / "best")
    assert json.loads((folder / "plan.json").read_text())["device"] == "own"
    assert hloom.load_fit(folder).pipeline == plan


def test_nothing_is_written_over_or_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, message in (("full", "is not empty"), ("file", "is a file"), ("no/where", "no such file")):
        with pytest.raises(HloomError, match=message):
            fsdp().save(tmp_path / name)
    before = sorted(tmp_path.iterdir())

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fsdp().save(tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: [], "holds no combination"),
        (lambda value: {**value, "version": 1}, "is of version 1, and this hloom reads version 2"),
        (lambda value: {**value, "best": {}}, "holds no combination: KeyError"),
        (lambda value: {**value, "sharding": None}, "a combination has a sharding or a pipeline"),
        (lambda value: {**value, "sharding": {"mesh": {"data": 0}}}, "mesh"),
        (lambda value: {**value, "best": {**value["best"], "peak_bytes": float("inf")}}, "inf is not a number from 0"),
        (lambda value: {**value, "best": {**value["best"], "seconds_by_cause": [1]}}, "holds no combination"),
        (lambda value: {**value, "best": {**value["best"], "batch": {"x": "0"}}}, "'0' is not a number from 0"),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    file = fsdp().save(tmp_path / "best") / "plan.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(HloomError, match=message):
        hloom.load_fit(file)


def test_what_is_no_plan_is_refused(tmp_path: Path):
    file = tmp_path / "plan.json"
    for text in ("", "{", "[" * 100_000, '{"version": 2, "best": {}}'):
        file.write_text(text)
        with pytest.raises(HloomError):
            hloom.load_fit(tmp_path)
    with pytest.raises(HloomError, match=r"cannot read .*none"):
        hloom.load_fit(tmp_path / "none")


# Measurement


def test_the_compiled_pipeline_holds_what_its_schedule_says():
    """Weights, sums of gradients and new weights of each stage; activations come and go with microbatches."""
    weight, rows = 64 * 64 * 4, 16 * 64 * 4
    stages = Stage(0, 0, (0,)), Stage(1, 2, (1,))
    peak, sent = compiled_pipeline(pipelined(PipelinePlan(stages, 4)).best, "h100")
    assert 6 * weight <= peak <= 6 * weight + 8 * rows
    assert sent == 4 * rows
    more, _ = compiled_pipeline(pipelined(PipelinePlan(stages, 4, Schedule.GPIPE), 4096).best, "h100")
    less, _ = compiled_pipeline(pipelined(PipelinePlan(stages, 4), 4096).best, "h100")
    assert less < more


def test_gradients_are_all_reduced_with_each_microbatch():
    """A stage's programs are compiled alone, so a sum over microbatches is whole on each of its devices."""
    weight = 64 * 64 * 4
    stages = Stage(0, 0, (0, 1)), Stage(1, 2, (2, 3))
    sent = [compiled_pipeline(pipelined(PipelinePlan(stages, count), 256).best, "h100")[1] for count in (1, 4)]
    activations = 256 * 64 * 4 / 2
    assert sent == [2 * weight + activations, 4 * 2 * weight + activations]


def test_stages_on_meshes_are_compiled_as_planned():
    stages = Stage(0, 0, (0, 1), "model=2"), Stage(1, 2, (2, 3), "model=2")
    peak, sent = compiled_pipeline(pipelined(PipelinePlan(stages, 4), 256).best, "h100")
    alone, _ = compiled_pipeline(pipelined(PipelinePlan((Stage(0, 0, (0,)), Stage(1, 2, (1,))), 4), 256).best, "h100")
    assert peak < alone and sent > 0


def test_the_best_are_measured():
    sharded, piped = fsdp(), pipelined(PipelinePlan((Stage(0, 0, (0,)), Stage(1, 2, (1,))), 4), 256)
    both = replace(sharded, combinations=[*sharded.combinations, *piped.combinations], omissions=[])
    measure(both, 2)
    assert both.measured == 2 and not both.omissions
    for made in both.combinations:
        assert made.measured_bytes is not None and made.measured_comm_bytes is not None
        assert (made.measured_bubble is None) == (made.pipeline is None)
    assert [made.measured_bytes for made in both.combinations] == sorted(
        made.measured_bytes for made in both.combinations if made.measured_bytes is not None
    )
