"""Compiled functions inside `jax.jit`, `jax.vmap` and `jax.grad`. Covers `runtime/replay.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hloom

VALUES = np.array([0.5, 2.0, 9.0, 40.0])


def square_root(value):
    root = value
    while abs(root * root - value) > 1e-9:
        root = 0.5 * (root + value / root)
    return root


def branches(value):
    if value > 1.0:
        total = 0.0
        for i in range(int(value)):
            total += value * i
        return total
    return -value


def guarded_loop(value):
    """A loop that ends for the numbers that reach it alone."""
    if value > 1.0:
        while value != 1.0:
            value = max(1.0, value - 1.0)
    return value * 2.0


def nested_loops(value):
    total, outer = 0.0, value
    while outer > 1.0:
        inner = outer
        while inner != 0.0:
            inner = max(0.0, inner - 1.0)
            total += inner
        outer = outer / 4.0
    return total


def recursion(value):
    return value if value < 1.0 else 0.5 * recursion(value - 1.0) + recursion(value * 0.25)


def elements(value):
    table = np.array([1.0, 4.0, 2.0])
    table[int(value) % 3] += value
    return np.sum(table * table) + table[-1] + np.sort(np.array([3, int(value), 1]))[1]


def solution(value):
    return np.linalg.solve(np.array([[value, 1.0, 0.0], [2.0, value, 1.0], [0.0, 1.0, value + 4.0]]), np.ones(3))[1]


def decompositions(value):
    symmetric = np.array([[9.0, value / 8, 0.0], [value / 8, 12.0, 1.0], [0.0, 1.0, 8.0]])
    sizes = np.linalg.eigvalsh(symmetric), np.linalg.svd(symmetric)[1]
    return np.linalg.cholesky(symmetric)[1, 0] + sizes[0][0] + sizes[1][2] + np.linalg.det(symmetric)


def convolved(value):
    return np.sum(np.convolve(np.arange(4.0) * value, np.array([1.0, 2.0])) ** 2)


@pytest.mark.parametrize(
    "function", [square_root, branches, guarded_loop, nested_loops, elements, solution, decompositions, convolved]
)
def test_a_batch_is_computed_at_once_as_its_elements_are(function: Callable[[Any], Any]):
    with jax.enable_x64(True):
        inside = hloom.function(function).as_jax(1.0)
        text = str(jax.make_jaxpr(jax.vmap(inside))(VALUES))
        assert "scan" not in text  # not one by one
        np.testing.assert_allclose(jax.jit(jax.vmap(inside))(VALUES), [function(value) for value in VALUES], rtol=1e-9)


def test_a_batch_of_some_arguments():
    def scaled(matrix, vector):
        return np.tanh(matrix @ vector)

    matrix, vectors = np.arange(6.0).reshape(2, 3) / 8, np.arange(12.0).reshape(3, 4) / 9
    with jax.enable_x64(True):
        inside = hloom.function(scaled).as_jax(matrix, vectors[:, 0])
        result = jax.vmap(inside, in_axes=(None, 1), out_axes=1)(matrix, vectors)
        np.testing.assert_allclose(result, np.tanh(matrix @ vectors), rtol=1e-12)


def test_gradients_of_a_batch_and_a_batch_of_gradients():
    expected = 0.5 / np.sqrt(VALUES)
    with jax.enable_x64(True):
        inside = hloom.function(square_root).as_jax(1.0)
        np.testing.assert_allclose(jax.vmap(jax.grad(inside))(VALUES), expected, rtol=1e-6)
        np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(jax.vmap(inside)(x)))(VALUES), expected, rtol=1e-6)


@pytest.mark.parametrize("function", [recursion])
def test_recursion_is_computed_one_by_one(function: Callable[[Any], Any]):
    values = VALUES[:3]
    with jax.enable_x64(True):
        inside = hloom.function(function).as_jax(1.0)
        assert "scan" in str(jax.make_jaxpr(jax.vmap(inside))(values))
        np.testing.assert_allclose(jax.vmap(inside)(values), [function(value) for value in values], rtol=1e-9)


def test_a_function_with_derivative_rules_is_differentiated_before():
    def still(x):
        return x * lax.stop_gradient(x)

    with jax.enable_x64(True):
        with pytest.raises(hloom.HloomError, match="rules of their own"):
            jax.grad(hloom.function(still).as_jax(2.0))(2.0)
        assert hloom.grad(still).as_jax(2.0)(2.0) == 2.0
