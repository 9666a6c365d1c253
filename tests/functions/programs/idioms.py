"""Idioms of Python in combination: loops with else, unpacking, walrus, comprehensions, containers, strings."""

import itertools
import math

import numpy as np

from tests.functions.table import program

LIMITS = {"low": -1.0, "high": 2.5}
UNITS = ("mm", "cm", "m")


@program((10,), (3,))
def closures_over_the_variable_of_a_while(n):
    i = 0
    functions = []
    while i < 3:
        functions.append(lambda v, k=i: v * k + i)
        i += 1
    return [f(n) for f in functions]


@program((5,), (0,), (-4,))
def nonlocal_counters_of_two_levels(n):
    calls, total = 0, 0

    def outer(v):
        nonlocal calls
        calls += 1

        def inner(w):
            nonlocal total
            total += w * calls
            return total

        return inner(v) + inner(1)

    results = (outer(n), outer(n + 1), outer(2))
    return results, calls, total


@program((6,), (9,), (5,))
def early_return_in_nested_loops_with_else(n):
    for a in range(1, n):
        for b in range(a, n):
            if a * b == n:
                return a, b
            if a * b > n:
                break
        else:
            return -1, a
    return 0, 0


@program((1, 2), (0, 0), (-3, 4), (5, -5))
def match_with_guards_and_captures(x, y):
    match (x, y):
        case (0, 0):
            return 0
        case (a, b) if a == -b:
            return a * 100
        case (a, b) if a > 0 and b > 0:
            return a + b
        case (a, _) if a < 0:
            return -a
        case _:
            return -1


@program(([1, -2, 3, 4],), ([0, 0, 0, 0],))
def a_walrus_in_a_condition_of_a_comprehension(values):
    squares = [y for k in (0, 1, 2, 3) if (y := k * k) > 0]
    last = 0
    total = sum((last := last + v) for v in values)
    return squares, y, total, last


@program(((1, (2, 3, 4), 5, 6),))
def stars_in_nested_tuples(values):
    first, (second, *middle), *rest = values
    *front, (a, b) = (0, 1, (2, 3))
    return first, second, middle, rest, front, a + b


@program(({"a": 1.0, "b": 2.0, "c": 3.0},))
def a_loop_over_items_that_makes_dicts(table):
    doubled, names = {}, []
    for number, (key, value) in enumerate(table.items()):
        if key != "b":
            doubled[key + str(number)] = value * 2
            names.append(key)
    return doubled, len(names), "b" in table, sum(table.values())


@program((3.0,))
def dicts_merged_and_unpacked(x):
    base = {"a": x, "b": 2 * x}
    more = {**base, "b": 0.0, "c": 1.0}
    joined = base | {"d": x}
    joined |= {"a": -x}
    return more, joined, list(more), dict(zip(("p", "q"), (x, 1.0)))


@program((2, 3, 5), (9, 9, 9))
def comparisons_in_a_chain_with_effects(a, b, c):
    calls = 0

    def seen(v):
        nonlocal calls
        calls += 1
        return v

    result = seen(a) < seen(b) < seen(c) != seen(a)
    return result, calls


@program((5, "cm"), (5, "m"))
def a_string_selects_a_factor(x, unit):
    factors = {"mm": 1.0, "cm": 10.0, "m": 1000.0}
    if unit not in factors:
        raise KeyError(unit)
    return x * factors[unit], UNITS.index(unit), unit.upper() == "CM", f"{unit}s" == "cms"


@program((0.7,), (-3.0,), (9.0,))
def clamped_by_a_table_of_limits(x):
    return max(LIMITS["low"], min(x, LIMITS["high"]))


@program(((3, 1, 2), (6, 5, 4)))
def zip_of_zip_and_enumerate(a, b):
    total = 0
    for i, (x, y) in enumerate(zip(a, reversed(b)), start=1):
        total = total * 3 + i * x - y
    pairs = list(zip(*zip(a, b)))
    return total, pairs


@program((4,), (0,))
def a_while_true_with_two_exits(n):
    count = 0
    while True:
        if n <= 0:
            break
        n -= 1
        if n == 2:
            continue
        count += 1
    return count, n


@program((3, 4), refused="lengths")
def a_list_grown_in_a_conditional_expression(a, b):
    log = []
    first = log.append("a") or a if a else b
    return first, len(log)  # refused


@program((7,), (4,))
def a_conditional_expression_picks_tuples(n):
    low, high = (n, n * 2) if n % 2 else (-n, n)
    (x, y), z = ((low, high), 1) if low > 0 else ((high, low), 2)
    return x, y, z


@program((2,), (3,))
def a_star_call_with_a_computed_tuple(n):
    def polynomial(x, *coefficients, scale=1):
        value = 0
        for c in coefficients:
            value = value * x + c
        return value * scale

    options = {"scale": n}
    return polynomial(n, *(1, 2), *[3 + n], **options), polynomial(n)


@program((3,))
def slices_of_lists_and_tuples(n):
    values = [n, n + 1, n + 2, n + 3]
    values[1:3] = [0, 0, 0]
    del values[0]
    return values, values[::-1], tuple(values)[-2:], values * 2, [n] + values[:1]


@program((4.0,))
def list_methods(x):
    values = [3.0, x]
    values.insert(1, -x)
    values.extend((1.0, 2.0))
    popped = values.pop(0)
    values.reverse()
    again = values.copy()
    again.append(popped)
    return values, again, len(again), popped


@program((2.0,))
def dict_methods(x):
    table = dict(a=x, b=x * x)
    table.setdefault("c", 7.0)
    table.setdefault("a", 9.0)
    table.update(b=-1.0, d=x)
    taken = table.pop("d")
    return table, taken, table.get("z", 0.5), table.get("a"), sorted(table.keys())[0] == "a"


@program((3,))
def itertools_of_static_lengths(n):
    total = 0
    for a, b in itertools.product((1, 2), (n, n + 1)):
        total += a * b
    chained = list(itertools.chain((1, 2), [n]))
    running = list(itertools.accumulate([1, 2, n]))
    repeated = list(itertools.repeat(n, 2))
    pairs = [a * b for a, b in itertools.combinations((1, 2, n), 2)]
    return total, chained, running, repeated, pairs


@program((5,))
def sets_of_static_values(n):
    names = {"a", "b"} | {"c"}
    return len(names), "a" in names, {1, 2, 2} == {2, 1}, n if n in {1, 2} else -n


@program((9,), (10,), (11,))
def any_of_ranges(n):
    is_composite = any(n % k == 0 for k in range(2, n))
    all_small = all(k < 10 for k in range(n))
    return is_composite, all_small


@program((1, 2, 3))
def keyword_arguments_in_any_order(a, b, c):
    def weigh(x, y=10, *, z=100, **rest):
        return x + 2 * y + 3 * z + sum(rest.values())

    return weigh(a), weigh(y=b, x=a), weigh(a, z=c, w=b), weigh(**{"x": a, "z": b, "q": c})


@program((12,), (7,))
def a_loop_that_swaps_two_names(n):
    a, b = 0, 1
    while b < n:
        a, b = b, a + b
    return (a, b) if n - a < b - n else (b, a)


@program(((1.0, 2.0, 3.0),))
def an_index_found_by_enumerate(values):
    position = -1
    for i, v in enumerate(values):
        if v > 1.5:
            position = i
            break
    else:
        position = 99
    return position


@program((3,), (-3,), (0,))
def a_sign_by_comparisons(n):
    return (n > 0) - (n < 0), int(n > 0) + True, (n > 0) * 2.5, sum([n > 0, n >= 0, n == 0])


@program((8,), (15,))
def fizz_buzz_as_numbers(n):
    fizz = buzz = both = 0
    for k in range(1, n + 1):
        match k % 3, k % 5:
            case 0, 0:
                both += 1
            case 0, _:
                fizz += 1
            case _, 0:
                buzz += 1
    return fizz, buzz, both


@program((2, 3), (5, 1))
def nested_conditional_loops_with_flags(a, b):
    hit = False
    i = 0
    while not hit and i < 10:
        j = 0
        while j < 10:
            if i * a + j * b == 17:
                hit = True
                break
            j += 1
        if hit:
            continue
        i += 1
    return hit, i, j


@program((3.7,), (-3.7,), (2.5,))
def conversions_of_numbers(x):
    return int(x), round(x), math.floor(x), math.ceil(x), math.trunc(x), float(int(x)), bool(x), x // 1, x % 1, divmod(x, 2)


@program((17, 5), (-17, 5), (17, -5))
def whole_number_division(a, b):
    return a // b, a % b, divmod(a, b), math.fmod(a, b), a // b * b + a % b == a, abs(a) // abs(b)


@program((3,))
def a_name_deleted_and_bound_again(n):
    x = n
    del x
    x = n * 2
    y = [x, n]
    del y[0]
    return x, y


@program((2,))
def lambdas_in_a_dict_called_in_a_loop(n):
    table = {"double": lambda v: v * 2, "add": lambda v, k=n: v + k, "square": lambda v: v * v}
    result = 1
    for name in ("add", "square", "double"):
        result = table[name](result)
    return result, [table[k](n) for k in table]


@program((3,), (0,))
def an_or_chain_of_defaults(n):
    options = {"size": 0, "name": None}
    size = options["size"] or n or 5
    name = options["name"] or "none"
    return size, len(name)


@program((4, 9), (9, 4))
def several_targets_and_annotations(a, b):
    low: int
    high: int = max(a, b)
    low = min(a, b)
    x = y = low + high
    x += 1
    [p, q] = high, low
    return x, y, p - q


@program((2,), (6,))
def range_objects_as_values(n):
    r = range(2, 10, 3)
    return len(r), r[1], n in r, list(r), sum(r), r[-1], [k * n for k in r[1:]]


@program((np.array([1.0, 2.0, 3.0]), 2), (np.array([1.0, 2.0, 3.0]), 0))
def a_loop_with_an_array_and_a_list(x, n):
    history = [x, x]
    for _ in range(n):
        history = [history[1], history[0] * 0.5 + history[1]]
    return history


@program(((1, 2.0, (3, [4.0])),))
def a_structure_flattened_by_recursion(tree):
    def leaves(t):
        if isinstance(t, (tuple, list)):
            return [leaf for part in t for leaf in leaves(part)]
        return [t]

    flat = leaves(tree)
    return flat, len(flat), sum(flat)


@program((3, 2.0),)
def a_message_with_numbers_in_an_assertion(n, x):
    assert n > 0, f"n is {n}, x is {x:.3f}"
    assert x != 0 and n != 0, "both " + "must be non-zero"
    return n / x


@program((2, 5), (5, 2))
def tuples_are_ordered(a, b):
    return (a, b) < (b, a), (a, b) == (a, b), max((a, 1), (b, 0)), sorted([(a, b), (b, a)]), min((b, a), (a, b))[0]


@program((1, 5))
def a_nested_function_with_a_loop_and_return(a, b):
    def first_square_above(limit, start=a):
        for k in range(start, 100):
            if k * k > limit:
                return k
        return -1

    return [first_square_above(limit) for limit in (b, 20, 99)], first_square_above(10_000)


@program((np.array([[1, 2], [3, 4]]),))
def comprehensions_over_rows_and_columns(m):
    rows = [sum(row) for row in m]
    columns = [sum(row[j] for row in m) for j in range(2)]
    flat = [v for row in m for v in row]
    return rows, columns, flat, [[v * 2 for v in row] for row in m]


@program((4,), (1,))
def a_do_while(n):
    total = 0
    while True:
        total += n
        n -= 1
        if not n > 0:
            break
    return total


@program((5,))
def a_ternary_chain_over_static_and_dynamic(n):
    mode = "up"
    return (n + 1 if mode == "up" else n - 1) if n > 3 else (0 if mode == "up" else 1)
