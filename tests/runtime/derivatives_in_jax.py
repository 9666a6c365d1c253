"""Derivatives as jax makes them, to second order, and how hloom's are compared with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.runtime.jax_derivatives import LESS_EXACT, Row


def scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    """All results of a function in one number."""

    def combined(*arrays: Any) -> Any:
        total = jnp.zeros(())
        for leaf in map(jnp.asarray, jax.tree.leaves(function(*arrays))):
            if jnp.issubdtype(leaf.dtype, jnp.inexact):
                weights = jnp.cos(jnp.arange(leaf.size) + 0.3).reshape(leaf.shape)
                total += jnp.sum(weights * jnp.real(leaf)) + 0.7 * jnp.sum(weights * jnp.imag(leaf))
        return total

    return combined


def directions(row: Row) -> tuple[Any, ...]:
    return tuple(np.cos(np.arange(array.size) + 0.1).reshape(array.shape) for array in row.arrays)


def in_jax(function: Callable[..., Any], row: Row, has_tangents: bool) -> tuple[Any, Any, Any]:
    """The gradient, its derivative along the directions, and the derivative of the function along them, where it has."""
    gradient = jax.grad(function, tuple(range(len(row.arrays))))

    @jax.jit
    def orders(*arrays: Any) -> Any:
        first, second = jax.jvp(gradient, arrays, directions(row))
        return first, second, jax.jvp(function, arrays, directions(row))[1] if has_tangents else None

    return orders(*row.arrays)


def has_forward_mode(function: Callable[..., Any], row: Row) -> bool:
    try:
        jax.eval_shape(lambda: jax.jvp(function, row.arrays, directions(row)))
    except Exception:  # of a jax.custom_vjp
        return False
    return True


def first_in_jax(function: Callable[..., Any], row: Row) -> Any:
    return jax.jit(jax.grad(function, tuple(range(len(row.arrays)))))(*row.arrays)


def assert_close(name: str, result: Sequence[Any], expected: Sequence[Any]):
    for given, wanted in zip(result, expected, strict=True):
        is_known = np.isfinite(wanted)  # where jax masks NaN too late its derivative is NaN
        tolerance = LESS_EXACT.get(name, 1e-7)
        scale = np.max(np.abs(wanted), initial=0, where=is_known)
        np.testing.assert_allclose(
            np.asarray(given)[is_known], np.asarray(wanted)[is_known], rtol=tolerance, atol=tolerance * max(scale, 1e-3)
        )
