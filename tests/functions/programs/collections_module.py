"""Deques, defaultdicts, OrderedDicts and Counters; what ranges know; signs of zero; texts of values."""

import itertools
import math
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np

from tests.functions.table import program


@program((3,), (7,))
def a_deque_of_bounded_length(n):
    window = deque([0, 1, 2], maxlen=3)
    for i in range(4):
        window.append(n + i)
    window.appendleft(-1)
    return sum(window), window[0], window[-1], len(window), window


@program((2.0,))
def both_ends_of_a_deque(x):
    values = deque([x, 5 * x])
    values.appendleft(x * 2)
    values.extendleft([1.0, 2.0])
    values.rotate(1)
    return values.popleft(), values.pop(), list(values)


@program((3, 2.0), (0, 2.0))
def a_deque_that_a_loop_carries(n, x):
    window = deque([0.0, 0.0, 0.0], maxlen=3)
    for i in range(n):
        window.append(x * i)
    return window


@program((deque([1, 2, 3], maxlen=3), 4))
def a_deque_as_argument(values, n):
    longer = values.copy()
    longer.append(n)
    return longer, len(values), longer.maxlen


@program((1,), raises=TypeError)
def a_slice_of_a_deque(n):
    return deque([1, 2, n])[1:]  # raises


@program((3,))
def breadth_first_search(n):
    graph = {0: (1, 2), 1: (3,), 2: (3,), 3: ()}
    distance = {0: n}
    queue = deque([0])
    while queue:
        node = queue.popleft()
        for following in graph[node]:
            if following not in distance:
                distance[following] = distance[node] + 1
                queue.append(following)
    return distance


@program((3,))
def defaultdicts(n):
    counts, rows = defaultdict(int), defaultdict(list)
    for i, name in enumerate(("a", "b", "a")):
        counts[name] += n
        rows[name].append(n * i)
    return counts["a"], counts["c"], counts, rows["a"], len(rows), type(rows) is defaultdict, isinstance(rows, dict)


@program((3, 2.0), (0, 1.0))
def a_defaultdict_in_branches(n, x):
    sums = defaultdict(lambda: x)
    if n > 2:
        sums["a"] += 1.0
    else:
        sums["a"] -= 1.0
    return dict(sums), sums["b"]


@program((defaultdict(int, a=1),), refused="argument")
def a_missing_key_of_an_argument(counts):
    return counts["b"]  # refused


@program((OrderedDict(a=1, b=2),))
def the_order_of_an_ordered_dict(given):
    other = OrderedDict()
    other["a"] = 1
    other["b"] = 2
    same = given == other
    other.move_to_end("a")
    return same, given == other, dict(given) == other, other


@program((3,))
def counters(n):
    letters = Counter("hello")
    letters.update("he", lo=2)
    letters.subtract({"o": 3})
    scaled = {letter: count * n for letter, count in letters.items()}
    return letters["l"] * n + letters["z"], letters.most_common(1), letters.total(), scaled, letters == Counter("lo")


@program((3,), refused="set")
def a_set_that_changes(n):
    seen = set()
    seen.add(n)  # refused
    return n


@program((3, 10), (10, 10), (7, 10), (0, 10), (11, 10))
def membership_of_ranges(n, m):
    return n in range(10, 0, -3), n in range(m), n in range(m, 0, -1), n in range(1, m, 3)


@program((2.0,), (2.5,))
def a_float_in_a_range(x):
    return x in range(5), x in range(0, 6, 2)


@program((3,))
@program((4,), raises=ValueError)
def the_position_in_a_range(n):
    return range(1, 9, 2).index(n), range(9, 0, -2).index(n), range(9).count(n), range(0, 9, 2).count(n)  # raises


@program((-0.0, 3.0), (0.0, -3.0), (6.0, -3.0), (-1.0, -3.0), (1.0, 3.0), (-1.0, 3.0), (5.5, -2.0))
def the_sign_of_a_remainder_of_zero(a, b):
    return math.copysign(1.0, a % b), math.copysign(1.0, a // b), a % b, a // b


@program((np.array([5.5, -6.0, -0.0]), 3.0), (np.array([5.5, 6.0, 0.0]), -3.0))
def the_signs_of_remainders_of_arrays(a, b):
    return np.copysign(1.0, a % b), np.copysign(1.0, a // b), a % b, a // b


@program(("ab",))
def representations(text):
    return repr(text), str("x"), f"{text!r}", repr((1, "a")), f"{text:>5}"


@program((2,), (5,))
def a_text_chosen_by_data_as_a_key(n):
    name = "a" if n < 3 else "b"
    return {"a": 1.0, "b": 2.0}[name] * n


@program((5,))
def items_up_to_the_first_that_fails(n):
    small = itertools.takewhile(lambda value: value < 3, [1, 2, 5, 1])
    large = itertools.dropwhile(lambda value: value < 3, [1, 2, 5, 1])
    return [n * value for value in small], [n * value for value in large]
