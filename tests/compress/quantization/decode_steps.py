"""Decode steps with KV caches, written as JAX programs write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hloom
from hloom.ir import Module
from tests.compress.quantization.programs import normal

BATCH, ROWS, HEADS, SIZE, WORDS, LAYERS = 2, 8, 2, 8, 20, 2
WIDTH = HEADS * SIZE
Write = Callable[[Any, Any, Any], Any]


def round_rows(rows: Any) -> Any:
    """What the int8 cache holds of rows: a scale for every head of every token, computed in f32."""
    scale = jnp.maximum(jnp.abs(rows).max(-1, keepdims=True) * np.float32(1 / 127), np.finfo(np.float32).tiny)
    return jnp.clip(jnp.round(rows / scale), -127, 127) * scale


def slice_write(held: Any, row: Any, position: Any) -> Any:
    return jax.lax.dynamic_update_slice(held, row, (0, position, 0, 0))


def mapped_write(held: Any, row: Any, position: Any) -> Any:
    positions = jnp.full((BATCH,), position)
    return jax.vmap(lambda h, r, p: jax.lax.dynamic_update_slice(h, r, (p, 0, 0)))(held, row, positions)


def scatter_write(held: Any, row: Any, position: Any) -> Any:
    return held.at[jnp.arange(BATCH), jnp.full((BATCH,), position)].set(row[:, 0])


def select_write(held: Any, row: Any, position: Any) -> Any:
    return jnp.where((jnp.arange(ROWS) == position)[None, :, None, None], row, held)


def shift_write(held: Any, row: Any, position: Any) -> Any:
    return jnp.concatenate([held[:, 1:], row], 1)


def additive_write(held: Any, row: Any, position: Any) -> Any:
    """As T5X and flax's examples write on TPUs: into rows that are zero."""
    return held + row * jax.nn.one_hot(position, ROWS, dtype=held.dtype)[None, :, None, None]


def blended_write(held: Any, row: Any, position: Any) -> Any:
    mask = jax.nn.one_hot(position, ROWS, dtype=held.dtype)[None, :, None, None]
    return held * (1 - mask) + mask * row


def outer_write(held: Any, row: Any, position: Any) -> Any:
    mask = jax.nn.one_hot(jnp.full((BATCH,), position), ROWS, dtype=held.dtype)
    return held + jnp.einsum("bt,bhd->bthd", mask, row[:, 0])


def blended_twice_write(held: Any, row: Any, position: Any) -> Any:
    """With a mask for each factor, equal but not one."""
    kept, written = (jax.nn.one_hot(position, ROWS, dtype=held.dtype)[None, :, None, None] for _ in range(2))
    return held * (1 - kept) + written * row


def transposed_write(held: Any, row: Any, position: Any) -> Any:
    """An outer product whose rows come first."""
    return held + jnp.einsum("t,bhd->bthd", jax.nn.one_hot(position, ROWS, dtype=held.dtype), row[:, 0])


def conditional_write(held: Any, row: Any, position: Any) -> Any:
    """Where no row is free, the cache stays; what the conditional yields is an array."""
    return jax.lax.cond(position < ROWS, lambda h: slice_write(h, row, position), lambda h: h, held)


WRITES = {
    write.__name__: write
    for write in (
        slice_write,
        mapped_write,
        scatter_write,
        select_write,
        shift_write,
        additive_write,
        blended_write,
        outer_write,
        blended_twice_write,
        transposed_write,
        conditional_write,
    )
}


def attend(weights: Any, h: Any, keys: Any, values: Any, position: Any, write: Write) -> tuple[Any, Any, Any]:
    """One layer: the row is written, and all rows are attended to."""
    query, key, value = ((h @ weights[name]).reshape(BATCH, 1, HEADS, SIZE) for name in "qkv")
    keys, values = write(keys, key, position), write(values, value, position)
    scores = jnp.einsum("bqhd,bthd->bhqt", query, keys) / np.sqrt(SIZE)
    mixed = jnp.einsum("bhqt,bthd->bqhd", jax.nn.softmax(scores), values).reshape(BATCH, 1, WIDTH)
    return h + mixed @ weights["o"], keys, values


def layers(write: Write) -> Callable[..., Any]:
    """Layers one after the other, each with a cache of its own."""

    def step(params, cache, token, position):
        h, caches = params["table"][token][:, None], []
        for weights, (keys, values) in zip(params["layers"], cache, strict=True):
            h, keys, values = attend(weights, h, keys, values, position, write)
            caches.append((keys, values))
        return h[:, 0] @ params["head"], caches

    return step


def scan(write: Write) -> Callable[..., Any]:
    """A loop over layers, which takes one layer's cache out of a stack and collects what it is afterwards."""

    def step(params, cache, token, position):
        def layer(h, taken):
            weights, keys, values = taken
            h, keys, values = attend(weights, h, keys, values, position, write)
            return h, (keys, values)

        h, cache = jax.lax.scan(layer, params["table"][token][:, None], (params["layers"], *cache))
        return h[:, 0] @ params["head"], cache

    return step


def carry(write: Write) -> Callable[..., Any]:
    """A loop over layers that carries the stack of caches."""

    def step(params, cache, token, position):
        def layer(state, taken):
            h, stacks = state
            weights, number = taken
            keys, values = [jax.lax.dynamic_index_in_dim(stack, number, keepdims=False) for stack in stacks]
            h, *made = attend(weights, h, keys, values, position, write)
            stacks = [
                jax.lax.dynamic_update_index_in_dim(stack, one, number, 0)
                for stack, one in zip(stacks, made, strict=True)
            ]
            return (h, tuple(stacks)), None

        start = (params["table"][token][:, None], tuple(cache))
        (h, cache), _ = jax.lax.scan(layer, start, (params["layers"], jnp.arange(LAYERS)))
        return h[:, 0] @ params["head"], cache

    return step


def branch(write: Write) -> Callable[..., Any]:
    """Layers within a conditional: where nothing is to be computed, the cache stays."""

    def step(params, cache, token, position):
        def skip(cache):
            return jnp.zeros((BATCH, WORDS)), cache

        return jax.lax.cond(position < ROWS, lambda c: layers(write)(params, c, token, position), skip, cache)

    return step


def generate(write: Write) -> Callable[..., Any]:
    """Tokens one after the other in a loop, with caches that begin and end in the program."""

    def run(params, token):
        empty = [(jnp.zeros((BATCH, ROWS, HEADS, SIZE)),) * 2 for _ in range(LAYERS)]

        def body(position, state):
            cache, token, seen = state
            logits, cache = layers(write)(params, cache, token, position)
            return cache, jnp.argmax(logits, -1).astype(jnp.int32), seen + logits

        return jax.lax.fori_loop(0, 5, body, (empty, token, jnp.zeros((BATCH, WORDS))))[2]

    return run


STEPS = {"layers": layers, "scan": scan, "carry": carry, "branch": branch}


def _weights(*stack: int) -> dict[str, np.ndarray]:
    return {name: normal(*stack, WIDTH, WIDTH, seed=n, scale=0.25) for n, name in enumerate("qkvo")}


def _arguments(name: str) -> tuple[Any, ...]:
    ends = {"table": normal(WORDS, WIDTH, seed=7), "head": normal(WIDTH, WORDS, seed=8, scale=0.25)}
    token, position = np.array([3, 5], np.int32), np.int32(0)
    if name == "generate":
        return {**ends, "layers": [_weights() for _ in range(LAYERS)]}, token
    if name in ("scan", "carry"):
        held = np.zeros((LAYERS, BATCH, ROWS, HEADS, SIZE), np.float32)
        return {**ends, "layers": _weights(LAYERS)}, (held, held), token, position
    held = np.zeros((BATCH, ROWS, HEADS, SIZE), np.float32)
    return {**ends, "layers": [_weights() for _ in range(LAYERS)]}, [(held, held)] * LAYERS, token, position


@cache
def decode(name: str, write: str = "slice_write") -> tuple[Module, tuple[np.ndarray, ...]]:
    """A step's module, and its arrays in order."""
    arguments = _arguments(name)
    function = generate if name == "generate" else STEPS[name]
    return hloom.load(jax.jit(function(WRITES[write]), keep_unused=True).lower(*arguments)), tuple(
        jax.tree.leaves(arguments)
    )


@cache
def rounding_decode(name: str, write: str = "slice_write") -> Module:
    """The same step, whose rows are rounded in JAX when they are written."""
    function = generate if name == "generate" else STEPS[name]

    def rounding_write(held, row, position):
        return WRITES[write](held, round_rows(row), position)

    return hloom.load(jax.jit(function(rounding_write), keep_unused=True).lower(*_arguments(name)))


def inputs(arrays: tuple[np.ndarray, ...], step: int) -> list[np.ndarray]:
    """The arrays of a step: its token and its position."""
    return [*arrays[:-2], np.array([3 * step + 1, 5 * step + 2], np.int32) % WORDS, np.array(step, np.int32)]
