"""Functions made by `hloom.function` and `hloom.grad` outside, called from functions and from Python."""

import functools

import numpy as np

import hloom
from tests.functions.table import program


@hloom.function
def square(x):
    return x * x


@hloom.function
def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


derivative = hloom.grad(square)
second_derivative = hloom.grad(hloom.grad(lambda x: x * x * x))


class Model:
    """A class of Python with a compiled function as an attribute."""

    scale = 2.0
    activation = staticmethod(square)


@program((3,), (2.5,), (np.array([1.0, 2.0]),), reference=lambda x: x * x + 1)
def a_compiled_function_is_called(x):
    return square(x) + 1


@program((5,), (1,), reference=lambda n: {5: 120, 1: 1}[n])
def a_compiled_recursion_is_called(n):
    return factorial(n)


@program((3.0,), reference=lambda x: 2 * x)
def a_derivative_made_outside(x):
    return derivative(x)


@program((3.0,), reference=lambda x: (6 * x, 2.0))
def derivatives_of_derivatives_made_outside(x):
    return second_derivative(x), hloom.grad(derivative)(x)


@program((3.0,), reference=lambda x: (81.0, 18.0))
def compiled_functions_are_values(x):
    twice = lambda f, v: f(f(v))
    return twice(square, x), sum(map(square, (x, -x)))


@program((3.0,), reference=lambda x: 4 * x**3)
def the_gradient_through_a_compiled_function(x):
    return hloom.grad(lambda v: square(square(v)))(x)


@program((3.0,), reference=lambda x: 2 * x * x)
def an_attribute_of_a_class(x):
    return Model.activation(x) * Model.scale


@program((2.0,), reference=lambda x: 12.0)
def a_partial_of_a_compiled_function(x):
    scaled = functools.partial(lambda f, k, v: f(v) * k, square, 3.0)
    return scaled(x)


@functools.cache
def _cached_fibonacci(n):
    return n if n < 2 else _cached_fibonacci(n - 1) + _cached_fibonacci(n - 2)


@program((10,), (1,))
def a_cached_recursion_by_data(n):
    return _cached_fibonacci(n)


@functools.singledispatch
def _by_class(x):
    return x


@_by_class.register
def _by_int(x: int):
    return x + 1


@_by_class.register(float)
def _by_float(x):
    return x * 2


@_by_class.register(tuple)
def _by_tuple(x):
    return tuple(_by_class(item) for item in x)


@program((3,), (2.5,), ((1, (2.5, None)),), (True,), ("a",))
def dispatch_on_the_class_of_an_argument(x):
    return _by_class(x)
