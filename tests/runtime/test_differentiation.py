"""`hloom.differentiable`: jax's transformations of functions whose derivatives hloom makes.

Covers `differentiation.py`, `api/differentiable.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
lax = jax.lax


@hloom.differentiable
def root(a):
    """Newton's iteration, until it no longer moves."""
    step = lambda state: (0.5 * (state[0] + a / state[0]), state[0])  # noqa: E731
    return lax.while_loop(lambda state: jnp.abs(state[0] - state[1]) > 1e-6 * state[0], step, (a, 0.0 * a))[0]


@hloom.differentiable(checkpoints=4)
def repeat(parameters, count):
    step = lambda i, y: jnp.sin(parameters["w"] @ y) + parameters["b"]  # noqa: E731
    return {"y": lax.fori_loop(0, count, step, parameters["b"]), "count": count}


PARAMETERS = {"w": jnp.eye(3) * 0.5 + 0.1, "b": jnp.arange(3.0)}


def loss(parameters):
    return (repeat(parameters, 7)["y"] ** 2).sum()


def unrolled(parameters):
    y = parameters["b"]
    for _ in range(7):
        y = jnp.sin(parameters["w"] @ y) + parameters["b"]
    return (y**2).sum()


def test_gradient_through_a_while_loop():
    assert jax.grad(root)(4.0) == pytest.approx(0.25, rel=1e-5)
    assert jax.jit(jax.grad(root))(9.0) == pytest.approx(1 / 6, rel=1e-5)


def test_forward_mode():
    value, tangent = jax.jvp(root, (4.0,), (2.0,))
    assert (float(value), float(tangent)) == (pytest.approx(2.0), pytest.approx(0.5, rel=1e-5))


def test_second_order():
    assert jax.grad(jax.grad(root))(4.0) == pytest.approx(-0.25 * 4**-1.5, rel=1e-4)
    assert jax.hessian(root)(4.0) == pytest.approx(-0.25 * 4**-1.5, rel=1e-4)


def test_batches():
    values = jnp.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(jax.vmap(root)(values), [1, 2, 3], rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(root))(values), [1 / 2, 1 / 4, 1 / 6], rtol=1e-4)
    np.testing.assert_allclose(jax.grad(lambda x: jax.vmap(root)(x).sum())(values), [1 / 2, 1 / 4, 1 / 6], rtol=1e-4)


def test_trees_and_integers():
    value, gradient = jax.value_and_grad(loss)(PARAMETERS)
    wanted_value, wanted = jax.value_and_grad(unrolled)(PARAMETERS)
    np.testing.assert_allclose(value, wanted_value, rtol=1e-5)
    for name in PARAMETERS:
        np.testing.assert_allclose(gradient[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_inside_a_larger_program():
    def whole(function, parameters):
        step = lambda carry, _: (carry + 1e-3 * function(parameters) * carry, None)  # noqa: E731
        return lax.scan(step, 1.0, None, length=3)[0]

    gradient = jax.jit(jax.grad(lambda p: whole(loss, p)))(PARAMETERS)
    wanted = jax.grad(lambda p: whole(unrolled, p))(PARAMETERS)
    np.testing.assert_allclose(gradient["w"], wanted["w"], rtol=1e-4, atol=1e-6)
    again = jax.grad(jax.checkpoint(loss))(PARAMETERS)
    np.testing.assert_allclose(again["b"], jax.grad(unrolled)(PARAMETERS)["b"], rtol=1e-4)


def test_what_is_not_a_function_is_refused():
    with pytest.raises(hloom.HloomError, match="a int cannot be differentiated: a function can"):
        hloom.differentiable(3)  # pyright: ignore[reportArgumentType]
