"""Derivatives that differences do not give: custom_jvp and custom_vjp, stop_gradient, jax.nn at kinks, few bits."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import hloom
from tests.functions.table import program


@jax.custom_jvp
def tenfold_slope(x):
    return jnp.sin(x)


@tenfold_slope.defjvp
def _tenfold_slope_forward(primals, tangents):
    return tenfold_slope(*primals), 10.0 * tangents[0] * primals[0]


@jax.custom_vjp
def clipped(x, limit):
    return x * x


clipped.defvjp(
    lambda x, limit: (clipped(x, limit), (x, limit)),
    lambda kept, cotangent: (jnp.clip(2.0 * kept[0] * cotangent, -kept[1], kept[1]), None),
)


@program((0.5,), reference=lambda x: 10.0 * x)
def the_slope_of_a_custom_jvp(x):
    return hloom.grad(tenfold_slope)(x)


@program((0.5,), reference=lambda x: 10.0)
def the_second_derivative_of_a_custom_jvp(x):
    return hloom.grad(hloom.grad(tenfold_slope))(x)


@program((0.5,), reference=lambda x: (math.sin(x), 30.0 * x))
def the_tangent_of_a_custom_jvp(x):
    return hloom.jvp(tenfold_slope, (x,), (3.0,))


@program((0.5,), (2.0,), reference=lambda x: min(2.0 * x, 3.0))
def the_slope_of_a_custom_vjp(x):
    return hloom.grad(lambda y: clipped(y, 3.0))(x)


@program(
    (np.array([0.5, -4.0]), 1.5),
    reference=lambda x, limit: np.clip(2.0 * x, -limit, limit),
)
def a_custom_vjp_of_arrays(x, limit):
    return hloom.grad(lambda y: np.sum(clipped(y, limit)))(x)


@program((0.5,), refused="forward mode")
def the_tangent_of_a_custom_vjp(x):
    return hloom.jvp(lambda y: clipped(y, 3.0), (x,), (1.0,))  # refused


@program((0.5, 3), (0.5, 0), reference=lambda x, n: 10.0**n * x if n else 1.0)
def a_custom_jvp_in_a_loop(x, n):
    def repeated(y):
        for i in range(n):
            y = tenfold_slope(y) + y * 0.0 if i == 0 else y * 10.0
        return y

    return hloom.grad(repeated)(x)


@program((0.5,), (-0.5,), reference=lambda x: 10.0 * x if x > 0 else 2.0 * x)
def a_custom_jvp_in_a_branch(x):
    def chosen(y):
        return tenfold_slope(y) if y > 0 else y * y

    return hloom.grad(chosen)(x)


@program((2.0,), reference=lambda x: x)
def a_factor_that_stands_still(x):
    return hloom.grad(lambda y: y * lax.stop_gradient(y))(x)


@program((2.0, 3.0), reference=lambda x, y: (0.0, x * x))
def a_tree_that_stands_still(x, y):
    def loss(x, y):
        held = lax.stop_gradient({"square": x * x})
        return held["square"] * y

    return hloom.grad(loss, wrt=(0, 1))(x, y)


@program((0.0,), (1.0,), (-1.0,), reference=lambda x: (float(x > 0), 0.5 if x == 0 else 1 / (1 + math.exp(-x))))
def slopes_at_kinks(x):
    return hloom.grad(jax.nn.relu)(x), hloom.grad(jax.nn.softplus)(x)


@program((0.0,), (0.3,), reference=lambda x: 1 / (2 + math.exp(x) + math.exp(-x)))
def the_curvature_of_softplus(x):
    return hloom.grad(hloom.grad(jax.nn.softplus))(x)


@program(
    (np.array([0.0, 1.0, -2.0]),),
    reference=lambda x: np.array([0.0, 1.0, 0.0]) * 2 * np.array([0.0, 1.0, 0.0]),
)
def relu_of_arrays(x):
    return hloom.grad(lambda y: jnp.sum(jax.nn.relu(y) ** 2))(x)


@program(
    (np.array([0.1, 0.2, 0.3]), 2.0),
    reference=lambda a, k: np.array([k * k, k, 1.0]),
)
def a_scan_with_something_that_stands_still(a, k):
    def total(values):
        carry, _ = lax.scan(lambda c, x: (c * lax.stop_gradient(k) + x, None), 0.0, values)
        return carry

    return hloom.grad(total)(a)


@hloom.function
def halves(x):
    return x / 2.0 if x > 1.0 else x


@program((3.0,), reference=lambda x: np.array([1.5, 1.0]))
def a_compiled_function_over_a_batch(x):
    return jax.vmap(halves)(jnp.array([x, 1.0]))


@program((np.float32(2.5),), reference=lambda x: (np.float32(1), np.float32(0.25)))
def gradients_through_fewer_bits(x):
    return hloom.grad(lambda v: np.float16(v))(x), hloom.grad(lambda v: np.float16(v) * np.float16(0.25))(x)
