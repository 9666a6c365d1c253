"""Functions that are called more than once: one graph per types, aliases and captured values as Python has them."""

import math

import numpy as np

from tests.functions.table import program


def _root_and_pair(x):
    if x < 0:
        raise ValueError("negative")  # raises
    root = 0.0
    while root * root < x:
        root = root + 0.25
    return root, [x, 2 * x]


@program((2.0,), (0.3,))
def results_of_one_function_are_objects_of_their_own(x):
    total = 0.0
    for factor in (1.0, 2.0, 3.0, 4.5):
        root, pair = _root_and_pair(x * factor)
        pair.append(root)
        total = total + pair[0] + pair[2]
    return total


@program((1.0,), raises=ValueError, marked=_root_and_pair, message="negative")
@program((9.0,))
def an_error_of_the_third_call(x):
    return _root_and_pair(x)[0] + _root_and_pair(x - 1)[0] + _root_and_pair(x - 2)[0]


def _doubled(n, x):
    if n <= 0:
        return [x, x + 1]
    rest = _doubled(n - 1, x * 2)
    return [rest[0], rest[1] + 1]


@program((3, 1.5))
def lists_of_one_recursive_function(n, x):
    first = _doubled(n, x)
    second = _doubled(n, x + 10.0)
    return first, second


@program((2.0, 3.0))
def closures_of_one_function(x, y):
    def make(a):
        def add(b):
            return a + b

        return add

    first, second, third = make(x), make(y), make(x * y)
    return first(1.0), second(1.0), third(1.0)


def _same(x):
    return x


@program((np.arange(3.0),))
def a_result_is_the_argument_itself(x):
    a = x * 1.0
    b, c = _same(a), _same(a)
    d = _same(c)
    d[0] = 7.0
    return a, b


def _row(x, i):
    return x[i]


@program((np.arange(6.0).reshape(2, 3),), or_refused=True)
def a_result_is_a_view_of_the_argument(x):
    a = x * 1.0
    first, second, third = _row(a, 0), _row(a, 0), _row(a, 0)
    third[1] = 9.0  # refused
    return a, first + second


@program((1.0,))
def an_argument_is_changed(x):
    def put(items, value):
        items.append(value)
        return items

    items = [x]
    put(items, x)
    put(items, x + 1)
    other = put(items, x + 2)
    other.append(5.0)
    return items


@program((2.0,))
def what_a_function_captures_is_bound_anew(x):
    factor = 2.0

    def scaled(value):
        return value * factor

    a, b = scaled(x), scaled(x)
    factor = 3.0
    c = scaled(x)
    factor = x
    return a, b, c, scaled(x), scaled(x)


@program((2.0,))
def a_captured_list_is_changed_between_calls(x):
    factors = [2.0]

    def scaled(value):
        return value * factors[0]

    a, b = scaled(x), scaled(x)
    factors[0] = 5.0
    c = scaled(x)
    factors.append(1.0)
    return a, b, c, scaled(x)


@program((2.0,))
def calls_that_count_themselves(x):
    count = 0

    def counted(value):
        nonlocal count
        count = count + 1
        return value * count

    a, b, c = counted(x), counted(x), counted(x)
    return a, b, c, count


def _leaf(x):
    return math.sin(x) * x + math.cos(x) * 3.0 - x * x / 2.0


def _tower1(x):
    return _leaf(x) + _leaf(x * 0.5)


def _tower2(x):
    return _tower1(x) - _tower1(x * 0.5)


def _tower3(x):
    return _tower2(x) + _tower2(x * 0.5)


@program((1.3,), grad=0)
def a_tower_of_functions(x):
    return _tower3(x) * _tower3(x + 1.0)


@program((1.3, True), (1.3, False))
def a_function_in_branches(x, flag):
    if flag:
        y = _tower2(x) + _tower2(x + 1.0)
    else:
        y = _tower2(x - 1.0)
    return y + _tower2(x)


def _applied(function, x):
    return function(x) + function(x + 1.0)


@program((2.0,))
def functions_with_unlike_defaults(x):
    functions = [lambda v, k=k: v * k for k in (1.0, 2.0, 3.0)]
    return [_applied(function, x) for function in functions]


@program((27, 0), (1, 5))
def steps_of_collatz(n, k):
    if n == 1:
        return k
    if n % 2 == 0:
        return steps_of_collatz(n // 2, k + 1)
    return steps_of_collatz(3 * n + 1, k + 1)


@program((3, 1.0))
@program((20, 1.0), raises=ValueError, message="too large")
def a_tail_call_after_a_check(n, x):
    if n == 0:
        return x
    if x > 100.0:
        raise ValueError("too large")  # raises
    return a_tail_call_after_a_check(n - 1, x * 2.0)


@program((5, 1.0), (20, 1.0), grad=1)
def a_tail_call_with_two_exits(n, x):
    if n == 0:
        return x
    if x > 50.0:
        return -x
    y = x + 1.0
    return a_tail_call_with_two_exits(n - 1, y * y * 0.5)


@program((4, np.arange(4.0)), (0, np.arange(4.0)))
def a_tail_call_with_an_array(n, x):
    if n == 0:
        return x.sum()
    return a_tail_call_with_an_array(n - 1, x * 0.5 + 1.0)


@program((900, 0))
def a_deep_tail_call(n, total):
    if n == 0:
        return total
    return a_deep_tail_call(n - 1, total + n)


@program((None, 0, 6), (None, 0, -2))
def none_called_on_a_path_that_is_not_taken(function, x, y):
    def made():
        return x + y

    chosen = made if x == 0 else function()
    return chosen()


@program((None, 1), raises=TypeError, message="callable")
def none_called(function, x):
    if x > 0:
        return function(x)  # raises
    return x


@program((3, int), (2.5, int), (3, np.float32), (2.5, np.int16), (np.float32(1.5), np.float64), (True, float))
def a_class_as_an_argument(x, cls):
    return cls(x)
