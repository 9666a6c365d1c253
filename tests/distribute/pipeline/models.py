"""Losses of models of other kinds than chains of layers, with weights and a batch, and how many layers they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RANDOM = np.random.default_rng(1)
WIDTH = 8


class Model(NamedTuple):
    """A loss of weights and a batch."""

    loss: Callable[..., Any]
    weights: Any
    batch: tuple[Any, ...]
    layers: int


def normal(*dims: int) -> np.ndarray:
    return (RANDOM.standard_normal(dims) * 0.3).astype(np.float32)


def squared(outputs: Any, targets: Any) -> Any:
    return ((outputs - targets) ** 2).mean()


def skips(weights: Any, inputs: Any, targets: Any) -> Any:
    first = jnp.tanh(inputs @ weights[0])
    second = jnp.tanh(first @ weights[1])
    third = jnp.tanh(second @ weights[2])
    fourth = jnp.tanh(third @ weights[3] + second)
    fifth = jnp.tanh(fourth @ weights[4] + first)
    return squared(fifth @ weights[5], targets)


def experts(weights: Any, x: Any, targets: Any) -> Any:
    balance = 0.0
    for layer in weights:
        chosen = jax.nn.softmax(x @ layer["router"])
        balance += jnp.mean((chosen**2).sum(-1)) + 0.1 * jnp.mean(jax.nn.logsumexp(x @ layer["router"], -1) ** 2)
        x = x + jnp.einsum("bed,be->bd", jnp.tanh(jnp.einsum("bd,edh->beh", x, layer["experts"])), chosen)
    return squared(x, targets) + 0.1 * balance


def encoder_and_decoder(weights: Any, source: Any, x: Any, targets: Any) -> Any:
    for weight in weights["encoder"]:
        source = source + jnp.tanh(source @ weight)
    for own, query, value in weights["decoder"]:
        x = x + jnp.tanh(x @ own)
        scores = jax.nn.softmax(jnp.einsum("btd,bsd->bts", x @ query, source))
        x = x + jnp.einsum("bts,bsd->btd", scores, source @ value)
    return squared(x, targets)


def recurrent(weights: Any, x: Any, targets: Any) -> Any:
    for inner, outer in weights:

        def step(hidden: Any, row: Any, inner: Any = inner, outer: Any = outer) -> Any:
            hidden = jnp.tanh(row @ inner + hidden @ outer)
            return hidden, hidden

        x = lax.scan(step, jnp.zeros((x.shape[0], WIDTH)), x.swapaxes(0, 1))[1].swapaxes(0, 1)
    return squared(x, targets)


def residual(x: Any, layer: Any) -> Any:
    return x + jnp.tanh(jnp.tanh(x @ layer[0]) @ layer[1])


def checkpointed(weights: Any, x: Any, targets: Any) -> Any:
    for layer in weights:
        x = jax.checkpoint(residual)(x, layer)
    return squared(x, targets)


def checkpointed_scan(weights: Any, x: Any, targets: Any) -> Any:
    x, _ = lax.scan(lambda x, layer: (jax.checkpoint(residual)(x, layer), None), x, weights)
    return squared(x, targets)


def two_scans(weights: Any, x: Any, targets: Any) -> Any:
    for stacked in weights:
        x, _ = lax.scan(lambda x, weight: (x + jnp.tanh(x @ weight), None), x, stacked)
    return squared(x, targets)


def two_carries(weights: Any, x: Any, targets: Any) -> Any:
    def layer(pair: Any, weight: Any) -> Any:
        return (pair[0] + jnp.tanh(pair[1] @ weight), pair[1] + jnp.tanh(pair[0] @ weight)), None

    (x, y), _ = lax.scan(layer, (x, 2 * x), weights)
    return squared(x, targets) + (y**2).mean()


def backwards(weights: Any, tokens: Any) -> Any:
    def layer(x: Any, parts: Any) -> Any:
        return x + jnp.tanh(x @ parts["weight"] + parts["bias"]), x.sum((1, 2))

    x, sums = lax.scan(layer, weights["embedding"][tokens], weights["layers"], reverse=True)
    return ((x @ weights["embedding"].T) ** 2).mean() + 0.01 * (sums**2).mean()


def low_rank_updates(weights: Any, x: Any, targets: Any) -> Any:
    for (left, right), frozen in zip(weights["trained"], weights["frozen"], strict=True):
        x = jnp.tanh(x @ lax.stop_gradient(frozen) + x @ left @ right)
    return squared(x, targets)


ROWS = normal(8, WIDTH), normal(8, WIDTH)
SEQUENCES = normal(8, 5, WIDTH), normal(8, 5, WIDTH)
STACKED = normal(4, WIDTH, WIDTH)
PAIRS = [(normal(WIDTH, WIDTH), normal(WIDTH, WIDTH)) for _ in range(3)]
MODELS = {
    "skips": Model(skips, [normal(WIDTH, WIDTH) for _ in range(6)], ROWS, 3),
    "experts": Model(experts, [{"router": normal(WIDTH, 3), "experts": normal(3, WIDTH, WIDTH)} for _ in range(3)], ROWS, 4),
    "encoder_and_decoder": Model(
        encoder_and_decoder,
        {
            "encoder": [normal(WIDTH, WIDTH) for _ in range(2)],
            "decoder": [tuple(normal(WIDTH, WIDTH) for _ in range(3)) for _ in range(3)],
        },
        (SEQUENCES[0], normal(8, 3, WIDTH), normal(8, 3, WIDTH)),
        6,
    ),
    "recurrent": Model(recurrent, PAIRS, SEQUENCES, 3),
    "checkpointed": Model(checkpointed, PAIRS, ROWS, 4),
    "checkpointed_scan": Model(checkpointed_scan, (STACKED, STACKED[::-1].copy()), ROWS, 4),
    "two_scans": Model(two_scans, (STACKED[:2], STACKED[1:]), ROWS, 5),
    "two_carries": Model(two_carries, STACKED, ROWS, 4),
    "backwards": Model(
        backwards,
        {"embedding": normal(11, WIDTH), "layers": {"weight": STACKED[:3], "bias": normal(3, WIDTH)}},
        (RANDOM.integers(0, 11, (8, 4)).astype(np.int32),),
        4,
    ),
    "low_rank_updates": Model(
        low_rank_updates,
        {
            "trained": [(normal(WIDTH, 2), normal(2, WIDTH)) for _ in range(3)],
            "frozen": [normal(WIDTH, WIDTH) for _ in range(3)],
        },
        ROWS,
        5,
    ),
}
