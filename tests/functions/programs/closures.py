"""Nested functions, captured values, `nonlocal`, late binding, parameters of every form."""

import functools

import numpy as np

from tests.functions.table import program

STEP = 0.5


def scaled(x, factor=2.0, *, shift=0.0):
    return x * factor + shift


def apply(function, *arguments, **keywords):
    return function(*arguments, **keywords)


@program((3.0, 4.0))
def a_captured_argument(x, y):
    def inner(z):
        return x * z + y

    return inner(2.0) + inner(x)


@program((2.0,))
def a_captured_value_of_a_captured_function(x):
    y = x * 3

    def inner(z):
        def innermost(w):
            return w * y + z

        return innermost(x) + innermost(z)

    return inner(5.0)


@program((3,))
def a_returned_closure(n):
    def adder(k):
        def add(v):
            return v + k

        return add

    add_n = adder(n)
    add_two = adder(2)
    return add_n(10), add_two(10), adder(n + 1)(n)


@program((5.0,))
def a_lambda_with_a_capture(x):
    f = lambda y: y * x
    g = lambda y: f(y) - x
    return g(f(2.0))


@program((4,))
def a_lambda_called_at_once(n):
    return (lambda a, b=n: a * b)(n + 1) + (lambda: n)()


@program((5,), (0,))
def a_nonlocal_counter(n):
    count = 0

    def tick():
        nonlocal count
        count += 1
        return count

    for _ in range(n):
        tick()
    return count, tick()


@program((3,))
def two_closures_over_one_cell(n):
    total = n

    def add(v):
        nonlocal total
        total += v

    def double():
        nonlocal total
        total *= 2
        return total

    add(4)
    a = double()
    add(1)
    return a, double(), total


@program((2,))
def a_counter_made_by_a_function(n):
    def make(start):
        value = start

        def step():
            nonlocal value
            value = value * 2 + 1
            return value

        return step

    first, second = make(n), make(10)
    return first(), first(), second(), first()


@program((1,), (7,))
def a_closure_sees_later_assignments(x):
    y = 1

    def read():
        return y * 10 + x

    a = read()
    y = 2
    b = read()
    y = x
    return a, b, read()


@program((5,))
def late_binding_of_lambdas_in_a_loop(x):
    functions = []
    for i in range(3):
        functions.append(lambda v: v * 10 + i)
    return functions[0](x), functions[1](x), functions[2](x)


@program((5,))
def a_default_binds_early(x):
    functions = []
    for i in range(3):
        functions.append(lambda v, i=i: v * 10 + i)
    return functions[0](x), functions[1](x), functions[2](x)


@program((5,))
def late_binding_in_a_comprehension(x):
    functions = [lambda: i * x for i in range(4)]
    return tuple(f() for f in functions)


@program((3,))
def a_default_is_evaluated_at_the_definition(n):
    k = n

    def f(v, offset=k * 10):
        return v + offset + k

    k = 100
    return f(1), f(1, 2)


@program((2.0,))
def keyword_arguments(x):
    return scaled(x, factor=3.0), scaled(x, shift=1.0), scaled(shift=2.0, x=x, factor=x)


@program((2.0, 5.0), (2.0,))
def default_arguments(x, y=3.0):
    return x * y + scaled(x)


@program((1, 2), keywords={"c": 3})
@program((1, 2), keywords={"b2": 7, "c": 3})
def keyword_only_arguments(a, b, *, b2=10, c):
    return a + b * b2 - c


@program((1,), (1, 2), (1, 2, 3.5))
def variable_arguments(first, *others):
    total = first
    for v in others:
        total = total * 10 + v
    return total, len(others)


@program((1.0,), keywords={"scale": 2.0, "shift": 3.0})
@program((1.0,))
def variable_keywords(x, **options):
    for name, v in options.items():
        if name == "scale":
            x = x * v
        else:
            x = x + v
    return x, len(options)


@program(((1, 2, 3), {"factor": 2.0}))
def spread_arguments(values, options):
    def weigh(a, b, c):
        return a + 10 * b + 100 * c

    return weigh(*values), weigh(1, *values[:2]), scaled(1.0, **options), scaled(*(2.0,), **{"shift": 1.0})


@program((2.0, 3.0))
def arguments_passed_through(x, y):
    return apply(scaled, x, shift=y), apply(apply, scaled, x, y), apply(lambda *a: len(a), x, y, x)


@program((2, 3))
def positional_only_arguments(a, b):
    def f(x, y, /, z=1):
        return x * 100 + y * 10 + z

    return f(a, b), f(a, b, z=a)


@program((3.0,))
def partial_application(x):
    double = functools.partial(scaled, factor=2.0)
    shifted = functools.partial(double, shift=x)
    first = functools.partial(lambda a, b, c: a * b - c, x, 4.0)
    return double(x), shifted(1.0), first(2.0), functools.partial(scaled, x)(5.0)


@program((1.0, 3),)
def a_closure_called_in_a_loop(x, n):
    def advance(v):
        return v + STEP * x

    for _ in range(n):
        x = advance(x)
    return x


@program((4, 2.0), (0, 2.0))
def a_closure_made_in_a_loop(n, x):
    total = 0.0
    for i in range(n):

        def term(y):
            return y * i + x

        total += term(total)
    return total


@program((3,), (-3,))
def a_function_defined_in_each_arm(n):
    if n > 0:

        def f(v):
            return v + n

    else:

        def f(v):
            return v * n

    return f(10)


@program((2,))
def a_function_rebound_under_its_own_name(n):
    def f(v):
        return v + 1

    g = f

    def f(v):
        return g(v) * n

    return f(10), g(10)


@program((3.0,))
def composition(x):
    def compose(f, g):
        return lambda v: f(g(v))

    increment = lambda v: v + 1
    square = lambda v: v * v
    return compose(square, increment)(x), compose(increment, square)(x), compose(square, compose(square, increment))(x)


@program((2.0, 5))
def repeated_composition(x, n):
    def power(f, k):
        def run(v):
            for _ in range(k):
                v = f(v)
            return v

        return run

    return power(lambda v: v * 1.5, n)(x), power(power(lambda v: v + 1, 2), n)(x)


@program((1, 2, 3))
def currying(a, b, c):
    return (lambda x: lambda y: lambda z: x * 100 + y * 10 + z)(a)(b)(c)


@program((np.array([1.0, 2.0]), 3.0))
def a_captured_array(values, x):
    def weighted(k):
        return values * k + x

    return weighted(2.0) + weighted(x), weighted(values)


@program((5,))
def a_closure_that_reads_a_name_bound_after_it(n):
    def f():
        return later + n

    later = 100
    return f()


@program((3,))
def inner_names_do_not_leak(n):
    x = n

    def f():
        x = 100
        return x + 1

    y = f()
    z = [x * 2 for x in (1, 2)]
    return x, y, z


@program((4, 1), (4, -1))
def nonlocal_set_in_a_branch(n, flag):
    state = n

    def change():
        nonlocal state
        if flag > 0:
            state = state * 2

    change()
    change()
    return state


@program((10,), (3,))
def nonlocal_set_in_a_loop(n):
    best = -1

    def offer(v):
        nonlocal best
        if v % 4 == 3 and v > best:
            best = v

    for i in range(n):
        offer(i)
    return best


@program((3.0,))
def decorators_of_inner_functions(x):
    def twice(f):
        return lambda v: f(f(v))

    @twice
    @twice
    def step(v):
        return v * 2 + x

    return step(1.0)


@program((2,))
def evaluation_order_of_arguments(n):
    log = 0

    def note(v):
        nonlocal log
        log = log * 10 + v
        return v

    total = note(1) + note(2) * note(3)
    pair = (note(4), note(5) if n > 0 else note(6))
    return log, total, pair
