"""Python's own functions called as Python allows: special methods, unbound methods, arguments that they refuse."""

import functools
import itertools
import math
import operator

import numpy as np

from tests.functions.table import program

COLUMNS = np.array([1.0, -2.0, 3.0])


@program((7, 2.5), (-7, -0.5))
def special_methods_of_numbers(x, y):
    whole = x.__abs__(), x.__pos__(), x.__bool__(), x.__index__(), x.__float__(), x.__divmod__(2), x.__pow__(2)
    rest = y.__float__(), y.__int__(), y.__trunc__(), y.__round__(), y.__floor__(), y.__ceil__(), y.__abs__()
    return whole, rest, x.numerator, x.denominator, x.__class__ is int, y.__class__ is float


@program((3, COLUMNS))
def special_methods_of_containers(x, array):
    items = [x, 1]
    items.__setitem__(1, x + 5)
    lengths = items.__len__(), array.__len__(), (x,).__len__()
    taken = items.__getitem__(0), array.__getitem__(2), {"a": x}.__getitem__("a")
    joined = items.__add__([2]), (x,).__mul__(2), items.__contains__(3), (1, x).__eq__((1, 3))
    return lengths, taken, joined, items.__class__ is list


@program((3, 2.0))
def unbound_methods(x, y):
    items = [1]
    list.append(items, x)
    named = dict.fromkeys("ab", y)
    text = str.upper("a") == "A", int.from_bytes(b"\x01\x02", "big"), float.fromhex("0x1p3")
    return items, named, text, int.__add__(x, 1), float.is_integer(y)


@program((2.0,), raises=TypeError)
def an_unbound_method_of_another_class(x):
    return list.append(x, 1)  # raises


@program((3.75, 2.0), (-3.75, 0.5), (1e300, 3.0))
def parts_of_floats(x, y):
    parts = math.modf(x), math.frexp(x), math.ldexp(y, 3), math.remainder(x, y)
    return parts, math.nextafter(x, y), math.ulp(x), math.remainder(5, y), math.remainder(7.0, 2)


@program((-0.5, 2.0), (4.0, -2.0), (-6.0, 3.0))
def signs_of_numpys_remainders(x, y):
    xs, ys = np.array([x, -0.0]), np.array([y, y])
    rests = np.mod(xs, ys), np.remainder(xs, ys), np.divmod(xs, ys)
    signs = [np.signbit(rest) for rest in (rests[0], rests[1], rests[2][1])]
    return rests, signs, np.mod(x, 0), np.floor_divide(x, 2), np.mod(np.float32(x), 2)


@program((1, 2.0), (5, 2.0), (3, 1.5))
def a_dict_of_functions_by_a_number(n, x):
    table = {1: lambda value: value, 3: lambda value: value * value, 5: lambda value: -value}
    return table[n](x), n in table, n + 1 in table, n not in {1, 3}


@program((2,), raises=KeyError)
def a_number_that_is_no_key(n):
    return {1: 10, 3: 25}[n]  # raises


@program((10,), (3,))
def functions_with_caches(n):
    @functools.cache
    def fibonacci(k):
        return k if k < 2 else fibonacci(k - 1) + fibonacci(k - 2)

    @functools.lru_cache(maxsize=None)
    def doubled(k):
        return k * 2

    return fibonacci(n), doubled(n)


@program((3,), refused="cache")
def a_function_with_a_cache_that_counts(n):
    calls = 0

    @functools.cache
    def doubled(k):  # refused
        nonlocal calls
        calls += 1
        return 2 * k

    return doubled(n) + doubled(n), calls


@program((7,))
def iterators_of_itertools(n):
    total = 0
    for i in itertools.count(n):
        if i * i > 200:
            break
        total += i
    pairs = [a * b for a, b in zip(itertools.count(1), (n, n + 1), strict=False)]
    groups = [(key, sum(items)) for key, items in itertools.groupby([1, 3, 2, 5], key=lambda value: value % 2)]
    kept = list(itertools.compress([n, 1], [1, 0])), list(itertools.filterfalse(lambda value: value > 1, [1, 2]))
    return total, pairs, groups, kept


@program((True, True), (True, False), (False, False))
def identity_of_bools(a, b):
    return a is b, a is not b, a is True, b is not False, a is None


@program((3, 3), refused="identity")
def identity_of_numbers(x, y):
    return x is y  # refused


@program((COLUMNS, COLUMNS), refused="one object")
def identity_of_two_arguments(x, y):
    return x is y  # refused


@program((COLUMNS, [1, 2]))
def identity_of_an_argument(x, items):
    mine, rows = x.copy(), list(items)
    return x is x, x is mine, x is None, items is not items, rows is items, rows is rows


@program((3,))
def ranges_as_results(n):
    return range(3), range(2, 9)[1:3], slice(1, 2), n


@program((2.5,), raises=TypeError)
def digits_that_are_no_number(x):
    return round(x, 1.5)  # raises


@program((3,), raises=TypeError, message="foo")
def an_unknown_keyword_of_sorted(x):
    return sorted([x, 2], foo=1)  # raises


@program((3,), raises=TypeError)
def the_least_of_no_arguments(x):
    return x + min()  # raises


@program((3,), raises=TypeError)
def a_default_beside_several_arguments(x):
    return max(3, x, default=1)  # raises


@program((3,), raises=TypeError)
def the_size_of_none(x):
    return abs(None) + x  # raises


@program((3,), raises=TypeError)
def a_sort_of_unlike_constants(x):
    return sorted([1, "a"]), x  # raises


@program((3,), raises=TypeError)
def a_number_gone_over_by_zip(x):
    return zip(x)  # raises


@program((3,), raises=TypeError)
def an_enumeration_from_a_float(x):
    return list(enumerate([x], start=0.5))  # raises


@program((2.5,), raises=TypeError)
def a_power_modulo_of_a_float(x):
    return pow(x, 2, 3)  # raises


@program((3,), raises=TypeError)
def a_member_of_a_number(x):
    return 1 in x  # raises


@program((3,), raises=TypeError)
def a_number_in_a_text(x):
    return x in "abc"  # raises


@program((COLUMNS, np.eye(2)), raises=ValueError)
def a_join_of_unlike_ranks(a, b):
    return np.concatenate([a, b])  # raises


@program((3, 2.5), (-3, 300.5))
def short_integers_made_of_numbers(x, y):
    return np.int32(x), np.int32(y), np.int32(x) * 3, np.asarray(x, dtype=np.int16), np.int64(np.int32(x))


@program((3,), (4,))
def operators_that_change(n):
    items = [1, 2, 3]
    operator.setitem(items, 0, n)
    operator.delitem(items, 1)
    return items
