"""The list that programs of packages register in, and what they share. Imports jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}
"""By name what makes a compiled function's source, a `jax.jit`, and its arguments."""


def program(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Register a program under its function's name."""
    PROGRAMS[make.__name__] = make
    return make


def key() -> Any:
    return jax.random.PRNGKey(0)


def floats(*dims: int) -> Any:
    return jnp.zeros(dims, jnp.float32)


def integers(*dims: int) -> Any:
    return jnp.zeros(dims, jnp.int32)


def cross_entropy(logits: Any, labels: Any) -> Any:
    scores = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(scores, labels[..., None], -1).mean()


def squared(result: Any, target: Any) -> Any:
    return ((result - target) ** 2).mean()
