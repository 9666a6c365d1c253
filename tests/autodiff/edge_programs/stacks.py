"""Recursion written as a loop over an explicit stack."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import DIFFERENCES, Table, declare, uniform

PROGRAMS: Table = {}


@declare(PROGRAMS, np.array(3.0), np.array(0.2), reference=DIFFERENCES, tolerance=1e-6)
def adaptive_quadrature(power, start):
    """Simpson's rule on halves, until both halves agree with the whole."""
    f = lambda t: jnp.sin(power * t) * jnp.exp(-t)
    simpson = lambda a, b: (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    def step(s):
        low, high, depth, total = s
        a, b = low[depth - 1], high[depth - 1]
        middle = (a + b) / 2
        halves = simpson(a, middle) + simpson(middle, b)
        accept = (jnp.abs(halves - simpson(a, b)) < 1e-4) | (depth > 30)
        split_low = low.at[depth - 1].set(middle).at[depth].set(a)
        split_high = high.at[depth - 1].set(b).at[depth].set(middle)
        return (
            jnp.where(accept, low, split_low),
            jnp.where(accept, high, split_high),
            jnp.where(accept, depth - 1, depth + 1),
            total + jnp.where(accept, halves, 0.0),
        )

    stack = jnp.zeros(32)
    init = (stack.at[0].set(start), stack.at[0].set(2.0), jnp.int32(1), 0.0)
    return lax.while_loop(lambda s: s[2] > 0, step, init)[3]


@declare(PROGRAMS, np.array([1.2, 0.7]), np.int32(6), reference=DIFFERENCES)
def fibonacci(x, number):
    """f(n) = f(n - 1) g(n) + f(n - 2), by a stack of calls that are still to be made, their weights beside them."""

    def step(s):
        stack, weights, depth, total = s
        n, weight = stack[depth - 1], weights[depth - 1]
        is_leaf = n < 2
        pushed = stack.at[depth - 1].set(n - 1).at[depth].set(n - 2)
        scaled = weights.at[depth - 1].set(weight * jnp.sin(x[0] * n)).at[depth].set(weight)
        return (
            jnp.where(is_leaf, stack, pushed),
            jnp.where(is_leaf, weights, scaled),
            jnp.where(is_leaf, depth - 1, depth + 1),
            total + jnp.where(is_leaf, weight * x[jnp.clip(n, 0, 1)], 0.0),
        )

    stack = jnp.zeros(16, jnp.int32).at[0].set(number)
    return lax.while_loop(lambda s: s[2] > 0, step, (stack, jnp.ones(16), jnp.int32(1), 0.0))[3]


@declare(PROGRAMS, uniform(7), np.array([1, 3, 5, -1, -1, -1, -1], np.int32), np.array([2, 4, 6, -1, -1, -1, -1], np.int32),
         reference=DIFFERENCES)  # fmt: skip
def tree_walk(values, left, right):
    """The sum over a tree of products from the root down, depth first."""

    def step(s):
        stack, products, depth, total = s
        node, product = stack[depth - 1], products[depth - 1] * jnp.sin(values[stack[depth - 1]])
        depth = depth - 1

        def push(child, state):
            stack, products, depth = state
            there = child >= 0
            stack = jnp.where(there, stack.at[depth].set(child), stack)
            products = jnp.where(there, products.at[depth].set(product), products)
            return stack, products, depth + there.astype(jnp.int32)

        stack, products, depth = push(right[node], push(left[node], (stack, products, depth)))
        return stack, products, depth, total + product

    init = (jnp.zeros(16, jnp.int32), jnp.ones(16), jnp.int32(1), 0.0)
    return lax.while_loop(lambda s: s[2] > 0, step, init)[3]


@declare(PROGRAMS, uniform(8, seed=3), reference=DIFFERENCES)
def quicksort(x):
    """Ranges that are still to be sorted on a stack; partitions by a loop over the range."""

    def partition(values, low, high):
        pivot = values[high]

        def move(j, s):
            values, i = s
            smaller = values[j] < pivot
            swapped = values.at[i].set(values[j]).at[j].set(values[i])
            return jnp.where(smaller, swapped, values), i + smaller.astype(jnp.int32)

        values, i = lax.fori_loop(low, high, move, (values, low))
        return values.at[i].set(values[high]).at[high].set(values[i]), i

    def step(s):
        values, stack, depth = s
        low, high = stack[depth - 1]

        def split(values):
            values, i = partition(values, low, high)
            pushed = stack.at[depth - 1].set(jnp.stack([low, i - 1])).at[depth].set(jnp.stack([i + 1, high]))
            return values, pushed, depth + 1

        return lax.cond(low < high, split, lambda values: (values, stack, depth - 1), values)

    stack = jnp.zeros((32, 2), jnp.int32).at[0].set(jnp.array([0, 7], jnp.int32))
    return lax.while_loop(lambda s: s[2] > 0, step, (x, stack, jnp.int32(1)))[0] * jnp.arange(8.0)


@declare(PROGRAMS, np.array([2.0, 3.0, 0.5]), np.array([0, 1, 5, 2, 3, 4, -1, -1], np.int32), reference=DIFFERENCES)
def postfix_expression(x, program):
    """An interpreter with a stack: 0 to 2 push a variable, 3 adds, 4 multiplies, 5 takes a sine, -1 does nothing."""

    def step(counter, s):
        stack, depth = s
        op = program[counter]
        top, below = stack[depth - 1], stack[depth - 2]
        branches = [
            lambda: (stack.at[depth].set(x[jnp.clip(op, 0, 2)]), depth + 1),
            lambda: (stack.at[depth - 2].set(below + top), depth - 1),
            lambda: (stack.at[depth - 2].set(below * top), depth - 1),
            lambda: (stack.at[depth - 1].set(jnp.sin(top)), depth),
            lambda: (stack, depth),
        ]
        return lax.switch(jnp.where(op < 0, 4, jnp.maximum(op - 2, 0)), branches)

    stack, depth = lax.fori_loop(0, program.shape[0], step, (jnp.zeros(8), jnp.int32(0)))
    return stack[depth - 1]


@declare(PROGRAMS, uniform(8, seed=5), reference=DIFFERENCES)
def bottom_up_merge(x):
    """Pairs of neighbours combined until one is left: log n passes of a loop with a width that doubles."""

    def step(s):
        values, width = s
        other = jnp.roll(values, -width)
        is_left = (jnp.arange(8) % (2 * width)) == 0
        return jnp.where(is_left, jnp.sin(values) * other + values, values), width * 2

    return lax.while_loop(lambda s: s[1] < 8, step, (x, jnp.int32(1)))[0][0]


@declare(PROGRAMS, np.array(1.3), np.int32(2), np.int32(3), reference=DIFFERENCES)
def ackermann(x, m, n):
    """Calls on a stack; a float is carried along."""

    def step(s):
        stack, depth, n, value = s
        m = stack[depth - 1]
        at_zero, at_one = m == 0, n == 0
        pushed = stack.at[depth - 1].set(m - 1)
        deeper = pushed.at[depth].set(m)
        return (
            jnp.where(at_zero, stack, jnp.where(at_one, pushed, deeper)),
            jnp.where(at_zero, depth - 1, jnp.where(at_one, depth, depth + 1)),
            jnp.where(at_zero, n + 1, jnp.where(at_one, 1, n - 1)),
            jnp.where(at_zero, jnp.sin(value) * x, value + 0.01 * x),
        )

    stack = jnp.zeros(64, jnp.int32).at[0].set(m)
    result = lax.while_loop(lambda s: s[1] > 0, step, (stack, jnp.int32(1), n, x))
    return result[3], result[2]
