"""Training steps of three kinds of models as jax lowers them, small enough to run: attention, convolutions, a scan."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax

import hloom
from hloom.ir import Module

WORDS, LENGTH, WIDTH, EXAMPLES = 32, 8, 16, 16


def array(*dims: int, dtype: Any = jnp.float32) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(dims, dtype)


def step(loss: Any) -> Any:
    """A step of Adam."""

    def stepped(weights: Any, first: Any, second: Any, *batch: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, *batch)
        first = jax.tree.map(lambda m, slope: 0.9 * m + 0.1 * slope, first, slopes)
        second = jax.tree.map(lambda v, slope: 0.9 * v + 0.1 * slope * slope, second, slopes)
        weights = jax.tree.map(lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-2), weights, first, second)
        return weights, first, second, value

    return stepped


def attention_loss(weights: Any, tokens: Any) -> Any:
    x = weights["embedding"][tokens[:, :-1]]
    for layer in weights["blocks"]:
        query, key, value = jnp.split(x @ layer["qkv"], 3, -1)
        scores = jnp.einsum("btd,bsd->bts", query, key)
        scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
        x = x + jnp.einsum("bts,bsd->btd", jax.nn.softmax(scores), value) @ layer["out"]
    logits = jax.nn.log_softmax(x @ weights["embedding"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def convolution_loss(weights: Any, images: Any, labels: Any) -> Any:
    x = images
    for kernel in weights["kernels"]:
        x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    logits = jax.nn.log_softmax(x.mean((1, 2)) @ weights["out"])
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()


def scan_loss(weights: Any, inputs: Any, targets: Any) -> Any:
    outputs, _ = lax.scan(lambda x, layer: (x + jnp.tanh(x @ layer), None), inputs, weights)
    return ((outputs - targets) ** 2).mean()


@cache
def attention() -> Module:
    block = {"qkv": array(WIDTH, 3 * WIDTH), "out": array(WIDTH, WIDTH)}
    weights = {"embedding": array(WORDS, WIDTH), "blocks": [block] * 2}
    return lowered(attention_loss, weights, array(EXAMPLES, LENGTH + 1, dtype=jnp.int32))


@cache
def convolutions() -> Module:
    weights = {"kernels": [array(3, 3, 3, 8), array(3, 3, 8, 8)], "out": array(8, 10)}
    return lowered(convolution_loss, weights, array(EXAMPLES, 6, 6, 3), array(EXAMPLES, dtype=jnp.int32))


@cache
def scan() -> Module:
    return lowered(scan_loss, array(4, WIDTH, WIDTH), array(EXAMPLES, WIDTH), array(EXAMPLES, WIDTH))


def lowered(loss: Any, weights: Any, *batch: Any) -> Module:
    return hloom.load(jax.jit(step(loss)).lower(weights, weights, weights, *batch))
