"""Small programs of the kind that a compiler of functions must take: scopes, closures, recursion, types, arrays, None."""

import math
import operator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import hloom
from tests.functions.table import program

OFFSET = 2
LIBRARY = SimpleNamespace(add=operator.add, mul=operator.mul, table=np.ones((2, 5)))


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any

    def norm(self):
        return (self.x**2 + self.y**2) ** 0.5

    def __add__(self, other):
        if isinstance(other, Point):
            return Point(self.x + other.x, self.y + other.y)
        return Point(self.x + other, self.y + other)

    __radd__ = __add__

    def __sub__(self, other):
        return Point(self.x - other.x, self.y - other.y)

    def __pow__(self, n):
        return Point(self.x**n, self.y**n)

    def __floordiv__(self, other):
        return Point(self.x // other.x, self.y // other.y)

    def __mod__(self, other):
        return Point(self.x % other.x, self.y % other.y)

    def __pos__(self):
        return self

    def __neg__(self):
        return Point(-self.x, -self.y)


@dataclass(frozen=True)
class Point3:
    x: Any
    y: Any
    z: Any


@dataclass(frozen=True)
class Adder:
    value: Any

    def f(self, v):
        return v + self.value


@dataclass(frozen=True)
class Multiplier:
    value: Any

    def f(self, v):
        return v * self.value


@program(())
def no_arguments():
    return 2 * 8, 1.5 * 8, (8 * 7) + 4.0


@program((4, 6), (1.5, -2.0))
def multiple_targets(x, y):
    a, b = c = x, y
    return a, b, c


@program((3, 4), (2.5, 1.5))
def dunder_methods_of_numbers(x, y):
    return x.__add__(y), x.__mul__(y), x.__lt__(y), x.__neg__()


@program((True, False), (True, True))
def arithmetic_of_bools(x, y):
    return x + y, x * y, -x, x & y, x | y, x ^ y, x == y, not x, x and y, x or y, int(x), float(y)


@program((2, 3), (12, 5))
def all_operators(a, b):
    t = (1, 2, 4)
    return (
        (a + b, a - b, a / b, a * b, a % b, a == b, a != b, a < b, a > b, a <= b, a >= b, +a, -a, not a),
        (a & b, a | b, a ^ b, b << a, b >> a, ~a, a and b, a or b, a in t, b not in t, b // a, t[2]),
        (False is True, False is not True, None is None, a is None),
    )


@program((1, 2.5))
def one_function_at_two_types_in_one_call(x, y):
    def make(z):
        def inner():
            return z

        return inner

    return make(x)(), make(y)()


@program((2, 3, 1.5, 2.5))
def returned_closures_at_two_types(w, x, y, z):
    def mul(a):
        def by(b):
            return a * b

        return by

    return mul(w)(x), mul(y)(z)


@program((3,), (-2,))
def defaults_that_are_expressions(x):
    def f(z=x + x, q=lambda v: v * x):
        return q(z) + x

    def factorial(n=abs(x)):
        return 1 if n <= 1 else n * factorial(n - 1)

    return f(), f(1), f(q=lambda v: v), factorial()


@program((5, 7))
def keywords_passed_on(x, y):
    def f(albert=1, beatrice=10):
        return albert - beatrice

    def proxy(*args, **kwargs):
        return f(*args, **kwargs)

    return proxy(x, beatrice=y), proxy(x, y), proxy(beatrice=x, albert=y), proxy()


@program((5, 7), refused="charles")
def an_unknown_keyword_passed_on(x, y):
    def f(albert=1, beatrice=10):
        return albert - beatrice

    def proxy(*args, **kwargs):
        return f(*args, **kwargs)  # refused

    return proxy(albert=x, charles=y)


@program((5, 7), refused="albert")
def a_keyword_given_twice(x, y):
    def f(albert, beatrice):
        return albert - beatrice

    return f(albert=x, **{"albert": y, "beatrice": y})  # refused


@program(((1, 2, 3),), ((1.0, 2.0, 3.0),))
def a_tuple_spread_into_arguments(args):
    def f(x, y, z):
        return x + y * z

    return f(*args), f(*args[:2], 10)


@program(((1, 2),), refused="argument")
def a_tuple_spread_is_too_short(args):
    def f(x, y, z):
        return x + y * z

    return f(*args)  # refused


@program((3,))
def a_recursion_whose_closure_calls_the_outer_function(n):
    def f(x, y):
        return g(x - 1, y)

    def g(x, y):
        def plus(v):
            return v + 1

        if x == 0:
            return plus(y)
        return f(x, plus(y))

    return g(n, 2)


@program((0, 3, 4), (1, 3, 4), (0, 2.5, 4.0))
def an_operator_chosen(i, x, y):
    def choose(k):
        return operator.add if k == 0 else operator.mul

    return choose(i)(x, y)


@program((0, 3), (1, 3))
def a_function_chosen_that_gives_a_bool_or_an_int(i, x):
    def double(v):
        return v + v

    def is_zero(v):
        return v == 0

    def both(f, pair):
        return f(pair[0]), f(pair[1])

    return both(double, (x + 1, x + 2)), both(is_zero, (x - 3, x + 4)), both(double if i else operator.neg, (x, 1))


@program((-1, 3), (0, 3), (1, 3))
def functions_chosen_twice(c, x):
    def identity(v):
        return v

    def pick(k):
        if k < 0:
            return lambda v: v * v
        elif k == 0:
            return lambda v: int(v)
        else:
            return lambda v: v + v

    def pick_again(k, f):
        return f if k < 0 else identity

    return pick_again(c, pick(c))(x + x), pick_again(-1, pick(c))(x)


@program((4,), (50,))
def partials_of_one_function_chosen(x):
    import functools

    def f(a, b):
        return a + b

    def g(c):
        return functools.partial(f, 2) if c else functools.partial(f, -2)

    return g(x < 42)(x)


@program((5,), (6.0,), ((5, 7, (3.5, 1.5)),), (Point(5, 7),), (Point3(5, 7, 9),), ([1, 2],), ((),))
def types_decided_by_isinstance(x):
    def f(v):
        if isinstance(v, int):
            return v
        elif isinstance(v, float):
            return f(int(v))
        elif isinstance(v, Point):
            return f(v.x) * f(v.y)
        elif isinstance(v, tuple):
            return 0 if len(v) == 0 else f(v[0]) + f(v[1:])
        elif isinstance(v, list):
            return 1.0
        return 0

    return f(x)


@program((3,), (2.5,), (True,), ((1, 2),), ([1],), (None,), ({"a": 1},))
def the_type_of_a_value(x):
    return type(x) is int, type(x) == float, isinstance(x, (int, float)), isinstance(x, bool), isinstance(x, (tuple, list))


@program((Point(1, 2),), (7,))
def an_attribute_that_may_not_be_there(v):
    return v.x if hasattr(v, "x") else getattr(v, "x", -1) + v


@program((None,), (42,), (2.5,))
def tests_for_none(x):
    return x is None, x is not None, 0 if x is None else x * 2


@program((3, None), (3, 4), (-3, 4))
def an_optional_second_argument(x, y):
    if x > 0 and y is not None:
        return x + y
    return x


@program(("idk",), ("hey",))
def a_string_as_an_argument(s):
    x = 2
    if s == "idk":
        x = x + 1
    return x, s != "hey", s, len(s), s + "!"


@program(({"x": 3},), ({"x": 2.5, "y": 1},))
def a_dict_as_an_argument(d):
    return d["x"] * 2, len(d), "y" in d, list(d.keys())


@program(({"y": 3},), raises=KeyError, message="x")
def a_key_that_is_not_there(d):
    return d["x"]  # raises


@program((1, 2), raises=IndexError)
def a_tuple_index_beyond_the_end(x, y):
    return (x, y)[2]  # raises


@program((True, 1.5), (False, 1.5))
def a_method_of_one_of_two_classes(c, x):
    a = Adder(2.0) if c else Multiplier(5.0)
    return a.f(x)


@program((True, 4), (False, 4))
def a_function_inside_data_chosen(c, x):
    def f(v):
        return v * v

    def g(v):
        return v + v

    _, h = (1, [f]) if c else (2, [g])
    return h[0](x)


@program((Point(1, 2), Point(3, 5)), (Point(1.5, 2.0), Point(3.0, 0.5)))
def arithmetic_of_points(p, q):
    return p + q, p - q, p + 10, 10 + p, +p, -p, p**2, q // p, q % p, p.norm(), sum([p, q], Point(0, 0))


@program((3, 4.0))
def functions_of_a_namespace(x, y):
    return LIBRARY.add(x, y), LIBRARY.mul(x, x), LIBRARY.table.shape, LIBRARY.table * x


@program((3,), refused="recursion")
def a_recursion_without_an_end(x):
    def ouroboros(v):
        return ouroboros(v - 1)  # refused

    return ouroboros(x)  # refused


@program((np.arange(6.0).reshape(2, 3),), (np.arange(6).reshape(2, 3),))
def a_function_mapped_over_an_array(x):
    def f(v):
        return v * v + 1

    return np.array([[f(v) for v in row] for row in x]), np.vectorize(f)(x)


@program((np.arange(6.0).reshape(2, 3), np.ones((2, 3)) * 2))
def array_programs(x, y):
    d = x / y
    return np.sum(d), np.sum(d, axis=0), np.sum(d, axis=1, keepdims=True), x.reshape(6) @ y.reshape((6,)), x.T @ y


@program((3.5, (4, 3)))
def a_scalar_broadcast_to_a_shape(x, shape):
    return np.broadcast_to(x, (4, 3)).sum(), np.full((4, 3), x), np.broadcast_to(np.array([x, 1.0]), (3, 2))


@program((np.arange(6.0).reshape(2, 3),))
def shapes_are_values(x):
    a, b = x.shape
    return a * b == x.size, np.zeros((b, a)), x.reshape(x.shape[::-1]), np.ones(x.shape) * a, x.shape + (1,)


@program((5,), (0,))
def a_loop_over_a_list_display(n):
    total = 0
    for v in [n, n + 1, 4]:
        if v == 4:
            total = v * 10
        total += v
    return total


@program(([1.0, 2.0, 3.0],), ((1, 2, 3),))
def an_indexed_while_over_a_list(xs):
    y, index = xs[0] * 0 + 1, 0
    while index < len(xs):
        y = y * xs[index]
        index += 1
    return y, xs[-1], xs[1:]


@program((2, 1.0), (1000, 1.0))
def a_loop_over_floats(x, y):
    result = y
    while x > 0:
        result = result * 0.5 + y
        x = x - 1
    return result


@program((2.0, 3.0), reference=lambda x, y: (324.0 * 3, 324.0 * 3, 864.0, (972.0, 864.0), (648.0, 972.0)))
def the_interface_of_grad(x, y):
    def f(a, b):
        return a**3 * b**4

    return (
        hloom.grad(f)(x, y),
        hloom.grad(f, 0)(x, y),
        hloom.grad(f, 1)(x, y),
        hloom.grad(f, (0, 1))(x, y),
        hloom.value_and_grad(f)(x, y),
    )


@program((5.0, 8.0), reference=lambda x, y: 25.0)
def a_gradient_with_a_free_variable(x, y):
    def square():
        return x * x

    return hloom.grad(lambda z: square() * z)(y)


@program((4.5,), (-4.5,), grad=0)
def a_choice_of_nested_closures(x):
    a = x * x

    def f():
        b = x + 5

        def g():
            return a + b

        def h():
            return a * b

        return g if x < 0 else h

    return f()()


@program((4.0, 5.0), grad=(0, 1))
def a_higher_order_gradient(a, b):
    def f(g, x):
        return g(x) * g(x + 10.0)

    def g(x):
        return x * b

    return f(g, a) + f(g, b)


@program((4.0, 5.0), grad=(0, 1))
def a_gradient_of_operators_in_tuples(a, b):
    def f(pair, x, y):
        g, h = pair
        return g(x, y) * h(x, y)

    return f((operator.add, operator.mul), a, b)


@program((4.0, 5.0, 2.0), grad=(0, 1, 2))
def a_gradient_of_a_while_over_floats(x, y, z):
    result = 0.0
    while x > -0.1:
        result = result + y * x
        x = x - z
    return result


@program(([1.0, 2.0, 3.0, 4.0],), grad=0)
def a_gradient_by_a_list(xs):
    y = 1.0
    for x in xs:
        y = y * x
    return y


@program((4.1,), grad=0)
def a_gradient_of_a_factorial_of_floats(x):
    def factorial(n):
        return 1.0 if n <= 1 else n * factorial(n - 1)

    return factorial(x)


@program((13.0, 14.0), grad=(0, 1))
def a_gradient_that_is_zero(x, y):
    return 10.0 + 28.0 / 43.0


@program((((1.0, 2.0), (3.0, (4.0, 5.0))),), grad=0)
def a_gradient_by_a_tree(tree):
    def product(t):
        return t if isinstance(t, float) else product(t[0]) * product(t[1])

    return product(tree)


@program((3.0,), reference=lambda x: (math.cos(3.0), 27.0, 27.0))
def a_compiled_function_nested_in_another(x):
    f = hloom.function(lambda v: v * v * v)

    @hloom.function
    def g(v):
        return math.sin(v)

    return hloom.grad(g)(x), hloom.grad(f)(x), hloom.grad(hloom.function(f))(x)
