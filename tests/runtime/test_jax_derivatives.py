"""Derivatives of jax's public functions: those that jax gives, to second order, or a refusal.

Covers `runtime/derivative_rules.py`, `runtime/function_gradients.py`, `runtime/library_calls.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from tests.runtime.jax_derivatives import LESS_EXACT, NAMESPACES, NO_DERIVATIVE, QUICK, ROWS, Row

COMPILED = ("custom_jvp of two results", "jax.numpy.linalg.slogdet")
"""Functions that are compiled in `make test`, and must not be refused."""
STEP = 1e-5
"""Of central differences, where jax has no derivative."""
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ROWS]


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


def assert_close_to_differences(function: Callable[..., Any], row: Row, gradient: Any):
    ends = [
        jax.jit(function)(*(a + sign * STEP * d for a, d in zip(row.arrays, directions(row), strict=True)))
        for sign in (1, -1)
    ]
    slope = sum(np.vdot(g, d) for g, d in zip(gradient, directions(row), strict=True))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_whose_derivatives_hloom_makes(name: str):
    row = ROWS[name]
    function = scalar(row.function)
    ours = hloom.differentiable(function)
    with jax.enable_x64(True):
        has_tangents = has_forward_mode(function, row)
        try:
            expected = in_jax(function, row, has_tangents)
        except Exception:  # jax has no second derivative, or none at all
            try:
                first = first_in_jax(ours, row)
            except hloom.HloomError:
                return
            try:
                assert_close(name, first, first_in_jax(function, row))
            except (NotImplementedError, ValueError):
                assert_close_to_differences(function, row, first)
            return
        first, second, along = in_jax(ours, row, has_tangents)
        assert_close(name, first, expected[0])
        assert_close(name, second, expected[1])
        if has_tangents:
            assert_close(name, [along], [expected[2]])


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in COMPILED else pytest.mark.long) for name in ROWS
])  # fmt: skip
def test_a_function_that_hloom_compiles(name: str):
    row = ROWS[name]
    function = scalar(row.function)
    wrt = tuple(range(len(row.arrays)))
    with jax.enable_x64(True):
        try:
            expected = in_jax(function, row, has_tangents=False)
        except Exception:
            pytest.skip("jax has no second derivative")
        try:
            first, second = hloom.jvp(hloom.grad(function, wrt), row.arrays, directions(row))
        except hloom.HloomError:
            assert name not in COMPILED
            return
    assert_close(name, first, expected[0])
    assert_close(name, second, expected[1])


@pytest.mark.long
@pytest.mark.parametrize("name", ["custom_jvp of two results", "custom_vjp of two results", "jax.numpy.linalg.slogdet"])
def test_third_derivatives_and_batches(name: str):
    row = ROWS[name]
    function = scalar(row.function)
    ours = hloom.differentiable(function)

    def third(of: Callable[..., Any]) -> Any:
        gradient = jax.grad(of)
        for _ in range(2):
            gradient = jax.grad(lambda x, g=gradient: jnp.sum(g(x, *row.arrays[1:]) * directions(row)[0]))
            gradient = (lambda g: lambda x, *_: g(x))(gradient)
        return gradient(row.arrays[0])

    stacked = [np.stack([array, array * 1.01]) for array in row.arrays]
    with jax.enable_x64(True):
        assert_close(name, [third(ours)], [third(function)])
        assert_close(name, [jax.vmap(jax.grad(ours))(*stacked)], [jax.vmap(jax.grad(function))(*stacked)])


def test_every_public_function_is_in_the_table():
    missing = [
        f"{space}.{name}"
        for space, module in NAMESPACES.items()
        for name in dir(module)
        if not name.startswith("_")
        and (callable(getattr(module, name)) or space == "jax.scipy.stats")
        and not isinstance(getattr(module, name), type)
        and f"{space}.{name}" not in NO_DERIVATIVE
        and not any(row == f"{space}.{name}" or row.startswith(f"{space}.{name}.") for row in ROWS)
    ]
    assert missing == []


def test_what_is_found_by_bisection_is_refused():
    row = ROWS["jax.scipy.linalg.eigh_tridiagonal"]
    ours = hloom.differentiable(scalar(row.function))
    with jax.enable_x64(True):
        for derivative in (lambda: jax.grad(ours)(*row.arrays), lambda: jax.jvp(ours, row.arrays, row.arrays)):
            with pytest.raises(hloom.HloomError, match="this loop searches by bisection"):
                derivative()


@pytest.mark.parametrize("name", ["jax.numpy.linalg.solve", pytest.param("cg", marks=pytest.mark.long)])
def test_a_module_that_jax_lowered(name: str):
    row = ROWS[name]
    function = scalar(row.function)
    with jax.enable_x64(True):
        expected = first_in_jax(function, row)
        module = hloom.load(jax.jit(function).lower(*row.arrays).as_text("hlo").encode())
    assert_close(name, hloom.run(hloom.grad(module), list(row.arrays)).outputs, expected)
