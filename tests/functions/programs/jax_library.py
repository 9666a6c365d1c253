"""Calls into `jax.numpy`, `jax.lax`, `jax.nn` and `jax.scipy`, with NumPy's values."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.functions.table import program

V = np.array([0.5, -1.5, 2.5])
M = np.array([[4.0, 1.0], [1.0, 3.0]])


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


@program((V,), reference=lambda x: (np.sum(np.sin(x)), np.where(x > 0, x, 0.0)))
def functions_of_jax_numpy(x):
    return jnp.sum(jnp.sin(x)), jnp.where(x > 0, x, 0.0)


@program((V,), reference=lambda x: (np.maximum(x, 0), softmax(x), 1 / (1 + np.exp(-x))))
def functions_of_jax_nn(x):
    return jax.nn.relu(x), jax.nn.softmax(x), jax.nn.sigmoid(x)


@program((V, 1), (V, 0), reference=lambda x, i: (x[i : i + 2], 1 / np.sqrt(x * x)))
def functions_of_lax(x, i):
    return lax.dynamic_slice(x, (i,), (2,)), lax.rsqrt(x * x)


@program((V,), reference=lambda x: (np.log(np.sum(np.exp(x))), np.array([math.erf(v) for v in x])))
def functions_of_jax_scipy(x):
    return jax.scipy.special.logsumexp(x), jax.scipy.special.erf(x)


@program((M, np.array([1.0, 2.0])), reference=lambda m, v: (np.linalg.solve(m, v), np.linalg.inv(m)))
def linear_algebra_of_jax(m, v):
    return jnp.linalg.solve(m, v), jnp.linalg.inv(m)


@program((3, V), (0, V), reference=lambda n, x: x * 2.0**n)
def control_flow_of_lax(n, x):
    return lax.fori_loop(0, n, lambda i, v: v * 2, x)


@program((V,), reference=lambda x: np.array([x[0] * 7, x[1], x[2]]))
def updates_of_jax_arrays(x):
    y = jnp.asarray(x)
    return y.at[0].multiply(7.0)


@program((np.arange(6.0).reshape(2, 3),), reference=lambda x: np.sum(x * x, axis=1))
def a_vectorised_function(x):
    return jax.vmap(lambda row: jnp.dot(row, row))(x)


@program((V, 2), (V, -2), reference=lambda x, n: float(np.sum(x * x)) if n > 0 else float(np.max(x)))
def jax_numpy_in_branches(x, n):
    if n > 0:
        return jnp.sum(x * x)
    return jnp.max(x)
