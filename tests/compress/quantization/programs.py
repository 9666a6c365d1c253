"""Programs that JAX lowers, with arrays for them."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hloom
from hloom.ir import Module


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def mlp(params, x):
    return jnp.tanh(x @ params["up"] + params["bias"]) @ params["down"].T


def attention(params, x):
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, params[name]) for name in "qkv")
    weights = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k))
    return jnp.einsum("bthk,hkd->btd", jnp.einsum("bhts,bshk->bthk", weights, v), params["o"])


def language_model(params, tokens):
    """A stack of layers as one loop, between an embedding and a head that share a table."""

    def layer(h, weights):
        h = h + attention(weights, h)
        return h + jnp.tanh(h @ weights["up"]) @ weights["down"], None

    h, _ = jax.lax.scan(layer, params["table"][tokens], params["layers"])
    return h @ params["table"].T


def convolutions(params, x):
    def conv(x, kernel, **options):
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **options
        )

    h = jax.nn.relu(conv(x, params["first"]))
    return conv(jax.nn.relu(conv(h, params["depthwise"], feature_group_count=8)), params["last"])


HEADS = {"q": (16, 4, 4), "k": (16, 4, 4), "v": (16, 4, 4), "o": (4, 4, 16)}
LAYERS = {**HEADS, "up": (16, 24), "down": (24, 16)}


def _weights(shapes: dict[str, tuple[int, ...]], *stack: int) -> dict[str, np.ndarray]:
    return {name: normal(*stack, *shape, seed=n, scale=0.3) for n, (name, shape) in enumerate(shapes.items())}


def _tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 11, (2, 5)).astype(np.int32)


ARGUMENTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mlp": (mlp, ({"up": normal(12, 20), "bias": normal(20), "down": normal(7, 20)}, normal(5, 12))),
    "attention": (attention, (_weights(HEADS), normal(2, 5, 16))),
    "language model": (
        language_model,
        ({"table": normal(11, 16), "layers": _weights(LAYERS, 3)}, _tokens()),
    ),
    "convolutions": (
        convolutions,
        (_weights({"first": (3, 3, 2, 8), "depthwise": (3, 3, 1, 8), "last": (1, 1, 8, 4)}), normal(2, 6, 6, 2)),
    ),
}


@cache
def lowered(name: str) -> tuple[Module, tuple[np.ndarray, ...]]:
    """A program's module, and its arrays in order."""
    function, arguments = ARGUMENTS[name]
    return hloom.load(jax.jit(function).lower(*arguments)), tuple(jax.tree.leaves(arguments))
