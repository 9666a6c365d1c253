"""Comparisons, `and`, `or`, `not`, and their short circuit."""

import math

import numpy as np

from tests.functions.table import program


@program((1, 2, 3), (1, 3, 2), (3, 2, 1), (1, 1, 1))
def chained_comparison(a, b, c):
    return a < b < c, a <= b <= c, a < b > c, a == b == c


@program((0.5,), (-0.5,), (1.0,), (1.5,))
def chained_comparison_as_a_test(x):
    if 0 <= x < 1:
        return x
    return -1.0


@program((5,), (0,), (-5,))
def the_middle_of_a_chain_is_evaluated_once(x):
    calls = 0

    def counted(v):
        nonlocal calls
        calls += 1
        return v

    inside = -1 < counted(x) < 3
    return inside, calls


@program((0,), (-1,))
def a_chain_stops_at_the_first_false(x):
    calls = 0

    def counted(v):
        nonlocal calls
        calls += 1
        return v

    inside = 0 < x < counted(3)
    return inside, calls


@program((0.0,), (0.25,), (4.0,), (-0.1,))
def guarded_division(x):
    return x != 0 and 1 / x > 2


@program((0,), (3,), (7,))
def guarded_modulo(n):
    return n == 0 or 21 % n == 0


@program((np.array([1.0, 2.0, 3.0]), 1), (np.array([1.0, 2.0, 3.0]), 3), (np.array([1.0, 2.0, 3.0]), 9))
def guarded_index(values, i):
    return i < len(values) and values[i] > 1.5


@program((-4.0,), (9.0,))
def guarded_square_root_in_a_branch(x):
    if x >= 0 and math.sqrt(x) > 2:
        return 1
    return 0


@program((0.0,), (2.0,))
def guarded_division_in_a_conditional_expression(x):
    return 1 / x if x else math.inf


@program((3, 4), (0, 4), (3, 0), (0, 0))
def and_or_give_operands(a, b):
    return a and b, a or b


@program((0, 0, 7), (0, 5, 7), (3, 5, 7))
def a_chain_of_or(a, b, c):
    return a or b or c


@program((1, 2, 3), (1, 0, 3), (0, 2, 3))
def a_chain_of_and(a, b, c):
    return a and b and c


@program((0,), (4,))
def or_as_a_default(n):
    n = n or 10
    return n * 2


@program((True, False), (False, False), (True, True))
def not_and_or_of_bools(a, b):
    return not a, not (a and b), (not a) or b, a and not b, a != b


@program((0,), (5,))
def not_of_a_number(n):
    return not n, not not n


@program((0.0,), (1.0,))
def not_of_a_float(x):
    return not x


@program((3,), (5,), (-1,))
def membership_in_a_tuple(n):
    return n in (1, 3, 7), n not in (1, 3, 7)


@program((3,), (12,), (9,))
def membership_in_a_range(n):
    return n in range(10), n in range(0, 10, 3)


@program((2.0, (1.0, 2.0)), (5.0, (1.0, 2.0)))
def membership_in_an_argument(x, values):
    return x in values


@program((None,), (3,))
def comparison_with_none(x):
    if x is None:
        return -1
    return x + 1


@program((2, None), (2, 5))
def none_as_a_default_value(x, bound=None):
    if bound is not None and x < bound:
        return bound
    return x


@program(((1, 2), (1, 2)), ((1, 2), (1, 3)), ((1, 2), (0, 9)))
def comparison_of_tuples(a, b):
    return a == b, a != b, a < b, a >= b


@program((float("nan"), 1.0), (1.0, 1.0))
def comparisons_with_nan(x, y):
    return x < y, x >= y, x == y, x != y, x == x


@program((1, 1.0), (2, 1.5), (True, 1))
def comparisons_across_types(a, b):
    return a == b, a < b, a >= b


@program(((True, True, False),), ((True, True),), ((False, False),), ((),))
def any_and_all_of_a_tuple(flags):
    return any(flags), all(flags)


@program(((1, 2, 3),), ((1, -2, 3),))
def any_and_all_of_a_generator(values):
    return any(v < 0 for v in values), all(v > 0 for v in values)


@program((4, 2), (4, 0))
def any_stops_at_the_first_true(a, b):
    return any(t() for t in (lambda: b == 0, lambda: a / b > 1))


@program((3,), (-3,))
def tests_with_assignments(n):
    positive = n > 0
    even = n % 2 == 0
    if positive and not even:
        return 1
    if positive or even:
        return 2
    return 3


@program((7, 0), (7, 2), (0, 0))
def short_circuit_with_effects(a, b):
    log = 0

    def note(v, value):
        nonlocal log
        log = log * 10 + v
        return value

    _ = note(1, a > 5) and note(2, b > 1) or note(3, True)
    return log


@program((3, True), (-3, True), (0, False))
def tests_that_a_constant_decides(n, flag):
    k = 3
    kept = n if n > 0 or k == 3 else (n, n)
    return (n > 0 and k == 4), (flag and False), (flag or True), kept
