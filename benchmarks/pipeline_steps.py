"""The child of `benchmarks.bubble`: training steps as pipelines on virtual devices, their bubbles as JSON.

python -m benchmarks.pipeline_steps LAYERS WIDTH REPEATS PROGRAMS DEVICES...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import hloom
from hloom.distribute.pipeline import PipelinePlan, Schedule, Stage, layers

MICROBATCHES, LENGTH, WORDS, EXAMPLES, SIDE = 8, 32, 64, 4, 8
"""Of each program: tokens of an example, and pixels along a side of an image."""
Step = tuple[Callable[..., Any], Any, tuple[Any, ...]]
"""A step, and its state and batch."""


def main(count: int, width: int, repeats: int, programs: list[str], devices: list[int]) -> None:
    """Measure programs under all schedules on numbers of devices."""
    rows: list[dict[str, Any]] = []
    for name in programs:
        step, state, batch = PROGRAMS[name](count, width)
        lowered = jax.jit(step).lower(state, *batch)
        total = len(layers(hloom.load(lowered), microbatches=MICROBATCHES))
        for wide in devices:
            for schedule in Schedule:
                plan = plan_of(total, wide, schedule)
                measured = hloom.pipeline(lowered, plan).measure(state, *batch, repeats=repeats)
                rows.append(
                    {
                        "program": name,
                        "schedule": schedule.value,
                        "devices": wide,
                        "stages": len(plan.stages),
                        "predicted": measured.simulation.bubble,
                        "measured": measured.replay.bubble,
                        "wall": measured.wall_bubble,
                        "busy_seconds": sum(measured.replay.busy_seconds),
                        "is_live_as_scheduled": measured.replay.live == measured.simulation.live,
                    }
                )
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps(rows))


def plan_of(count: int, devices: int, schedule: Schedule) -> PipelinePlan:
    """So many layers in stages of equal length, one to a device, or two where these are interleaved."""
    stages = 2 * devices if schedule is Schedule.INTERLEAVED else devices
    bounds = [round(number * count / stages) for number in range(stages + 1)]
    made = [Stage(bounds[number], bounds[number + 1] - 1, (number % devices,)) for number in range(stages)]
    return PipelinePlan(tuple(made), MICROBATCHES, schedule)


def language_model(count: int, width: int) -> Step:
    """A transformer with tied embeddings, trained by Adam with clipped gradients."""
    weights = {"embedding": normal(WORDS, width), "blocks": [block(width) for _ in range(count)]}
    return trained(lambda weights, tokens: language_loss(weights, tokens, chained)), with_moments(weights), (TOKENS,)


def scan_over_layers(count: int, width: int) -> Step:
    """The same with stacked weights, and a loop over them."""
    stacked = jax.tree.map(lambda *rows: np.stack(rows), *[block(width) for _ in range(count)])
    weights = {"embedding": normal(WORDS, width), "blocks": stacked}
    return trained(lambda weights, tokens: language_loss(weights, tokens, scanned)), with_moments(weights), (TOKENS,)


def convolutional_network(count: int, width: int) -> Step:
    """Convolutions with a norm over each example."""
    channels = width // 2
    weights = {
        "first": normal(channels, 3, 3, 3),
        "kernels": [normal(channels, channels, 3, 3) for _ in range(count)],
        "last": normal(channels, WORDS),
    }
    images = normal(MICROBATCHES * EXAMPLES, 3, SIDE, SIDE)
    labels = np.arange(len(images), dtype=np.int32) % WORDS
    return trained(convolutional_loss), with_moments(weights), (images, labels)


PROGRAMS: dict[str, Callable[[int, int], Step]] = {
    "GPT": language_model,
    "conv net": convolutional_network,
    "scan over layers": scan_over_layers,
}


def normal(*dims: int) -> np.ndarray:
    return (np.random.default_rng(len(dims)).standard_normal(dims) * 0.05).astype(np.float32)


TOKENS = np.random.default_rng(0).integers(0, WORDS, (MICROBATCHES * EXAMPLES, LENGTH + 1)).astype(np.int32)


def block(width: int) -> dict[str, np.ndarray]:
    return {
        "scale": np.ones(width, np.float32),
        "qkv": normal(width, 3 * width),
        "out": normal(width, width),
        "up": normal(width, 4 * width),
        "down": normal(4 * width, width),
    }


def with_moments(weights: Any) -> Any:
    zeros = jax.tree.map(np.zeros_like, weights)
    return weights, zeros, zeros, np.float32(0)


def trained(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of Adam with gradients clipped by their norm."""

    def step(state: Any, *batch: Any) -> Any:
        weights, first, second, number = state
        value, slopes = jax.value_and_grad(loss)(weights, *batch)
        norm = jnp.sqrt(sum(jnp.sum(slope * slope) for slope in jax.tree.leaves(slopes)))
        slopes = jax.tree.map(lambda slope: slope * jnp.minimum(1, 1 / norm), slopes)
        number = number + 1
        first = jax.tree.map(lambda mean, slope: 0.9 * mean + 0.1 * slope, first, slopes)
        second = jax.tree.map(lambda mean, slope: 0.99 * mean + 0.01 * slope * slope, second, slopes)

        def updated(weight: Any, mean: Any, square: Any) -> Any:
            return weight - 0.01 * mean / (1 - 0.9**number) / (jnp.sqrt(square / (1 - 0.99**number)) + 1e-3)

        return (jax.tree.map(updated, weights, first, second), first, second, number), value

    return step


def normalised(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def applied(x: Any, weights: Any) -> Any:
    """A block of a transformer."""
    heads = jnp.split(normalised(x) * weights["scale"] @ weights["qkv"], 3, -1)
    q, k, v = (part.reshape(*part.shape[:2], 2, -1) for part in heads)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), jnp.einsum("bthd,bshd->bhts", q, k), -1e9)
    x = x + jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v).reshape(x.shape) @ weights["out"]
    return x + jax.nn.gelu(normalised(x) @ weights["up"]) @ weights["down"]


def chained(x: Any, blocks: Any) -> Any:
    for weights in blocks:
        x = applied(x, weights)
    return x


def scanned(x: Any, blocks: Any) -> Any:
    return lax.scan(lambda x, weights: (applied(x, weights), None), x, blocks)[0]


def language_loss(weights: Any, tokens: Any, run: Callable[..., Any]) -> Any:
    x = run(weights["embedding"][tokens[:, :-1]], weights["blocks"])
    logits = jax.nn.log_softmax(x @ weights["embedding"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def convolutional_loss(weights: Any, images: Any, labels: Any) -> Any:
    x = lax.conv_general_dilated(images, weights["first"], (1, 1), "SAME")
    for kernel in weights["kernels"]:
        mean, variance = x.mean((1, 2, 3), keepdims=True), x.var((1, 2, 3), keepdims=True)
        normed = jax.nn.relu((x - mean) * lax.rsqrt(variance + 1e-5))
        x = x + lax.conv_general_dilated(normed, kernel, (1, 1), "SAME")
    logits = jax.nn.log_softmax(x.mean((2, 3)) @ weights["last"])
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()


if __name__ == "__main__":
    count, width, repeats, names, *devices = sys.argv[1:]
    main(int(count), int(width), int(repeats), names.split(","), [int(wide) for wide in devices])
