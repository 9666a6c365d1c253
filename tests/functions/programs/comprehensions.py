"""Comprehensions of lists, tuples and dicts, and generator expressions that are consumed at once."""

import numpy as np

from tests.functions.table import program


@program(((1, 2, 3),), ((1.5,),), ((),))
def a_list_comprehension(values):
    return [v * v for v in values]


@program((np.array([1.0, 2.0, 3.0]),))
def a_list_comprehension_over_an_array(values):
    return [v + i for i, v in enumerate(values)]


@program((2.0,))
def a_comprehension_over_a_static_range(x):
    return [x * i for i in range(4)], [x**i for i in range(5, 0, -2)]


@program((3,))
def a_comprehension_with_a_static_condition(x):
    return [x * i for i in range(10) if i % 3 == 0 if i > 0]


@program(((1, 2), (10, 20, 30)))
def nested_comprehensions(a, b):
    return [x * y for x in a for y in b], [[x + y for x in a] for y in b]


@program((((1, 2), (3, 4)),))
def a_comprehension_with_unpacking(pairs):
    return [a * b for a, b in pairs], [first for first, *_ in pairs]


@program(({"a": 1, "b": 2.5},))
def a_dict_comprehension(values):
    return {name + "_twice": v * 2 for name, v in values.items()}, {i: v for i, v in enumerate(values.values())}


@program(((1, 2, 3, 4),))
def generator_expressions(values):
    return sum(v * v for v in values), max(-v for v in values), tuple(v + 1 for v in values), min(v % 3 for v in values)


@program((2.0,))
def an_array_from_a_comprehension(x):
    return np.array([x * i for i in range(3)]), np.stack([np.full(2, x) * i for i in range(2)])


@program((3,))
def the_scope_of_a_comprehension(i):
    squares = [i * i for i in range(3)]
    return squares, i


@program((3, 4))
def a_comprehension_captures(a, b):
    return [(lambda v: v * a + b + i)(i) for i in range(3)], [a if i else b for i in range(2)]


@program(((3, 1, 2),))
def comprehensions_with_conditional_expressions(values):
    return [v if v > 1 else -v for v in values], sum(1 if v > 1 else 0 for v in values)


@program(((1.0, 2.0), (3.0, 4.0)))
def a_comprehension_over_zip(a, b):
    return sum(x * y for x, y in zip(a, b)), [x - y for x, y in zip(a, reversed(b))]


@program((4,), (0,), (7,))
def a_sum_over_a_dynamic_range(n):
    return sum(i * i for i in range(n)), sum(0.5 for _ in range(n)) + 0.0


@program((9,), (7,), (1,))
def any_and_all_over_a_dynamic_range(n):
    return any(n % d == 0 for d in range(2, n)), all(n % d for d in range(2, n))


@program((5,))
def a_walrus_in_a_comprehension(x):
    values = [y := x * i for i in range(3)]
    return values, y


@program(((1, 2, 3),))
def a_matrix_from_comprehensions(values):
    matrix = np.array([[a * b for a in values] for b in values])
    return matrix, [row.sum() for row in matrix]


@program((5,), (12,))
def a_count_over_a_dynamic_range_with_a_condition(n):
    return sum(1 for i in range(n) if i % 3 == 1), max(i * (7 - i) for i in range(n))
