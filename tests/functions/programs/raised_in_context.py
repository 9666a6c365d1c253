"""Errors of Python and NumPy, by class, line and message, from within loops, closures, recursion and derivatives."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.functions.table import program


class NotPositive(ValueError):
    pass


@dataclass
class Checked:
    value: Any

    def __post_init__(self):
        if self.value < 0:
            raise ValueError("negative value")  # raises

    def reciprocal(self):
        return 1 / self.value  # raises


def checked_root(x):
    assert x >= 0, "x must not be negative"  # raises
    return math.sqrt(x)


@program((np.array([1.0, 2.0, 3.0]), 3), raises=IndexError)
@program((np.array([1.0, 2.0, 3.0]), 2))
def an_index_computed_in_a_closure(v, i):
    pick = lambda k: v[k]  # raises
    return pick(i) + pick(0)


@program((np.array([1.0, 2.0, 3.0]), -4), raises=IndexError)
@program((np.array([1.0, 2.0, 3.0]), -3))
def an_assignment_at_a_negative_index(v, i):
    w = v * 2
    w[i] = 0.0  # raises
    return w


@program(((1, 2, 3), 5), raises=IndexError)
@program(((1, 2, 3), -1))
def an_index_of_a_tuple_by_data(t, i):
    return t[i] * 2  # raises


@program((5, 0), raises=ZeroDivisionError)
@program((5, 2))
def a_remainder_in_a_loop(n, m):
    total = 0
    for k in range(n):
        total += k % m  # raises
    return total


@program((3,), raises=ZeroDivisionError)
@program((0,))
def a_division_that_reaches_zero(n):
    total = 0.0
    k = 2
    while n > 0:
        total += 1 / k  # raises
        k -= 1
        n -= 1
    return total


@program((-1.0,), raises=AssertionError, message="x must not be negative")
@program((4.0,))
def an_assertion_in_a_global_function(x):
    return checked_root(x) + 1.0


@program((np.array([1.0, -4.0]),), raises=AssertionError, message="negative")
@program((np.array([1.0, 4.0]),))
def an_assertion_in_a_loop_over_an_array(v):
    total = 0.0
    for value in v:
        assert value >= 0, "negative"  # raises
        total += math.sqrt(value)
    return total


@program((-1,), raises=NotPositive, message="not positive")
@program((3,))
def a_subclass_of_value_error(n):
    if n <= 0:
        raise NotPositive("not positive")  # raises
    return n * 2


@program((3,), raises=ValueError, message="odd")
@program((4,))
def a_raise_in_a_nested_function(n):
    def even(k):
        if k % 2:
            raise ValueError("odd number")  # raises
        return k // 2

    return even(n) + even(n * 2)


@program((0,), raises=KeyError)
@program((1,))
def a_raise_of_a_key_error(n):
    if n not in (1, 2):
        raise KeyError(n)  # raises
    return n


@program((5,), raises=NotImplementedError)
@program((1,))
def a_raise_without_arguments(n):
    if n > 2:
        raise NotImplementedError  # raises
    return n


@program((-2.0,), raises=ValueError)
@program((2.0,))
def a_domain_error_of_a_logarithm(x):
    return math.log(x) * 2  # raises


@program((-0.5,), raises=ValueError)
@program((2,))
def a_domain_error_of_math_functions(x):
    return math.sqrt(x) + math.log2(x)  # raises


@program((0.0,), raises=ZeroDivisionError)
@program((2.0,))
def a_negative_power_of_zero(x):
    return x**-1  # raises


@program((Checked(2.0), 0.0), raises=ZeroDivisionError)
@program((Checked(2.0), 4.0))
def an_error_in_a_method(c, x):
    return c.reciprocal() + Checked(x).reciprocal()


@program((-3.0,), raises=ValueError, message="negative value")
@program((3.0,))
def an_error_in_a_post_init(x):
    return Checked(x).value * 2


@program((5,), raises=RecursionError, message="deep")
@program((2,))
def a_recursion_error_raised_by_hand(n):
    def f(k):
        if k > 3:
            raise RecursionError("too deep")  # raises
        return 0 if k == n else 1 + f(k + 1)

    return f(0)


@program((2,), raises=IndexError)
@program((1,))
def a_pop_from_a_list_by_data(n):
    values = [10, 20]
    return values[n] + values[-n]  # raises


@program((2.0, 0.0), raises=ZeroDivisionError)
@program((2.0, 1.0), grad=0)
def an_error_in_what_is_differentiated(x, y):
    f = lambda v: v * v / y  # raises
    return f(x) + x


@program((10, 4), raises=ValueError, message="limit")
@program((3, 4))
def a_raise_in_an_else_of_a_loop(n, limit):
    for k in range(limit):
        if k == n:
            break
    else:
        raise ValueError("over the limit")  # raises
    return k


@program((1, 0), raises=ZeroDivisionError)
@program((0, 0))
@program((1, 2))
def an_error_behind_and(a, b):
    return a > 0 and b / a + a / b > 1  # raises


@program((np.array([1, 2, 3]), np.array([0, 5])), raises=IndexError)
@program((np.array([1, 2, 3]), np.array([0, 2])))
def an_index_array_out_of_range(v, indices):
    return v[indices].sum()  # raises


@program((np.array([[1.0, 2.0], [2.0, 4.0]]),), raises=np.linalg.LinAlgError)
@program((np.array([[1.0, 2.0], [3.0, 4.0]]),))
def an_inverse_of_a_singular_matrix(m):
    return np.linalg.inv(m)  # raises


@program((3,), raises=UnboundLocalError)
@program((-3,))
def a_local_name_that_one_path_binds(n):
    if n < 0:
        y = n * 2
    n = n + 1
    return n + y  # raises


@program((0,), raises=UnboundLocalError)
@program((2,))
def a_loop_variable_read_without_a_round(n):
    for k in range(n):
        pass
    return k  # raises


@program((2, 0), raises=ZeroDivisionError)
@program((2, 3))
def the_second_of_two_calls_fails(a, b):
    def ratio(x, y):
        return x // y  # raises

    first = ratio(b, a)
    second = ratio(a, b)
    return first, second


@program((np.array([3.0, 1.0]), 2), raises=ValueError, message="no root")
@program((np.array([3.0, -1.0]), 2))
def an_error_raised_after_a_search(v, n):
    k = 0
    while k < n and v[k] > 0:
        k += 1
    if k == n:
        raise ValueError("no root")  # raises
    return k


@program((300.0,), raises=OverflowError)
@program((3.0,))
def an_overflow_of_a_hyperbolic_sine(x):
    return math.sinh(x * x)  # raises


@program((float("inf"),), raises=OverflowError)
@program((float("nan"),), raises=ValueError)
@program((2.5,))
def an_int_of_a_special_float(x):
    return int(x)  # raises


@program((3, 2), raises=TypeError)
def a_call_with_a_missing_argument(a, b):
    f = lambda x, y, z: x + y + z
    return f(a, b)  # raises


@program((3,), raises=TypeError)
def an_addition_of_none(a):
    x = None
    return a + x  # raises


@program((3,), raises=AttributeError)
def an_attribute_of_none(a):
    x = None if a is not None else a
    return x.real  # raises


@program((3,), raises=NameError)
def a_name_that_is_nowhere(a):
    return a + nowhere  # raises


@program(((1, 2, 3),), raises=ValueError)
@program(((1, 2),))
def an_unpacking_of_the_wrong_length(t):
    a, b = t  # raises
    return a + b


@program((2,), raises=KeyError)
def a_key_that_no_dict_has(n):
    table = {"a": n}
    return table["b"]  # raises


@program((-5,), raises=ValueError)
@program((5,))
def a_factorial_of_a_negative_number(n):
    return math.factorial(5) + math.isqrt(n)  # raises


@program((7,), raises=AssertionError)
@program((6,))
def an_assertion_without_a_message(n):
    half = n // 2
    assert half * 2 == n  # raises
    return half


@program((4, 4), raises=ZeroDivisionError)
@program((4, 9))
def an_error_in_a_comprehension(n, m):
    return [10 // (n + k - m) for k in range(3)]  # raises


@program((1, 5), raises=IndexError)
@program((1, 1))
def a_matrix_index_in_nested_loops(i, n):
    m = np.ones((3, 3))
    total = 0.0
    for a in range(n):
        for b in range(n):
            total += m[a + i, b]  # raises
    return total
