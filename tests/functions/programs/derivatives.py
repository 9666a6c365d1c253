"""Gradients of what people write: structures, loops, recursion, closures, arrays changed, nested and of higher order."""

import functools
import math
from collections import namedtuple
from dataclasses import dataclass

import numpy as np

import hloom
from tests.functions.table import program

Weights = namedtuple("Weights", "w b")
X = np.array([[1.0, 2.0], [-0.5, 0.3], [0.7, -1.1]])
Y = np.array([1.0, 0.0, 1.0])


@dataclass(frozen=True)
class Model:
    scale: float
    weights: Weights
    steps: int = 2


@program((0.7, 2.3), grad=(0, 1))
def a_newton_step_unrolled_by_a_while(a, start):
    x = start
    k = 0
    while k < 6:
        x = x - (x**3 - a) / (3 * x * x)
        k += 1
    return x


@program((0.3, 0.8), (1.5, -0.2), grad=(0, 1))
def early_returns_in_a_loop_with_branches(x, y):
    total = 0.0
    for k in range(10):
        if total > 3:
            return total * x
        elif k % 3 == 2:
            continue
        total += (x * x + y) * (k + 1) * 0.5
        if total < -2:
            break
    return total * y


@program((np.array([0.1, -0.2]), 0.3), grad=(0, 1))
def a_logistic_loss(w, b):
    z = X @ w + b
    p = 1 / (1 + np.exp(-z))
    return -np.mean(Y * np.log(p) + (1 - Y) * np.log(1 - p))


@program((Weights(np.array([0.5, -1.0]), 0.25),), grad=0)
def a_loss_of_a_named_tuple(p):
    return np.sum((X @ p.w + p.b - Y) ** 2)


@program((Model(1.5, Weights(np.array([0.5, -1.0]), 0.25)),), grad=0)
def a_loss_of_a_dataclass_with_an_integer(m):
    v = X @ m.weights.w
    for _ in range(m.steps):
        v = np.tanh(v * m.scale + m.weights.b)
    return np.sum(v)


@program(({"a": [1.0, 2.0], "b": (3.0, {"c": 0.5})},), grad=0)
def a_loss_of_lists_and_dicts(p):
    return p["a"][0] * p["b"][0] + p["a"][1] ** 2 * p["b"][1]["c"]


@program((np.array([1.0, 2.0, 3.0, 4.0]),), grad=0)
def a_loop_that_fills_an_array(x):
    out = np.zeros(4)
    for i in range(4):
        out[i] = x[i] * (out[i - 1] + 1.0) if i > 0 else x[0]
    return np.sum(out * out)


@program((np.array([3.0, 1.0, 2.0]), 2.0), grad=(0, 1))
def sorted_values_weighted(x, y):
    s = np.sort(x)
    return s[0] * y + s[1] * y**2 + s[2] * y**3


@program((np.array([3.0, 1.0, 2.0]), 1), grad=0)
def an_indexed_element_squared(x, i):
    y = x.copy()
    y[i] = y[i] ** 2 + y[i - 1]
    y[:2] *= 3.0
    return np.sum(y)


@program((np.array([1.0, -2.0, 3.0]),), grad=0)
def masks_in_a_gradient(x):
    y = x.copy()
    y[y < 0] = 0.0
    return np.sum(y**2) + np.sum(np.where(x > 2, x**3, x)) + np.max(x) + np.sum(np.clip(x, -1, 1))


@program((0.9, 6), (0.9, 0), grad=0)
def a_recursion_with_two_calls(x, n):
    def f(k, v):
        if k <= 1:
            return v
        return f(k - 1, v * x) + f(k - 2, v + x)

    return f(n, 1.0)


@program((1.1, 7), grad=0)
def mutual_recursion_of_floats(x, n):
    def ping(k, v):
        return v if k == 0 else pong(k - 1, v * x)

    def pong(k, v):
        return v if k == 0 else ping(k - 1, math.sin(v) + x)

    return ping(n, 1.0)


@program((0.5, 2, 3.0), (0.5, -2, 3.0), grad=(0, 2))
def unlike_closures_chosen_by_data(x, n, y):
    def scaled(k):
        return lambda v: v * k

    def power(a, b):
        return lambda v: v**2 * a + b

    f = scaled(x * y) if n > 0 else power(x, y)
    return f(y) * f(1.5)


@program((0.5, 0), (0.5, 1), (0.5, 2), grad=0)
def functions_by_index_in_a_gradient(x, i):
    functions = [math.sin, lambda v: v**3, lambda v: math.exp(v) * x]
    return functions[i](x * 2)


@program((0.5, 5), (0.5, 1), grad=0)
def a_closure_carried_in_a_gradient(x, n):
    f = lambda v: v
    for k in range(n):
        f = (lambda c: lambda v: v * c + x)(k * 0.5 * x)
    return f(2.0)


@program((1.3,), reference=lambda x: 24 * x - math.cos(x))
def the_third_derivative_of_a_sum(x):
    third = hloom.grad(hloom.grad(hloom.grad(lambda v: v**4 + math.sin(v))))
    return third(x)


@program((2.0,), reference=lambda x: 2.0)
def perturbations_through_a_closure_of_a_gradient(x):
    def f(a):
        g = hloom.grad(lambda b: a * b)
        return a * g(1.0)

    return hloom.grad(hloom.grad(f))(x)


@program((2.0, 3.0), reference=lambda x, y: (y, x, 1.0))
def mixed_partials_by_nesting(x, y):
    f = lambda a, b: a * b
    dx = lambda a, b: hloom.grad(f)(a, b)
    dy = lambda a, b: hloom.grad(f, 1)(a, b)
    return dx(x, y), dy(x, y), hloom.grad(dx, 1)(x, y)


@program((0.8,), reference=lambda x: math.exp(x) * (1 + x) + math.cos(x))
def a_gradient_of_a_function_with_keywords(x):
    def f(v, *, k=1.0, g=math.sin):
        return v * math.exp(v) * k + g(v)

    return hloom.grad(f)(x)


@program((3.0,), reference=lambda x: 54.0)
def a_gradient_inside_a_loop_inside_a_gradient(x):
    def outer(v):
        total = 0.0
        for k in range(3):
            total += hloom.grad(lambda w: w * w * v * (k + 1))(v)
        return total

    return hloom.grad(outer)(x) - 18.0


@program((np.array([1.0, 2.0]),), reference=lambda v: (np.array([[2.0, 1.0], [12.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 0.0]])))
def jacobians_of_vector_functions(v):
    f = lambda a: np.array([a[0] * a[1], 6.0 * a[0] ** 2])
    return hloom.jacobian(f)(v), hloom.hessian(lambda a: np.sum(a * 2.0))(v)


@program((np.array([0.5, 1.5]), np.array([1.0, -1.0])), reference=lambda x, d: (np.sin(x), np.cos(x) * d, np.cos(x) * 2))
def forward_and_reverse_of_one_function(x, d):
    f = lambda v: np.sin(v)
    value, tangent = hloom.jvp(f, (x,), (d,))
    _, pullback = hloom.vjp(f, x)
    return value, tangent, pullback(np.full(2, 2.0))[0]


@program((np.array([2.0, -1.0]), 40), reference=lambda x, n: np.array([1.0, 1.0]))
def newton_in_two_dimensions(x, n):
    f = lambda v: (v[0] - 1.0) ** 2 + (v[1] - 1.0) ** 2 + 0.1 * (v[0] - v[1]) ** 4
    g, h = hloom.grad(f), hloom.hessian(f)
    for _ in range(n):
        x = x - np.linalg.solve(h(x), g(x))
    return np.round(x, 4)


@program((1.0, 2.0), reference=lambda x, y: {"x": 2.0, "y": 12.0})
def a_dict_of_gradients(x, y):
    loss = lambda p: p["x"] ** 2 + p["y"] ** 3
    return hloom.grad(loss)({"x": x, "y": y})


@program((0.3,), reference=lambda x: -4 * math.sin(2 * x))
def a_gradient_of_a_partial(x):
    f = functools.partial(lambda k, v: math.sin(k * v), 2.0)
    return hloom.grad(hloom.grad(f))(x)


@program((np.array([1.0, 2.0, 3.0]),), reference=lambda x: np.array([6.0, 3.0, 2.0]))
def a_gradient_of_a_reduce(x):
    return hloom.grad(lambda v: functools.reduce(lambda a, b: a * b, v))(x)


@program((0.7,), reference=lambda x: np.array([math.cos(x), -math.sin(x), -math.cos(x)]))
def a_list_of_derivatives_made_by_iteration(x):
    f = math.sin
    out = []
    for _ in range(3):
        f = hloom.grad(f)
        out.append(f(x))
    return np.array(out)


@program((np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, 2.0])), grad=(0, 1))
def linear_algebra_in_a_gradient(m, v):
    return v @ np.linalg.solve(m, v) + np.log(np.linalg.det(m)) + np.trace(np.linalg.inv(m)) + np.linalg.norm(v)


@program((np.array([0.1, 0.2, 0.3]),), grad=0)
def reshapes_and_joins_in_a_gradient(x):
    y = np.concatenate([x, x[::-1] * 2]).reshape(2, 3)
    z = np.stack([y, y**2], axis=-1)
    return np.sum(np.einsum("ijk,j->ik", z, x)) + np.sum(np.outer(x, x) @ x) + np.sum(np.roll(x, 1) * x)


@program((2.0, 5), grad=0)
def a_gradient_by_a_float_beside_an_int(x, n):
    total, k = 0.0, n
    while k > 0:
        total += x**k / k
        k //= 2
    return total


@program((3.0,), (-3.0,), grad=0)
def gradients_of_piecewise_functions(x):
    return abs(x) * x + max(x, 0.5) ** 2 + min(x, x * x) + (x if x > 0 else -2 * x) + math.fabs(x) + round(x) * x


@program((0.2, 0.1), grad=(0, 1))
def an_orbit_of_two_variables(a, b):
    x, v = 1.0, 0.0
    for _ in range(20):
        v = v - a * x - b * v
        x = x + 0.1 * v
    return x * x + v


@program((np.array([0.5, 0.25]),), grad=0)
def a_product_over_a_list_of_lists(x):
    rows = [[x[0], x[1]], [x[1] * 2, x[0] + 1]]
    return rows[0][0] * rows[1][1] - rows[0][1] * rows[1][0]


@program((1.5, 3), (1.5, 1), grad=0)
def a_match_in_a_gradient(x, n):
    match n:
        case 1:
            return x**2
        case k if k > 2:
            return x**3 + k
    return x


@program((0.5,), refused="")
def a_gradient_of_a_structure(x):
    return hloom.grad(lambda v: (v, v * 2))(x)  # refused


@program((2.0,), refused="wrt")
def a_gradient_by_an_argument_that_is_not_there(x):
    return hloom.grad(lambda v: v * 2, 3)(x)  # refused


@program((2.0, 0.0), raises=ZeroDivisionError)
@program((2.0, 1.0), reference=lambda x, y: 1.0)
def an_error_inside_an_inner_gradient(x, y):
    def f(v):
        return v / y  # raises

    return hloom.grad(f)(x)
