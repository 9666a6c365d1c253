"""Gradients of what functional programs are made of: closures, tuples, partials, reductions, dataclasses, structures."""

import functools
import math
import operator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tests.functions.table import program


@dataclass(frozen=True)
class Complex2:
    re: Any
    im: Any

    def __mul__(self, other):
        return Complex2(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __add__(self, other):
        return Complex2(self.re + other.re, self.im + other.im)

    @property
    def size(self):
        return self.re * self.re + self.im * self.im

    def __call__(self, x):
        return self.re * x + self.im


@dataclass
class Dense:
    weight: Any
    bias: Any
    activation: Any = np.tanh

    def forward(self, x):
        return self.activation(x @ self.weight + self.bias)


class State(NamedTuple):
    position: Any
    velocity: Any


@program((4.0,), grad=0)
def the_argument_twice_in_a_call(x):
    def g(a, b):
        return a * b

    return g(x, x)


@program((4.0,), grad=0)
def the_argument_four_times_in_a_call(x):
    def g(a, b, c, d):
        return a * b * c - d

    return g(x, x, x, x)


@program((4.0, 5.0), grad=(0, 1))
def tuples_made_and_taken_apart(x, y):
    t = (x, (y, x * y))
    u = (t[1][1] - t[0], t[1][0])
    a, b = u
    return a * b + u[0]


@program((4.0, 5.7), grad=(0, 1))
def functions_in_tuples_called(x, y):
    functions = (operator.add, lambda a, b: a * b, math.atan2)
    f, g, h = functions
    return f(x, y) * g(x, y) + h(x, y)


@program((4.0, 5.7), grad=(0, 1))
def closures_in_tuples_called(x, y):
    def f():
        return x * y

    def g():
        return x + y

    pair = (f, g)
    return pair[0]() * pair[1]()


@program((4.0, 5.7), grad=(0, 1))
def closures_in_closures(x, y):
    def outer(z):
        def middle(w):
            def inner():
                return w * z + x

            return inner

        return middle

    return outer(y)(x)() * outer(x)(y)()


@program((3.0, 2.0), (-3.0, 2.0), grad=(0, 1))
def a_closure_made_in_a_branch(x, y):
    if x > 0:
        k = x * y
        f = lambda v: v * k
    else:
        f = lambda v: v - y * x
    return f(x) + f(y)


@program((1.5, 4), (1.5, 0), grad=0)
def a_function_applied_n_times(x, n):
    def apply_n(f, k):
        if k == 0:
            return lambda v: v
        g = apply_n(f, k - 1)
        return lambda v: f(g(v))

    return apply_n(lambda v: v * v * 0.5 + 0.1, 4)(x) + n * x


@program((1.2,), grad=0)
def a_power_by_repeated_squares_of_functions(x):
    twice = lambda f: lambda v: f(f(v))
    return twice(twice(twice(lambda v: v * 1.05 + 0.01)))(x)


@program((1.5, 2.5), grad=(0, 1))
def partials_of_captured_values(x, y):
    def f(a, b, c=1.0):
        return a * b - c * a

    g = functools.partial(f, x)
    h = functools.partial(g, c=y)
    return g(y) * h(x)


@program(((1.0, 2.0, 3.0),), grad=0)
def a_map_and_a_reduce(values):
    squares = map(lambda v: v * v, values)
    return functools.reduce(lambda a, b: a * 0.5 + b, squares)


@program(([1.0, 2.0, 3.0], 2.0), grad=(0, 1))
def a_loop_over_a_list(values, k):
    total = 0.0
    for index, value in enumerate(values):
        total = total * k + value * index
    return total


@program(({"w": 2.0, "b": (1.0, 3.0)},), grad=0)
def a_dict_rebuilt_on_the_way(p):
    q = {name: (value if name == "w" else value[0] * value[1]) for name, value in p.items()}
    q["w"] = q["w"] ** 3
    return q["w"] * q["b"]


@program((Complex2(1.0, 2.0), 3.0), grad=(0, 1))
def operators_of_a_dataclass_by_its_fields(z, x):
    w = z * z + Complex2(x, x)
    return w.size + z(x)


@program((Dense(np.array([[0.5, -0.2], [0.1, 0.3]]), np.array([0.1, -0.1])), np.array([[1.0, 2.0], [3.0, -1.0]])), grad=1)
def a_layer_with_a_function_in_a_field(layer, x):
    wider = replace(layer, activation=lambda v: v * v)
    return np.sum(layer.forward(x) * wider.forward(x))


@program((State(1.0, 0.5), 10, 0.1), grad=0)
def a_named_tuple_through_a_loop(state, n, h):
    for _ in range(n):
        velocity = state.velocity - h * math.sin(state.position)
        state = State(state.position + h * velocity, velocity)
    return state.position * state.velocity


@program(((1.0, (2.0, (3.0, None))),), grad=0)
def a_linked_list_by_recursion(cells):
    def total(rest, weight):
        if rest is None:
            return 0.0
        head, tail = rest
        return head * head * weight + total(tail, weight * 2.0)

    return total(cells, 1.0)


@program((((1.0, 2.0), (3.0, (4.0, 5.0))),), grad=0)
def a_tree_by_isinstance(tree):
    def visit(node):
        if isinstance(node, tuple):
            return visit(node[0]) * visit(node[1])
        return math.sqrt(node)

    return visit(tree)


@program((2.0, 3.0), grad=(0, 1))
def a_nonlocal_accumulator(x, y):
    total = 0.0

    def add(v):
        nonlocal total
        total = total + v * total + v

    add(x)
    add(y)
    add(x * y)
    return total


@program((2.0, 3), grad=0)
def a_nonlocal_accumulator_in_a_loop(x, n):
    total = 1.0

    def step(k):
        nonlocal total
        total *= x + k

    for k in range(n):
        step(k)
    return total


@program((0.5, 2.0), grad=(0, 1))
def a_default_that_is_a_function(x, y):
    def f(v, g=math.sin, h=lambda t: t * y):
        return g(v) * h(v)

    return f(x) + f(x, math.cos) + f(x, h=math.exp)


@program((0.5,), grad=0)
def keyword_arguments_swapped(x):
    def f(a, b, *, c=2.0, d):
        return a / b + c * d

    return f(b=x, a=1.0, d=x) * f(x, 2.0, d=1.0, c=x)


@program((1.1, 0.3), grad=(0, 1))
def arguments_by_stars(x, y):
    def f(*values, **named):
        return values[0] * values[-1] + named["k"] * len(values)

    return f(*(x, y, x * y), **{"k": y * y})


@program((1.5, -0.5), grad=(0, 1))
def church_pairs(x, y):
    pair = lambda a, b: lambda choose: choose(a, b)
    swap = lambda p: p(lambda a, b: pair(b, a))
    first = lambda p: p(lambda a, _: a)
    return first(pair(x, y)) ** 2 * first(swap(pair(x, y)))


@program((1.5, 0), (1.5, 1), (1.5, 2), grad=0)
def a_dict_of_functions_by_a_static_key(x, n):
    table = {"sin": math.sin, "cube": lambda v: v**3, "scaled": lambda v: v * n}
    return sum(f(x) for f in table.values()) + table["cube"](x)


@program((1.5, 0), (1.5, 1), (1.5, 2), grad=0)
def a_function_returned_by_a_table_of_makers(x, i):
    makers = (lambda k: lambda v: v * k, lambda k: lambda v: v + k * k, lambda k: lambda v: v**2 / k)
    return makers[i](x)(x * 2)


@program((2.0, 1.5), grad=(0, 1))
def a_fold_from_the_right_with_functions(x, y):
    functions = [math.sin, lambda v: v * y, math.exp, lambda v: v + x]
    composed = functools.reduce(lambda f, g: lambda v: f(g(v)), functions)
    return composed(x * 0.1)


@program((np.array([1.0, 2.0, 3.0]), 0.5), grad=(0, 1))
def an_array_captured_and_scaled(v, k):
    def scaled(by):
        return v * by

    dot = lambda a, b: np.sum(a * b)
    return dot(scaled(k), scaled(k * k)) + dot(v, v)


@program((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -1.0])), grad=(0, 1))
def a_bilinear_form_through_helpers(m, v):
    def left(a):
        return lambda b: a @ b

    return left(v)(m) @ v + left(m.T)(v)[0]


@program((2.0, 3.0), grad=0)
def an_unused_closure_and_a_dead_branch(x, y):
    def unused():
        return x / 0.0

    if y is None:
        return unused()
    return x * x if isinstance(x, float) else x


@program((2, 3.0), grad=1)
def an_integer_beside_a_float(n, x):
    f = lambda k, v: v**k * k
    return f(n, x) + f(n + 1, x) / 1.5


@program((2.0,), grad=0)
def a_list_appended_and_popped(x):
    values = [x]
    for k in range(3):
        values.append(values[-1] * x + k)
    last = values.pop()
    return last * values[0] + sum(values)


@program((0.7,), grad=0)
def a_memo_in_a_dict(x):
    memo = {0: 1.0, 1: x}

    def chebyshev(n):
        if n not in memo:
            memo[n] = 2 * x * chebyshev(n - 1) - chebyshev(n - 2)
        return memo[n]

    return chebyshev(6)


@program((0.7, 5), (0.7, 0), grad=0)
def legendre_by_two_names(x, n):
    before, now = 1.0, x
    for k in range(1, n):
        before, now = now, ((2 * k + 1) * x * now - k * before) / (k + 1)
    return now if n > 0 else before * x / x


@program((np.array([0.2, 0.4]),), grad=0)
def an_array_of_a_list_of_functions_of_it(v):
    parts = [f(v[0], v[1]) for f in (operator.mul, operator.add, lambda a, b: math.sin(a * b))]
    return np.array(parts) @ np.arange(3.0)
