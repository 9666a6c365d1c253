"""Write the training steps that docs/fit.md distributes over devices: `python scripts/make_fit_dumps.py docs/dumps`.

A block of a language model and a convolutional network, by gradient descent with momentum, and residual blocks in a
`lax.scan` over stacked weights. jax lowers them; nothing is computed. Metadata, which has paths of this machine, is
left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax

import hloom
from hloom.formats.hlo import PrintOptions, print_module

WORDS, LENGTH, WIDTH, BLOCKS, HEADS, EXAMPLES = 16384, 1024, 2048, 1, 16, 16
RATE, DECAY = 0.01, 0.9


def array(*dims: int, dtype: Any = jnp.float32) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(dims, dtype)


# A language model


def block(x: Any, w: Any) -> Any:
    batch, length, width = x.shape
    query, key, value = (part.reshape(batch, length, HEADS, width // HEADS) for part in jnp.split(x @ w["qkv"], 3, -1))
    scores = jnp.einsum("bthd,bshd->bhts", query, key) / (width // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    x = x + jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), value).reshape(x.shape) @ w["out"]
    return x + jax.nn.relu(x @ w["up"]) @ w["down"]


def language_loss(weights: Any, tokens: Any) -> Any:
    x = weights["embedding"][tokens[:, :-1]]
    for layer in weights["blocks"]:
        x = block(x, layer)
    logits = jax.nn.log_softmax(x @ weights["head"])
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def language_step(weights: Any, velocity: Any, tokens: Any) -> Any:
    return with_momentum(*jax.value_and_grad(language_loss)(weights, tokens), weights, velocity)


def with_momentum(loss: Any, slopes: Any, weights: Any, velocity: Any) -> Any:
    velocity = jax.tree.map(lambda old, slope: DECAY * old + slope, velocity, slopes)
    return jax.tree.map(lambda w, speed: w - RATE * speed, weights, velocity), velocity, loss


def language_arguments() -> tuple[Any, ...]:
    layer = {
        "qkv": array(WIDTH, 3 * WIDTH),
        "out": array(WIDTH, WIDTH),
        "up": array(WIDTH, 4 * WIDTH),
        "down": array(4 * WIDTH, WIDTH),
    }
    weights = {"embedding": array(WORDS, WIDTH), "blocks": [layer] * BLOCKS, "head": array(WIDTH, WORDS)}
    return weights, weights, array(EXAMPLES, LENGTH + 1, dtype=jnp.int32)


# A convolutional network


def convolutional_loss(weights: Any, images: Any, labels: Any) -> Any:
    x = images
    for kernel in weights["kernels"]:
        x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    logits = jax.nn.log_softmax(x.mean((1, 2)) @ weights["out"])
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()


def convolutional_step(weights: Any, velocity: Any, images: Any, labels: Any) -> Any:
    return with_momentum(*jax.value_and_grad(convolutional_loss)(weights, images, labels), weights, velocity)


def convolutional_arguments() -> tuple[Any, ...]:
    kernels = [array(3, 3, 3, 64), array(3, 3, 64, 128), array(3, 3, 128, 128)]
    weights = {"kernels": kernels, "out": array(128, 1000)}
    return weights, weights, array(256, 56, 56, 3), array(256, dtype=jnp.int32)


# A scan over layers


def residual(x: Any, layer: Any) -> tuple[Any, None]:
    return x + jnp.tanh(x @ layer["up"]) @ layer["down"], None


def scanned_loss(weights: Any, inputs: Any, targets: Any) -> Any:
    outputs, _ = lax.scan(residual, inputs, weights)
    return ((outputs - targets) ** 2).mean()


def scanned_step(weights: Any, inputs: Any, targets: Any) -> Any:
    loss, slopes = jax.value_and_grad(scanned_loss)(weights, inputs, targets)
    return jax.tree.map(lambda w, slope: w - RATE * slope, weights, slopes), loss


def scanned_arguments() -> tuple[Any, ...]:
    return {"up": array(8, 2048, 8192), "down": array(8, 8192, 2048)}, array(8192, 2048), array(8192, 2048)


STEPS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "fit_language_model.hlo": (language_step, language_arguments),
    "fit_convolutions.hlo": (convolutional_step, convolutional_arguments),
    "fit_scan.hlo": (scanned_step, scanned_arguments),
}


def main() -> None:
    """Write the files into a folder."""
    folder = Path(sys.argv[1])
    for name, (step, arguments) in STEPS.items():
        module = hloom.load(jax.jit(step).lower(*arguments()))
        (folder / name).write_text(print_module(module, PrintOptions(percent=False, metadata=False, layouts=False)))


if __name__ == "__main__":
    main()
