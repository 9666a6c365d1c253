"""Functions as results: Python functions whose cells hold what they captured.

Covers `functions/results.py`.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import hloom


def made_by(factor: float, offset: float, *, scale: float = 2.0):
    def shifted(x, more=offset * 2, *, sign=1):
        return (x * factor + offset + more) * sign * scale

    return shifted


def pair_of(x: int, y: int):
    total = x + y

    def add(n):
        nonlocal total
        total += n
        return total

    return add, lambda: total, (lambda n: n * x, lambda n: n * y)


def factorial_from(base: int):
    def factorial(n):
        return base if n <= 1 else n * factorial(n - 1)

    return factorial


def one_of(x: float):
    def doubled(y):
        return 2 * y + x

    return doubled if x > 0 else lambda y: y - x


def partly(x: float):
    return functools.partial(lambda a, b, c=0.0: a * 100 + b * 10 + c, x, c=x + 1), {"power": functools.partial(pow, x)}


def composed(x: float):
    functions = [lambda y, k=k: y + k * x for k in range(3)]

    def composition(y):
        for function in functions:
            y = function(y)
        return y

    return composition


def test_a_closure_with_defaults():
    function, expected = hloom.function(made_by)(3.0, 0.5), made_by(3.0, 0.5)
    assert function(2.0) == expected(2.0)
    assert function(2.0, 1.0, sign=-1) == expected(2.0, 1.0, sign=-1)
    assert (function.__name__, function.__qualname__) == (expected.__name__, expected.__qualname__)
    assert hloom.grad(function)(2.0) == 6.0


def test_closures_share_their_cells():
    add, read, (times_x, times_y) = hloom.function(pair_of)(3, 4)
    assert (add(5), read(), add(1), read()) == (12, 12, 13, 13)
    assert (times_x(10), times_y(10)) == (30, 40)


def test_a_function_that_calls_itself():
    assert hloom.function(factorial_from)(1)(5) == 120


@pytest.mark.parametrize("x", [1.5, -1.5])
def test_a_function_chosen_by_data(x: float):
    assert hloom.function(one_of)(x)(3.0) == one_of(x)(3.0)


def test_partial_calls():
    function, table = hloom.function(partly)(3.0)
    assert function(2.0) == partly(3.0)[0](2.0)
    assert table["power"](2) == 9.0


def test_functions_in_a_captured_list():
    assert hloom.function(composed)(2.0)(1.0) == composed(2.0)(1.0)


def test_a_captured_array_is_the_last_one():
    def running(values):
        total = np.zeros(2)

        def read():
            return total

        for value in values:
            total = total + value
        return read

    np.testing.assert_array_equal(hloom.function(running)(np.ones((3, 2)))(), [3.0, 3.0])


def test_the_function_of_a_cotangent_stays_inside():
    with pytest.raises(hloom.HloomError, match="only lives inside the program"):
        hloom.function(lambda x: hloom.vjp(lambda y: y * y, x)[1])(2.0)
