"""Functions of jax that take functions, given closures over data; jax.numpy, jax.lax, jax.nn, jax.tree in programs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.functions.table import program

X = np.array([1.0, -2.0, 0.5, 3.0])


@program((X, 2.0), reference=lambda x, k: np.array([3.0, -3.0, 2.0, 7.0]))
def vmap_of_a_closure(x, k):
    return jax.vmap(lambda v: v * k + 1 if v.ndim == 0 and k > 100 else v * 2 + 1 if k > 1 else v)(x)


@program((np.arange(6.0).reshape(2, 3), 2.0), reference=lambda m, k: m.sum(axis=1) * k)
def vmap_over_rows(m, k):
    return jax.vmap(lambda row: jnp.sum(row) * k)(m)


@program((np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])), reference=lambda m, v: m @ v)
def vmap_with_in_axes(m, v):
    return jax.vmap(lambda row, w: jnp.dot(row, w), in_axes=(0, None))(m, v)


@program((X, 0.5), reference=lambda x, k: (x * k, float(np.sum(x * k))))
def scan_with_a_carry_and_outputs(x, k):
    def step(total, v):
        return total + v * k, v * k

    total, out = lax.scan(step, 0.0, x)
    return out, total


@program((X, 0.5), reference=lambda x, k: np.where(x > k, x, 0.0))
def lax_map_of_a_closure(x, k):
    return lax.map(lambda v: jnp.where(v > k, v, 0.0), x)


@program((np.array([1.0, 2.0, 3.0, 4.0]),), reference=np.cumsum)
def an_associative_scan(x):
    return lax.associative_scan(jnp.add, x)


@program((np.array([1.0, 2.0, 3.0, 4.0]), 2.0), reference=lambda x, k: np.cumsum(x * k))
def an_associative_scan_of_a_lambda(x, k):
    return lax.associative_scan(lambda a, b: a + b, x * k)


@program((3.0, 2), reference=lambda x, n: 2 * x * n)
def jax_grad_inside(x, n):
    return jax.grad(lambda v: v * v * n)(x)


@program((3.0,), reference=lambda x: (9.0, 6.0))
def jax_value_and_grad_inside(x):
    return jax.value_and_grad(lambda v: v * v)(x)


@program((3.0, 2.0), reference=lambda x, k: x * x * k)
def jax_jit_of_a_closure(x, k):
    return jax.jit(lambda v: v * v * k)(x)


@program((3.0, 2.0), reference=lambda x, k: x * x * k)
def jax_jit_as_a_decorator(x, k):
    @jax.jit
    def f(v):
        return v * v * k

    return f(x)


@program((0.5, 2.0), reference=lambda x, k: np.sin(k * x))
def jax_checkpoint_of_a_closure(x, k):
    f = jax.checkpoint(lambda v: jnp.sin(v * k))
    return f(x)


@program((X, 2.0), reference=lambda x, k: np.maximum(x, k) - x)
def jnp_vectorize_of_a_closure(x, k):
    f = jnp.vectorize(lambda a, b: jnp.maximum(a, b) - a)
    return f(x, k)


@program((3, 2.0), (0, 2.0), reference=lambda n, x: x * 2.0**n)
def fori_loop_with_a_closure(n, x):
    return lax.fori_loop(0, n, lambda i, v: v * 2.0, x)


@program((100.0, 3.0), reference=lambda limit, k: 243.0)
def while_loop_with_a_closure(limit, k):
    return lax.while_loop(lambda v: v < limit, lambda v: v * k, 1.0)


@program((2.0, 1), (2.0, 0), reference=lambda x, n: x * 3.0 if n else x - 1.0)
def cond_with_closures(x, n):
    return lax.cond(n > 0, lambda v: v * 3.0, lambda v: v - 1.0, x)


@program((2.0, 0), (2.0, 2), reference=lambda x, i: (x + 1, x * x, x / 2)[i])
def switch_with_closures(x, i):
    return lax.switch(i, [lambda v: v + 1, lambda v: v * v, lambda v: v / 2], x)


@program(({"a": 1.0, "b": (2.0, 3.0)}, 10.0), reference=lambda t, k: {"a": 10.0, "b": (20.0, 30.0)})
def tree_map_of_a_closure(tree, k):
    return jax.tree.map(lambda v: v * k, tree)


@program(({"a": 1.0, "b": (2.0, 3.0)}, {"a": 0.5, "b": (1.0, 1.0)}), reference=lambda t, g: {"a": 0.95, "b": (1.9, 2.9)})
def tree_map_of_two_trees(tree, gradient):
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, tree, gradient)


@program(({"a": 1.0, "b": (2.0, 3.0)},), reference=lambda t: (6.0, 3))
def tree_leaves_and_reduce(tree):
    leaves = jax.tree.leaves(tree)
    return sum(leaves), len(leaves)


@program((X,), reference=lambda x: np.exp(x) / np.sum(np.exp(x)))
def functions_of_nn(x):
    return jax.nn.softmax(x) + 0 * jax.nn.relu(x) + 0 * jax.nn.gelu(x) + 0 * jax.nn.sigmoid(x)


@program((X,), reference=lambda x: [np.sort(x)[::-1][:2], np.array([3, 0], np.int32)])
def top_k(x):
    return lax.top_k(x, 2)


@program((X, 1), (X, 2), reference=lambda x, i: x[i : i + 2])
def dynamic_slices_of_lax(x, i):
    return lax.dynamic_slice(x, (i,), (2,))


@program((X, 2), reference=lambda x, i: np.array([1.0, -2.0, 9.0, 3.0]))
def updates_at_an_index(x, i):
    return jnp.asarray(x).at[i].set(9.0)


@program((X,), reference=lambda x: (np.max(x), float(np.sum(x))))
def reductions_of_lax(x):
    return lax.reduce_max(x, (0,)), functools.reduce(lambda a, b: a + b, list(x))


@program((np.array([0, 1, 1, 2]), X), reference=lambda i, x: np.array([1.0, -1.5, 3.0]))
def segment_sums(i, x):
    return jax.ops.segment_sum(x, i, num_segments=3)


@program((X, 2.0), reference=lambda x, k: x * k)
def a_stop_gradient(x, k):
    return lax.stop_gradient(x) * k


@program((0.5,), reference=lambda x: (0.25, 3.0))
def jax_jvp_inside(x):
    return jax.jvp(lambda v: v * v, (x,), (3.0,))


@program((np.array([1.0, 2.0]),), reference=lambda x: (np.diag(2 * x), np.array([[2.0, 0.0], [0.0, 2.0]])))
def jax_jacobians_inside(x):
    return jax.jacobian(lambda v: v * v)(x), jax.hessian(lambda v: jnp.sum(v * v))(x)


@program((7, 3), reference=lambda seed, n: True)
def jax_random_with_a_key(seed, n):
    x = jax.random.uniform(jax.random.key(seed), (3,))
    return jnp.all((x >= 0) & (x < 1))


@program((X, 1.5), reference=lambda x, k: np.where(x > 0, x * k, 0.0))
def a_custom_function_of_select(x, k):
    return lax.select(x > 0, x * k, jnp.zeros_like(x))


@program((np.float32([1.0, -2.0, 3.0]),), (-np.float32([1.0, -2.0, 3.0]),))
def a_reduction_by_a_function(x):
    largest = lax.reduce(x, jnp.asarray(-jnp.inf, x.dtype), lambda a, b: jnp.maximum(a, b), [0])
    rows = jnp.stack([x, 2 * x])
    return lax.reduce(x, jnp.zeros((), x.dtype), lambda a, b: a + b, (0,)), largest, lax.reduce(
        (rows, rows), (jnp.zeros((), x.dtype), jnp.ones((), x.dtype)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
    )
