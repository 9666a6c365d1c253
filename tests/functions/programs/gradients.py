"""Gradients of functions, compared with central differences: branches, loops, recursion, closures, structures."""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tests.functions.table import program

A = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])
V = np.array([0.5, -1.5, 2.5])
SCALE = 3.0


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Layer:
    weights: Any
    bias: Any
    count: int = 2


@program((3.0, 4.0), grad=(0, 1))
def product(x, y):
    return x * y


@program((3.0, 4.0), (0.5, -2.0), grad=(0, 1))
def quotients_and_powers(x, y):
    return x / y + x**3 - y**2 / x + x**y if x > 1 else x / y - y * 2


@program((0.7,), grad=0)
def functions_of_math(x):
    return math.sin(x) * math.exp(x) + math.log(x) / math.sqrt(x) - math.tanh(x) + math.atan(x) ** 2 + math.cos(x**2)


@program((2.0, 3.0), grad=(0, 1))
def a_power_with_a_variable_exponent(x, y):
    return x**y


@program((3.0,), grad=0)
def a_constant(x):
    return 5.0


@program((3.0, 7.0), grad=(0, 1))
def an_unused_argument(x, y):
    return x * 2


@program((3.0,), (-3.0,), grad=0)
def a_branch(x):
    if x > 0:
        return x * x
    return -x * 5


@program((2.0, 1), (2.0, -1), grad=0)
def a_branch_on_another_argument(x, n):
    y = x * x if n > 0 else x * x * x
    return y * y


@program((3.0, 4.0), (3.0, 2.0), grad=(0, 1))
def min_max_and_abs(x, y):
    return max(x, y) * 2 + min(x, y) * 3 + abs(x - y) ** 2


@program((1.5, 6), (1.5, 0), grad=0)
def a_loop_of_dynamic_length(x, n):
    y = x
    for i in range(n):
        y = y * x + i
    return y


@program((2.0,), (50.0,), grad=0)
def a_while_loop(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


@program((1.1,), (3.0,), grad=0)
def a_loop_with_break_and_continue(x):
    y = x
    for i in range(20):
        if i % 3 == 0:
            continue
        if y > 50:
            break
        y = y * x + 0.5
    return y


@program((0.9, 3, 4), grad=0)
def nested_loops(x, n, m):
    total = 0.0
    for i in range(n):
        for j in range(m):
            total = total * x + math.sin(x * (i + j))
    return total


@program((1.01, 1000), grad=0)
def a_long_loop(x, n):
    y = 1.0
    for _ in range(n):
        y = y * 0.99 + x * 0.01
    return y


@program((1.5, 6), (1.5, 1), grad=0)
def recursion(x, n):
    if n == 0:
        return 1.0
    return x * recursion(x, n - 1) + n


@program((0.8, 8), grad=0)
def tree_recursion(x, n):
    if n < 2:
        return x + n
    return tree_recursion(x, n - 1) * x + math.sin(tree_recursion(x, n - 2))


@program((1.2, 9), (1.2, 4), grad=0)
def mutual_recursion(x, n):
    def up(v, k):
        return v if k == 0 else down(v * x, k - 1)

    def down(v, k):
        return v if k == 0 else up(v + x * x, k - 1)

    return up(x, n)


@program((1.3, 300), grad=0)
def deep_recursion(x, n):
    if n == 0:
        return x
    return math.cos(deep_recursion(x, n - 1)) + x


@program((2.0, 3.0), grad=(0, 1))
def a_captured_value(x, y):
    def f(z):
        return z * y + x

    return f(x) * f(y)


@program((2.0,), grad=0)
def a_captured_global_and_partial(x):
    f = functools.partial(lambda a, b: a * b * SCALE, x)
    return f(x * 2) + f(1.0)


@program((2.0, 0), (2.0, 1), (2.0, 2), grad=0)
def a_function_chosen_by_data(x, i):
    functions = (lambda v: v * v, math.sin, lambda v: v / x)
    return functions[i](x * 3) * x


@program((1.5, 3), (1.5, 4), grad=0)
def a_closure_carried_by_a_loop(x, n):
    f = lambda v: v * x
    g = lambda v: v + x * x
    for _ in range(n):
        f, g = g, f
    return f(2.0) * f(x)


@program((2.0,), grad=0)
def a_nonlocal_value(x):
    total = 0.0

    def add(v):
        nonlocal total
        total = total + v * x

    add(x)
    add(3.0)
    return total * x


@program(((2.0, 3.0),), grad=0)
def a_tuple_of_arguments(pair):
    a, b = pair
    return a * a * b


@program(({"w": 2.0, "n": 3, "inner": [1.0, 2.0]},), grad=0)
def a_nested_structure_with_an_integer(tree):
    return tree["w"] ** tree["n"] + tree["inner"][0] * tree["inner"][1]


@program((Point(2.0, (3.0, 1)),), grad=0)
def a_namedtuple(point):
    return point.x * point.y[0] * point.y[1]


@program((Layer(np.ones((3, 2)), np.array([0.5, -0.5])), V), grad=(0, 1))
def a_dataclass(layer, x):
    return np.sum(np.tanh(x @ layer.weights + layer.bias)) * layer.count


@program((A, V), grad=(0, 1))
def matrix_products(a, v):
    y = a @ v
    return np.dot(y, y) + np.sum(a.T @ a)


@program((A,), grad=0)
def reductions(a):
    return np.sum(a**2) + np.mean(np.exp(a)) + np.max(a) * 2 - np.min(a[0]) + np.prod(a[1])


@program((A,), grad=0)
def broadcasting(a):
    return np.sum((a - a.mean(axis=0)) / (1 + np.sum(a * a, axis=1, keepdims=True)))


@program((V,), grad=0)
def indexing(x):
    return x[0] * x[-1] + np.sum(x[1:] ** 2) * x[::-1][0] + np.sum(x[np.array([0, 0, 2])])


@program((V, 1), (V, -1), grad=0)
def a_dynamic_index(x, i):
    return x[i] ** 2 * x[0]


@program((V, 1), (V, 0), grad=0)
def assignment_to_elements(x, i):
    y = np.zeros(4)
    y[1:] = x * 2
    y[i] = x[0] * x[2]
    y[0] += x[1]
    return np.sum(y**2)


@program((V,), grad=0)
def where_and_clip(x):
    return np.sum(np.where(x > 0, x**2, x * 3)) + np.sum(np.clip(x, -1.0, 1.0) * x) + np.sum(np.abs(x))


@program((V,), grad=0)
def sorting_and_running_sums(x):
    return np.sum(np.sort(x) * np.arange(3)) + np.sum(np.cumsum(x) ** 2) + np.max(np.cumprod(x))


@program((np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])), grad=(0, 1))
def linear_algebra(m, v):
    return np.sum(np.linalg.solve(m, v)) + np.linalg.det(m) + np.linalg.norm(v) + np.trace(np.linalg.inv(m))


@program((V, 2.0), grad=(0, 1))
def stacking_and_einsum(x, y):
    rows = np.stack([x, x * y, np.concatenate([x[:1], x[1:] * 2])])
    return np.einsum("ij,kj->", rows, rows) + np.sum(np.array([y, y * y]) * 3)


@program((V,), grad=0)
def a_loop_over_an_array(x):
    total = 1.0
    for i, v in enumerate(x):
        total = total * (v + i) + v * v
    return total


@program((V,), grad=0)
def an_array_carried_by_a_loop(x):
    y = np.zeros(3)
    for i in range(3):
        y = np.tanh(y + x[i] * x)
    return np.sum(y)


@program((0.5, V), grad=(0, 1))
def comprehensions_and_reduce(a, x):
    powers = [a**i for i in range(1, 4)]
    return functools.reduce(lambda p, q: p * x[1] + q, powers) + sum(v * a for v in x)


@program((3.0, 2), grad=0)
def integers_have_no_gradient(x, n):
    k = n * 3
    return x * k + int(x) * 0 + x // 1000


@program((3.3,), grad=0)
def steps_have_zero_gradient(x):
    return math.floor(x) + round(x) * 2 + x


@program((0.4, 0.3), grad=(0, 1))
def functions_of_two(x, y):
    return math.atan2(x, y) + math.hypot(x, y) + math.pow(x, y) + math.log(x, 2) + math.asin(x) * math.acos(y)


@program((2.0, True), (2.0, False), grad=0)
def short_circuit(x, flag):
    y = flag and x * x
    return (y or x * 3) * x


@program((-1.5,), (2.25,), grad=0)
def a_guarded_square_root(x):
    return math.sqrt(x) if x > 0 else x * 2


@program((0.5,), grad=0)
def a_tuple_carried_by_a_loop(x):
    state = (x, {"v": 1.0})
    for i in range(5):
        state = (state[0] * state[1]["v"], {"v": math.sin(state[0]) + i})
    return state[0] + state[1]["v"]


@program((1.0, 2.0, 40), grad=(0, 1))
def an_integrated_equation(position, velocity, n):
    for _ in range(n):
        acceleration = -math.sin(position)
        velocity = velocity + 0.05 * acceleration
        position = position + 0.05 * velocity
    return position * velocity


@program((1.9,), (0.5,), grad=0)
def an_early_return_from_a_loop(x):
    y = x
    for i in range(10):
        y = y * y * 0.5
        if y > 100 or y < 1e-3:
            return y * (i + 1)
    return y


@program((np.array([1.0, 2.0]), np.array([[0.5, -1.0], [1.5, 0.25]]), 4), grad=(0, 1))
def a_network_of_dynamic_depth(x, weights, n):
    for _ in range(n):
        x = np.tanh(weights @ x)
    return np.sum(x)


@program((((1.0, 2.0), (3.0, (4.0, 5))),), grad=0)
def recursion_over_a_structure(tree):
    if isinstance(tree, tuple):
        total = 1.0
        for branch in tree:
            total = total * recursion_over_a_structure(branch)
        return total
    return tree + 1


@program((2.5,), grad=0)
def match_and_walrus(x):
    match int(x):
        case 2:
            return (y := x * x) * y
        case _:
            return x


@program((3.0, 4.0), grad=1, keywords={"scale": 2.0})
def keywords_are_passed_through(x, y, scale=1.0):
    return x * y * y * scale


@program((2.0 + 0.1,), grad=0)
def a_discarded_branch_with_an_infinite_slope(x):
    y = math.sqrt(x - 2.0) if x > 2.05 else 0.0
    z = math.sqrt(x - 3.0) if x > 3.0 else x
    return y + z
