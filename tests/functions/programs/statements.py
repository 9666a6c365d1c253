"""Assignments, branches, early returns, unpacking and Python's scoping."""

import math

import numpy as np

from tests.functions.table import program

RATE = 0.25
OFFSETS = (1, 10, 100)
WEIGHTS = np.array([0.5, 1.5, -2.0])
SETTINGS = {"scale": 3.0, "shift": 1}


@program((3, 4), (2.5, -1.0), (2, 0.5))
def straight_line(x, y):
    total = x + y
    product = x * y
    return total * product - x


@program((3.0,), (-3.0,), (0.0,))
def if_else(x):
    if x > 0:
        y = x * 2
    else:
        y = -x + 1
    return y


@program((-5,), (0,), (3,), (12,), (100,))
def elif_chain(x):
    if x < 0:
        size = -1
    elif x == 0:
        size = 0
    elif x < 10:
        size = 1
    elif x < 50:
        size = 2
    else:
        size = 3
    return size


@program((1.0,), (-1.0,), (20.0,))
def early_return(x):
    if x < 0:
        return 0.0
    y = x * x
    if y > 100:
        return 100.0
    return y + 1


@program((3, 5), (5, 3), (-2, 5), (-2, -7))
def nested_branches(x, y):
    if x > 0:
        if y > x:
            result = y - x
        else:
            result = x - y
    else:
        if y > 0:
            result = y
        else:
            result = x * y
    return result


@program((1,), (-1,))
def branch_without_else(x):
    y = x
    if x < 0:
        y = y * 100
    return y + 1


@program((True,), (False,))
def branch_on_an_argument(flag):
    if flag:
        return 1.0
    return 2.0


@program((3,), (0,), (-1,))
def truth_of_a_number(x):
    if x:
        return x * 10
    return -1


@program((0.0,), (0.5,), (float("nan"),))
def truth_of_a_float(x):
    return 1 if x else 2


@program(((1, 2),), ((),))
def truth_of_a_tuple(values):
    if values:
        return len(values)
    return -1


@program((4.0,), (-4.0,))
def conditional_expression(x):
    return math.sqrt(x) if x > 0 else x * x


@program((1,), (2,), (3,), (9,))
def nested_conditional_expressions(n):
    return 10 if n == 1 else 20 if n == 2 else 30 if n == 3 else 0


@program((7,), (-7,))
def augmented_assignments(x):
    x += 3
    x *= 2
    x -= 1
    x //= 3
    x %= 5
    x **= 2
    x <<= 1
    x |= 1
    x &= 255
    x ^= 2
    x >>= 1
    return x


@program((5.0,))
def augmented_true_division(x):
    x /= 2
    x **= 3
    return x


@program((3,))
def chained_assignment(x):
    a = b = x + 1
    a = a * 2
    return a, b


@program((1, 2), (1.5, 2))
def swap(a, b):
    a, b = b, a
    return a, b


@program(((1, 2.0, (3, True)),))
def nested_unpacking(values):
    a, b, (c, flag) = values
    return (c, a), b, flag


@program(((1, 2, 3, 4, 5),), ((1, 2),))
def starred_unpacking_in_the_middle(values):
    first, *middle, last = values
    return first, middle, last


@program(((1.0, 2.0, 3.0),))
def starred_unpacking_at_the_end(values):
    head, *tail = values
    return head * len(tail), tail


@program(((1, 2), (3.0, 4.0)))
def starred_displays(a, b):
    joined = (*a, 10, *b)
    as_list = [*b, *a]
    return joined, as_list


@program((np.array([3.0, 1.0, 2.0]),))
def unpack_an_array(values):
    a, b, c = values
    return a * b + c


@program((np.array([[1.0, 2.0], [3.0, 4.0]]),))
def unpack_the_rows_of_an_array(matrix):
    (a, b), row = matrix
    return a - b, row * 2


@program((5,), (50,))
def walrus_in_a_test(x):
    if (y := x * 2) > 20:
        return y
    return y + 1000


@program((10,), (1,))
def walrus_in_a_loop(n):
    total = 0
    while (n := n - 1) > 0:
        total += n
    return total, n


@program((3, 4))
def walrus_in_an_expression(a, b):
    c = (s := a + b) * s + (t := s - 1)
    return c, s, t


@program((3,))
def annotated_assignments(x: int):
    y: float = x * 0.5
    z: int
    z = x + 1
    return y, z


@program((2,))
def rebinding_to_another_type(x):
    x = x + 1
    x = x * 0.5
    x = (x, x)
    x = x[0] + x[1]
    return x > 2


@program((4,), (0,))
def a_name_bound_in_both_arms(n):
    if n:
        label, size = 1, n
    else:
        label, size = 2, -1
    return label * 10 + size


@program((5,), (-5,))
def a_name_bound_where_it_is_read(n):
    if n > 0:
        extra = n * 2
    if n > 0:
        return extra
    return 0


@program((3.0,))
def globals_are_read(x):
    return x * RATE + OFFSETS[1] + OFFSETS[-1] * SETTINGS["scale"]


@program((np.array([1.0, 2.0, 3.0]),))
def a_global_array_is_read(x):
    return x @ WEIGHTS, WEIGHTS.shape[0] + SETTINGS["shift"]


@program((2,))
def no_return(x):
    x + 1


@program((2,), (-2,))
def bare_return_and_none(x):
    y = x + 1
    if True:
        return
    return y


@program((1,))
def pass_and_ellipsis(x):
    pass
    ...
    "a string in the body is no statement that does something"
    return x


@program((2.0,))
def a_local_shadows_a_global(x):
    RATE = x * 2
    return RATE + 1


@program((2.0,))
def a_local_shadows_a_builtin(x):
    sum = x + 1
    max = lambda a, b: a - b
    return max(sum, 1.0)


@program((4,), (5,))
def asserts_that_hold(n):
    assert n > 0
    assert n < 100, "too large"
    return n * 2


@program((3,))
def a_deleted_name(x):
    y = x + 1
    z = y * 2
    del y
    return z


@program((1,), (-1,))
def constant_tests_are_decided_early(x):
    if False:
        return undefined_name
    if None is None and 1 < 2:
        return x + 1
    return "never"


@program((2, 3))
def imports_inside(x, y):
    import math as m
    from math import floor

    return m.hypot(x, y) + floor(x / y)


@program((2.0,))
def a_docstring_and_inner_definitions(x):
    """Definitions in a body, one of which is never called."""

    def unused(y):
        return y.no_such_attribute

    def used(y):
        """Doubles."""
        return y + y

    return used(x)


@program((6,), (7,))
def code_after_an_if_with_two_returns(n):
    if n % 2 == 0:
        return n // 2
    else:
        return 3 * n + 1
    return 0


@program((1, 1), (1, 0), (0, 1), (0, 0))
def many_branches_in_a_row(a, b):
    total = 0
    if a:
        total += 1
    if b:
        total += 2
    if a and b:
        total += 4
    if a or b:
        total += 8
    if not a:
        total += 16
    if not b:
        total += 32
    if a == b:
        total += 64
    if a != b:
        total += 128
    return total


@program((3.0,))
def multiple_results_of_a_call(x):
    def both(y):
        return y + 1, y - 1

    up, down = both(x)
    upper, _ = both(up)
    return upper, down


@program((1.5,))
def several_statements_in_a_line(x):
    a = x; b = a * 2; c = b - a
    return a, b, c


@program((3,))
def a_global_declared_and_read(x):
    global RATE

    def inner(y):
        global RATE
        return y * RATE

    return inner(x) + RATE
