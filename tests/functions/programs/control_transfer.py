"""How control moves: exits of nested loops, recursion of all forms, scopes, late binding, order of evaluation."""

import functools
import math

import numpy as np

from tests.functions.table import program


@program((5,), (0,), (1,))
def a_return_before_a_loop_ends(n):
    for i in range(n):
        k = i
        while True:
            if k > 3:
                return i, k
            k = k * 2 + 1
            if k % 5 == 0:
                break
    return -1, n


@program((7, 3), (2, 3))
def flags_that_end_loops(n, m):
    done, count = False, 0
    while not done:
        count += 1
        for k in range(m):
            if count + k >= n:
                done = True
                break
            count += 1
    return count, done


@program((10,), (3,))
def continue_in_every_arm(n):
    total = 0
    k = 0
    while k < n:
        k += 1
        if k % 3 == 0:
            continue
        elif k % 3 == 1:
            total += k
            if total > 20:
                continue
        else:
            total -= 1
            continue
        total *= 2
    return total


@program((4,), (9,))
def loops_after_loops_share_names(n):
    i = 100
    for i in range(n):
        if i == 5:
            break
    first = i
    for i in range(first, n + 3):
        pass
    second = i
    while i > 2:
        i -= 2
    return first, second, i


@program((6,), (0,))
def a_do_while_with_a_walrus(n):
    total = 0
    while True:
        total += n
        if (n := n - 1) <= 0:
            break
    return total, n


@program((3,), (-3,))
def names_rebound_in_closures(n):
    x = n

    def read():
        return x

    a = read()
    x = x * 10
    b = read()
    if n > 0:
        x = 7
    return a, b, read()


@program((2,))
def nonlocal_through_three_levels(n):
    x, y = n, 0

    def a():
        nonlocal x

        def b():
            nonlocal x, y
            x += 1
            y += x

            def c():
                nonlocal y
                y *= 2

            c()

        b()
        b()

    a()
    a()
    return x, y


@program((3,))
def a_closure_in_a_loop_sees_the_last_round(n):
    functions = []
    for k in range(3):
        def f(x, k2=k):
            return x * k + k2

        functions.append(f)
    return [f(n) for f in functions]


@program((4,), (5,))
def mutual_recursion_of_three(n):
    def a(k):
        return 0 if k <= 0 else 1 + b(k - 1)

    def b(k):
        return 0 if k <= 0 else 10 + c(k - 2)

    def c(k):
        return 1 if k <= 0 else a(k - 1) * 2 + b(k - 3)

    return a(n), b(n), c(n)


@program((6, 3), (5, 0), (4, 4))
def binomials_by_recursion(n, k):
    def choose(a, b):
        if b == 0 or a == b:
            return 1
        return choose(a - 1, b - 1) + choose(a - 1, b)

    return choose(n, k)


@program((2, 2), (1, 3), (0, 5))
def ackermann_again(m, n):
    def ack(a, b):
        if a == 0:
            return b + 1
        if b == 0:
            return ack(a - 1, 1)
        return ack(a - 1, ack(a, b - 1))

    return ack(m, n)


@program((10,), (97,), (1,))
def a_recursion_with_a_loop_of_calls(n):
    def partitions(total, largest):
        if total == 0:
            return 1
        count = 0
        for part in range(1, min(total, largest) + 1):
            count += partitions(total - part, part)
        return count

    return partitions(n % 11, n)


@program((5, 2.0), (0, 2.0))
def a_recursion_that_carries_an_array(n, x):
    def grow(k, v):
        if k == 0:
            return v
        return grow(k - 1, v * x) + v

    return grow(n, np.array([1.0, 0.5]))


@program((12,))
def a_recursion_that_returns_three_things(n):
    def stats(k):
        if k == 0:
            return 0, 1, 0.0
        count, product, mean = stats(k - 1)
        return count + 1, product * k % 1009, mean + (k - mean) / (count + 1)

    return stats(n)


@program((20,), (1,))
def a_recursive_lambda_by_default(n):
    fact = lambda f, k: 1 if k <= 1 else k * f(f, k - 1)
    return fact(fact, n)


@program((3, 1.0), (0, 1.0))
def a_function_built_by_recursion_over_static_depth(n, x):
    def nest(depth):
        if depth == 0:
            return lambda v: v
        inner = nest(depth - 1)
        return lambda v: inner(v) * n + depth

    return nest(3)(x)


@program((3,), (30,))
def a_trampoline(n):
    def step(k, total):
        return (True, total, 0) if k == 0 else (False, k - 1, total + k)

    k, total, done = n, 0, False
    while not done:
        done, a, b = step(k, total)
        if done:
            total = a
        else:
            k, total = a, b
    return total


@program((5,), (1,))
def a_generator_expression_consumed(n):
    return sum(k * k for k in range(n)), max((k * (4 - k) for k in range(5))), min(abs(k - n) for k in range(3)), sum(1 for k in range(n) if k % 2)


@program((4,), (0,))
def order_of_evaluation(n):
    log = 0

    def note(k):
        nonlocal log
        log = log * 10 + k
        return k

    total = note(1) + note(2) * note(3) if n else note(4)
    pair = (note(5), note(6))[note(1) - 1]
    values = [note(7)] + [note(8)]
    return log, total, pair, values


@program((3, 4))
def swaps_and_simultaneous_assignment(a, b):
    a, b = b, a + b
    (a, b), c = (b - a, a), a * b
    a = b = c + a
    x, y, z = y0, z0, x0 = a, b + 1, c
    return a, b, c, x, y, z, x0 + y0 + z0


@program((1,), (2,), (3,), (4,))
def returns_in_every_arm(n):
    if n == 1:
        return 10
    elif n == 2:
        if n > 5:
            return 20
    elif n == 3:
        for k in range(n):
            if k == 2:
                return 30 + k
        return 31
    else:
        pass
    return 40


@program((5, 2), (2, 5))
def conditional_definitions(a, b):
    if a > b:
        def f(x):
            return x + a
        g = f
    else:
        g = lambda x: x * b
    h = g if a != 3 else (lambda x: 0)
    return g(a) + h(b)


@program((5,))
def decorators_with_arguments(n):
    def repeated(times):
        def wrap(f):
            @functools.wraps(f)
            def inner(*args, **kwargs):
                result = args[0]
                for _ in range(times):
                    result = f(result, *args[1:], **kwargs)
                return result

            return inner

        return wrap

    @repeated(3)
    def bump(x, by=1):
        return x * 2 + by

    return bump(n), bump(n, 2), bump(n, by=0)


@program((0.5, 1e-6), (2.0, 1e-3))
def a_fixed_point_of_a_function(x, tolerance):
    def fixed(f, start):
        before, now = start, f(start)
        while abs(now - before) > tolerance:
            before, now = now, f(now)
        return now

    return fixed(math.cos, x), fixed(lambda v: 0.5 * (v + x / v), 1.0)


@program((10,), (2,))
def fibonacci_by_a_generator_of_pairs(n):
    def pairs(k):
        a, b = 0, 1
        for _ in range(k):
            a, b = b, a + b
        return a, b

    return [pairs(k)[0] for k in (1, 2, 3)] + [pairs(n)[1]]


@program((17,), (16,))
def early_exits_by_any_and_all(n):
    prime = n > 1 and all(n % k for k in range(2, n))
    square = any(k * k == n for k in range(n + 1))
    return prime, square, next((k for k in (2, 3, 5) if k > 2), 0)


@program((5, 3), (3, 5))
def a_default_evaluated_at_each_definition(a, b):
    results = []
    for k in (a, b):
        def f(x, y=k * 2):
            return x + y
        results.append(f(1))
        k = 100
        results.append(f(2))
    return results


@program((3,), (-1,))
def none_and_identity(n):
    x = None
    if x is None:
        x = n
    y = None or x
    f = None
    g = f or (lambda v: v + 1)
    return x, y, g(n), f is None, (x is not None) + 1, None == None, [] is None  # noqa: E711, F632


@program((3, 4))
def unpacked_arguments_of_lambdas(a, b):
    f = lambda *args, k=2, **kw: sum(args) * k + kw.get("z", 0)
    g = lambda p, /, q, *, r: p + q * r
    return f(a, b), f(a, k=b), f(z=a), g(a, q=b, r=2), (lambda: a)(), (lambda x, *y: len(y))(1, 2, 3)


@program((3,), (5,))
def dynamic_and_static_conditions_mixed(n, flag=True):
    if flag and n > 4:
        a = 1
    elif not flag:
        a = "text"
    else:
        a = 2.5
    return a * 2.0 if flag or n else a


@program((8,), (6,))
def a_loop_with_two_counters(n):
    low, high, crossed = 0, n, None
    while low < high:
        low, high = low + 1, high - 1
        if low == high:
            crossed = low
    return low - high, -1 if crossed is None else crossed


@program((np.array([5, 3, 8, 1]), 8), (np.array([5, 3, 8, 1]), 4))
def a_search_that_may_fail(v, wanted):
    position = None
    for i, value in enumerate(v):
        if value == wanted:
            position = i
            break
    if position is None:
        return -1
    return position


@program((5,), (0,))
def deleted_and_pass_and_ellipsis(n):
    x = n
    y = x + 1
    del x
    for _ in range(n):
        pass
    if n:
        ...
    "a string"
    return y
