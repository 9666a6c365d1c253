"""Lower a GPT-2 training step (forward, backward, Adam) with JAX and write its HLO text.

    python scripts/lower_gpt2.py --layers 12 -o gpt2.hlo

Nothing is initialised or run: the parameters are shapes, so any size lowers on a laptop.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

Tree = Any
"""A pytree of arrays, as JAX means it."""


@dataclass(frozen=True, slots=True)
class Config:
    """The sizes of a GPT-2 model; the defaults are GPT-2 small's."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 50257
    sequence: int = 1024
    batch: int = 8


def parameter_shapes(config: Config) -> Tree:
    """Every parameter's shape and type, as a tree that `jax.jit(...).lower` takes."""

    def array(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    width = config.width
    norm = {"scale": array(width), "bias": array(width)}
    layer = {
        "norm_1": norm,
        "attention": {"weight": array(width, 3 * width), "bias": array(3 * width)},
        "projection": {"weight": array(width, width), "bias": array(width)},
        "norm_2": norm,
        "expand": {"weight": array(width, 4 * width), "bias": array(4 * width)},
        "contract": {"weight": array(4 * width, width), "bias": array(width)},
    }
    return {
        "tokens": array(config.vocabulary, width),
        "positions": array(config.sequence, width),
        "layers": [layer] * config.layers,
        "norm": norm,
    }


def dense(parameters: Tree, x: jax.Array) -> jax.Array:
    return x @ parameters["weight"] + parameters["bias"]


def layer_norm(parameters: Tree, x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * parameters["scale"] + parameters["bias"]


def attention(config: Config, parameters: Tree, x: jax.Array) -> jax.Array:
    batch, sequence, width = x.shape
    heads = (batch, sequence, config.heads, width // config.heads)
    query, key, value = (part.reshape(heads) for part in jnp.split(dense(parameters["attention"], x), 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(heads[-1])
    causal = jnp.tril(jnp.ones((sequence, sequence), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e10), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape)
    return dense(parameters["projection"], mixed)


def logits(config: Config, parameters: Tree, tokens: jax.Array) -> jax.Array:
    x = parameters["tokens"][tokens] + parameters["positions"][: tokens.shape[1]]
    for number, layer in enumerate(parameters["layers"]):
        with jax.named_scope(f"layer_{number}"):
            with jax.named_scope("attention"):
                x = x + attention(config, layer, layer_norm(layer["norm_1"], x))
            with jax.named_scope("mlp"):
                x = x + dense(layer["contract"], jax.nn.gelu(dense(layer["expand"], layer_norm(layer["norm_2"], x))))
    return layer_norm(parameters["norm"], x) @ parameters["tokens"].T


def loss(config: Config, parameters: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
    predicted = jax.nn.log_softmax(logits(config, parameters, tokens))
    return -jnp.take_along_axis(predicted, targets[..., None], axis=-1).mean()


def training_step(config: Config, state: Tree, tokens: jax.Array, targets: jax.Array) -> tuple[Tree, jax.Array]:
    """One step of Adam: the state is (parameters, first moments, second moments, step)."""
    parameters, first, second, step = state
    value, gradients = jax.value_and_grad(lambda p: loss(config, p, tokens, targets))(parameters)
    step = step + 1
    rate = 3e-4 * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    parameters = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), parameters, first, second)
    return (parameters, first, second, step), value


def lower(config: Config, metadata: bool = True) -> str:
    """The training step's HLO text, before XLA optimises it; the state is donated."""
    return _lowered(config).as_text("hlo", debug_info=metadata)


def compiled(config: Config) -> str:
    """The training step's HLO text as XLA's CPU compiler leaves it."""
    return str(_lowered(config).compile().as_text())


def _lowered(config: Config) -> jax.stages.Lowered:
    shapes = parameter_shapes(config)
    step = jax.ShapeDtypeStruct((), jnp.float32)
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence), jnp.int32)
    jitted = jax.jit(lambda state, x, y: training_step(config, state, x, y), donate_argnums=0)
    return jitted.lower((shapes, shapes, shapes, step), tokens, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = Config()
    for name in Config.__dataclass_fields__:
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    parser.add_argument("--no-metadata", action="store_true", help="leave op names and source lines out")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    config = Config(**{name: getattr(arguments, name) for name in Config.__dataclass_fields__})
    arguments.output.write_text(lower(config, metadata=not arguments.no_metadata))


if __name__ == "__main__":
    main()
