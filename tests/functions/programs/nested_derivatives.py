"""Derivatives of derivatives: jvp, vjp, jacobians and hessians nested in loops, branches, closures and structures."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import hloom
from tests.functions.table import program


@dataclass(frozen=True)
class Model:
    a: Any
    b: Any

    def predict(self, x):
        return self.a * x + self.b * x * x


@program((2.0, 3.0), reference=lambda x, y: (y, x, 1.0))
def mixed_partials_of_a_product(x, y):
    f = lambda a, b: a * b
    dx = hloom.grad(f, 0)
    dxy = hloom.grad(dx, 1)
    return dx(x, y), hloom.grad(f, 1)(x, y), dxy(x, y)


@program((0.5,), reference=lambda x: (math.cos(x), -math.sin(x), -math.cos(x), math.sin(x)))
def derivatives_of_four_orders(x):
    f = math.sin
    orders = []
    for _ in range(4):
        f = hloom.grad(f)
        orders.append(f(x))
    return tuple(orders)


@program((1.5, 4), (1.5, 0), reference=lambda x, n: n * (n - 1) * (n - 2) * x ** (n - 3) if n else 0.0, tolerance=1e-8)
def the_third_derivative_of_a_dynamic_loop(x, n):
    def power(v):
        y = 1.0
        for _ in range(n):
            y = y * v
        return y

    return hloom.grad(hloom.grad(hloom.grad(power)))(x)


@program((2.0,), reference=lambda x: 3.0 / 8.0 * x ** (-2.5), tolerance=1e-6)
def the_third_derivative_of_a_while(x):
    def root(a):
        y = a
        while abs(y * y - a) > 1e-14:
            y = 0.5 * (y + a / y)
        return y

    return hloom.grad(hloom.grad(hloom.grad(root)))(x)


@program((1.5, 4), reference=lambda x, n: 12 * x * x)
def the_second_derivative_of_a_tail_call(x, n):
    def power(v, k, y):
        return y if k == 0 else power(v, k - 1, y * v)

    return hloom.grad(hloom.grad(power))(x, n, 1.0)


@program((3.0,), reference=lambda x: 1.0)
def confusion_of_a_sum(x):
    return hloom.grad(lambda a: a * hloom.grad(lambda b: a + b)(1.0))(x)


@program((3.0,), reference=lambda x: 6.0)
def confusion_of_two_levels_of_closures(x):
    def f(a):
        def g(b):
            def h(c):
                return a * b * c

            return hloom.grad(h)(1.0)

        return hloom.grad(g)(2.0) * a

    return hloom.grad(f)(x)


@program((0.5,), reference=lambda x: 0.0)
def confusion_by_a_function_that_returns_a_function(x):
    shift = lambda v: lambda f: lambda w: f(v + w)
    derivative = lambda f: lambda v: hloom.grad(f)(v)
    return hloom.grad(lambda v: derivative(lambda w: w * 3.0)(v) + 0.0 * v)(x) + 0.0 * shift(x)(math.sin)(x)


@program((0.7, 3), reference=lambda x, n: (n - 1) * 2 * x)
def a_gradient_in_a_dynamic_loop(x, n):
    total = 0.0
    for k in range(n):
        total = total + hloom.grad(lambda v: v * v * (k > 0))(x)
    return total


@program((0.7, 3), (0.7, -3), reference=lambda x, n: 2 * x if n > 0 else math.cos(x))
def a_gradient_of_what_a_branch_binds(x, n):
    if n > 0:
        f = lambda v: v * v
    else:
        f = math.sin
    return hloom.grad(f)(x)


@program((np.array([1.0, 2.0, 3.0]),), reference=lambda v: np.diag(6.0 * v))
def the_jacobian_of_a_gradient(v):
    return hloom.jacobian(hloom.grad(lambda a: np.sum(a**3)))(v)


@program((np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])), reference=lambda v, m: m + m.T)
def the_hessian_of_a_form_with_a_captured_matrix(v, m):
    return hloom.hessian(lambda a: a @ m @ a)(v)


@program((np.array([0.5, 0.3]),))
def the_jacobian_of_a_loop(v):
    def orbit(a):
        out = np.zeros(3)
        x, y = a[0], a[1]
        for k in range(3):
            x, y = x * y + 1.0, x - y * 0.5
            out[k] = x
        return out

    return hloom.jacobian(orbit)(v)


@program((np.array([0.5, 0.3]), 4))
def the_jacobian_of_a_dynamic_loop(v, n):
    def orbit(a):
        for _ in range(n):
            a = np.array([a[0] * a[1] + 0.5, a[0] - a[1]])
        return a

    return hloom.jacobian(orbit)(v)


@program((np.array([1.0, 2.0]), np.array([0.5, -1.0])), reference=lambda v, t: (v * v * v, 3 * v * v * t, 6 * v * t * t))
def forward_of_forward(v, t):
    f = lambda a: a * a * a
    first = lambda a: hloom.jvp(f, (a,), (t,))[1]
    value, slope = hloom.jvp(f, (v,), (t,))
    return value, slope, hloom.jvp(first, (v,), (t,))[1]


@program((np.array([1.0, 2.0]),), reference=lambda v: (np.array([3.0, 6.0]), 6.0 * np.ones(2)))
def reverse_of_reverse(v):
    def slope(a):
        _, pull = hloom.vjp(lambda b: b * b * 3.0, a)
        return np.sum(pull(np.ones(2))[0] * np.array([0.5, 0.5]))

    return slope(v) * np.array([1.0 / 3, 2.0 / 3]), hloom.grad(slope)(v) * 2.0


@program((Model(2.0, 3.0), 0.5), reference=lambda m, x: (m.a + 2 * m.b * x, Model(x, x * x), Model(1.0, 2 * x)))
def derivatives_of_a_method(model, x):
    by_x = hloom.grad(model.predict)(x)
    by_model = hloom.grad(lambda m: m.predict(x))(model)
    mixed = hloom.grad(lambda m: hloom.grad(m.predict)(x))(model)
    return by_x, by_model, mixed


@program(({"a": 2.0, "b": [1.0, 3.0]},), reference=lambda p: {"a": 2 * p["b"][0] * p["a"] * 2, "b": [2 * p["a"] ** 2, 0.0]})
def the_gradient_of_a_norm_of_a_gradient(p):
    energy = lambda q: q["a"] ** 2 * q["b"][0] + q["b"][1]

    def norm(q):
        slopes = hloom.grad(energy)(q)
        return slopes["a"] * q["a"] + slopes["b"][1]

    return hloom.grad(norm)(p)


@program((1.5, 0.5), reference=lambda x, y: ((x * x * y, (2 * x * y, x * x)), 2 * y))
def value_and_grad_nested(x, y):
    f = lambda a, b: a * a * b
    both = hloom.value_and_grad(f, (0, 1))(x, y)
    slope = lambda a: hloom.value_and_grad(f)(a, y)[1]
    return both, hloom.value_and_grad(slope)(x)[1]


@program((0.3,), reference=lambda x: math.cos(math.sin(x)) * math.cos(x))
def the_derivative_of_a_composition_by_jvp_of_jvp(x):
    _, inner = hloom.jvp(math.sin, (x,), (1.0,))
    return hloom.jvp(math.sin, (math.sin(x),), (inner,))[1]


@program((2.0, 5), reference=lambda x, n: 2.0 - 2.0 * 0.5**n if n else 0.0, tolerance=1e-4)
def an_optimiser_with_a_gradient_inside_is_differentiated(x, n):
    def fitted(target):
        w = 0.0
        for _ in range(n):
            w = w - 0.25 * hloom.grad(lambda v: (v - target) ** 2)(w)
        return w

    return hloom.grad(lambda t: fitted(t) ** 2)(x) / (2 * fitted(x)) * 2.0 if n else 0.0


@program((1.2,), reference=lambda x: (2 * x, 3 * x * x))
def gradients_of_functions_in_a_dict(x):
    table = {"square": lambda v: v * v, "cube": lambda v: v * v * v}
    slopes = {name: hloom.grad(f) for name, f in table.items()}
    return slopes["square"](x), slopes["cube"](x)


@program((1.2, 0), (1.2, 1), reference=lambda x, i: 2 * x if i == 0 else 3 * x * x)
def gradients_chosen_by_an_index(x, i):
    slopes = [hloom.grad(f) for f in (lambda v: v * v, lambda v: v * v * v)]
    return slopes[i](x)


@program((2.0,), (-2.0,), reference=lambda x: (2 * x if x > 0 else 3 * x * x, 2.0 if x > 0 else 6 * x))
def derivatives_of_an_early_return(x):
    def f(v):
        if v > 0:
            return v * v
        return v * v * v

    return hloom.grad(f)(x), hloom.grad(hloom.grad(f))(x)


@program((0.5, 6), reference=lambda x, n: 30 * x**4, tolerance=1e-8)
def the_hessian_of_a_recursion(x, n):
    def power(v, k):
        if k == 0:
            return 1.0
        half = power(v, k // 2)
        return half * half * v if k % 2 else half * half

    return hloom.hessian(lambda v: power(v, n))(x)


@program((0.5,), reference=lambda x: (math.exp(x), math.exp(x)))
def a_derivative_passed_to_a_function(x):
    def agree(f, g, v):
        return f(v), g(v)

    return agree(math.exp, hloom.grad(math.exp), x)


@program((np.array([1.0, 2.0]),), reference=lambda v: 4 * np.eye(2) + np.array([[0.0, 1.0], [1.0, 0.0]]))
def a_hessian_of_a_sum_of_branches(v):
    def f(a):
        total = a[0] * a[1]
        for k in range(2):
            if a[k] > 0:
                total = total + 2 * a[k] * a[k]
            else:
                total = total - a[k]
        return total

    return hloom.hessian(f)(v)


@program((3.0, 2), reference=lambda x, n: (6.0, None))
def the_gradient_by_a_tuple_with_an_integer(x, n):
    return hloom.grad(lambda pair: pair[0] ** pair[1])((x, n))


@program((2.0,), reference=lambda x: (12.0, 12.0))
def gradients_with_a_grad_as_a_decorator(x):
    @hloom.grad
    def slope(v):
        return v**3

    def cubed(v):
        return v**3

    return slope(x), hloom.grad(cubed)(x)


@program((0.4, 0.9), reference=lambda x, y: (math.cos(x) * y, math.sin(x)))
def a_gradient_by_position_of_a_partial(x, y):
    from functools import partial

    f = lambda scale, v: math.sin(v) * scale
    return hloom.grad(partial(f, y))(x), hloom.grad(lambda s: partial(f, s)(x))(y)


@program((0.4,), reference=lambda x: 3 * math.sin(x) ** 2 * math.cos(x))
def a_gradient_of_a_function_with_local_definitions(x):
    def f(v):
        def cube(t):
            return t * t * t

        s = math.sin(v)
        return cube(s)

    return hloom.grad(f)(x)


@program((np.array([1.0, -2.0, 3.0]), 2), reference=lambda v, n: 1.0 * (v > 0) * n)
def the_gradient_of_relu_layers(v, n):
    def relu(a):
        return np.maximum(a, 0.0)

    def loss(a):
        total = 0.0
        for _ in range(n):
            total = total + np.sum(relu(a))
        return total

    return hloom.grad(loss)(v)
