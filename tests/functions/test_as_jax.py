"""Compiled functions inside jax's transformations.

Covers `api/inside_jax.py`, `api/run_errors.py`, `runtime/jax_arrays.py`, `runtime/replay.py`.
"""

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


def test_derivative_rules_are_kept():
    def still(x):
        return x * lax.stop_gradient(x)

    with jax.enable_x64(True):
        inside = hloom.function(still).as_jax(2.0)
        assert jax.grad(inside)(2.0) == 2.0
        np.testing.assert_array_equal(jax.vmap(jax.grad(inside))(VALUES), VALUES)
        assert jax.grad(jax.grad(inside))(2.0) == 0.0
        assert hloom.grad(still).as_jax(2.0)(2.0) == 2.0


def cube(x):
    return x**3


def test_without_arguments_it_takes_the_types_that_it_is_called_with():
    inside = hloom.function(cube).as_jax()
    assert jax.jit(jax.grad(inside))(2.0) == 12.0
    np.testing.assert_array_equal(jax.vmap(inside)(jnp.arange(3.0)), [0, 1, 8])
    assert inside(jnp.arange(3)).dtype == np.int32
    assert inside(np.float64(2.0)).dtype == np.float32  # jax makes that of it
    with jax.enable_x64(True):
        assert inside(np.float64(2.0)).dtype == np.float64
        assert (inside(2.0) * jnp.ones(2, np.float32)).dtype == np.float32  # as jax's own functions of numbers


def test_arguments_and_results_have_structure():
    def scaled(tree, times=2, *, name):
        return {name: tree["a"] * times, "name": name}

    inside = hloom.function(scaled).as_jax()
    assert inside({"a": 2.0}, name="b") == {"b": 4.0, "name": "b"}
    gradient = jax.grad(lambda tree, times: jnp.sum(inside(tree, times, name="b")["b"]), argnums=(0, 1))
    result = jax.jit(gradient)({"a": jnp.ones(3)}, 3.0)
    np.testing.assert_array_equal(result[0]["a"], [3.0, 3.0, 3.0])
    assert result[1] == 3.0


def test_derivatives_of_functions_and_functions_of_no_arguments():
    assert jax.jit(hloom.grad(cube).as_jax())(2.0) == 12.0
    np.testing.assert_array_equal(hloom.function(lambda: np.arange(3)).as_jax()(), [0, 1, 2])


def test_arrays_of_other_dimensions_than_the_examples_are_refused():
    inside = hloom.function(cube).as_jax(np.ones(3, np.float32))
    with pytest.raises(hloom.HloomError, match=r"takes an array of dimensions \(3,\), not \(4,\)"):
        inside(np.ones(4))
    with pytest.raises(hloom.HloomError, match="takes 1 arrays, not 2"):
        inside(np.ones(3), np.ones(3))


def test_types_of_64_bits_inside_stay_where_jax_has_none():
    def inside_of(x):
        return np.float64(x) * (1 << 40) / 3.0 - np.float64(x) * np.float64((1 << 40) // 3)

    inside = hloom.function(inside_of).as_jax()
    values = jnp.arange(1.0, 4.0)
    expected = [1 / 3, 2 / 3, 1.0]
    np.testing.assert_allclose(jax.vmap(inside)(values), expected, rtol=1e-3)
    np.testing.assert_allclose(jax.jit(jax.vmap(inside))(values), expected, rtol=1e-3)
    np.testing.assert_allclose(jax.vmap(jax.grad(inside))(values), [1 / 3] * 3, rtol=1e-3)


def positive_root(x):
    assert np.min(x) > 0, "negative"
    return np.sqrt(x)


def test_errors_are_raised_by_the_host():
    inside = hloom.function(positive_root).as_jax()
    np.testing.assert_allclose(jax.jit(jax.vmap(inside))(jnp.ones(3)), np.ones(3))
    for run in (inside, jax.vmap(inside), jax.jit(inside), jax.jit(jax.vmap(inside)), jax.grad(lambda x: inside(x)[0])):
        with pytest.raises((hloom.HloomError, jax.errors.JaxRuntimeError), match="negative"):
            jax.block_until_ready(run(jnp.array([1.0, -1.0])))
            jax.effects_barrier()
    ignoring = hloom.function(positive_root).as_jax(raise_errors=False)
    assert np.isnan(jax.jit(ignoring)(jnp.array([1.0, -1.0]))[1])


def test_recursion_that_is_deeper_than_its_stack_is_an_error():
    def deep(n):
        return 0.0 if n <= 0 else 1.0 + deep(n - 1)

    with pytest.raises((hloom.HloomError, jax.errors.JaxRuntimeError), match="recursion deeper than 1024 calls"):
        jax.block_until_ready(jax.jit(hloom.function(deep).as_jax())(3000.0))
        jax.effects_barrier()
    assert jax.jit(hloom.function(deep).as_jax(depth=4096))(3000.0) == 3000.0


def test_what_is_printed(capsys: pytest.CaptureFixture[str]):
    def shown(x):
        hloom.print_value(x, "x")
        return x

    inside = hloom.function(shown).as_jax()
    jax.block_until_ready(jax.jit(jax.vmap(inside))(jnp.arange(2.0)))
    jax.effects_barrier()
    assert sorted(capsys.readouterr().out.splitlines()) == ["x: 0.0", "x: 1.0"]


def test_a_result_whose_structure_depends_on_data_is_refused():
    def either(x):
        return "positive" if x > 0 else None

    with pytest.raises(hloom.HloomError, match="structure of the result"):
        hloom.function(either).as_jax()(1.0)
