"""Pipelines that run: the numbers of the whole step, the order of work of the schedule, and what is refused.

Covers `accumulation.py`, `dispatch.py`, `executor.py`, `extraction.py`, `layers.py`, `loop_cut.py`, `measurement.py`, `program.py`,
`row_slices.py`,
`stage_programs.py`, `stage_sharding.py`, `step.py`, `update_programs.py`, `pipeline.py`, `runtime/array_rows.py`,
`runtime/device_group.py`, `runtime/program_trees.py`; see
`on_eight_devices.py` and `on_two_processes.py`.
"""

import json
import socket
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.distribute.microbatch import MixedExamples
from hloom.distribute.pipeline import PipelineExecutor, PipelinePlan, Stage, layers, pipeline_program
from hloom.ir import Module, TensorType, dtype
from hloom.runtime import checked_argument, xla
from hloom.text import HloomError
from tests.distribute.pipeline.on_eight_devices import CASES, LONG_CASES

ROOT = Path(__file__).resolve().parents[3]


@lru_cache
def results(*cases: str) -> dict[str, str]:
    """What was wrong with each case, all short ones by default, from one child process for all of them."""
    environment = xla.environment(8) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "JAX_ENABLE_X64": "0"}
    command = [sys.executable, "-m", "tests.distribute.pipeline.on_eight_devices", *cases]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_on_eight_devices(name: str) -> None:
    problem = results()[name]
    assert not problem, problem


@pytest.mark.long
@pytest.mark.parametrize("name", LONG_CASES)
def test_models_on_eight_devices(name: str) -> None:
    problem = results(*LONG_CASES)[name]
    assert not problem, problem


@pytest.mark.long
def test_on_two_processes() -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    environment = xla.environment(2) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "JAX_ENABLE_X64": "0"}
    command = [sys.executable, "-m", "tests.distribute.pipeline.on_two_processes"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [
        subprocess.Popen([*command, number, str(port)], cwd=ROOT, env=environment, text=True, **pipes)
        for number in "01"
    ]
    try:
        outputs = [process.communicate(timeout=180) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [out.splitlines()[-1:] for out, _ in outputs] == [["as the whole step"]] * 2, outputs[0][1] + outputs[1][1]


TWO_LAYERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY step {
  first = f32[4,6] parameter(0)
  second = f32[6,3] parameter(1)
  inputs = f32[8,4] parameter(2)
  hidden = f32[8,6] dot(inputs, first), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  active = f32[8,6] tanh(hidden)
  outputs = f32[8,3] dot(active, second), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  slope = f32[8,6] dot(outputs, second), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  squares = f32[8,6] multiply(active, active)
  falling = f32[8,6] multiply(slope, squares)
  d_second = f32[6,3] dot(active, outputs), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  d_first = f32[4,6] dot(inputs, falling), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  new_first = f32[4,6] subtract(first, d_first)
  new_second = f32[6,3] subtract(second, d_second)
  ROOT new = (f32[4,6], f32[6,3]) tuple(new_first, new_second)
}"""
BATCH = {"inputs": 0}


def two_stages(microbatches: int = 2) -> PipelinePlan:
    return PipelinePlan((Stage(0, 0, (0,)), Stage(1, 1, (1,))), microbatches)


def module() -> Module:
    return hloom.parse(TWO_LAYERS)


def test_layers_have_their_own_backward_part():
    first, second = layers(module(), microbatches=2, batch=BATCH)
    assert [node.name for node in first.forward] == ["hidden", "active"]
    assert {"falling", "d_first"} <= {node.name for node in first.backward}
    assert [node.name for node in second.forward] == ["outputs"]
    assert {"slope", "d_second"} <= {node.name for node in second.backward}
    assert (first.parameters, second.parameters) == ((0,), (1,))
    assert (first.activation_bytes, second.activation_bytes) == (4 * 6 * 4, 0)


def test_modules_of_the_stages():
    program = pipeline_program(module(), two_stages(), batch=BATCH)
    shapes = {
        f"{phase.name} {stage}": [str(operand.name) for operand in made.operands]
        for (phase, stage), made in program.microbatch.items()
    }
    assert shapes["FORWARD 0"] == ["microbatch", "inputs", "first"]
    assert shapes["FORWARD 1"] == ["active", "second"]
    sent = {
        (made.stage, made.results[result].name, to) for made in program.microbatch.values() for result, to in made.sends
    }
    assert sent == {(0, "active", 1), (1, "slope", 0)}
    assert program.placements == ((0,), (1,), (0,))


def test_more_stages_than_layers():
    plan = PipelinePlan(tuple(Stage(number, number, (number,)) for number in range(3)), 2)
    with pytest.raises(HloomError, match="step has 2 layers, and the plan's 3 stages are of 3: a stage needs a layer"):
        pipeline_program(module(), plan, batch=BATCH)


def test_layers_that_the_program_does_not_have():
    plan = PipelinePlan((Stage(0, 3, (0,)),), 2)
    with pytest.raises(HloomError, match="step has 2 layers, and the plan's 1 stages are of 4"):
        pipeline_program(module(), plan, batch=BATCH)


def test_batch_that_is_not_divisible():
    with pytest.raises(HloomError, match=r"inputs is f32\[8,4\]: 8 examples cannot be cut into 3 equal slices"):
        pipeline_program(module(), two_stages(3), batch=BATCH)


def test_examples_that_mix():
    text = TWO_LAYERS.replace("tanh(hidden)", "sort(hidden), dimensions={0}, to_apply=less").replace(
        "ENTRY",
        "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }\nENTRY",
    )
    with pytest.raises(MixedExamples, match="active"):
        pipeline_program(hloom.parse(text), two_stages(), batch=BATCH)


@pytest.mark.parametrize(
    "instruction",
    [
        "all-reduce(hidden), replica_groups={{0,1}}, to_apply=add",
        "rng(low, high), distribution=rng_uniform",
        'custom-call(hidden), custom_call_target="callback", custom_call_has_side_effect=true',
    ],
)
def test_effects(instruction: str) -> None:
    constants = "low = f32[] constant(0)\n  high = f32[] constant(1)\n  "
    text = TWO_LAYERS.replace("active = f32[8,6] tanh(hidden)", f"{constants}active = f32[8,6] {instruction}")
    with pytest.raises(HloomError, match=r"active \([a-z-]+\) in step has an effect beyond its result"):
        pipeline_program(hloom.parse(text), two_stages(), batch=BATCH)


def test_something_that_is_no_plan():
    with pytest.raises(HloomError, match="cannot read 2 stages: no such file or directory"):
        hloom.pipeline(module(), "2 stages")  # pyright: ignore[reportArgumentType]


def test_a_proposed_batch_that_little_depends_on():
    text = """
ENTRY step {
  weights = f32[64,64] parameter(0)
  inputs = f32[7,64] parameter(1)
  scales = f32[8] parameter(2)
  product = f32[7,64] dot(inputs, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sorted = f32[7,64] sort(product), dimensions={0}, to_apply=less
  squared = f32[64,64] dot(sorted, sorted), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ordered = f32[64,64] sort(squared), dimensions={1}, to_apply=less
  again = f32[64,64] sort(ordered), dimensions={0}, to_apply=less
  doubled = f32[8] add(scales, scales)
  ROOT all = (f32[64,64], f32[8]) tuple(again, doubled)
}"""
    less = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }"
    plan = PipelinePlan((Stage(0, 0, (0,)),), 8)
    with pytest.raises(HloomError, match=r"inputs is f32\[7,64\]: 7 examples cannot be cut into 8 equal slices"):
        pipeline_program(hloom.parse(less + text), plan)
    with pytest.raises(MixedExamples, match=r"(?s)sorted .*the way from the batch to it: inputs -> product"):
        pipeline_program(hloom.parse(less + text.replace("[7,", "[16,")), plan)


def test_fewer_devices_than_planned():
    program = pipeline_program(module(), two_stages(), batch=BATCH)
    with pytest.raises(HloomError, match="the plan uses 2 devices, and there are 1"):
        PipelineExecutor(program, devices=["one"])


@pytest.mark.parametrize(
    ("argument", "wanted"),
    [
        (np.arange(3), "s32"),
        (np.arange(3, dtype=np.uint64), "u32"),
        (np.ones(3), "f32"),
        (np.ones(3, np.complex128), "c64"),
        ([1, 2, 3], "f32"),
        ([0.5, 1.0, 2.0], "bf16"),
    ],
)
def test_arguments_are_converted_as_jax_does(argument: Any, wanted: str) -> None:
    element_type = dtype(wanted)
    array = checked_argument(argument, TensorType(element_type, (3,)), 0)
    assert array.dtype == element_type.numpy and array.shape == (3,)
    np.testing.assert_array_equal(array.astype(np.complex64), np.asarray(argument).astype(np.complex64))


@pytest.mark.parametrize(
    ("argument", "wanted", "given"),
    [
        (np.arange(3) + 2**40, "s32", r"int64\[3\]"),
        (np.arange(3), "f32", r"int64\[3\]"),
        (np.ones(3), "s32", r"float64\[3\]"),
        (np.ones(3, np.float16), "f32", r"float16\[3\]"),
        (np.ones(3, np.int32), "s64", r"int32\[3\]"),
        (np.ones(4, np.int64), "s32", r"int64\[4\]"),
        ([0.5, 1.0, 2.0], "s32", r"float64\[3\]"),
        (np.ones(3, np.complex128), "f32", r"complex128\[3\]"),
        ([[1, 2], [3]], "s32", "a ragged list"),
        (["a", "b", "c"], "s32", "<U1"),
        (None, "s32", r"object\[\]"),
    ],
)
def test_arguments_of_another_type(argument: Any, wanted: str, given: str) -> None:
    with pytest.raises(HloomError, match=rf"argument 7 is {given}.*, and the step takes {wanted}\[3\]"):
        checked_argument(argument, TensorType(dtype(wanted), (3,)), 7)


def test_numbers_that_a_type_cannot_hold():
    assert checked_argument(3, TensorType(dtype("f32")), 0) == np.float32(3)
    for number, wanted in ((2.5, "s32"), (2**40, "s32"), (-1, "u32"), (1j, "f32")):
        with pytest.raises(HloomError, match="argument 0 is"):
            checked_argument(number, TensorType(dtype(wanted)), 0)
