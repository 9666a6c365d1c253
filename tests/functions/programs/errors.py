"""Errors at run time: the same class as Python's, at the line that raises."""

import math

import numpy as np

from tests.functions.table import program

V = np.array([1.0, 2.0, 3.0])
M = np.arange(6.0).reshape(2, 3)


@program((6, 3))
@program((6, 0), (6.0, 0.0), (6, 0.0), raises=ZeroDivisionError)
def division_by_zero(a, b):
    return a / b  # raises


@program((7, 2))
@program((7, 0), (7.5, 0.0), raises=ZeroDivisionError)
def floor_division_by_zero(a, b):
    c = a + 1
    return c // b  # raises


@program((7, 2))
@program((7, 0), (7.5, 0.0), raises=ZeroDivisionError)
def modulo_by_zero(a, b):
    return a % b  # raises


@program((7, 0), raises=ZeroDivisionError)
@program((7, 2))
def divmod_by_zero(a, b):
    return divmod(a, b)  # raises


@program((2.0, -1.0))
@program((0.0, -1.0), raises=ZeroDivisionError)
def zero_to_a_negative_power(a, b):
    return a**b  # raises


@program((V, 2), (V, -3))
@program((V, 3), (V, -4), (V, 100), raises=IndexError)
def an_index_of_an_array_out_of_range(x, i):
    y = x * 2
    return y[i]  # raises


@program((M, 1, -3))
@program((M, 2, 0), (M, 0, 3), (M, -3, 0), raises=IndexError)
def indices_of_a_matrix_out_of_range(x, i, j):
    return x[i, j]  # raises


@program((V, np.array([0, 2])))
@program((V, np.array([0, 3])), (V, np.array([-4, 0])), raises=IndexError)
def an_array_of_indices_out_of_range(x, i):
    return x[i]  # raises


@program(((1, 2, 3), 1))
@program(((1, 2, 3), 3), ((1, 2, 3), -4), raises=IndexError)
def an_index_of_a_tuple_out_of_range(values, i):
    return values[i]  # raises


@program((1,))
@program((4,), (-5,), raises=IndexError)
def an_assignment_out_of_range(i):
    x = np.zeros(4)
    x[i] = 1.0  # raises
    return x


@program((3,))
@program((-3,), raises=AssertionError)
def a_failed_assertion(n):
    assert n > 0  # raises
    return n


@program((3,))
@program((-3,), raises=AssertionError, message="n must be positive")
def a_failed_assertion_with_a_message(n):
    assert n > 0, "n must be positive"  # raises
    return n


@program((3.0,))
@program((-3.0,), raises=ValueError, message="a negative number")
def a_raise_in_a_branch(x):
    if x < 0:
        raise ValueError("a negative number")  # raises
    return math.sqrt(x)


@program((3,), (0,))
@program((-1,), raises=ValueError, message="below")
@program((11,), raises=OverflowError, message="above 10")
def two_raises(n):
    if n < 0:
        raise ValueError("below")  # raises
    elif n > 10:
        raise OverflowError(f"above {5 * 2}")  # raises
    return n


@program((5,))
@program((2,), raises=RuntimeError, message="stopped at")
def a_raise_in_a_loop(n):
    total = 0
    for i in range(5):
        total += i
        if i == n:
            raise RuntimeError(f"stopped at {i}")  # raises
    return total


@program((4.0,), (0.0,))
@program((-4.0,), (float("-inf"),), raises=ValueError)
def the_square_root_of_a_negative_number(x):
    return math.sqrt(x)  # raises


@program((2.0,))
@program((0.0,), (-1.0,), raises=ValueError)
def the_logarithm_of_zero(x):
    return math.log(x)  # raises


@program((0.5,))
@program((1.5,), raises=ValueError)
def an_arc_sine_out_of_its_domain(x):
    return math.asin(x)  # raises


@program((700.0,))
@program((1000.0,), raises=OverflowError)
def an_exponential_that_overflows(x):
    return math.exp(x)  # raises


@program((2.5,))
@program((float("nan"),), raises=ValueError)
@program((float("inf"),), raises=OverflowError)
def an_int_of_what_is_no_number(x):
    return int(x)  # raises


@program((3, 2))
@program((3, -1), raises=ValueError)
def a_negative_shift(a, n):
    return a << n  # raises


@program((0, 5, 2), (5, 0, -2))
@program((0, 5, 0), raises=ValueError)
def a_range_with_step_zero(a, b, step):
    total = 0
    for i in range(a, b, step):  # raises
        total += i
    return total


def inverse(x):
    return 1 / x  # raises


@program((3,))
@program((0,), raises=ZeroDivisionError)
def an_error_in_a_called_function(n):
    y = n + 1
    return inverse(n) + y


@program((3,), (-2,))
@program((2,), raises=ZeroDivisionError)
def an_error_in_a_closure(n):
    def f(v):
        return 10 // (v - 2)  # raises

    return f(n) + f(5)


@program((2,))
@program((5,), raises=ZeroDivisionError)
def an_error_in_an_iteration(n):
    total = 0
    for i in range(n):
        total += 12 // (4 - i)  # raises
    return total


@program((3,))
@program((-1,), raises=AssertionError)
def an_error_in_a_recursion(n):
    assert n >= 0  # raises
    if n == 0:
        return 0
    return n + an_error_in_a_recursion(n - 1 if n != 2 else n - 1)


@program((5,), raises=AssertionError)
@program((4,))
def an_error_deep_in_a_recursion(n):
    if n == 1:
        assert False, "odd"  # raises
    if n == 0:
        return 0
    return 1 + an_error_deep_in_a_recursion(n - 2)


@program((3, 0))
@program((-3, 0), raises=ZeroDivisionError)
def an_error_in_one_arm_only(n, d):
    if n > 0:
        return n
    return n // d  # raises


@program((1, 0, 0), raises=ZeroDivisionError)
@program((1, 1, 0), raises=ZeroDivisionError)
@program((1, 1, 1))
def the_first_of_two_errors(a, b, c):
    x = a / b  # raises
    y = a / c  # raises
    return x + y


@program((0, V, 9), raises=ZeroDivisionError)
@program((1, V, 9), raises=IndexError)
@program((1, V, 2))
def the_first_of_two_kinds(a, x, i):
    y = 1 // a  # raises
    return x[i] + y  # raises


@program((1,))
@program((0,), raises=ZeroDivisionError)
def an_error_whose_value_is_not_used(n):
    1 / n  # raises
    return n


@program((0,))
@program((1,), raises=NotImplementedError)
def a_raise_of_a_class(n):
    if n:
        raise NotImplementedError  # raises
    return n


@program((2.0, 3.0))
@program((2.0, -1.0), raises=ValueError)
def an_error_before_a_loop_ends(x, low):
    while x > low:
        x -= 0.5
        if x < 0:
            raise ValueError("no end")  # raises
    return x


@program((2,))
@program((0,), raises=UnboundLocalError)
def a_name_that_no_iteration_bound(n):
    for i in range(n):
        last = i
    return last  # raises


@program((1,))
@program((-1,), raises=UnboundLocalError)
def a_name_bound_in_one_arm(n):
    if n > 0:
        y = n
    return y  # raises


@program(((1, 2),))
@program(((),), raises=ValueError)
def the_largest_of_nothing(values):
    return max(values)  # raises


@program(({"a": 1},))
@program(({"b": 1},), raises=KeyError)
def a_missing_key(values):
    return values["a"]  # raises


@program(((1, 2),))
@program(((1, 2, 3),), raises=ValueError)
def too_many_values_to_unpack(values):
    a, b = values  # raises
    return a + b


@program((5, 2))
@program((5, 0), raises=ZeroDivisionError)
def an_error_in_an_argument_of_a_message(a, b):
    assert a > 0, a // b
    return a // b  # raises


@program((np.array([1, 2]), 1))
@program((np.array([1, 0]), 1), raises=AssertionError)
def an_assertion_about_an_array(x, n):
    assert np.all(x > 0), "all must be positive"  # raises
    return x + n


@program((6,), (7,), raises=ValueError)
@program((5,))
def raises_in_an_else_clause(n):
    for d in (2, 3, 5):
        if n == d:
            break
    else:
        raise ValueError("not in the list")  # raises
    return d


@program((3,))
@program((4,), raises=ValueError, message="unknown")
def a_raise_in_a_match(n):
    match n:
        case 3:
            return 30
        case _:
            raise ValueError("unknown")  # raises


@program((True, 0.0))
@program((False, 0.0), raises=ZeroDivisionError)
def a_function_chosen_by_data_raises(flag, x):
    f = (lambda v: v + 1) if flag else (lambda v: 1 / v)  # raises
    return f(x)


@program((2,))
@program((-1,), raises=ValueError)
def a_negative_number_has_no_integer_root(n):
    return math.isqrt(n)  # raises
