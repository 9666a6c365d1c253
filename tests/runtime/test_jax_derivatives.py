"""Derivatives of jax's public functions: those that jax gives, to second order, or a refusal.

Covers `runtime/derivative_rules.py`, `runtime/function_gradients.py`, `runtime/library_calls.py`.
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
from tests.runtime.derivatives_in_jax import assert_close, directions, first_in_jax, has_forward_mode, in_jax, scalar
from tests.runtime.jax_derivatives import NAMESPACES, NO_DERIVATIVE, QUICK, ROWS, Row

COMPILED = ("custom_jvp of two results", "jax.numpy.linalg.slogdet")
"""Functions that are compiled in `make test`, and must not be refused."""
FIRST_ORDER = ("linear_call", "linear_call, another transpose")
"""Whose second derivatives are refused: jax wants to see that the tangents of their residuals are zero."""
STEP = 1e-5
"""Of central differences, where jax has no derivative."""
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ROWS]


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
        if name in FIRST_ORDER:
            assert_close(name, first_in_jax(ours, row), expected[0])
            with pytest.raises(hloom.HloomError, match=r"linear_call of .* has no derivative"):
                in_jax(ours, row, has_tangents)
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


@jax.custom_jvp
def steep(x: Any) -> Any:
    """A rule that is no derivative of the program, so that one cannot be taken for the other."""
    return jnp.tanh(x)


@steep.defjvp
def _steep_tangents(primals: Any, tangents: Any) -> Any:
    return steep(primals[0]), tangents[0] * steep(primals[0]) * 7


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: lax.scan(lambda carry, _: (steep(carry), None), x, None, length=2)[0],
    "while_loop": lambda x: lax.while_loop(lambda s: s[1] < 2, lambda s: (steep(s[0]), s[1] + 1), (x, 0))[0],
    "checkpoint": lambda x: lax.scan(jax.checkpoint(lambda carry, _: (steep(carry), None)), x, None, length=2)[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_rule_in_a_loop_counts_in_every_order(name: str):
    ours = hloom.differentiable(LOOPS[name])
    unrolled = lambda x: steep(steep(x))  # noqa: E731  jax.grad of jax.grad of the scan forgets the rule
    np.testing.assert_allclose(jax.grad(ours)(0.7), jax.grad(unrolled)(0.7), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(jax.grad(ours))(0.7), jax.grad(jax.grad(unrolled))(0.7), rtol=1e-5)


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
