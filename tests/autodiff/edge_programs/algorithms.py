"""Algorithms with sorts, factorizations, transforms and branches inside loops that end when the data say so."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import DIFFERENCES, Table, complex_normal, declare, definite, normal, uniform

PROGRAMS: Table = {}


@declare(PROGRAMS, np.array(2.3), np.array(0.4), reference=DIFFERENCES)
def newton_within_bisection(a, b):
    """Newton's step where it stays between the bounds, their middle where it does not."""
    f = lambda x: x**3 - a * x - b

    def step(s):
        low, high, x, number = s
        following = x - f(x) / (3 * x * x - a)
        following = jnp.where((following > low) & (following < high), following, 0.5 * (low + high))
        is_low = f(following) < 0
        return jnp.where(is_low, following, low), jnp.where(is_low, high, following), following, number + 1

    going = lambda s: (jnp.abs(f(s[2])) > 1e-13) & (s[3] < 60)
    return lax.while_loop(going, step, (jnp.float64(1), jnp.float64(4), jnp.float64(3.9), 0))[2]


@declare(PROGRAMS, normal(9), np.int32(5), reference=DIFFERENCES)
def sorts_until_large(x, count):
    def step(s):
        number, y = s
        ordered = jnp.sort(y)
        return number + 1, 0.5 * ordered[::-1] + jnp.sin(y) * ordered

    return lax.while_loop(lambda s: (s[0] < count) & (jnp.abs(s[1]).max() < 5), step, (0, x))[1]


@declare(PROGRAMS, normal(6), np.int32(4), reference=DIFFERENCES)
def largest_in_loop(x, count):
    def step(i, y):
        values, index = lax.top_k(y, 3)
        return y.at[index].add(-0.5 * values) * 1.1 + jnp.roll(y, 1) * 0.1

    return lax.fori_loop(0, count, step, x)


@declare(PROGRAMS, uniform(4), np.int32(3), np.bool_(True), reference=DIFFERENCES)
def branches_and_loops_in_turn(x, count, flag):
    """A loop in a branch in a loop in a branch in a loop, with integers and flags in all states."""

    def outer(s):
        i, y, flag, number = s

        def taken(given):
            y, number = given

            def inner(q):
                j, z, number = q
                short = lambda z: lax.while_loop(lambda p: p[0] < j, lambda p: (p[0] + 1, p[1] * 0.8 + 0.1 * x), (0, z))[1]
                z = lax.cond((j + number) % 2 == 0, lambda z: jnp.sin(z) * x, short, z)
                return j + 1, z, number + 2

            _, y, number = lax.while_loop(lambda q: q[0] < i + 1, inner, (0, y, number))
            return y, number

        y, number = lax.cond(flag, taken, lambda given: (jnp.exp(-given[0]) + x, given[1] + 1), (y, number))
        return i + 1, y, ~flag, number

    return lax.while_loop(lambda s: s[0] < count + 1, outer, (0, x, flag, jnp.int32(1)))[1::2]


@declare(PROGRAMS, uniform(4), reference=DIFFERENCES)
def branch_numbers_out_of_bounds(x):
    branches = [lambda y: jnp.sin(y), lambda y: y * x, lambda y: jnp.exp(-y)]
    return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, lax.switch(s[0], branches, s[1])), (jnp.int32(-2), x))[1]


@declare(PROGRAMS, complex_normal(3) * 0.5, np.int32(9), reference=DIFFERENCES)
def complex_stack(z, count):
    """Complex numbers pushed twice for each that is popped."""

    def step(s):
        i, top, stack, total = s
        is_push = (i % 3) != 2
        value = jnp.sin(stack[jnp.maximum(top - 1, 0)]) * z + 0.3j * total.sum()
        pushed = jnp.where(is_push, lax.dynamic_update_slice(stack, value[None], (top, 0)), stack)
        popped = stack[jnp.maximum(top - 1, 0)]
        total = jnp.where(is_push, total, total + popped * jnp.conj(z))
        return i + 1, jnp.where(is_push, top + 1, jnp.maximum(top - 1, 0)), pushed, total

    stack = jnp.zeros((8, 3), complex).at[0].set(z)
    return lax.while_loop(lambda s: s[0] < count, step, (0, 1, stack, jnp.zeros(3, complex)))[2:]


@declare(PROGRAMS, uniform(15), reference=DIFFERENCES)
def tree_in_order(values):
    """A binary tree of 15 nodes, left before right, with a stack of ancestors."""

    def down(s):
        node, depth, stack, total, number = s
        return 2 * node + 1, depth + 1, stack.at[depth].set(node), total, number

    def visit(s):
        _, depth, stack, total, number = s
        node = stack[depth - 1]
        return 2 * node + 2, depth - 1, stack, jnp.tanh(total * values[node] + 0.1 * number), number + 1

    step = lambda s: lax.cond(s[0] < 15, down, visit, s)
    init = (jnp.int32(0), jnp.int32(0), jnp.zeros(8, jnp.int32), jnp.float64(0.5), jnp.int32(0))
    return lax.while_loop(lambda s: (s[0] < 15) | (s[1] > 0), step, init)[3]


@declare(PROGRAMS, uniform(12), reference=DIFFERENCES)
def merge_sort(x):
    size = 12

    def merged(a, low, middle, high):
        def step(s):
            i, j, k, out = s
            left, right = a[jnp.minimum(i, size - 1)], a[jnp.minimum(j, size - 1)]
            is_left = (i < middle) & ((j >= high) | (left <= right))
            out = out.at[k].set(jnp.where(is_left, left, right))
            return jnp.where(is_left, i + 1, i), jnp.where(is_left, j, j + 1), k + 1, out

        return lax.while_loop(lambda s: s[2] < high, step, (low, middle, low, a))[3]

    def widened(s):
        width, a = s

        def pair(q):
            low, a = q
            return low + 2 * width, merged(a, low, jnp.minimum(low + width, size), jnp.minimum(low + 2 * width, size))

        return 2 * width, lax.while_loop(lambda q: q[0] < size, pair, (0, a))[1]

    return lax.while_loop(lambda s: s[0] < size, widened, (1, x))[1] * jnp.arange(12.0)


@declare(PROGRAMS, uniform(5, 5), reference=DIFFERENCES)
def shortest_paths(weights):
    """Dijkstra's algorithm from the first node, and Floyd and Warshall's between all."""

    def visit(s):
        distance, seen = s
        node = jnp.argmin(jnp.where(seen, jnp.inf, distance))
        return jnp.minimum(distance, distance[node] + weights[node]), seen.at[node].set(True)

    start = jnp.full(5, jnp.inf).at[0].set(0.0), jnp.zeros(5, bool)
    from_first = lax.while_loop(lambda s: ~jnp.all(s[1]), visit, start)[0]
    return from_first, lax.fori_loop(0, 5, lambda k, m: jnp.minimum(m, m[:, k, None] + m[k]), weights)


@declare(PROGRAMS, uniform(6, 2), np.int32(3), reference=DIFFERENCES)
def nearest_means(points, count):
    def step(i, means):
        nearest = jnp.argmin(((points[:, None] - means) ** 2).sum(-1), 1)
        sums, sizes = (jax.ops.segment_sum(values, nearest, 2) for values in (points, jnp.ones(6)))
        return sums / jnp.maximum(sizes, 1)[:, None]

    return lax.fori_loop(0, count, step, points[:2])


@declare(PROGRAMS, complex_normal(2, 2) * 0.3, reference=DIFFERENCES)
def exponential_by_squaring(a):
    """The trip counts of three loops follow from norms."""
    size = lambda m: jnp.abs(m).sum(0).max()
    halvings, scaled = lax.while_loop(lambda s: size(s[1]) > 0.25, lambda s: (s[0] + 1, s[1] / 2), (0, a * 4))

    def term(s):
        number, power, total = s
        power = power @ scaled / number
        return number + 1, power, total + power

    one = jnp.eye(2, dtype=complex)
    total = lax.while_loop(lambda s: jnp.abs(s[1]).max() > 1e-17, term, (jnp.float64(1), one, one))[2]
    return lax.fori_loop(0, halvings, lambda i, m: m @ m, total)


@declare(PROGRAMS, definite(3, seed=7), reference=DIFFERENCES, tolerance=1e-6)
def roots_by_eigenvalues(a):
    def step(s):
        values, vectors = jnp.linalg.eigh(s[0])
        return (vectors * jnp.sqrt(values)) @ vectors.T + 0.1 * s[0], s[1] + 1

    going = lambda s: (jnp.linalg.norm(s[0] - jnp.eye(3)) > 0.5) & (s[1] < 8)
    return lax.while_loop(going, step, (a, 0))[0]


@declare(PROGRAMS, complex_normal(3, 3) * 0.3, reference=DIFFERENCES, tolerance=1e-6)
def singular_values_in_loop(a):
    def step(i, m):
        u, s, v = jnp.linalg.svd(m, full_matrices=False)
        return (u * jnp.tanh(s)) @ v + 0.2 * m.conj().T

    return lax.fori_loop(0, 3, step, a + jnp.eye(3))


@declare(PROGRAMS, normal(16), np.int32(3), reference=DIFFERENCES)
def transforms_in_loop(x, count):
    def step(s):
        spectrum = jnp.fft.fft(s[1])
        return s[0] + 1, jnp.fft.ifft(spectrum * jnp.exp(-0.1 * jnp.abs(spectrum))) + 0.1j * s[1]

    return lax.while_loop(lambda s: s[0] < count, step, (0, x + 0j))[1]


@declare(PROGRAMS, normal(4, 2, 6, 7), normal(2, 2, 3, 2, seed=1))
def convolution_of_batches_with_gaps(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (2, 1), ((2, -1), (0, 3)), lhs_dilation=(1, 2), rhs_dilation=(2, 1), batch_group_count=2
    )


@declare(PROGRAMS, normal(2, 9, 9), reference=DIFFERENCES)
def maxima_of_padded_windows(x):
    """Windows that begin at a number which may be the largest."""
    return (
        lax.reduce_window(x, -1.0, lax.max, (1, 4, 1), (1, 4, 1), "SAME"),
        lax.reduce_window(x, 0.3, lax.min, (1, 2, 3), (1, 2, 2), ((0, 0), (1, 0), (2, 1)), None, (1, 2, 2)),
    )
