"""Loops: trip counts known when they run, nested, in branches, with integers and flags, of no iteration at all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import DIFFERENCES, Table, complex_normal, declare, definite, normal, uniform

PROGRAMS: Table = {}


@declare(PROGRAMS, uniform(3, low=1.0, high=5.0), reference=DIFFERENCES)
def newton(a):
    unfinished = lambda s: jnp.max(jnp.abs(s[0] - s[1])) > 1e-13
    return lax.while_loop(unfinished, lambda s: (0.5 * (s[0] + a / s[0]), s[0]), (a, a + 1))[0]


@declare(PROGRAMS, np.array(0.7), np.array(0.4), reference=DIFFERENCES)
def kepler(mean, eccentricity):
    """The fixed point of E = M + e sin E, stopped by its residual or after 100 iterations."""

    def step(s):
        number, _, value = s
        after = mean + eccentricity * jnp.sin(value)
        return number + 1, jnp.abs(after - value) > 1e-12, after

    return lax.while_loop(lambda s: s[1] & (s[0] < 100), step, (0, True, mean))


@declare(PROGRAMS, normal(4), np.int32(0), reference=DIFFERENCES)
def no_iteration(x, count):
    return lax.fori_loop(0, count, lambda i, y: jnp.sin(y) * x, x)


@declare(PROGRAMS, normal(4), np.int32(-3), reference=DIFFERENCES)
def negative_trip_count(x, count):
    return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, s[1] * s[1]), (0, x))[1]


@declare(PROGRAMS, normal(4))
def no_iteration_known(x):
    return lax.fori_loop(3, 3, lambda i, y: jnp.sin(y), x)


@declare(PROGRAMS, uniform(3), np.int32(3), np.int32(4), reference=DIFFERENCES)
def nested_dynamic(x, outer, inner):
    def row(i, y):
        return lax.fori_loop(0, inner + i, lambda j, z: jnp.sin(z) * (1 + 0.1 * j) + 0.1 * x, y)

    return lax.fori_loop(0, outer, row, x)


@declare(PROGRAMS, uniform(3), np.int32(3), reference=DIFFERENCES)
def static_in_dynamic(x, count):
    return lax.fori_loop(0, count, lambda i, y: lax.fori_loop(0, 3, lambda j, z: jnp.cos(z) + x, y), x)


@declare(PROGRAMS, uniform(3), np.array([0, 2, 1, 4], np.int32), reference=DIFFERENCES)
def dynamic_in_static(x, counts):
    def row(y, count):
        after = lax.fori_loop(0, count, lambda j, z: jnp.cos(z) * x, y)
        return after, after.sum()

    return lax.scan(row, x, counts)


@declare(PROGRAMS, uniform(2), reference=DIFFERENCES)
def three_deep(x):
    def third(s):
        return s[0] + 1, s[1] * 0.9 + 0.01 * jnp.sin(s[1])

    def second(s):
        return s[0] + 1, lax.while_loop(lambda q: (q[0] < 2) & (q[1].sum() > 0.1), third, (0, s[1]))[1]

    def first(s):
        return s[0] + 1, lax.while_loop(lambda q: q[0] < 2 + s[0] % 2, second, (0, s[1]))[1] + 0.1 * x

    return lax.while_loop(lambda s: s[0] < 3, first, (0, x))[1]


@declare(PROGRAMS, uniform(3), np.int32(5), reference=DIFFERENCES)
def loop_in_branch(x, count):
    return lax.cond(count > 3, lambda y: lax.fori_loop(0, count, lambda i, z: jnp.sin(z) + y, y), lambda y: y * y, x)


@declare(PROGRAMS, uniform(3), np.int32(2), reference=DIFFERENCES)
def loop_in_branch_not_taken(x, count):
    return lax.cond(count > 3, lambda y: lax.fori_loop(0, count, lambda i, z: jnp.sin(z) + y, y), lambda y: y * y, x)


@declare(PROGRAMS, uniform(3), np.int32(7), reference=DIFFERENCES)
def branches_in_loop(x, count):
    branches = [lambda z: jnp.sin(z), lambda z: z * x, lambda z: lax.fori_loop(0, 2, lambda i, q: q * 0.9 + x, z)]
    return lax.fori_loop(0, count, lambda i, y: lax.switch(i % 3, branches, y), x)


@declare(PROGRAMS, uniform(3), np.int32(6), reference=DIFFERENCES)
def loop_in_branch_in_loop(x, count):
    def inner(z):
        return lax.while_loop(lambda s: s[0] < count // 2, lambda s: (s[0] + 1, jnp.tanh(s[1]) + x), (0, z))[1]

    return lax.fori_loop(0, count, lambda i, y: lax.cond(y.sum() > 2, inner, lambda z: z + 0.3, y), x)


@declare(PROGRAMS, uniform(5), np.int32(4), reference=DIFFERENCES)
def carried_index(x, count):
    """An integer of the state says where to read; it follows from the data."""

    def step(s):
        number, index, total = s
        following = (index * 3 + jnp.int32(x[index] * 10)) % 5
        return number + 1, following, total * x[index] + jnp.sin(x[following])

    return lax.while_loop(lambda s: s[0] < count, step, (0, 1, 1.0))


@declare(PROGRAMS, normal(4), np.int32(6), reference=DIFFERENCES)
def carried_flag(x, count):
    def step(s):
        number, is_even, y = s
        return number + 1, ~is_even, jnp.where(is_even, jnp.sin(y), y * x)

    return lax.while_loop(lambda s: s[0] < count, step, (0, True, x))[2]


@declare(PROGRAMS, np.array(1.3), np.array(0.6), np.int32(7), reference=DIFFERENCES)
def leaves_change_places(a, b, count):
    return lax.fori_loop(0, count, lambda i, s: (s[1], s[2], s[0] * s[1] * 0.7), (a, b, a - b))


@declare(PROGRAMS, uniform(3), np.int32(5), reference=DIFFERENCES)
def writes_rows(x, count):
    """The course of the state, row by row, in a buffer that is only written."""

    def step(i, s):
        y, rows = s
        after = jnp.sin(y) * x
        return after, rows.at[i].set(after)

    return lax.fori_loop(0, count, step, (x, jnp.zeros((8, 3))))[1]


@declare(PROGRAMS, uniform(8, 3), np.int32(6), reference=DIFFERENCES)
def reads_rows_backwards(rows, count):
    return lax.fori_loop(0, count, lambda i, y: jnp.tanh(y + rows[count - 1 - i]), jnp.zeros(3))


@declare(PROGRAMS, uniform(6), np.int32(4), reference=DIFFERENCES)
def reads_what_it_wrote(x, count):
    """Each row is made of two that were written before."""
    return lax.fori_loop(2, 2 + count, lambda i, y: y.at[i].set(y[i - 1] * y[i - 2] + x[i]), x)


@declare(PROGRAMS, uniform(6))
def reads_what_it_wrote_known(x):
    return lax.fori_loop(2, 6, lambda i, y: y.at[i].set(y[i - 1] * y[i - 2] + x[i]), x)


@declare(PROGRAMS, uniform(6))
def overlapping_slices(x):
    def step(i, s):
        return s + lax.dynamic_slice(x, (i,), (3,)) ** 2

    return lax.fori_loop(0, 4, step, jnp.zeros(3))


@declare(PROGRAMS, uniform(6))
def clamped_slices(x):
    """The last starts are outside, and clamped to the same."""

    def step(i, s):
        return s + lax.dynamic_slice(x, (i * 2,), (3,)) ** 2

    return lax.fori_loop(0, 5, step, jnp.zeros(3))


@declare(PROGRAMS, uniform(6, 2))
def counts_down_by_two(rows):
    state = (jnp.int32(5), jnp.ones(2))
    return lax.fori_loop(0, 3, lambda i, s: (s[0] - 2, jnp.sin(s[1]) * rows[s[0]]), state)[1]


@declare(PROGRAMS, complex_normal(3) * 0.3, np.int32(5), reference=DIFFERENCES)
def complex_state(c, count):
    z = lax.fori_loop(0, count, lambda i, z: z * z + c, jnp.zeros_like(c))
    return jnp.abs(z), z


@declare(PROGRAMS, np.array([0.2 + 0.1j, 0.4 - 0.3j, 1.0 + 1.0j]), reference=DIFFERENCES)
def mandelbrot(c):
    """Each number stops on its own: the others go on."""
    going = lambda s: (s[0] < 12) & jnp.any(jnp.abs(s[1]) < 2)
    step = lambda s: (s[0] + 1, jnp.where(jnp.abs(s[1]) < 2, s[1] * s[1] + c, s[1]))
    z = lax.while_loop(going, step, (0, jnp.zeros_like(c)))[1]
    return jnp.real(z) * jnp.imag(z)


@declare(PROGRAMS, np.array(1.7), np.array(0.3), reference=DIFFERENCES)
def adaptive_ode(rate, start):
    """y' = -rate y + sin t to t = 1, its steps chosen by the difference of Euler and Heun."""
    slope = lambda t, y: -rate * y + jnp.sin(t)

    def step(s):
        t, y, h = s
        d = jnp.minimum(h, 1 - t)
        first = slope(t, y)
        second = slope(t + d, y + d * first)
        heun = y + 0.5 * d * (first + second)
        error = jnp.abs(0.5 * d * (second - first)) + 1e-12
        accept = error < 1e-4
        grown = d * jnp.clip(lax.stop_gradient(jnp.sqrt(1e-4 / error)), 0.3, 2.0)
        return jnp.where(accept, t + d, t), jnp.where(accept, heun, y), grown

    return lax.while_loop(lambda s: s[0] < 1 - 1e-9, step, (0.0, start, 0.3))[1]


@declare(PROGRAMS, definite(4, seed=3), normal(4, seed=4), reference=DIFFERENCES, tolerance=1e-6)
def conjugate_gradient(a, b):
    def step(s):
        x, r, p, number = s
        ap = a @ p
        alpha = (r @ r) / (p @ ap)
        following = r - alpha * ap
        return x + alpha * p, following, following + p * (following @ following) / (r @ r), number + 1

    going = lambda s: (s[1] @ s[1] > 1e-10) & (s[3] < 20)
    return lax.while_loop(going, step, (jnp.zeros_like(b), b, b, 0))[0]


@declare(PROGRAMS, definite(4, seed=5), reference=DIFFERENCES, tolerance=1e-6)
def power_iteration(a):
    def step(s):
        v, _, number = s
        w = a @ v
        w = w / jnp.sqrt(w @ w)
        return w, jnp.max(jnp.abs(w - v)), number + 1

    v, _, _ = lax.while_loop(lambda s: (s[1] > 1e-9) & (s[2] < 300), step, (jnp.ones(4) / 2, 1.0, 0))
    return v @ a @ v, v


@declare(PROGRAMS, np.array([3.0, 0.5]), reference=DIFFERENCES)
def halving_until_small(x):
    """Each row of a batch has a trip count of its own."""
    one = lambda y: lax.while_loop(lambda s: s > 0.4, lambda s: s * 0.5 + 0.01 * y, y)
    return jax.vmap(one)(x)


@declare(PROGRAMS, uniform(3), np.int32(5), reference=DIFFERENCES)
def constant_in_state(x, count):
    """A leaf of the state is set to the same value in each iteration."""
    step = lambda s: (s[0] + 1, jnp.sin(s[1]) * s[2], jnp.ones(3) * 0.5)
    return lax.while_loop(lambda s: s[0] < count, step, (0, x, x))


@declare(PROGRAMS, uniform(3), np.int32(5), reference=DIFFERENCES)
def not_read_after_one(x, count):
    """The initial value of a leaf is read in the first iteration alone."""
    step = lambda s: (s[0] + 1, s[1] * s[2], jnp.cos(x))
    return lax.while_loop(lambda s: s[0] < count, step, (0, x, x * x))[1]


@declare(PROGRAMS, uniform(3), np.int32(9), reference=DIFFERENCES)
def guarded_logarithm(x, count):
    def step(i, y):
        positive = y > 0.3
        return jnp.where(positive, jnp.log(jnp.where(positive, y, 1.0)) + 1, y + 0.2 * x)

    return lax.fori_loop(0, count, step, x)


@declare(PROGRAMS, np.array([0.0, 1.0]), reference=DIFFERENCES)
def branch_not_taken_in_scan(x):
    """JAX's gradient is NaN: a zero times the infinite derivative of the branch not taken."""
    return lax.fori_loop(0, 3, lambda i, y: jnp.where(x > 0.5, jnp.log(x) + y, y * x), x)


@declare(PROGRAMS, uniform(3).astype(np.float64), np.int32(4), reference=DIFFERENCES, tolerance=1e-2, rounding=1e-6)
def mixed_precision(x, count):
    step = lambda i, s: (jnp.sin(s[1]).astype(jnp.float32), s[1] * s[0].astype(jnp.float64) + x)
    return lax.fori_loop(0, count, step, (x.astype(jnp.float32), x))[1]


@declare(PROGRAMS, uniform(3), np.uint32(7), reference=DIFFERENCES)
def random_walk(x, seed):
    """Random numbers drawn in the loop, until the sum is large enough."""

    def step(s):
        key, y = s
        key, own = jax.random.split(key)
        return key, y + x * jax.random.uniform(own, (3,), dtype=jnp.float64)

    return lax.while_loop(lambda s: s[1].sum() < 6, step, (jax.random.PRNGKey(seed), x))[1]


@declare(PROGRAMS, uniform(4, 3))
def reverse_scan(rows):
    return lax.scan(lambda c, r: (jnp.tanh(c * r), c.sum()), jnp.ones(3), rows, reverse=True)


@declare(PROGRAMS, uniform(6, 3))
def unrolled_scan(rows):
    return lax.scan(lambda c, r: (jnp.tanh(c * r), c * c), jnp.ones(3), rows, unroll=2)


@declare(PROGRAMS, uniform(3, 4, 2))
def nested_scan(rows):
    inner = lambda c, r: lax.scan(lambda d, q: (jnp.sin(d) * q, d), c, r)
    return lax.scan(inner, jnp.ones(2), rows)


@declare(PROGRAMS, uniform(5, 2))
def scan_with_remat(rows):
    return lax.scan(jax.checkpoint(lambda c, r: (jnp.sin(c) * r + c, jnp.cos(c))), jnp.ones(2), rows)


@declare(PROGRAMS, uniform(5), np.int32(3), reference=DIFFERENCES)
def scatter_in_loop(x, count):
    """A histogram with weights: the bins follow from the data."""

    def step(i, bins):
        return bins.at[jnp.int32(bins.sum() * 3) % 4].add(jnp.sin(x[i]) * bins[0])

    return lax.fori_loop(0, count, step, jnp.ones(4))


@declare(PROGRAMS, uniform(6), reference=DIFFERENCES)
def bubble_sort(x):
    def swap(j, y):
        a, b = y[j], y[j + 1]
        return y.at[j].set(jnp.minimum(a, b)).at[j + 1].set(jnp.maximum(a, b))

    going = lambda s: s[1]
    step = lambda s: (lambda after: (after, jnp.any(after != s[0])))(lax.fori_loop(0, 5, swap, s[0]))
    return lax.while_loop(going, step, (x, True))[0] * jnp.arange(6.0)


@declare(PROGRAMS, np.array([2.2, -1.4]), reference=DIFFERENCES)
def gradient_descent(x):
    """A loop over a gradient that JAX made."""
    objective = lambda y: jnp.sum((y - x) ** 2 + 0.1 * y**4)
    step = lambda s: (s[0] - 0.1 * jax.grad(objective)(s[0]), s[1] + 1)
    going = lambda s: (jnp.sum(jax.grad(objective)(s[0]) ** 2) > 1e-12) & (s[1] < 500)
    return lax.while_loop(going, step, (jnp.zeros(2), 0))[0]


@declare(PROGRAMS, np.array(2.5), np.array(0.4), reference=DIFFERENCES)
def float_counter(end, rate):
    """A loop that counts in floating point; its last step is cut to fit."""
    step = lambda s: (s[0] + 0.3, s[1] + jnp.minimum(0.3, end - s[0]) * jnp.exp(-rate * s[0]) * s[1])
    return lax.while_loop(lambda s: s[0] < end, step, (0.0, 1.0))[1]


@declare(PROGRAMS, uniform(2), np.int32(300), reference=DIFFERENCES)
def more_iterations_than_slots(x, count):
    return lax.fori_loop(0, count, lambda i, y: jnp.sin(y) + 0.1 * x, x)


@declare(PROGRAMS, uniform(3), np.int32(4), reference=DIFFERENCES)
def trees_in_state(x, count):
    def step(i, s):
        return {"a": (s["a"][1], jnp.sin(s["a"][0]) * s["b"]), "b": s["b"] + 0.1 * s["a"][0]}

    return lax.fori_loop(0, count, step, {"a": (x, x * x), "b": jnp.ones(3)})


@declare(PROGRAMS, uniform(3), np.int32(4), reference=DIFFERENCES)
def nothing_active_in_state(x, count):
    """The loop computes a number from integers alone; the result is scaled by it."""
    number = lax.fori_loop(0, count, lambda i, s: s * 2 + 1, jnp.int32(1))
    return x * number.astype(jnp.float64)


@declare(PROGRAMS, uniform(3), np.int32(3), reference=DIFFERENCES)
def inputs_of_two_loops(x, count):
    first = lax.fori_loop(0, count, lambda i, y: jnp.sin(y) + x, x)
    second = lax.fori_loop(0, count + 1, lambda i, y: jnp.cos(y) * first, x)
    return first * second, second


@declare(PROGRAMS, uniform(3))
def called_twice(x):
    function = jax.jit(lambda y, w: lax.fori_loop(0, 3, lambda i, z: jnp.sin(z * w), y) @ jnp.ones((3, 3)) + y)
    return function(function(x, x), jnp.cos(x))


@declare(PROGRAMS, uniform(5, 2))
def gradient_of_scan_with_remat(rows):
    """The gradient that JAX made computes the step again behind a barrier."""
    step = jax.checkpoint(lambda c, r: (jnp.sin(c) * jnp.exp(-r * c), jnp.cos(c) * r))
    return jax.grad(lambda r: sum(jnp.sum(leaf) for leaf in lax.scan(step, jnp.ones(2), r)))(rows)
