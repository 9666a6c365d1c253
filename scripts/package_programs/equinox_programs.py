"""Models of equinox: layers with state, flows, normalisation, filtered derivatives."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
import optax  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, key, texts, train_step
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _trained(model: Any, optimizer: Any, *inputs: Any) -> Call:
    weights, rest = eqx.partition(model, eqx.is_inexact_array)

    def loss(weights: Any, *inputs: Any) -> Any:
        return jnp.mean(jax.vmap(eqx.combine(weights, rest))(*inputs) ** 2)

    return train_step(loss, optimizer, weights, *inputs)


@program
def batch_norm_with_state() -> Call:
    model, state = eqx.nn.make_with_state(
        lambda: eqx.nn.Sequential([eqx.nn.Linear(4, 6, key=key()), eqx.nn.BatchNorm(6, "batch", mode="batch")])
    )()
    weights, rest = eqx.partition(model, eqx.is_inexact_array)

    def step(weights: Any, state: Any, inputs: Any) -> Any:
        def loss(weights: Any) -> Any:
            model = eqx.combine(weights, rest)
            outputs, changed = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(inputs, state)
            return jnp.mean(outputs**2), changed

        return eqx.filter_value_and_grad(loss, has_aux=True)(weights)

    return step, (weights, state, floats(8, 4))


@program
def unet() -> Call:
    class Unet(eqx.Module):
        down: Any
        inner: Any
        up: Any
        norm: Any

        def __init__(self, key: Any) -> None:
            keys = jax.random.split(key, 3)
            self.down = eqx.nn.Conv2d(2, 4, 3, stride=2, padding=1, key=keys[0])
            self.inner = eqx.nn.Conv2d(4, 4, 3, padding="SAME", dilation=2, key=keys[1])
            self.up = eqx.nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1, key=keys[2])
            self.norm = eqx.nn.GroupNorm(2, 4)

        def __call__(self, x: Any) -> Any:
            hidden = jax.nn.silu(self.norm(self.down(x)))
            return x + self.up(jax.nn.mish(self.inner(hidden)))

    return _trained(Unet(key()), optax.adamax(1e-3), floats(2, 2, 8, 8))


@program
def gru_classifier() -> Call:
    class Classifier(eqx.Module):
        cell: Any
        linear: Any

        def __call__(self, x: Any) -> Any:
            hidden, _ = jax.lax.scan(lambda state, value: (self.cell(value, state), None), jnp.zeros(6), x)
            return jax.nn.sigmoid(self.linear(hidden))

    model = Classifier(eqx.nn.GRUCell(3, 6, key=key()), eqx.nn.Linear(6, 1, key=key()))
    return _trained(model, optax.yogi(1e-2), floats(4, 7, 3))


@program
def coupling_flow() -> Call:
    class Flow(eqx.Module):
        layers: list[Any]

        def __call__(self, x: Any) -> Any:
            logarithm = 0.0
            for layer in self.layers:
                kept, moved = jnp.split(x, 2)
                scale, shift = jnp.split(layer(kept), 2)
                moved, logarithm = moved * jnp.exp(jnp.tanh(scale)) + shift, logarithm + jnp.tanh(scale).sum()
                x = jnp.concatenate([moved, kept])
            return logarithm - 0.5 * (x**2).sum()

    layers = [eqx.nn.MLP(2, 4, 8, 1, key=one) for one in jax.random.split(key(), 3)]
    return _trained(Flow(layers), optax.noisy_sgd(1e-3), floats(5, 4))


@program
def embedding_with_weight_norm() -> Call:
    class Model(eqx.Module):
        embedding: Any
        linear: Any
        pool: Any

        def __call__(self, x: Any) -> Any:
            tokens = jnp.abs(x * 10).astype(jnp.int32) % 9
            hidden = jax.vmap(self.linear)(jax.vmap(self.embedding)(tokens))
            return self.pool(hidden.T)

    linear = eqx.nn.WeightNorm(eqx.nn.Linear(4, 6, key=key()))
    return _trained(
        Model(eqx.nn.Embedding(9, 4, key=key()), linear, eqx.nn.AvgPool1d(2, 2)), optax.fromage(1e-2), floats(3, 8)
    )


@program
def hessian_of_network() -> Call:
    weights, rest = eqx.partition(eqx.nn.MLP(2, "scalar", 4, 1, activation=jnp.tanh, key=key()), eqx.is_array)

    def laplacian(weights: Any, points: Any) -> Any:
        model = eqx.combine(weights, rest)
        residual = jax.vmap(lambda x: jnp.trace(jax.hessian(model)(x)) - jnp.sin(x.sum()))(points)
        return jnp.mean(residual**2)

    return jax.value_and_grad(laplacian), (weights, floats(6, 2))


@program
def bounded_scan_of_checkpoints() -> Call:
    from equinox.internal import scan  # pyright: ignore[reportMissingImports]

    def loss(weight: Any, inputs: Any) -> Any:
        def body(state: Any, value: Any) -> Any:
            state = jnp.tanh(weight @ state + value)
            return state, state.sum()

        return scan(body, jnp.zeros(4), inputs, kind="checkpointed", checkpoints=2)[1].sum()

    return jax.value_and_grad(loss), (floats(4, 4), floats(9, 4))
