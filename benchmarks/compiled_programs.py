"""What XLA's CPU compiler makes of programs of several kinds: fusions, loops, library calls, long tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
from jax.scipy.special import gammainc

from benchmarks.programs import Plan, Program
from hloom.formats.hlo import parse
from scripts.lower_gpt2 import compiled


def compiled_programs(plan: Plan) -> Iterator[Program]:
    """GPT-2 of two layers, an ODE, random numbers, decompositions, series, a dozen instructions: as XLA runs them."""
    yield _program("GPT-2, optimised", compiled(replace(plan.small, layers=min(2, plan.small.layers))))
    for name, (function, *arguments) in _FUNCTIONS.items():
        yield _program(f"{name}, optimised", _text(function, *arguments))


def _program(name: str, text: str) -> Program:
    return Program(name, text, parse(text).node_count)


@cache
def _text(function: Callable[..., object], *arguments: jax.ShapeDtypeStruct) -> str:
    return str(jax.jit(function).lower(*arguments).compile().as_text())


def _solve(matrix: jax.Array, state: jax.Array) -> jax.Array:
    """The gradient of a Runge-Kutta method's end by the equation's matrix."""

    def end(matrix: jax.Array) -> jax.Array:
        def step(state: jax.Array, _: None) -> tuple[jax.Array, None]:
            first = jnp.tanh(matrix @ state)
            second = jnp.tanh(matrix @ (state + first / 20))
            third = jnp.tanh(matrix @ (state + second / 20))
            fourth = jnp.tanh(matrix @ (state + third / 10))
            return state + (first + 2 * second + 2 * third + fourth) / 60, None

        return jax.lax.scan(step, state, length=10)[0].sum()

    return jax.grad(end)(matrix)


def _random_numbers(key: jax.Array) -> tuple[jax.Array, ...]:
    keys = jax.random.split(key, 3)
    return (
        jax.random.gamma(keys[0], 2.0, (100,)),
        jax.random.poisson(keys[1], 3.0, (100,)),
        jax.random.permutation(keys[2], 100),
    )


def _decompositions(matrix: jax.Array) -> tuple[object, ...]:
    return jnp.linalg.eigh(matrix), jnp.linalg.qr(matrix), jnp.linalg.solve(matrix, matrix)


_FUNCTIONS: dict[str, tuple[Callable[..., object], *tuple[jax.ShapeDtypeStruct, ...]]] = {
    "an ODE": (_solve, jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((8,), jnp.float32)),
    "random numbers": (_random_numbers, jax.ShapeDtypeStruct((2,), jnp.uint32)),
    "decompositions": (_decompositions, jax.ShapeDtypeStruct((32, 32), jnp.float32)),
    "a dozen instructions": (lambda x: jnp.fft.fft(x).real * 2, jax.ShapeDtypeStruct((64,), jnp.complex64)),
    "series": (lambda x: gammainc(x, 2 * x), jax.ShapeDtypeStruct((100,), jnp.float32)),
}
