"""What ordinary Python files hold: optional values, collections, small classes, texts, tables of functions, aliases."""

import copy
import functools
import math
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hloom
from tests.functions.table import program

PRIMES = [2, 3, 5, 7, 11, 13]
UNITS = {"m": 1.0, "km": 1000.0, "cm": 0.01}
IDENTITY = np.eye(2)


@functools.lru_cache
def cached_cube(x):
    return x * x * x


@dataclass
class Particle:
    position: Any
    velocity: Any
    mass: float = 1.0
    trail: list = field(default_factory=list)

    def moved(self, step):
        return Particle(self.position + step * self.velocity, self.velocity, self.mass, [*self.trail, self.position])

    def energy(self):
        return 0.5 * self.mass * self.velocity**2

    def __repr__(self):
        return "particle"


class Sequential:
    def __init__(self, *layers):
        self.layers = list(layers)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self):
        return len(self.layers)

    def __getitem__(self, index):
        return self.layers[index]

    def append(self, layer):
        self.layers.append(layer)
        return self


class Affine:
    def __init__(self, scale, shift=0.0):
        self.scale, self.shift = scale, shift

    def __call__(self, x):
        return x * self.scale + self.shift

    def inverse(self):
        return Affine(1 / self.scale, -self.shift / self.scale)


@program((np.array([3.0, 1.0, 7.0, 7.0, 2.0]),), (np.array([5.0]),))
def the_place_of_the_largest(v):
    best = None
    for i in range(len(v)):
        if best is None or v[i] > v[best]:
            best = i
    return best


@program((np.array([5, 3, 8, 1]), 8), (np.array([5, 3, 8, 1]), 4))
def a_place_or_none(v, wanted):
    position = None
    for i, value in enumerate(v):
        if value == wanted:
            position = i
            break
    return position, -1 if position is None else position * 2


@program((3741,), (0,), (9,))
def the_smallest_digit_or_none(n):
    low = None
    while n > 0:
        digit = n % 10
        if low is None or digit < low:
            low = digit
        n //= 10
    return low


@program((3, 4), (3, -4), (-3, 4))
def two_optional_numbers(n, m):
    a = n if n > 0 else None
    b = m if m > 0 else None
    if a is not None and b is not None:
        return a * b
    if a is None:
        return -1
    return a


@program((5,), raises=TypeError)
@program((-5,))
def an_optional_number_is_added_to(n):
    x = None
    if n < 0:
        x = n
    return x + 1  # raises


@program((3,), (-3,))
def an_optional_tuple(n):
    pair = None
    if n > 0:
        pair = (n, n + 1)
    if not pair:
        return 0
    return pair[0] * pair[1]


@program((2.0, 4), (2.0, 0), grad=0)
def the_gradient_through_an_optional_number(x, n):
    last = None
    for k in range(n):
        last = x * k if last is None else last * x + k
    return x if last is None else last


@program((3,), (0,))
def two_names_of_an_array_that_branches_made(n):
    if n > 0:
        a = np.zeros(3) + n
        b = a
    else:
        a = np.ones(3)
        b = a
    a[0] = 7
    return b, a


@program((3,), (0,))
def two_names_of_an_array_that_a_loop_made(n):
    a = np.zeros(3) + n
    b = a
    for _ in range(n):
        a = a * 2
        b = a
    a[0] = 9.0
    return b


@program((3,), or_refused=True)
def a_name_of_one_of_two_arrays(n):
    a, b = np.zeros(3) + n, np.ones(3)
    c = a if n > 2 else b
    a[0] = 9.0
    return c  # refused


@program((4,))
def two_buffers_swapped(n):
    a, b = np.zeros(5), np.ones(5)
    for i in range(n):
        a, b = b, a
        b[i] = a[i] + i
    return a, b


@program((np.array([3.0, 1.0, 2.0]), 3))
def the_best_of_changed_copies(v, n):
    best = v.copy()
    for i in range(n):
        candidate = best.copy()
        candidate[i] = i - 1.0
        if candidate.sum() < best.sum():
            best = candidate
    best[0] = 4.0
    return best


@program((np.array([1.0, 2.0, 3.0]), 3), (np.array([1.0, 2.0, 3.0]), 0))
def a_new_array_in_every_round(v, n):
    for _ in range(n):
        new = np.zeros(3)
        for i in range(3):
            new[i] = v[i - 1] * 0.9 + i
        v = new
    return v


@program((np.array([1.0, 2.0]),))
def arrays_in_a_list_are_changed(v):
    rows = [v * 1.0, v * 2.0]
    rows[0][1] = 5.0
    rows[1] += 1
    return np.stack(rows) + sum(rows), rows


@program((np.array([1.0, 2.0]),))
def an_array_in_an_object_is_changed(v):
    p = Particle(v * 1.0, v)
    q = p
    p.position[0] = 10.0
    p.position *= 2
    q.velocity = q.velocity + 1
    return q.position, p.velocity, copy.copy(p).position


@program((4,), or_refused=True)
def an_item_of_a_list_chosen_by_data_is_changed(n):
    grid = [[0, 1], [2, 3]]
    grid[n % 2][0] += 5  # refused
    return grid


@program((4,), (-4,), or_refused=True)
def an_object_chosen_by_data_is_changed(n):
    a, b = Particle(1.0, 2.0), Particle(3.0, 4.0)
    c = a if n > 0 else b
    c.mass = 7.0  # refused
    return a.mass, b.mass


@program((2.5, "km"), (2.5, "cm"))
def conversions_by_a_table(x, unit):
    return x * UNITS[unit], x / UNITS.get(unit, 1.0), max(UNITS, key=UNITS.get) == "km", sorted(UNITS, key=UNITS.get)[0] == "cm"


@program((3.0,))
def a_cached_function(x):
    return cached_cube(x) + cached_cube(2)


@program((2.0,), grad=0)
def a_sequential_network(x):
    net = Sequential(Affine(2.0, 1.0), math.tanh, lambda v: v * x).append(Affine(x))
    return net(x) * len(net) + net[0](1.0) + net[-1].inverse()(x)


@program((2.0, 3), grad=0)
def particles_that_move(x, n):
    particles = [Particle(x, 1.0), Particle(0.5, x, mass=2.0)]
    particles = [p.moved(0.1 * n).moved(0.5) for p in particles]
    return sum(p.position * p.energy() for p in particles) + sum(particles[1].trail)


@program((5,))
def texts_that_are_known(n):
    words = "the quick brown fox".split()
    lengths = {word: len(word) for word in words}
    longest = max(words, key=len)
    vowels = sum(c in "aeiou" for c in "education")
    title = " ".join(w.capitalize() for w in reversed(words))
    return lengths["quick"] * n, len(longest), vowels * n, title == "Fox Brown Quick The", longest.find("w"), "q" in words[1]


@program((12,), raises=ValueError, message="too large")
@program((3,))
def messages_with_numbers(n):
    if n > 10:
        raise ValueError("too large: %d (%s)" % (n, str(n)) + f" of {n!r}" + " {}".format(n))  # raises
    return n


@program((0,), raises=AssertionError, message="expected")
@program((3,))
def an_assertion_with_a_formatted_message(n):
    assert n > 0, "expected a positive number, got {}".format(n)  # raises
    return n


@program((3,), refused="text")
def the_length_of_a_text_of_data(n):
    return len(f"{n}")  # refused


@program((3,), refused="text")
def a_key_made_of_data(n):
    return {f"k{n}": 1}  # refused


@program((3, 4))
def sets_that_are_known(a, b):
    evens, odds = {2, 4, 6}, set(PRIMES)
    both = evens & odds
    return len(evens | odds) * a, [p * b for p in sorted(both)], a in {3, 4}, evens.isdisjoint({1}), len(odds - both)


@program((2.0, 3.0))
def functions_looked_up_by_name(a, b):
    f = getattr(np, "hypot")
    g = {"plus": operator.add, "times": operator.mul}
    names = ["plus", "times", "plus"]
    return f(a, b), [g[name](a, b) for name in names], getattr(math, "s" + "in")(a), callable(f), callable(a)


@program((1, 2.5), (True, 2))
def types_asked_for(a, b):
    kinds = [isinstance(v, (int, float)) for v in (a, b, None, "x")]
    return kinds, type(a) == type(b), type(a) is int, isinstance(b, float) and b > 2  # noqa: E721


@program((4,), (5,))
def loops_with_counters_and_flags(n):
    is_prime = n > 1
    k = 2
    while is_prime and k * k <= n:
        if n % k == 0:
            is_prime = False
        k += 1
    return is_prime, k


@program((5, 3))
def iterators_that_are_shared(a, b):
    stream = iter(range(6))
    pairs = [(x * a, y * b) for x, y in zip(stream, stream)]
    numbers = iter([a, b, a + b])
    first = next(numbers)
    rest = [v * 2 for v in numbers]
    return pairs, first, rest, next(numbers, None), list(map(abs, filter(lambda k: k % 2, range(-3, 3))))


@program((17,), (16,), (1,))
def the_first_that_fits(n):
    divisor = next((k for k in range(2, n) if n % k == 0), n)
    small = next(p for p in PRIMES if p > 4)
    return divisor, small * n


@program((12, 18), (7, 0))
def numbers_of_arithmetic(a, b):
    return math.gcd(a, b, 6), math.lcm(a, 4), math.comb(a, 3), pow(a, 5, 13), math.perm(7, 2) * b, a.bit_count(), math.dist((a, b), (0, 0))


@program((3,), (-1,))
def bindings_of_patterns_that_do_not_fit(n):
    v = 100
    match (n, 2):
        case (0, v):
            v = v * 2
        case (v, 5) | (5, v):
            v = v * 3
        case (k, _) if k > 0 and (v := k):
            v += 1
    return v


@program((np.array([[1.0, 2.0], [3.0, 4.0]]), 2))
def a_captured_global_array(m, n):
    result = IDENTITY
    for _ in range(n):
        result = result @ m
    return result + IDENTITY


@program((2.0,), reference=lambda x: (12.0, 2.0, 24.0))
def derivatives_of_methods_and_tables(x):
    f = Affine(x)
    table = [lambda v: v**3, f, Sequential(lambda v: v * v, Affine(6.0))]
    return tuple(hloom.grad(g)(x) for g in table)


@program((4,), (1,))
def a_list_of_lists_is_changed(n):
    grid = [[0] * 3 for _ in range(3)]
    grid[1][2] = n
    grid[n % 3] = [5, n, 6]
    grid[0], grid[2] = grid[2], grid[0]
    total = sum(sum(row) for row in grid)
    return grid, total, [list(column) for column in zip(*grid)]


@program((3,))
def defaults_that_are_shared(n):
    def collect(value, into=[]):  # noqa: B006
        return [*into, value]

    def scaled(x, by=lambda v: v * 2, *, then=None):
        y = by(x)
        return y if then is None else then(y)

    return collect(n), collect(2), scaled(n), scaled(n, lambda v: v), scaled(n, then=abs)


@program((1.5,), (-1.5,))
def infinities_and_signs(x):
    low, high = float("inf"), -math.inf
    for v in (x, x * x, 2 - x):
        low, high = min(low, v), max(high, v)
    return low, high, math.isinf(low), x < math.inf, -0.0 + x, math.nan != x, math.copysign(1, x)


@program((6,), (0,))
def loops_over_parts_of_ranges(n):
    r = range(2, 30, 4)
    part = r[1:5:2]
    total = sum(k * n for k in part)
    for k in r[::-1]:
        total = total * 3 % 1009 + k
    return total, part.start + part.stop + part.step, len(part), 11 in r


@program((3, 5), (5, 3))
def conditional_arguments(a, b):
    f = lambda *args, **kwargs: sum(args) + sum(kwargs.values())
    options = {"x": a} if a is not None else {}
    return f(*((a, b) if b is not None else (a,)), **options, y=b), f(*[k for k in (a, b) if k is not None])


@program((2,), (3,))
def chosen_functions_with_shared_state(n):
    log = []

    def note(name):
        def run(x):
            log.append(x)
            return x * len(name)

        return run

    f, g = note("ab"), note("abc")
    total = f(n) + g(n * 10) + f(1)
    return total, log


@program((0.5, 6), grad=0)
def a_series_by_accumulated_terms(x, n):
    term, total, k = 1.0, 0.0, 0
    while k < n and abs(term) > 1e-12:
        total, term, k = total + term, term * x / (k + 1), k + 1
    return total


@program((np.array([2.0, 1.0, 3.0]),), grad=0)
def a_softmax_by_hand(v):
    largest = max(v)
    weights = [math.exp(e - largest) for e in v]
    total = sum(weights)
    return sum(w / total * k for k, w in enumerate(weights))
