"""`while` and `for`, over everything that they go over, with `break`, `continue` and `else`."""

import numpy as np

from tests.functions.table import program


@program((10,), (0,), (1,))
def while_loop(n):
    total = 0
    while n > 0:
        total += n
        n -= 1
    return total


@program((2.0,), (100.0,), (0.5,))
def while_until_converged(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


@program((10,), (1,), (0,), (-3,))
def for_over_a_dynamic_range(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


@program((2, 9), (5, 5), (9, 2), (-3, 3))
def for_over_a_range_of_two(a, b):
    total = 0
    for i in range(a, b):
        total = total * 3 + i
    return total


@program((0, 10, 3), (10, 0, -3), (10, 0, 3), (0, 10, -1), (-5, 6, 5), (7, -8, -4))
def for_over_a_range_with_a_step(a, b, step):
    total, count = 0, 0
    for i in range(a, b, step):
        total = total * 7 + i
        count += 1
    return total, count


@program((5,), (1,))
def the_loop_variable_after_the_loop(n):
    last = 0
    for i in range(n):
        last = i * 10
    return i, last


@program((5,), (0,))
def the_loop_variable_bound_before(n):
    i = -1
    for i in range(n):
        pass
    return i


@program((5,))
def assignment_to_the_loop_variable(n):
    total = 0
    for i in range(n):
        i = i * 10
        total += i
    return total, i


@program((4,), (7,))
def changing_the_bound_in_the_loop(n):
    count = 0
    for _ in range(n):
        n = n + 1
        count += 1
    return n, count


@program((10,), (3,))
def break_out_of_a_for(n):
    for i in range(n):
        if i * i > 20:
            break
    return i


@program((100,), (5,))
def break_out_of_a_while(n):
    i = 0
    while True:
        if i * i >= n:
            break
        i += 1
    return i


@program((10,), (0,))
def continue_in_a_for(n):
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        total += i
    return total


@program((10,))
def continue_in_a_while(n):
    total = 0
    while n > 0:
        n -= 1
        if n % 2:
            continue
        total += n
    return total


@program((7,), (9,), (2,), (1,), (15,))
def for_else(n):
    for d in range(2, n):
        if n % d == 0:
            answer = d
            break
    else:
        answer = -1
    return answer


@program((5,), (50,))
def while_else(n):
    i = 0
    while i < 10:
        if i * i == n * n:
            result = 1
            break
        i += 1
    else:
        result = 2
    return result, i


@program((5,), (50,))
def while_else_without_break(n):
    while n > 10:
        n -= 7
    else:
        n = n * 100
    return n


@program((20,), (3,))
def return_from_a_loop(n):
    for i in range(n):
        if i * i > 50:
            return i
    return -1


@program((20,), (2,))
def return_from_nested_loops(n):
    for i in range(1, n):
        for j in range(1, i):
            if i * i + j * j == 25 * 4:
                return i, j
    return 0, 0


@program((5,), (0,), (1,))
def nested_loops(n):
    total = 0
    for i in range(n):
        for j in range(i):
            total += i * j
    return total


@program((6,))
def break_in_the_inner_loop_only(n):
    total = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            total += 1
        else:
            total += 100
    return total


@program((4,), (30,))
def break_in_both_loops(n):
    count = 0
    for i in range(n):
        for j in range(n):
            count += 1
            if i * j == 6:
                break
        if count > 40:
            break
    return count, i, j


@program((27,), (1,), (6,))
def collatz_length(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@program((5, 12), (50, 100))
def two_conditions_in_a_while(a, b):
    steps = 0
    while a < 100 and b > 0:
        a += b
        b -= 5
        steps += 1
    return a, b, steps


@program((np.array([1.0, -2.0, 3.0]),), (np.array([0.5]),))
def for_over_an_array(values):
    total = 0.0
    for v in values:
        total = total * 2 + v
    return total


@program((np.array([[1, 2], [3, 4], [5, 6]]),))
def for_over_the_rows_of_an_array(matrix):
    total = 0
    for row in matrix:
        total += row[0] * row[1]
    return total


@program((np.zeros((0, 2)),))
def for_over_an_empty_array(matrix):
    count = 0
    for _ in matrix:
        count += 1
    return count


@program(((1, 2, 3),), ((),), ((1.5, 2.5),))
def for_over_a_tuple(values):
    total = 0
    for v in values:
        total = total + v
    return total


@program(((1, 2.5, True),))
def for_over_a_tuple_of_several_types(values):
    total = 0
    for v in values:
        total = total * 10 + v
    return total


@program((((1, 2.0), (3, 4.0)),))
def for_with_unpacking(pairs):
    total = 0.0
    for n, x in pairs:
        total += n * x
    return total


@program(((5.0, 6.0, 7.0),), ((),))
def for_over_enumerate(values):
    total = 0.0
    for i, v in enumerate(values):
        total += i * v
    return total


@program((np.array([5.0, 6.0, 7.0]),))
def for_over_enumerate_of_an_array(values):
    total = 0.0
    for i, v in enumerate(values, start=1):
        total += i * v
    return total


@program(((1, 2, 3), (4.0, 5.0, 6.0)), ((1, 2), (4.0, 5.0, 6.0)))
def for_over_zip(a, b):
    total = 0.0
    for x, y in zip(a, b):
        total += x * y
    return total


@program((np.array([1.0, 2.0]), np.array([3.0, 4.0])))
def for_over_zip_of_arrays(a, b):
    total = 0.0
    for i, (x, y) in enumerate(zip(a, b)):
        total += x * y + i
    return total


@program(((1, 2, 3),), (np.array([1, 2, 3]),))
def for_over_reversed(values):
    total = 0
    for v in reversed(values):
        total = total * 10 + v
    return total


@program((5,), (0,))
def for_over_a_reversed_range(n):
    total = 0
    for i in reversed(range(n)):
        total = total * 10 + i
    return total


@program(({"a": 1.0, "b": 2.0},))
def for_over_the_items_of_a_dict(values):
    total = 0.0
    for name, v in values.items():
        total += v if name == "a" else 10 * v
    return total


@program(({"x": 1, "y": 2},))
def for_over_the_keys_and_values_of_a_dict(values):
    total = 0
    for name in values:
        total += values[name]
    for v in values.values():
        total *= v + 1
    for name in values.keys():
        total += values[name]
    return total


@program((3,), (0,))
def a_loop_variable_that_widens(n):
    total = 0.0
    x = 0.0
    for i in range(n):
        total += x
        x = i + 0.5
    return total, x


@program((3,), (0,), reference=lambda n: float(sum(0.5 for _ in range(n))))
def a_loop_variable_that_widens_from_an_int(n):
    total = 0
    for _ in range(n):
        total += 0.5
    return total


@program((10,), (1,))
def several_carried_values(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@program((5,))
def a_tuple_carried_by_a_loop(n):
    state = (0, 1.0)
    for i in range(n):
        state = (state[0] + i, state[1] * 1.5)
    return state


@program((5,))
def a_dict_carried_by_a_loop(n):
    state = {"count": 0, "value": 1.0}
    for _ in range(n):
        state = {"count": state["count"] + 1, "value": state["value"] / 2}
    return state


@program((4,))
def an_array_carried_by_a_loop(n):
    x = np.ones(3)
    for i in range(n):
        x = x * 2 + i
    return x


@program((100000,))
def a_long_loop(n):
    total = 0
    for i in range(n):
        total = (total * 31 + i) % 1000003
    return total


@program((3,))
def a_name_used_only_in_the_loop(n):
    total = 0
    for i in range(n):
        square = i * i
        double = square + square
        total += double
    return total


@program((6,), (0,))
def a_name_bound_in_the_loop_and_read_after(n):
    for i in range(n):
        last = i * 2
    if n > 0:
        return last
    return -1


@program((3, 5), (0, 5))
def an_invariant_of_the_loop(n, k):
    scale = k * k
    total = 0
    while n > 0:
        total += scale
        n -= 1
    return total, scale


@program((12,), (5,))
def while_with_early_return_and_else(n):
    while n > 0:
        if n % 7 == 0:
            return n
        n -= 2
    else:
        n = 1000
    return n


@program((4,))
def a_loop_in_a_branch(n):
    if n > 2:
        total = 0
        for i in range(n):
            total += i
    else:
        total = -1
        while n > 0:
            n -= 1
    return total, n


@program((5,), (1,))
def a_branch_in_a_loop_that_rebinds(n):
    low, high = 0, 0
    for i in range(n):
        if i % 2:
            low += i
        elif i > 2:
            high += i
        else:
            low, high = high, low
    return low, high


@program((((1, 2), (3,), ()),))
def for_over_nested_tuples(rows):
    total = 0
    for row in rows:
        for v in row:
            total = total * 10 + v
    return total


@program((3,), (10,))
def a_loop_that_may_not_run(n):
    i = 5
    while i < n:
        i += 1
    return i


@program((4,))
def a_loop_over_a_range_kept_in_a_name(n):
    steps = range(1, n)
    total = len(steps)
    for i in steps:
        total += i
    for i in steps:
        total *= i
    return total


@program((3,), (4,))
def continue_with_an_else_clause(n):
    for i in range(n):
        if i % 2 == 0:
            continue
        if i == 3:
            break
    else:
        return -i
    return i
