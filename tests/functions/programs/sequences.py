"""Tuples, lists, dicts and strings whose lengths are known: slices, order, keys, sorting, joins, comparisons."""

import functools
import itertools
import operator
from collections import namedtuple

import numpy as np

from tests.functions.table import program

Span = namedtuple("Span", "start stop")


@program(((1, 2, 3, 4, 5, 6, 7),), ((1.5, 2, True, 4, 5, 6, 7),))
def slices_of_a_tuple_of_all_forms(t):
    return t[1:], t[:-2], t[::2], t[::-1], t[-3:-1], t[5:1:-2], t[10:], t[-100:2], t[3:3]


@program((3, 4.5))
def slices_assigned_in_a_local_list(a, b):
    values = [1, 2, 3, 4, 5, 6]
    values[1:3] = [a, b, a]
    values[-1:] = []
    values[:0] = [b]
    values[::2] = [0, 0, 0, 0]
    del values[1]
    return values


@program((2, 7))
def list_methods_in_a_row(a, b):
    values = [a]
    values.extend((b, a + b))
    values.insert(1, a * b)
    last = values.pop()
    first = values.pop(0)
    values.reverse()
    values += [last, first]
    copied = values.copy()
    copied.append(99)
    return values, copied, len(copied), values.index(b)


@program(((3, 1, 2), (30.0, 10.0, 20.0)))
def zip_stops_at_the_shortest(a, b):
    pairs = list(zip(a, b[:2]))
    short = [x * y for x, y in zip(a[1:], b)]
    return pairs, short, tuple(zip(a, b, range(2))), list(zip(a)), list(zip())


@program((5, 2))
def zip_star_transposes(a, b):
    rows = [(a, b, a + b), (b, a, a - b)]
    columns = list(zip(*rows))
    again = tuple(zip(*columns))
    return columns, again, [sum(column) for column in columns]


@program((4, -7, 2), (0.5, -0.25, 3.0))
def min_and_max_with_keys(a, b, c):
    return max(a, b, c, key=abs), min((a, b, c), key=lambda v: v * v), max([a, b], key=lambda v: -v), min(c, a, key=abs)


@program((2, 5))
def min_and_max_with_defaults(a, b):
    return max([], default=a), min((), default=None) is None, max((a, b), default=0), min([b, a * 3], default=7)


@program((3.0,))
def sorted_static_values_with_data_beside(x):
    order = sorted(range(5), key=lambda k: (k % 2, -k))
    words = sorted(["pear", "fig", "apple"], key=len)
    pairs = sorted({"b": 1, "a": 2}.items())
    return [x * k for k in order], len(words[0]) * x, [x + n for _, n in pairs], sorted((True, False))


@program((3, 1, 2), (1.0, 1.0, 0.5))
def sorted_data_with_reverse_and_key(a, b, c):
    values = [a, b, c]
    values.sort()
    down = sorted((a, b, c), reverse=True)
    far = sorted([a, b, c], key=lambda v: abs(v - 2))
    return values, down, far


@program((1, 2), (2, 1), (1, 1))
def tuples_compared_in_order(a, b):
    return (a, b) < (b, a), (a, 3) <= (a, b), (a, b) == (b, a), (a,) < (a, b), (a, b) != (a, b), [a] >= [b], () < (a,)


@program((3, 4))
def tuples_multiplied_and_joined(a, b):
    t = (a, b) * 2 + (a,) + tuple([b] * 3)
    return t, len(t), t.count(a) if a is None else t[3], (0,) * 0, 2 * [a]


@program((3,), (7,), (9,))
def membership_in_lists_dicts_and_ranges(n):
    table = {1: "one", 3: "three"}
    return n in [3, 5], n not in (7, 8), 3 in table, "one" in table.values(), n in range(0, 10, 3), 5 in {5, 6}


@program((2.0, 3.0))
def dicts_by_string_keys(a, b):
    d = {"x": a, "y": b}
    d["z"] = d["x"] * d["y"]
    d.update(x=1.0, w=4.0)
    d |= {"v": 0.5}
    y = d.pop("y")
    missing = d.pop("no", -1)
    kept = d.setdefault("z", 100.0), d.setdefault("u", a)
    return d, y, missing, kept, list(d), "y" in d, d.get("q", b), d.get("q") is None


@program((2.0, 3.0))
def dicts_by_other_keys(a, b):
    d = {(0, 1): a, 2: b, None: a + b, True: 5.0}
    e = {key: value * 2 for key, value in d.items() if key is not None}
    return d[0, 1], d[2], d[None], d[1], e[(0, 1)], len(e), dict(zip("ab", (a, b))), dict([("k", a)], m=b)


@program((3.0,))
def dict_order_and_deletion(x):
    d = dict(a=x, b=2.0, c=3.0)
    del d["b"]
    d["b"] = x * 2
    first, *rest = d
    keys = "".join(d.keys())
    total = 0.0
    for number, (key, value) in enumerate(d.items(), 1):
        total += number * value * len(key)
    return d, first, len(rest), keys, total, list(reversed(d.values()))


@program((2, "double"), (2, "square"), (2, "other"))
def strings_choose(x, name):
    if name.startswith("dou") and len(name) == 6:
        return x + x
    if name.upper() == "SQUARE" or "sq" in name:
        return x * x
    letters = [letter for letter in name if letter not in "aeiou"]
    return x * len(letters) + name.count("o") + name.index("h")


@program((5,))
def strings_made_and_split(x):
    parts = "3,4,5".split(",")
    text = f"{len(parts)}-{'-'.join(parts)}"
    numbers = [int(p) * x for p in parts]
    return numbers, len(text), text[::2] == "33-4-5"[::1], ord("a") + x, "ab" * 2 < "abb", str(12).zfill(4) == "0012"


@program(((1, (2, 3), [4, {"k": 5}]),))
def nested_unpacking_with_stars(t):
    a, (b, *c), [d, e] = t
    *front, last = a, b, d
    (first, *_), *others = [(a, b), (c, d), (e,)]
    return a, b, c, d, e["k"], front, last, first, len(others)


@program((1, 2, 3))
def stars_in_calls_and_displays(a, b, c):
    def f(*args, scale=1, **rest):
        return sum(args) * scale + sum(rest.values())

    head = [a, b]
    tail = {"scale": c, "extra": a}
    return f(*head, c, **tail), f(*head, *head), [*head, *reversed(head)], {**tail, "extra": 0}, (*head, *range(2))


@program(((5, 6, 7),))
def enumerate_with_a_start(t):
    total = 0
    for number, value in enumerate(t, start=2):
        total = total * 10 + number * value
    return total, list(enumerate(t[:2], -1)), dict(enumerate("ab", 1))


@program((4,), (0,), (-3,))
def ranges_by_data(n):
    total = 0
    for k in range(n, -2, -1):
        total = total * 3 + k
    for k in range(-n, n, 2):
        total += k * k
    for k in range(10, n, -3):
        total -= k
    return total


@program((3,), (10,))
def attributes_of_ranges(n):
    r = range(2, 20, 3)
    return r[1], r[-1], len(r), r.start + r.stop + r.step, n in r, r[1:3] == range(5, 11, 3), list(r[::-2]), sum(r) * n


@program((np.array([1.0, 2.0, 3.0, 4.0]),))
def an_array_among_sequences(v):
    first, *rest = v
    a, b = v[:2]
    pairs = list(zip(v, v[1:]))
    return first, rest, a - b, [x * y for x, y in pairs], sum(v), max(v), min(v[1:]), len(v), sorted(v)[::-1][0]


@program((1, 2.5), (3, -1.5))
def functools_and_itertools(a, b):
    add3 = functools.partial(lambda x, y, z: x + 10 * y + 100 * z, a, z=2)
    runs = list(itertools.accumulate((a, b, a)))
    pairs = [x * y for x, y in itertools.product((a, b), repeat=2)]
    chained = list(itertools.chain((a,), [b, b]))
    steps = list(itertools.islice((a, b, a, b), 1, 3))
    return add3(b), runs, pairs, chained, steps, [x - y for x, y in itertools.combinations((a, b, 1), 2)]


@program((2, 3))
def pairwise_and_zip_longest(a, b):
    values = (a, b, a * b, a - b)
    differences = [y - x for x, y in itertools.pairwise(values)]
    filled = list(itertools.zip_longest(values[:2], values, fillvalue=0))
    return differences, filled, list(itertools.starmap(operator.mul, filled)), list(itertools.repeat(a, 2))


@program((2.0, 5.0))
def getters_of_operator(a, b):
    span = Span(a, b)
    length = operator.sub(operator.attrgetter("stop")(span), span.start)
    pick = operator.itemgetter(1, 0)
    return length, pick((a, b)), operator.itemgetter("k")({"k": a}), operator.methodcaller("index", b)([a, b])


@program((3, 2))
def comprehensions_of_functions(a, b):
    adders = [lambda x, k=k: x + k for k in range(3)]
    table = {name: (lambda x, f=f: f(x, b)) for name, f in (("add", operator.add), ("pow", operator.pow))}
    late = [lambda x: x * k for k in range(3)]
    return [f(a) for f in adders], table["add"](a), table["pow"](a), [f(a) for f in late]


@program((2, 3))
def nested_comprehensions_with_conditions(a, b):
    grid = [[i * a + j * b for j in range(3) if j != i] for i in range(3)]
    flat = [cell for row in grid for cell in row if len(row) == 2]
    squares = {i: {j: i * j * a for j in range(i)} for i in range(3)}
    return grid, flat, squares, sum(len(row) for row in grid)


@program((4,), (-4,))
def any_all_and_sum_of_tuples(n):
    values = (n, n - 4, n + 4)
    return any(values), all(values), sum(v > 0 for v in values), any(v < 0 for v in values), all([]), any(()), sum([[n], [1]], [])


@program((7,))
def reversed_in_many_places(n):
    items = [n, 2, 3]
    pairs = [(i, v) for i, v in reversed(list(enumerate(items)))]
    for value in reversed((1, 2)):
        items.append(value * n)
    return pairs, items, list(reversed(range(0, 7, 3))), tuple(reversed(items))[0], "".join(reversed("abc")) == "cba"


@program((1, 4))
def a_list_as_a_stack_and_a_queue(a, b):
    stack = [a, b]
    stack.append(a + b)
    top = stack.pop() + stack[-1]
    queue = list(range(3))
    order = []
    while queue:
        item = queue.pop(0)
        order.append(item * a)
        if item == 1:
            queue.append(9)
    return top, stack, order


@program((3, 5))
def iterators_taken_by_next(a, b):
    stream = iter([a, b, a * b])
    first = next(stream)
    rest = list(stream)
    return first, rest, next(iter(()), -1), next(iter({"k": a}.values()))


@program((2, 9))
def lists_compared_and_cleared(a, b):
    x = [a, b]
    y = list(x)
    same = x == y, x is y, x is x
    y.clear()
    z = x * 2
    z.remove(b) if False else z.append(1)
    return same, y, not y, bool(x), z, x + [3] == [a, b, 3]


@program((3, 4.0))
def keyword_arguments_kept_in_dicts(a, b):
    def outer(**options):
        options["scale"] = options.get("scale", 1) * 2
        return inner(**options)

    def inner(scale, shift=0.5, *, sign=1):
        return sign * (a * scale + shift * b)

    return outer(), outer(scale=3), outer(sign=-1, shift=b), inner(**dict(scale=1, sign=2))
