"""Gradients through loops, branches, early exits, recursion and assignments to elements, all of them by data."""

import math

import numpy as np

from tests.functions.table import program


@program((3.0, 2.0), (2.0, 3.0), (2.0, 2.0 + 1e-1), grad=(0, 1))
def a_branch_of_two_arguments(x, y):
    if x > y:
        return x * x * y
    else:
        return x + y * y


@program((4.5, 2.0), grad=(0, 1))
def a_while_that_subtracts(x, y):
    rval = 1.0
    while x > y:
        rval = rval * x
        x = x - 1.0
    return rval * y


@program((3.0, 7.0), grad=(0, 1))
def nested_whiles(x, y):
    total = x
    a = 0.0
    while a < y:
        b = 0.0
        while b < a:
            total = total * 1.01 + x * b
            b += 2.0
        a += 1.5
    return total


@program((2.0,), grad=0)
def a_power_by_nested_whiles(x):
    v = x
    j = 0
    while j < 3:
        i = 0
        while i < 3:
            v = v * x
            i = i + 1
        j = j + 1
    return v


@program((1.3, 20.0), (2.5, 20.0), (30.0, 20.0), grad=(0, 1))
def a_break_when_it_grows(x, limit):
    value = x
    for k in range(30):
        value = value * x + k
        if value > limit:
            break
    else:
        return value * 0.0 + x
    return value / limit


@program((np.array([0.5, -1.0, 2.0, 0.1]),), (np.array([-0.5, -1.0, -2.0, -0.1]),), grad=0)
def the_first_positive_element(v):
    for k in range(len(v)):
        if v[k] > 0.0:
            return v[k] ** 2 * (k + 1)
    return v[0] * v[-1]


@program((np.array([0.5, -1.0, 2.0, 0.1, -3.0]),), grad=0)
def continues_over_negative_elements(v):
    total = 0.0
    for k, value in enumerate(v):
        if value < 0:
            continue
        total = total + value * value * k
    return total


@program((0.5, 3), (0.5, 0), (0.5, -2), grad=0)
def a_match_by_data(x, n):
    match n:
        case 0:
            return math.exp(x)
        case k if k > 0:
            return x**k
    return x * n


@program((2.0, 0.5), (0.5, 2.0), (1.5, 1.1), grad=(0, 1))
def short_circuits_with_values(x, y):
    a = x > y and x * y or x - y
    b = (x if x > 1 else y) * (y < 1 or 2.0)
    return a + b


@program((0.8,), (1.8,), (2.8,), grad=0)
def chained_comparisons_and_elifs(x):
    if 0 < x < 1:
        y = x * x
    elif 1 <= x < 2:
        y = x * x * x
    else:
        y = math.log(x)
    if y > 1 > x - 1:
        y = y * 2
    return y


@program((np.array([3.0, 1.0, 2.0]),), grad=0)
def a_bubble_sort_of_weights(v):
    w = v.copy()
    for i in range(len(w)):
        for j in range(len(w) - 1 - i):
            if w[j] > w[j + 1]:
                w[j], w[j + 1] = w[j + 1], w[j]
    return w[0] * 100 + w[1] * 10 + w[2] * w[2]


@program((np.array([1.0, 2.0, 3.0, 4.0]), 0.5), grad=(0, 1))
def a_recurrence_in_an_array(v, k):
    out = np.zeros(5)
    out[0] = k
    for i in range(4):
        out[i + 1] = out[i] * k + v[i]
    return np.sum(out * out)


@program((np.array([1.0, 2.0, 3.0, 4.0]), 2), (np.array([1.0, 2.0, 3.0, 4.0]), 3), grad=0)
def assignments_at_moving_slices(v, n):
    w = np.array(v)
    w[:n] *= 2.0
    w[n - 1] += w[n % 4]
    return np.sum(w * np.arange(1.0, 5.0))


@program((np.array([1.0, -2.0, 3.0]),), grad=0)
def assignment_by_a_mask_with_a_gradient(v):
    w = v * 1.0
    w[w < 0] = 0.5
    w[v > 2] *= 3.0
    return np.sum(w * w)


@program((1.1, 6), (1.1, 1), grad=0)
def the_sum_of_a_tree_of_calls(x, n):
    def f(k, scale):
        if k <= 1:
            return x * scale
        return f(k - 1, scale * x) + f(k - 2, scale) * 0.5

    return f(n, 1.0)


@program((1.1, 50), grad=0)
def a_recursion_that_is_no_tail_call(x, n):
    def f(k):
        return x if k == 0 else math.sin(f(k - 1)) * x + 0.1

    return f(n)


@program((0.9, 7), (0.9, 2), grad=0)
def functions_that_call_each_other(x, n):
    def even(k, v):
        return v if k == 0 else odd(k - 1, v * x) + 1.0

    def odd(k, v):
        return v * v if k == 0 else even(k - 1, v + x) * x

    return even(n, x)


@program((1.5, 4.0), grad=(0, 1))
def the_error_of_a_newton_iteration(x, a):
    y = x
    steps = 0
    while abs(y * y - a) > 1e-3 and steps < 4:
        y = y - (y * y - a) / (2 * y)
        steps += 1
    return (y - 2.1) ** 2 * steps


@program((0.3, 0.6), grad=(0, 1))
def a_geometric_series_until_small(x, r):
    term, total = x, 0.0
    while abs(term) > 1e-9:
        total += term
        term *= r
    return total


@program((np.array([[1.0, 2.0], [3.0, 4.0]]),), grad=0)
def loops_over_rows_and_elements(m):
    total = 1.0
    for row in m:
        for value in row:
            total = total * 0.5 + value * value
    return total


@program((np.array([0.1, 0.2, 0.3]), 4), grad=0)
def an_array_carried_through_two_loops(v, n):
    for _ in range(n):
        new = np.zeros_like(v)
        for i in range(3):
            new[i] = v[i - 1] * 0.9 + v[i] ** 2
        v = new
    return v @ v


@program((2.0, 3), (2.0, 0), grad=0)
def a_loop_whose_variable_widens(x, n):
    total = 1
    for k in range(n):
        total = total * x + k
    return total * x


@program((2.0, 5), grad=0)
def a_loop_whose_carried_value_is_a_structure(x, n):
    state = {"sum": 0.0, "pair": (1.0, x)}
    for k in range(n):
        a, b = state["pair"]
        state = {"sum": state["sum"] + a * b, "pair": (b * 0.5, a + x)}
    return state["sum"]


@program((0.4, 0), (0.4, 1), (0.4, 2), (0.4, 3), grad=0)
def an_index_into_functions_in_a_loop(x, start):
    functions = (math.sin, math.cos, lambda v: v * v + 0.1)
    for k in range(5):
        x = functions[(start + k) % 3](x)
    return x


@program((0.4, 3), (0.4, 8), grad=0)
def a_while_with_an_else(x, n):
    k = 0
    while k < 6:
        x = x * 1.1
        k += 1
        if k == n:
            break
    else:
        x = x * x
    return x


@program((0.4, 5), grad=0)
def a_return_from_two_loops(x, n):
    for i in range(n):
        for j in range(i):
            x = x + 0.1 * j
            if x * x > i:
                return x * i
        x *= 1.05
    return x * 10


@program((3.0,), (0.25,), grad=0)
def guarded_by_a_conditional_expression(x):
    y = 1 / (x - 1) if x > 1 else math.sqrt(1 - x)
    return y * (1.0 if y > 0.6 else y)


@program((np.array([0.5, 1.5, 2.5]),), grad=0)
def clipped_in_three_ways(v):
    a = np.clip(v, 1.0, 2.0)
    b = np.where(v > 1, v * v, v)
    c = np.maximum(v, 1.0) + np.minimum(v, 2.0)
    total = 0.0
    for k in range(3):
        total += max(v[k], 1.0) * min(v[k], 2.0)
    return np.sum(a * b * c) + total


@program((0.3, 0.7), grad=(0, 1))
def a_bisection_inside(x, y):
    low, high = 0.0, 2.0
    for _ in range(30):
        middle = (low + high) / 2
        if middle * middle < 1.0:
            low = middle
        else:
            high = middle * (x / x)
    return x * low + y


@program((3.0, 2.0, 1.0), (1.0, 2.0, 3.0), grad=(0, 1, 2))
def the_middle_of_three(a, b, c):
    if a > b:
        a, b = b, a
    if b > c:
        b, c = c, b
    if a > b:
        a, b = b, a
    return b * b + a * c


@program((np.array([0.5, 0.2]), 12), grad=0)
def a_logistic_map_of_two(v, n):
    x, y = v[0], v[1]
    for k in range(n):
        if k % 3 == 0:
            x, y = 3.1 * x * (1 - x), y + 0.01 * x
        elif k % 3 == 1:
            y = 2.9 * y * (1 - y)
        else:
            x = 0.5 * (x + y)
    return x + y * y


@program((0.5, 3), (0.5, 6), grad=0)
def a_dynamic_loop_inside_a_recursion(x, n):
    def f(k, v):
        for i in range(k):
            v = v + 0.1 * v * i
        if k <= 1:
            return v
        return f(k - 2, v) * x

    return f(n, x)


@program((5.0,), (-5.0,), (0.5,), grad=0)
def absolute_values_and_signs(x):
    return abs(x) * x + abs(x - 1) ** 3 + np.sign(x) * x + math.fabs(x) + math.copysign(x, -1.0) + x % 2.0
