"""What programs in jax share: arguments without numbers, a step of training, the texts that a call lowers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from .registry import Call


def texts(call: Call) -> Iterator[tuple[str, str]]:
    """The HLO that a call lowers to: as jax writes it, then as XLA's CPU compiler optimises it."""
    function, arguments = call
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    yield "", lowered.as_text("hlo")
    yield ".optimized", lowered.compile().as_text() or ""


def floats(*dims: int) -> jax.ShapeDtypeStruct:
    """An argument of f32."""
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def integers(*dims: int) -> jax.ShapeDtypeStruct:
    """An argument of s32."""
    return jax.ShapeDtypeStruct(dims, jnp.int32)


def key() -> jax.Array:
    """A key of random numbers, as uint32[2]."""
    return jax.random.PRNGKey(0)


def train_step(loss: Callable[..., Any], optimizer: Any, parameters: Any, *batch: Any) -> Call:
    """A step of training: gradients of `loss(parameters, *batch)`, then an optimizer of optax's interface."""
    state = jax.eval_shape(optimizer.init, parameters)

    def step(parameters: Any, state: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        updates, state = optimizer.update(gradients, state, parameters)
        return jax.tree.map(lambda parameter, update: parameter + update, parameters, updates), state, value

    return step, (parameters, state, *batch)
