"""Figures of `cluster`: its kernels beside XLA's fusions, by the model and measured, and how its time grows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from math import prod

import jax
import jax.numpy as jnp

import hloom
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth
from benchmarks.programs import Plan, Program
from benchmarks.saturation_programs import PROGRAMS

PROGRAM_NAMES = (
    "attention", "gradient_of_attention", "dense_mixture_of_experts", "convolution_and_normalisation", "adam",
    "gradient_of_layer_norm", "gradient_of_perceptron", "heat_equation", "gaussian_process", "linear_attention",
)  # fmt: skip
"""The programs that are looked at: none has a loop, since XLA has inserted the copies of loops where ours come in."""
SHORT, LONG = 2_000, 16_000
NEARLY_LINEAR = AtMost(1.5)


def clusters(plan: Plan) -> Iterator[Figure]:
    """Ten programs beside XLA's own fusions, on the CPU; a module eight times as long."""
    ratios = [modelled(name) for name in PROGRAM_NAMES]
    count = len(ratios)
    yield _figure(f"cluster: kernels of {count} programs by the model, geometric mean", _mean(ratios), AtMost(1))
    yield _figure("cluster: kernels by the model, worst", max(ratios), AtMost(1.001))
    times = measured(PROGRAM_NAMES)
    yield _figure(
        f"cluster: {count} programs measured, one core, geometric mean",
        _mean([seconds["ours"] / seconds["xla"] for seconds in times.values()]), AtMost(1.05),
    )  # fmt: skip
    small, large = _layers(SHORT), _layers(LONG)
    less, more = take_turns([_clustered(small), _clustered(large)], plan.seconds, fewest=2)
    yield growth(f"cluster, {SHORT:,} and {LONG:,} instructions", small, large, less, more, NEARLY_LINEAR)


def modelled(name: str) -> float:
    """The seconds of our kernels over those of XLA's, in the module that XLA has optimised for the CPU."""
    function, shapes = PROGRAMS[name]
    arrays = [jax.ShapeDtypeStruct(dims, jnp.float32) for dims in shapes]
    text = jax.jit(function).lower(*arrays).compile().as_text()
    assert text is not None, "XLA's CPU client has a program's text"
    module = hloom.parse(text)
    ours, _ = hloom.opt(module, ["inline-fusions", "cluster"])
    return hloom.fusions(ours).kernel_seconds / hloom.fusions(module).kernel_seconds


def measured(names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """By program the seconds with XLA's fusions and with ours, on one core."""
    command = [sys.executable, "-m", "benchmarks.cluster_times", *names]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def _figure(subject: str, ratio: float, bar: AtMost) -> Figure:
    return Figure(subject, f"{ratio:.3f}", "XLA's fusions", "1", ratio, None, bar)


def _mean(ratios: list[float]) -> float:
    return prod(ratios) ** (1 / len(ratios))


def _clustered(program: Program) -> Job:
    return Job(lambda module: hloom.opt(module, "cluster"), lambda: hloom.parse(program.text))


def _layers(count: int) -> Program:
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = ["x0 = f32[64,64] parameter(0)", "w = f32[64,64] parameter(1)", "zero = f32[] constant(0)"]
    lines.append("zeros = f32[64,64] broadcast(zero), dimensions={}")
    for n in range(count // 4):
        lines += [
            f"d{n} = f32[64,64] dot(x{n}, w), {dims}",
            f"m{n} = f32[64,64] maximum(d{n}, zeros)",
            f"e{n} = f32[64,64] exponential(m{n})",
            f"{'ROOT ' if n == count // 4 - 1 else ''}x{n + 1} = f32[64,64] add(e{n}, x{n})",
        ]
    return Program(f"{count:,} instructions", "ENTRY e {\n" + "\n".join(lines) + "\n}", len(lines))
