"""Figures of recomputation: peaks by XLA's buffer assignment, FLOPs, seconds, and how these grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, training_step
from hloom.analysis import cost
from hloom.distribute.remat import Rematerialization, rematerialize
from hloom.formats.hlo import parse, print_module
from hloom.ir import Module
from hloom.runtime import memory

SHARE = 0.5
"""The budget, as a share of the peak."""
SCANNED_SHARE = 1.2
"""The budget of the scan over layers, as a share of what it takes with `jax.checkpoint` of the layer."""
UNBOUNDED = 2**60
HALF = AtMost(SHARE * 1.02)
"""The model of the compiler may be off by a little."""
CHEAP = AtMost(1.15)
LINEAR = AtMost(2)
LAYERS, WIDTH = 12, 64


def remat(plan: Plan) -> Iterator[Figure]:
    """Peak and FLOPs against the step that keeps everything; seconds, and how the time grows to the large step."""
    small, large = training_step(plan.small, False), training_step(plan.large, False)
    whole = parse(small.text)
    made = _halved(whole)
    taken = [memory(print_module(module))["peak"] for module in (made.module, whole)]
    ratio = taken[0] / taken[1]
    yield Figure(
        f"half the memory, peak: {small.name}", f"{taken[0]:,}", "as it is", f"{taken[1]:,}", ratio, ratio, HALF,
    )  # fmt: skip
    ratio = made.flops / made.original_flops
    yield Figure(
        f"half the memory, FLOPs: {small.name}",
        f"{made.flops:,.0f}", "as it is", f"{made.original_flops:,.0f}", ratio, ratio, CHEAP,
    )  # fmt: skip
    yield from _scanned()
    jobs = [Job(_halved, lambda text=program.text: parse(text)) for program in (small, large)]
    less, more = take_turns(jobs, plan.seconds)
    yield Figure(
        f"remat: {large.name}", milliseconds(more.best), "limit", "60 s", more.best / 60, more.median / 60, AtMost(1),
        large.instructions / more.best,
    )  # fmt: skip
    yield growth("remat", small, large, less, more, LINEAR)


def _scanned() -> Iterator[Figure]:
    """A scan over layers within a budget, beside `jax.checkpoint` of the layer."""
    whole, checkpointed = _scan(_layer), _scan(jax.checkpoint(_layer))
    least = memory(print_module(checkpointed))["peak"]
    made = rematerialize(whole, int(SCANNED_SHARE * least))
    peaks = memory(print_module(made.module))["peak"], least, AtMost(SCANNED_SHARE * 1.02)
    flops = cost(made.module).total.flops, cost(checkpointed).total.flops, AtMost(1)
    for what, (ours, theirs, bar) in (("peak", peaks), ("FLOPs", flops)):
        subject = f"scan of {LAYERS} layers, {what}"
        yield Figure(subject, f"{ours:,.0f}", "jax.checkpoint", f"{theirs:,.0f}", ours / theirs, ours / theirs, bar)


def _scan(layer: Callable[..., Any]) -> Module:
    def loss(weights: Any, x: Any) -> Any:
        return (lax.scan(lambda h, w: (layer(h, w), None), x, weights)[0] ** 2).mean()

    shapes = [(LAYERS, WIDTH, 4 * WIDTH), (LAYERS, 4 * WIDTH, WIDTH), (8 * WIDTH, WIDTH)]
    up, down, x = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    lowered: Any = jax.jit(jax.value_and_grad(loss)).lower((up, down), x).compiler_ir("hlo")
    return parse(lowered.as_hlo_text())


def _layer(h: Any, weights: Any) -> Any:
    up, down = weights
    normed = h * lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    return h + jax.nn.gelu(normed @ up) @ down


def _halved(module: Module) -> Rematerialization:
    return rematerialize(module, int(SHARE * rematerialize(module, UNBOUNDED).peak))
