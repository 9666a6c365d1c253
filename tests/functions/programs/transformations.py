"""`grad`, `value_and_grad`, `jvp`, `vjp`, `jacobian` and `hessian` inside functions: nested, on closures, by data."""

import math

import numpy as np

import hloom
from tests.functions.table import program


def cube(x):
    return x * x * x


def norm_squared(v):
    return v @ v


def weighted(p, x):
    return p["a"] * x * x + p["b"][0] * x


@program((3.0,), (-1.0,), reference=lambda x: 3 * x * x)
def the_gradient_of_a_global_function(x):
    return hloom.grad(cube)(x)


@program((3.0,), reference=lambda x: 6 * x)
def the_second_derivative(x):
    return hloom.grad(hloom.grad(cube))(x)


@program((0.7,), reference=lambda x: -math.cos(x) * x - 3 * math.sin(x))
def the_third_derivative(x):
    f = lambda v: v * math.sin(v)
    return hloom.grad(hloom.grad(hloom.grad(f)))(x)


@program((1.3,), reference=lambda x: 16 * math.exp(2 * x))
def the_fourth_derivative(x):
    derivative = lambda v: math.exp(2 * v)
    for _ in range(4):
        derivative = hloom.grad(derivative)
    return derivative(x)


@program((2.0,), reference=lambda x: 2 * x * 5 + 1)
def a_lambda_with_a_constant(x):
    return hloom.grad(lambda v: v * v * 5 + v)(x)


@program((2.0, 3.0), reference=lambda x, y: (y, x, (y, x), (x,)))
def gradients_by_position(x, y):
    f = lambda a, b: a * b
    return hloom.grad(f)(x, y), hloom.grad(f, 1)(x, y), hloom.grad(f, (0, 1))(x, y), hloom.grad(f, wrt=(1,))(x, y)


@program((2.0, 3.0), reference=lambda x, y: y * 2 * x + y)
def a_captured_value(x, y):
    return hloom.grad(lambda v: v * v * y + v * y)(x)


@program((1.0,), reference=lambda x: 1.0)
def perturbation_confusion_of_siskind_and_pearlmutter(x):
    return hloom.grad(lambda v: v * hloom.grad(lambda w: v + w)(2.0))(x)


@program((3.0,), (-2.0,), reference=lambda x: 4 * x**3)
def perturbation_confusion_with_a_product(x):
    return hloom.grad(lambda v: v * hloom.grad(lambda w: v * v * w * w / 2)(v))(x)


@program((2.0,), reference=lambda x: 2 * x)
def perturbation_confusion_through_a_closure(x):
    def outer(v):
        inner = lambda w: v * w
        return hloom.grad(inner)(v) * v

    return hloom.grad(outer)(x)


@program((2.0, 5.0), reference=lambda x, y: 2 * x + y)
def perturbation_confusion_by_a_returned_function(x, y):
    def shifted(v):
        return lambda w: w * v + v * v

    return hloom.grad(lambda v: shifted(v)(y))(x)


@program((3.0, 4.0), reference=lambda x, y: (1.0, 0.0, 12.0 * x * y))
def mixed_derivatives(x, y):
    f = lambda a, b: a * b
    g = lambda a, b: a * a * b * b * 3
    mixed = hloom.grad(lambda a: hloom.grad(f, 1)(a, y))(x)
    twice = hloom.grad(hloom.grad(f))(x, y)
    return mixed, twice, hloom.grad(lambda b: hloom.grad(g)(x, b))(y)


@program((2.0,), reference=lambda x: (8.0, 12.0))
def value_and_gradient(x):
    value, gradient = hloom.value_and_grad(cube)(x)
    return value, gradient


@program((2.0, 3.0), reference=lambda x, y: (x * x * y, (2 * x * y, x * x)))
def value_and_gradients_by_position(x, y):
    return hloom.value_and_grad(lambda a, b: a * a * b, (0, 1))(x, y)


@program((2.0, 0.5), reference=lambda x, t: (8.0, 12.0 * t))
def a_directional_derivative(x, t):
    return hloom.jvp(cube, (x,), (t,))


@program((2.0, 3.0), reference=lambda x, y: (x * y + math.sin(x), (y + math.cos(x)) * 1.0 + x * -2.0))
def a_directional_derivative_of_two(x, y):
    return hloom.jvp(lambda a, b: a * b + math.sin(a), (x, y), (1.0, -2.0))


@program((0.5,), reference=lambda x: ((math.sin(x), x * x), (math.cos(x), 2 * x)))
def a_directional_derivative_of_a_tuple(x):
    return hloom.jvp(lambda v: (math.sin(v), v * v), (x,), (1.0,))


@program((2.0, 3.0), reference=lambda x, y: (x * y, (y * 2.0, x * 2.0)))
def a_pullback(x, y):
    value, pullback = hloom.vjp(lambda a, b: a * b, x, y)
    return value, pullback(2.0)


@program((np.array([1.0, 2.0]),), reference=lambda v: (v * v, (np.array([2.0, -4.0]),), (np.array([0.0, 4.0]),)))
def a_pullback_called_twice(v):
    value, pullback = hloom.vjp(lambda a: a * a, v)
    return value, pullback(np.array([1.0, -1.0])), pullback(np.array([0.0, 1.0]))


@program((2.0, 3.0), reference=lambda x, y: ((x * y, {"s": x + y}), (y * 1.0 + 10.0, x + 10.0)))
def a_pullback_of_a_structure(x, y):
    value, pullback = hloom.vjp(lambda a, b: (a * b, {"s": a + b}), x, y)
    return value, pullback((1.0, {"s": 10.0}))


@program((np.array([1.0, 2.0, 3.0]),), reference=lambda v: np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]]))
def a_jacobian(v):
    return hloom.jacobian(lambda a: a[:-1] * a[1:])(v)


@program((np.array([1.0, 2.0]),), reference=lambda v: np.array([[2.0 * v[1], 2.0 * v[0]], [2.0 * v[0], 6.0 * v[1]]]))
def a_hessian(v):
    return hloom.hessian(lambda a: a[0] * a[0] * a[1] + a[1] ** 3)(v)


@program((0.5,), reference=lambda x: (math.cos(x), -math.sin(x)))
def a_jacobian_and_a_hessian_of_numbers(x):
    return hloom.jacobian(math.sin)(x), hloom.hessian(math.sin)(x)


@program(({"a": 2.0, "b": (3.0, 4)}, 5.0), reference=lambda p, x: {"a": 25.0, "b": (5.0, None)})
def the_gradient_has_the_structure_of_the_argument(p, x):
    return hloom.grad(weighted)(p, x)


@program((np.array([1.0, -2.0]),), reference=lambda v: 2 * v)
def the_gradient_of_an_array(v):
    return hloom.grad(norm_squared)(v)


@program((np.array([3.0, 4.0]), 50), reference=lambda v, n: v * 0.8**n)
def gradient_descent(v, n):
    step = hloom.grad(norm_squared)
    for _ in range(n):
        v = v - 0.1 * step(v)
    return v


@program((3.0,), reference=lambda x: math.sqrt(2.0))
def newton_with_a_derivative_inside_a_loop(x):
    f = lambda v: v * v - 2
    while abs(f(x)) > 1e-12:
        x = x - f(x) / hloom.grad(f)(x)
    return x


@program((2.0, 5), (2.0, 0), reference=lambda x, n: n * x ** (n - 1) if n else 0.0)
def the_gradient_of_a_loop(x, n):
    def power(v):
        y = 1.0
        for _ in range(n):
            y = y * v
        return y

    return hloom.grad(power)(x)


@program((2.0, 5), (2.0, 1), reference=lambda x, n: n * (n - 1) * x ** (n - 2))
def the_second_derivative_of_a_recursion(x, n):
    def power(v, k):
        return 1.0 if k == 0 else v * power(v, k - 1)

    return hloom.grad(hloom.grad(power))(x, n)


@program((2.0,), (-2.0,), reference=lambda x: 6 * x if x > 0 else 0.0)
def the_second_derivative_of_a_branch(x):
    def f(v):
        if v > 0:
            return v * v * v
        return v * 4

    return hloom.grad(hloom.grad(f))(x)


@program((2.0, 0), (2.0, 1), reference=lambda x, i: 2 * x if i == 0 else math.cos(x))
def the_gradient_of_a_function_chosen_by_data(x, i):
    f = (lambda v: v * v, math.sin)[i]
    return hloom.grad(f)(x)


@program((2.0, True), (2.0, False), reference=lambda x, flag: 2 * x if flag else x * x)
def a_gradient_in_one_arm(x, flag):
    f = lambda v: v * v
    g = hloom.grad(f) if flag else f
    return g(x)


@program((3.0,), reference=lambda x: (2 * x, 2.0, 4 * x**3))
def a_function_that_differentiates_its_argument(x):
    def derivatives(f, v):
        return hloom.grad(f)(v), hloom.grad(hloom.grad(f))(v)

    square = lambda v: v * v
    first, second = derivatives(square, x)
    return first, second, derivatives(lambda v: v**4, x)[0]


@program((2.0,), reference=lambda x: (2.0, 12.0))
def gradients_in_a_comprehension(x):
    return tuple(hloom.grad(f)(x) for f in (lambda v: v * 2, cube))


@program((0.5,), reference=lambda x: 2 * x * math.cos(x * x))
def a_gradient_of_a_composition(x):
    compose = lambda f, g: lambda v: f(g(v))
    return hloom.grad(compose(math.sin, lambda v: v * v))(x)


@program((1.5, 2.0), reference=lambda x, y: 2 * y * y * x)
def the_gradient_of_a_function_with_an_inner_gradient(x, y):
    def energy(v):
        slope = hloom.grad(lambda w: w * w * v / 2)(y)
        return slope * slope * 1.0

    return hloom.grad(energy)(x)


@program((2.0, 3), (2.0, 0), reference=lambda x, n: float(math.prod(range(5 - n + 1, 6)) * x ** (5 - n)))
def a_derivative_of_dynamic_order_by_data(x, n):
    first = hloom.grad(lambda v: v**5)
    second = hloom.grad(first)
    third = hloom.grad(second)
    return (lambda v: v**5, first, second, third)[n](x)


@program((3.0, 2), reference=lambda x, n: (2.0 * x, None))
def an_integer_argument_has_no_gradient(x, n):
    return hloom.grad(lambda a, k: a**k, (0, 1))(x, n)


@program((np.array([1.0, 2.0]), np.array([1.0, 0.5])), reference=lambda v, d: 12 * v * v * d)
def a_product_of_the_hessian_and_a_vector(v, d):
    gradient = hloom.grad(lambda a: np.sum(a**4))
    return hloom.jvp(gradient, (v,), (d,))[1]


@program((np.array([1.0, 2.0]), np.array([1.0, 0.5])), reference=lambda v, d: 12 * v * v * d)
def the_same_product_by_two_gradients(v, d):
    gradient = hloom.grad(lambda a: np.sum(a**4))
    return hloom.grad(lambda a: np.dot(gradient(a), d))(v)


@program((0.3,), reference=lambda x: (-math.sin(x), -math.sin(x)))
def forward_over_reverse_and_reverse_over_forward(x):
    tangent = lambda v: hloom.jvp(math.sin, (v,), (1.0,))[1]
    return hloom.jvp(hloom.grad(math.sin), (x,), (1.0,))[1], hloom.grad(tangent)(x)


@program((4.0,), reference=lambda x: 0.25)
def the_gradient_of_a_while_loop(a):
    def root(v):
        x = v
        while abs(x * x - v) > 1e-12:
            x = 0.5 * (x + v / x)
        return x

    return hloom.grad(root)(a)


@program((np.array([0.5, -0.5]), np.array([1.0, 2.0]), 0.0, 100))
def a_fitted_line(w, x, target, n):
    loss = lambda p: (p[0] + p[1] * x[0] - 1.0) ** 2 + (p[0] + p[1] * x[1] - target) ** 2
    for _ in range(n):
        value, slope = hloom.value_and_grad(loss)(w)
        if value < 1e-6:
            break
        w = w - 0.05 * slope
    return np.round(w, 3)


@program((2.0,), raises=ZeroDivisionError)
@program((3.0,), reference=lambda x: -1.0)
def an_error_in_a_differentiated_function(x):
    return hloom.grad(lambda v: 1 / (v - 2.0) if x > 2 else v / (x - 2.0))(x)  # raises


@program((3,), refused="")
def the_gradient_by_an_integer(n):
    return hloom.grad(lambda v: v * v)(n)  # refused


@program((np.array([1.0, 2.0]),), refused="scalar")
def the_gradient_of_an_array_of_results(v):
    return hloom.grad(lambda a: a * 2)(v)  # refused


@program((2.0, 3.0), (2.0, -3.0), raises=ValueError, message="no")
def the_gradient_of_a_function_that_always_raises(x, y):
    def f(a):
        if y > 0:
            raise ValueError("no")  # raises
        raise ValueError("no, never")  # raises

    return hloom.grad(f)(x)


@program((2.0, 3.0), refused="wrt")
def a_gradient_by_the_name_of_a_parameter(x, y):
    return hloom.grad(lambda a, b: a * b, "b")(x, y)  # refused


@program((2.0, 3.0), refused="unexpected keyword argument 'return_value'")
def an_option_that_gradients_do_not_have(x, y):
    return hloom.grad(lambda a, b: a * b, return_value=True)(x, y)  # refused


@program((2.0, 3.0), refused="not callable")
def the_gradient_of_a_number(x, y):
    return hloom.grad(x)(y)  # refused
