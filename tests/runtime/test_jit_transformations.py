"""`jit` under jax's transformations gives what `jax.jit` gives, and derivatives' programs are rewritten, too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hloom.runtime.jit_rewrite import jit
from tests.runtime.changes import everything, sine_to_cosine

X = jnp.arange(6.0).reshape(2, 3) / 6 + 0.1
STACK = jnp.stack([X, X + 1, X - 1])


@jax.custom_vjp
def with_own_vjp(x):
    return jnp.sin(x)


with_own_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * 100 * x,))


@jax.custom_jvp
def with_own_jvp(x):
    return jnp.sin(x)


with_own_jvp.defjvp(lambda primals, tangents: (with_own_jvp(*primals), tangents[0] * 7 * primals[0]))

FUNCTIONS = {
    "elementwise": jnp.sin,
    "own vjp": with_own_vjp,
    "own jvp": with_own_jvp,
    "scan": lambda x: lax.scan(lambda c, r: (c + jnp.sin(r), c * r), x[0], x)[1],
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "dot": lambda x: jnp.tanh(x @ x.T),
}


def total(function):
    return lambda x: (function(x) * x.sum()).sum()


TRANSFORMATIONS = {
    "grad": lambda f: jax.grad(f)(X),
    "grad under jit": lambda f: jax.jit(jax.grad(f))(X),
    "value and grad": lambda f: jax.value_and_grad(f)(X),
    "vmap": lambda f: jax.vmap(f)(STACK),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(STACK),
    "grad of vmap": lambda f: jax.grad(lambda x: jax.vmap(f)(x).sum())(STACK),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(X),
    "checkpoint by policy": lambda f: jax.grad(
        jax.checkpoint(lambda x: jnp.sin(f(x)), policy=jax.checkpoint_policies.dots_saveable)
    )(X),
    "grad of scan": lambda f: jax.grad(
        lambda x: lax.scan(lambda c, _: (c + c * f(c) * 1e-3, None), x, None, length=3)[0].sum()
    )(X),
    "jvp": lambda f: jax.jvp(f, (X,), (X * 2,)),
    "linearize": lambda f: jax.linearize(f, X)[1](X),
    "forward over reverse": lambda f: jax.hessian(f)(X),
    "reverse over reverse": lambda f: jax.grad(lambda x: jax.grad(f)(x).sum())(X),
}
FORWARD = ("jvp", "linearize", "forward over reverse")
"""What jax refuses for functions with a vjp of their own."""


IN_ALL = ("scan",)
"""Functions that are tried in all transformations; the others are tried in FEW, and in all by `make test-long`."""
FEW = ("grad", "vmap of grad", "checkpoint", "jvp")


@pytest.mark.parametrize(
    ("name", "transformation"),
    [
        pytest.param(name, transformation, marks=[] if name in IN_ALL or transformation in FEW else pytest.mark.long)
        for name in FUNCTIONS
        for transformation in TRANSFORMATIONS
    ],
)
def test_like_jax_jit(name, transformation):
    if name == "own vjp" and transformation in FORWARD:
        pytest.skip("jax has no forward mode for it")
    function, transform = total(FUNCTIONS[name]), TRANSFORMATIONS[transformation]
    ours, theirs = transform(jit(function, everything)), transform(jax.jit(function))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), ours, theirs)


def test_a_derivatives_own_program_is_rewritten():
    """The derivative is that of the function as it was written; what is rewritten is the program that computes it."""
    changed = jit(lambda x: -jnp.cos(x).sum(), sine_to_cosine)
    np.testing.assert_allclose(jax.grad(changed)(X), jnp.cos(X), rtol=1e-5)
    whole = jit(jax.grad(lambda x: -jnp.cos(x).sum()), sine_to_cosine)
    np.testing.assert_allclose(whole(X), jnp.cos(X), rtol=1e-5)


def test_inside_other_functions():
    changed = jit(jnp.sin, sine_to_cosine)
    np.testing.assert_allclose(jax.jit(changed)(X), jnp.cos(X), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(changed)(X), jnp.cos(X), rtol=1e-5)
    np.testing.assert_allclose(lax.map(changed, X), jnp.cos(X), rtol=1e-5)
    np.testing.assert_allclose(lax.cond(True, changed, jnp.sin, X), jnp.cos(X), rtol=1e-5)
    np.testing.assert_allclose(lax.fori_loop(0, 2, lambda _, x: changed(x), X), jnp.cos(jnp.cos(X)), rtol=1e-5)


def test_named_axes_of_vmap():
    changed = jit(lambda x: lax.psum(jnp.sin(x), "rows"), sine_to_cosine)
    result = jax.vmap(changed, axis_name="rows")(X)
    np.testing.assert_allclose(result, jnp.stack([jnp.cos(X).sum(0)] * 2), rtol=1e-5)


def test_captured_values_of_an_outer_function():
    gradient = jax.grad(lambda scale: jit(lambda x: (x * scale).sum(), everything)(X))(2.0)
    np.testing.assert_allclose(gradient, X.sum(), rtol=1e-5)


def test_integer_inputs_and_auxiliary_results():
    def function(x, rows):
        return (x[rows] ** 2).sum(), {"rows": rows}

    ours = jax.value_and_grad(jit(function, everything), has_aux=True)(X, jnp.array([0, 1]))
    theirs = jax.value_and_grad(function, has_aux=True)(X, jnp.array([0, 1]))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), ours, theirs)
