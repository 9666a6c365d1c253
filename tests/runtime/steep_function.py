"""A function that has twice the derivative of what a rule replaces by it, so that it shows which one was taken."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import hloom


@jax.custom_vjp
def twice_steep(x: Any) -> Any:
    return jnp.tanh(x)


twice_steep.defvjp(lambda x: (jnp.tanh(x), x), lambda x, cotangent: (2 * cotangent * (1 - jnp.tanh(x) ** 2),))


@hloom.rule
def to_twice_steep(p: Any):
    """tanh(x) -> twice_steep(x)"""
    x = p.value("x")
    result = p.op("tanh", x)
    with p.rewrite() as r:
        r.replace({result: r.call(twice_steep, x)})
