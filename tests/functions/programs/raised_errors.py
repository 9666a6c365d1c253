"""Errors of every kind at their lines: out of range, domain, zero, assertions, raises with messages, in odd corners."""

import math

import numpy as np

from tests.functions.table import program


class OwnError(ValueError):
    """An error of the user's."""


@program((np.array([1, 2, 3]), 3), raises=IndexError)
@program((np.array([1, 2, 3]), -4), raises=IndexError)
@program((np.array([1, 2, 3]), 2))
def an_index_in_a_loop_runs_out(x, n):
    total = 0
    i = 0
    while i <= n or n < 0:
        total += x[i if n >= 0 else n]  # raises
        i += 1
    return total


@program(([1, 2, 3], 5), raises=IndexError)
@program(([1, 2, 3], 2))
def a_list_index_from_arithmetic(values, n):
    return values[n * 2 - 2]  # raises


@program((0.0,), raises=ZeroDivisionError)
@program((4.0,))
def a_division_in_a_lambda(x):
    f = lambda v: 1 / v  # raises
    return f(x) + 1


@program((5, 0), raises=ZeroDivisionError)
@program((5, 2))
def a_division_in_an_augmented_assignment(a, b):
    a //= b  # raises
    a **= 2
    return a


@program((3, 3), raises=ZeroDivisionError)
@program((3, 4))
def a_modulus_in_a_condition(a, b):
    if 10 % (a - b) == 0:  # raises
        return 1
    return 2


@program((-1,), raises=ValueError, message="negative")
@program((2,))
def a_raise_with_a_message_of_numbers(n):
    if n < 0:
        raise ValueError(f"n is negative: {n}")  # raises
    return n


@program((11,), raises=OwnError, message="too large")
@program((10,))
def a_raise_of_an_own_class(n):
    if n > 10:
        raise OwnError("too large")  # raises
    return n + 1


@program((0,), raises=RuntimeError)
@program((3,), raises=NotImplementedError, message="three")
@program((1,))
def raises_of_several_kinds(n):
    if n == 0:
        raise RuntimeError  # raises
    elif n == 3:
        raise NotImplementedError("three")  # raises
    return n


@program((2.0,), raises=AssertionError, message="in range")
@program((0.5,))
def an_assertion_with_a_chain(x):
    assert 0 <= x <= 1, "x must be in range"  # raises
    return x * 2


@program((np.array([1.0, -1.0]),), raises=AssertionError)
@program((np.array([1.0, 1.0]),))
def an_assertion_about_all_elements(x):
    assert np.all(x > 0)  # raises
    return np.sum(np.log(x))


@program((-4.0,), raises=ValueError, message="math domain error")
@program((4.0,))
def a_domain_error_after_arithmetic(x):
    y = x * 2
    return math.log(y) + math.sqrt(y)  # raises


@program((2.0,), raises=ValueError)
@program((0.5,))
def an_inverse_cosine_out_of_its_domain(x):
    return math.acos(x) + math.asin(x / 2)  # raises


@program((1000.0,), raises=OverflowError)
@program((2.0,))
def an_overflow_of_exp(x):
    return math.exp(x)  # raises


@program((1e200,), raises=OverflowError)
@program((1e10,))
def an_overflow_of_a_power(x):
    return x**2  # raises


@program(({"a": 1.0}, 1), raises=KeyError, message="b")
def a_missing_key_in_a_branch_taken(table, n):
    if n > 0:
        return table["b"]  # raises
    return table["a"]


@program((3, 2), raises=ValueError)
@program((2, 2))
def an_error_in_a_nested_function_in_a_loop(n, limit):
    def check(k):
        if k > limit:
            raise ValueError("over the limit")  # raises
        return k * k

    return sum(check(k) for k in range(n + 1))


@program((4,), raises=ZeroDivisionError)
@program((9,))
def an_error_in_a_recursion_with_an_accumulator(n):
    def walk(k, total):
        if k == 0:
            return total
        return walk(k - 1, total + 12 // (k - 4 + (5 if n > 5 else 0)))  # raises

    return walk(n if n < 6 else 0, 0)


@program((1,), raises=IndexError)
@program((0,))
def the_first_error_in_an_expression(n):
    x = np.zeros(3)
    return x[n * 5] + 1 / (1 - n)  # raises


@program((2.0, 0), (2.0, 1))
def an_error_in_the_function_not_chosen(x, i):
    functions = (lambda v: v + 1, lambda v: v / (v - 1.0))
    return functions[i](x)


@program((1.0, 1), raises=ZeroDivisionError)
@program((1.0, 0))
def an_error_in_the_function_chosen(x, i):
    functions = (lambda v: v + 1, lambda v: v / (v - 1.0))  # raises
    return functions[i](x)


@program((0,), raises=ZeroDivisionError)
@program((1,))
def an_error_before_an_early_return(n):
    y = 1 // n  # raises
    if n < 5:
        return 7
    return y


@program((0, True), (1, False), (2, True))
def an_error_guarded_by_and(n, flag):
    return flag and n != 0 and 10 // n > 4, n == 0 or 10 % n == 0


@program((0,), (5,))
def an_error_guarded_by_a_continue(n):
    total = 0.0
    for k in range(-2, 3):
        if k == n or k == 0:
            continue
        total += 1 / k
    return total


@program((5,), raises=UnboundLocalError)
@program((15,))
def a_name_bound_in_a_loop_with_break(n):
    for k in range(10, n):
        last = k
        if k > 12:
            break
    return last  # raises


@program((2.5,), refused="")
@program((3,))
def a_float_as_an_index(n):
    return (1, 2, 3, 4)[n]  # refused


@program((np.array([1.0, 2.0]),), raises=ValueError)
def an_array_unpacked_into_three(x):
    a, b, c = x  # raises
    return a + b + c


@program(((1, 2, 3),), raises=ValueError)
def a_tuple_unpacked_into_two(values):
    a, b = values  # raises
    return a + b


@program((3,), raises=TypeError)
def len_of_a_number(n):
    return len(n)  # raises


@program((3,), raises=TypeError)
def a_loop_over_a_number(n):
    total = 0
    for v in n:  # raises
        total += v
    return total


@program((3, "a"), raises=TypeError)
def a_sum_of_a_number_and_a_string(n, s):
    return n + s  # raises


@program((3,), raises=TypeError)
def a_call_with_too_many_arguments(n):
    def f(a):
        return a

    return f(n, n)  # raises


@program((3,), raises=AttributeError)
def an_attribute_of_a_number(n):
    return n.missing  # raises


@program((np.array([[1.0, 2.0], [2.0, 4.0]]),), raises=np.linalg.LinAlgError)
def a_singular_system(m):
    return np.linalg.solve(m, np.ones(2))  # raises


@program((3, 0), (3, 4))
def zero_to_the_zero(a, n):
    return 0**n, a**n, 0.0**n


@program((-8.0, 2.0), (4.0, 0.5))
def powers_of_floats(x, y):
    return x**y, math.pow(x, y), abs(x) ** 0.5, 2.0**x


@program((5, -1), raises=ValueError)
@program((5, 2))
def a_shift_by_a_negative_number(a, n):
    return a << n  # raises


@program((1, 10, 0), raises=ValueError)
@program((1, 10, 3))
def a_range_whose_step_may_be_zero(a, b, step):
    total = 0
    for k in range(a, b, step):  # raises
        total += k
    return total


@program((float("nan"),), raises=ValueError)
@program((float("inf"),), raises=OverflowError)
@program((2.9,))
def an_int_of_a_float(x):
    return int(x)  # raises


@program((5,), raises=ValueError)
@program((2,))
def an_error_in_a_match_without_a_case(n):
    match n:
        case 1 | 2:
            return n * 10
        case _:
            raise ValueError("no case")  # raises


@program((0,), raises=ZeroDivisionError)
@program((4,))
def an_error_before_a_loop_that_would_not_end(n):
    k = 10 // n  # raises
    while n != 5:
        n += 1 if n > 0 else 0
    return n + k


@program((3,), raises=IndexError)
def an_error_in_every_iteration(n):
    x = np.zeros(3)
    total = 0.0
    for _ in range(n):
        total += x[n]  # raises
    return total


@program((np.ones((2, 3)),), raises=ValueError)
def an_array_grows_in_place(x):
    total = np.zeros(3)
    total += x  # raises
    return total


class CodedError(Exception):
    """An error that takes a number."""

    def __init__(self, code, *, text):
        super().__init__(f"{text} {code}")
        self.code = code


@program((1,), raises=CodedError)
@program((3,))
def an_error_whose_class_takes_other_arguments(x):
    if x == 1:
        raise CodedError(7, text="code")  # raises
    return x
