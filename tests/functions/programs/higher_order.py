"""Functions as data: in tuples and dicts, chosen by data, returned, carried by loops; `map`, `filter`, `reduce`."""

import functools
import math
import operator

import numpy as np

from tests.functions.table import program


def increment(x):
    return x + 1


def square(x):
    return x * x


def negate(x):
    return -x


OPERATIONS = (increment, square, negate)
BY_NAME = {"increment": increment, "square": square}


@program((3.0,), (-3.0,))
def a_function_chosen_by_a_branch(x):
    if x > 0:
        f = increment
    else:
        f = square
    return f(x) * f(2.0)


@program((2.0, True), (2.0, False))
def a_lambda_chosen_by_a_conditional_expression(x, flag):
    f = (lambda v: v * 3) if flag else (lambda v: v - x)
    return f(10.0)


@program((5, 0), (5, 1), (5, 2), (5, -1))
def a_function_chosen_by_an_index(x, i):
    return OPERATIONS[i](x)


@program((5.0, 0), (5.0, 1))
def a_closure_chosen_by_an_index(x, i):
    functions = (lambda v: v + x, lambda v: v * x * 2)
    return functions[i](3.0) + functions[1 - i](1.0)


@program((4.0,))
def a_function_chosen_by_a_static_name(x):
    return BY_NAME["increment"](x) + BY_NAME["square"](x)


@program((4.0, 2), (4.0, 0), (4.0, 3))
def a_function_carried_by_a_loop(x, n):
    f, g = increment, square
    for _ in range(n):
        f, g = g, f
    return f(x)


@program((3, 5), (4, 5))
def a_closure_carried_by_a_loop(n, x):
    f = lambda v: v
    for i in range(3):
        f = (lambda g, k: lambda v: g(v) * 2 + k)(f, i + n)
    return f(x)


@program((7.0, 3), (7.0, -3), or_refused=True)
def closures_with_unlike_captures(x, n):
    def shifted(k):
        return lambda v: v + k

    def affine(a, b):
        return lambda v: v * a + b

    f = shifted(x) if n > 0 else affine(x, n * 0.5)  # refused
    return f(2.0)


@program((2.0, 1), (2.0, 0), (2.0, -1))
def a_function_returned_by_a_function_with_branches(x, n):
    def choose(k):
        if k > 0:
            return increment
        if k < 0:
            return lambda v: v / 4 + x
        return negate

    return choose(n)(x), choose(1)(x)


@program((3.0,))
def functions_in_a_tuple(x):
    total = 0.0
    for f in (increment, square, math.sqrt, lambda v: v / x):
        total += f(x)
    return total


@program((2.0,))
def functions_in_a_list_and_a_dict(x):
    steps = [increment, square]
    steps.append(negate)
    table = {"f": steps[1], "g": lambda v: v * 10}
    for f in steps:
        x = f(x)
    return table["f"](x), table["g"](x)


@program(((1, 2, 3),))
def map_over_a_tuple(values):
    return tuple(map(square, values)), list(map(lambda v: v + 0.5, values)), sum(map(increment, values))


@program(((1, 2), (3.0, 4.0)))
def map_over_two(a, b):
    return tuple(map(lambda x, y: x * y, a, b)), list(map(operator.add, a, b))


@program(((1, 2, 3, 4, 5, 6),))
def filter_by_position(values):
    chosen = filter(lambda pair: pair[0] % 2 == 0, enumerate(values))
    return [v for _, v in chosen], len(values)


@program((10,))
def filter_of_static_values(x):
    odd = tuple(filter(lambda k: k % 2, (1, 2, 3, 4, 5)))
    present = list(filter(None, (0, 3, 0, 4)))
    return [k * x for k in odd], [k + x for k in present]


@program(((1, 2, 3, 4),), ((2.5,),))
def reduce_over_a_tuple(values):
    product = functools.reduce(lambda a, b: a * b, values)
    return product, functools.reduce(lambda a, b: a * 10 + b, values, 7), functools.reduce(operator.add, values)


@program((np.array([1.0, 2.0, 3.0]),))
def reduce_over_an_array(values):
    return functools.reduce(lambda a, b: a * 0.5 + b, values, 0.0)


@program((2, 3), (2.5, 1.5))
def functions_of_operator(a, b):
    return (
        operator.add(a, b),
        operator.mul(a, b),
        operator.sub(a, b),
        operator.neg(a),
        operator.lt(a, b),
        operator.truediv(a, b),
        operator.floordiv(a, b),
        operator.mod(a, b),
        operator.eq(a, a),
    )


@program((5.0,))
def a_function_that_takes_and_returns_functions(x):
    def twice(f):
        return lambda v: f(f(v))

    return twice(increment)(x), twice(twice)(square)(1.1), twice(twice(increment))(x)


@program((3,))
def church_numerals(n):
    zero = lambda f: lambda v: v
    successor = lambda m: lambda f: lambda v: f(m(f)(v))
    plus = lambda a, b: lambda f: lambda v: a(f)(b(f)(v))
    two = successor(successor(zero))
    four = plus(two, two)
    return four(increment)(n), two(square)(n)


@program((2.0, 3.0))
def pairs_made_of_closures(a, b):
    pair = lambda x, y: lambda take: take(x, y)
    first = lambda p: p(lambda x, y: x)
    second = lambda p: p(lambda x, y: y)
    p = pair(a, pair(b, a * b))
    return first(p), first(second(p)), second(second(p))


@program((0.5, 10))
def integration_of_a_function(a, n):
    def integral(f, low, high):
        width = (high - low) / n
        total = 0.0
        for i in range(n):
            total += f(low + (i + 0.5) * width)
        return total * width

    return integral(math.exp, 0.0, a), integral(lambda t: t * a, 0.0, 1.0), integral(square, -1.0, 1.0)


@program((2.0,))
def a_solver_takes_a_function(a):
    def bisect(f, low, high):
        while high - low > 1e-10:
            middle = (low + high) / 2
            if f(low) * f(middle) <= 0:
                high = middle
            else:
                low = middle
        return (low + high) / 2

    return bisect(lambda x: x * x - a, 0.0, 10.0)


@program((3,))
def one_function_at_two_types(n):
    def polynomial(x):
        return x * x + x * 2 + 1

    return polynomial(n), polynomial(n * 0.5), polynomial(np.array([1.0, 2.0]))


@program((2.0, 0), (2.0, 1), (2.0, 2))
def functions_in_nested_tuples_by_dynamic_indices(x, i):
    table = ((increment, square), (negate, increment), (square, negate))
    return table[i][0](x) + table[2 - i][1](x)


@program((1, 3), (2, 3), (0, 3))
def a_function_and_its_data_chosen_together(i, x):
    choices = ((increment, 10), (square, 20), (negate, 30))
    f, k = choices[i]
    return f(x) + k


@program((np.array([0, 1, 2, 1]), 3.0))
def a_program_as_an_array_of_function_numbers(codes, x):
    for code in codes:
        x = OPERATIONS[code](x)
    return x


@program((5, 3), (2, 3), (-2, 3))
def function_equality_is_identity(n, x):
    f = increment
    if f is increment:
        x = x + n
    if f is not square:
        x = x * 2
    return x, f == increment


@program((4,))
def a_function_with_a_function_as_default(n):
    def run(v, f=square):
        return f(v)

    return run(n), run(n, negate), run(f=increment, v=n)


@program(((3.0, 1.0, 2.0),))
def sorted_by_a_key(values):
    return sorted(values), sorted(values, reverse=True), sorted(values, key=lambda v: -v)


@program((6.0,), (0.5,))
def a_state_machine_of_functions(x):
    def low(v):
        return (high, v * 2) if v > 1 else (low, v + 0.75)

    def high(v):
        return (low, v - 3) if v > 4 else (high, v + 1)

    state = low
    for _ in range(6):
        state, x = state(x)
    return x
