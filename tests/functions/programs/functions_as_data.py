"""Functions chosen, stored, returned and carried, with unlike captures; combinators; choices inside choices."""

import functools
import math
import operator

import numpy as np

from tests.functions.table import program


def increment(x):
    return x + 1


def halve(x):
    return x / 2


TABLE = [increment, halve, math.sqrt, abs, lambda x: x * x]


@program((7.0, 3), (7.0, -3), (7.0, 0))
def closures_of_two_makers(x, n):
    def shifted(k):
        return lambda v: v + k

    def affine(a, b):
        return lambda v: v * a + b

    f = shifted(x) if n > 0 else affine(x, n * 0.5)
    return f(2.0), f(f(1.0))


@program((7.0, 0), (7.0, 1), (7.0, 2))
def closures_of_three_makers_by_an_index(x, i):
    def constant(k):
        return lambda v: k

    def shifted(k):
        return lambda v: v + k

    def scaled(a, b):
        return lambda v: v * a * b

    functions = [constant(x), shifted(x + 1), scaled(x, 2.0)]
    return functions[i](3.0)


@program((3.0, 1), (3.0, -1))
def a_captured_array_or_a_captured_number(x, n):
    if n > 0:
        weights = np.array([1.0, x])
        f = lambda v: np.sum(weights * v)
    else:
        f = lambda v: v * x
    return f(2.0)


@program((4.0, 2), (4.0, 0), (4.0, 5))
def a_composition_grown_in_a_static_loop(x, n):
    f = lambda v: v
    for k in range(3):
        g = f
        if n > k:
            f = lambda v, g=g, k=k: g(v) + k
        else:
            f = lambda v, g=g: g(v) * 2
    return f(x)


@program((2.0, 3), (2.0, 0))
def unlike_closures_carried_by_a_dynamic_loop(x, n):
    def add(k):
        return lambda v: v + k

    def scale(a, b):
        return lambda v: v * a - b

    f = add(x)
    for i in range(n):
        f = scale(x, i * 1.0) if i % 2 == 0 else add(i * 2.0)
    return f(10.0)


@program((5.0, 1, 1), (5.0, 1, -1), (5.0, -1, 1), (5.0, -1, -1))
def a_choice_that_captures_a_choice(x, a, b):
    inner = (lambda v: v + x) if a > 0 else (lambda v: v * x)
    outer = (lambda v: inner(v) - 1) if b > 0 else (lambda v: inner(inner(v)))
    return outer(2.0)


@program((True, True, 3, 4), (True, False, 3, 4), (False, True, 3, 4), (False, False, 3, 4))
def chosen_makers_of_closures_of_chosen_functions(c1, c2, x, y):
    def pick_maker(c):
        def second(f):
            def wrap(x, y):
                return f(y)

            return wrap

        def first(f):
            def wrap(x, y):
                return f(x)

            return wrap

        return second if c else first

    def pick(c):
        return operator.neg if c else (lambda v: v * 10)

    return pick_maker(c1)(pick(c2))(x, y)


@program((4.0, 0), (4.0, 1), (4.0, 2), (4.0, 3), (4.0, 4))
def a_global_table_with_builtins(x, i):
    return TABLE[i](x)


@program((4.0, -1), (4.0, 3))
def a_function_returned_from_a_loop(x, n):
    def pick(k):
        for j in range(5):
            if j == k:
                return lambda v: v + j
        return lambda v: v * x

    return pick(n)(10.0)


@program((3, 2.0), (0, 2.0))
def a_list_of_functions_applied_in_a_dynamic_loop(n, x):
    steps = [lambda v: v + 1, lambda v: v * 2, lambda v: v - x]
    for i in range(n):
        x = steps[i % 3](x)
    return x


@program((2.0,))
def partials_of_partials_and_methods(x):
    f = functools.partial(pow, x)
    g = functools.partial(functools.partial(lambda a, b, c: a + 10 * b + 100 * c, 1.0), c=x)
    return f(3), g(2.0), functools.partial(math.atan2, 1.0)(x), list(map(functools.partial(operator.mul, x), (1, 2)))


@program((1, 3.0), (-1, 3.0))
def partials_chosen(n, x):
    f = functools.partial(operator.add, x) if n > 0 else functools.partial(operator.mul, x)
    g = functools.partial(lambda a, b, c: a + b * c, 1.0, x) if n > 0 else functools.partial(operator.sub, 5.0)
    return f(2.0), g(4.0)


@program((6,), (1,))
def a_y_like_recursion_through_an_argument(n):
    def step(self, k):
        return 1 if k <= 1 else k * self(self, k - 1)

    return step(step, n)


@program((5, 2.0), (0, 2.0))
def a_fold_with_a_function_argument(n, x):
    def fold(f, start, count):
        return start if count == 0 else fold(f, f(start, count), count - 1)

    return fold(lambda a, k: a + k * x, 0.0, n), fold(lambda a, k: a * 0.5 + k, x, n)


@program((3.0, 4.0))
def a_dispatcher_made_of_closures(x, y):
    def vector(a, b):
        def dispatch(message):
            if message == "norm":
                return math.hypot(a, b)
            if message == "swap":
                return vector(b, a)
            return a if message == "first" else b

        return dispatch

    v = vector(x, y)
    return v("norm"), v("swap")("first"), v("second")


@program((10,), (3,))
def a_stream_as_pairs_of_a_number_and_a_closure(n):
    def numbers(k):
        return k, lambda: numbers(k + 1)

    value, rest = numbers(n)
    total = 0
    for _ in range(4):
        total += value
        value, rest = rest()
    return total


@program((2.0, 4), (2.0, 1))
def a_function_power(x, n):
    def iterate(f, k):
        def run(v):
            return v if k == 0 else iterate(f, k - 1)(f(v))

        return run

    result = x
    for _ in range(n):
        result = iterate(lambda v: v * 1.5 + 1, 2)(result)
    return result


@program((3, 5), (5, 3), (4, 4))
def keyword_functions_of_other_orders_chosen(x, y):
    def first(a, low, high):
        return a * (high - low)

    def second(b, high, low):
        return b + high * low

    f = first if x < y else second
    return f(5, low=x, high=y)


@program((2.0, 3), (2.0, -3))
def a_function_in_a_dict_replaced_by_a_branch(x, n):
    table = {"f": lambda v: v + 1.0}
    if n > 0:
        table["f"] = lambda v: v * x
    return table["f"](5.0)


@program((1.0, 0), (1.0, 1), (1.0, 2))
def a_tuple_of_a_function_and_its_inverse(x, i):
    pairs = ((lambda v: v + 3.0, lambda v: v - 3.0), (math.exp, math.log), (lambda v: v * 4.0, lambda v: v / 4.0))
    forward, back = pairs[i]
    return forward(x), back(forward(x))


@program((9.0, 1), (9.0, 0))
def a_nonlocal_function_variable(x, n):
    action = lambda v: v + 1

    def change():
        nonlocal action
        action = lambda v: v * x

    if n > 0:
        change()
    return action(2.0)


@program((5,), (12,))
def mutual_recursion_of_closures_with_captures(n):
    step = 2

    def down(k, total):
        return total if k <= 0 else up(k - step, total + k)

    def up(k, total):
        return total if k <= 0 else down(k - 1, total * step)

    return down(n, 0), up(n, 1)


@program((4, 10), (0, 10))
def continuation_passing_with_accumulated_closures(n, x):
    def summed(k, then):
        return then(0) if k == 0 else summed(k - 1, lambda v: then(v + k))

    return summed(3, lambda v: v * x) + n


@program((2, 3), (3, 2))
def a_switch_of_thunks(a, b):
    def choose(c, first, second):
        return first() if c else second()

    return choose(a > b, lambda: a - b, lambda: b * 10), choose(True, lambda: a, lambda: 1 // 0)


@program(((1.0, 2.0, 3.0), 2), ((1.0, 2.0, 3.0), 0))
def a_map_with_a_chosen_function(values, i):
    f = (lambda v: v, lambda v: -v, lambda v: v * v)[i]
    return tuple(map(f, values)), [f(v) for v in values], sum(map(f, values))


@program((np.array([1.0, 2.0, 3.0]), 1), (np.array([1.0, 2.0, 3.0]), 0))
def an_activation_chosen_by_data(x, i):
    activations = (np.tanh, lambda v: np.maximum(v - 1.5, 0.0))
    return activations[i](x), np.sum(activations[1 - i](x * 2))


@program((3, 4.0), (4, 4.0))
def memo_of_functions_by_parity(n, x):
    even, odd = (lambda v, k: v / k), (lambda v, k: v * k)
    k = n
    while k > 0:
        x = (odd if k % 2 else even)(x, k)
        k -= 1
    return x


@program((2.0, 1), (2.0, 0))
def a_choice_returned_in_a_structure_and_called(x, n):
    def plan(k):
        if k > 0:
            return {"f": increment, "at": x, "name": 1}
        return {"f": halve, "at": x * 3, "name": 0}

    p = plan(n)
    return p["f"](p["at"]), p["name"]


@program((3.0, 2), (3.0, -2))
def functions_compared_after_a_choice(x, n):
    f = increment if n > 0 else halve
    return (f(x), 1) if f is increment else (f(x), 0)


@program((2.0, 3))
def closures_made_by_a_comprehension_and_composed(x, n):
    makers = [(lambda k: lambda v: v * k + n)(k) for k in (1, 2, 3)]
    composed = functools.reduce(lambda f, g: lambda v: g(f(v)), makers)
    return composed(x), [f(x) for f in makers]


@program((2.0, 1, 0), (2.0, 0, 1), (2.0, 1, 1))
def a_matrix_of_functions(x, i, j):
    functions = [[lambda v: v + 1, lambda v: v * 3], [math.sin, lambda v: -v]]
    return functions[i][j](x)


@program((5, 1.0), (2, 1.0))
def a_closure_updated_with_the_state_it_captures(n, x):
    def counter(start):
        return lambda: (start + 1, counter(start + 1))

    value, following = 0, counter(n)
    for _ in range(3):
        value, following = following()
    return value + x
