"""Dataclasses, named tuples, properties, operators of classes, namespaces: in, out, carried, replaced, chosen."""

import dataclasses
import enum
import math
import operator
from collections import namedtuple
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tests.functions.table import program


class Interval(NamedTuple):
    low: float
    high: float = 1.0

    @property
    def width(self):
        return self.high - self.low

    def contains(self, v):
        return self.low <= v <= self.high

    @classmethod
    def around(cls, centre, radius):
        return cls(centre - radius, centre + radius)


Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Vec:
    x: float
    y: float

    def __add__(self, other):
        return Vec(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __neg__(self):
        return Vec(-self.x, -self.y)

    def __matmul__(self, other):
        return self.x * other.x + self.y * other.y

    def __getitem__(self, i):
        return (self.x, self.y)[i]

    def __len__(self):
        return 2

    def __abs__(self):
        return math.sqrt(self @ self)

    def __eq__(self, other):
        return self.x == other.x and self.y == other.y

    def __lt__(self, other):
        return abs(self) < abs(other)

    @property
    def norm(self):
        return abs(self)

    @staticmethod
    def origin():
        return Vec(0.0, 0.0)


@dataclass
class Account:
    balance: float
    history: tuple = ()
    rate: float = field(default=0.1)

    def deposit(self, amount):
        return replace(self, balance=self.balance + amount, history=(*self.history, amount))

    def with_interest(self):
        return replace(self, balance=self.balance * (1 + self.rate))


@dataclass
class Counter:
    count: int = 0

    def tick(self, by=1):
        self.count += by
        return self


@dataclass(frozen=True)
class Scale:
    factor: float

    def __call__(self, v):
        return v * self.factor


@dataclass(frozen=True)
class Shift:
    amount: float

    def __call__(self, v):
        return v + self.amount


@dataclass(frozen=True)
class Layer:
    w: Any
    b: Any

    def apply(self, x):
        return np.tanh(x @ self.w + self.b)


@dataclass(frozen=True)
class Network:
    layers: tuple

    def apply(self, x):
        for layer in self.layers:
            x = layer.apply(x)
        return x


@dataclass(frozen=True)
class Box:
    contents: Any

    def __call__(self):
        return self.contents * 2


class Shape:
    sides = 0

    def __init__(self, size):
        self.size = size

    def area(self):
        return self.size * self.size

    def describe(self):
        return self.area() * 10 + self.sides


class Square(Shape):
    sides = 4


class Triangle(Shape):
    sides = 3

    def area(self):
        return super().area() * math.sqrt(3) / 4


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class tools:
    add = operator.add
    mul = operator.mul

    @staticmethod
    def square(v):
        return v * v


@dataclass
class Cons:
    head: Any
    tail: Any


@program((2.0, 5.0))
def a_named_tuple_with_a_property_and_a_classmethod(a, b):
    i = Interval(a, b)
    j = Interval.around(a, 0.5)
    return i.width, i.contains(3.0), j, Interval(a).high, j._replace(low=0.0), i[1], len(i), tuple(j)


@program((Interval(0.0, 4.0), 3), (Interval(1.0, 2.0), 0))
def a_named_tuple_narrowed_in_a_loop(interval, n):
    for _ in range(n):
        middle = (interval.low + interval.high) / 2
        interval = interval._replace(low=middle) if middle * middle < 2 else interval._replace(high=middle)
    return interval


@program((Vec(3.0, 4.0), 2.0))
def operators_of_a_frozen_dataclass(v, k):
    w = v * k + -v
    return w, k * v, v @ w, abs(v), v[0], len(v), v == w, v < w, v.norm, Vec.origin()


@program((100.0, 3), (100.0, 0))
def a_dataclass_replaced_in_a_loop(start, n):
    account = Account(start)
    for _ in range(n):
        account = account.with_interest()
    return account, account.deposit(5.0).deposit(1.0).history


@program((3,))
def a_local_object_that_counts(n):
    counter = Counter()
    for k in range(4):
        counter.tick(n)
    return counter.tick().tick().count, Counter(n).count


@program((5,), (0,))
def a_local_object_changed_in_a_dynamic_loop(n):
    counter = Counter()
    for k in range(n):
        if k % 2:
            counter.tick(k)
    return counter.count


@program((2.0, True), (2.0, False))
def instances_of_two_classes_chosen(x, flag):
    f = Scale(3.0) if flag else Shift(x)
    return f(10.0)


@program((2.0, 1), (2.0, -1))
def instances_of_one_class_chosen(x, n):
    f = Scale(3.0) if n > 0 else Scale(x)
    return f(10.0), f.factor


@program((np.array([[0.5, -1.0]]), 0.3))
def a_network_of_dataclasses(x, b):
    w = np.array([[1.0, 0.5], [-0.5, 2.0]])
    network = Network((Layer(w, b), Layer(w.T, np.zeros(2))))
    return network.apply(x)


@program(
    (Network((Layer(np.ones((2, 3)), np.zeros(3)), Layer(np.ones((3, 1)) * 0.5, np.ones(1)))), np.array([[1.0, -0.25]])),
    grad=0,
)
def a_network_as_an_argument(network, x):
    return np.sum(network.apply(x) ** 2)


@program((Vec(3.0, 4.0),), grad=0)
def the_gradient_by_a_dataclass(v):
    return (v.x**2 + v.y**2) ** 0.5 * v.x


@program((Box(3.0),), (Box(4),))
def an_object_that_is_called(box):
    return box(), box.contents


@program((3, 4), (1.5, 2.5))
def functions_held_by_a_class(x, y):
    return tools.add(x, y), tools.mul(x, y), tools.square(x), getattr(tools, "add")(x, x), hasattr(tools, "sub")


@program((2.0,))
def inheritance_and_super(x):
    return Square(x).describe(), Triangle(x).describe(), Triangle(x).sides, isinstance(Square(x), Shape)


@program((3, Colour.RED), (3, Colour.BLUE))
def an_enum_selects(n, colour):
    if colour is Colour.RED:
        return n + 1
    match colour:
        case Colour.BLUE:
            return n * 2
    return n


@program((3,), (20,))
def an_int_enum_is_a_number(n):
    return n > Level.HIGH, n + Level.LOW, Level.HIGH * 2


@program((SimpleNamespace(x=5, y=2.0),))
def a_namespace_as_an_argument(point):
    return point.x + point.y, getattr(point, "x"), hasattr(point, "z")


@program((4.0,))
def a_namespace_made_inside(x):
    state = SimpleNamespace(total=0.0, count=0)
    for k in range(3):
        state.total += x * k
        state.count += 1
    return state.total, state.count


@program((Cons(1, Cons(2, Cons(3, None))),), (Cons(5.5, None),))
def a_linked_list_is_summed(cell):
    def total(c):
        return 0 if c is None else c.head + total(c.tail)

    length = 0
    c = cell
    while c is not None:
        length += 1
        c = c.tail
    return total(cell), length


@program((2,))
def a_linked_list_made_and_mapped(n):
    cells = None
    for k in range(3):
        cells = Cons(k * n, cells)

    def mapped(f, c):
        return None if c is None else Cons(f(c.head), mapped(f, c.tail))

    return mapped(lambda v: v + 1, cells)


@program((Pair(Pair(1, 2), Pair(3, Pair(4, 5))),))
def a_tree_of_named_tuples(tree):
    def fold(f, t):
        return f(fold(f, t.left), fold(f, t.right)) if isinstance(t, Pair) else t

    return fold(operator.add, tree), fold(max, tree), fold(lambda a, b: a * 10 + b, tree)


@program((Vec(1.0, 2.0), 3), (Vec(1.0, 2.0), -3))
def match_of_a_dataclass_with_a_guard(v, n):
    match v:
        case Vec(x=a, y=b) if n > 0:
            return a + b * n
        case Vec(x=a):
            return a - n
    return 0.0


@program((2.0,))
def replace_of_nested_dataclasses(x):
    box = Box(Vec(x, 1.0))
    moved = dataclasses.replace(box, contents=dataclasses.replace(box.contents, y=x * 2))
    return moved, box.contents.y, dataclasses.asdict(moved)["contents"]["y"]


@program((Vec(1.0, 2.0),), refused="frozen")
def a_frozen_dataclass_is_assigned(v):
    w = Vec(v.x, 0.0)
    w.y = 3.0  # refused
    return w


@program((Vec(1.0, 2.0),), refused="z")
def a_field_that_is_not_there(v):
    return v.x + v.z  # refused


@program((1.0, 2.0, 3.0), refused="argument")
def a_dataclass_with_too_many_arguments(a, b, c):
    return Vec(a, b, c).x  # refused


@program((3, 4.0), (2, -1.0))
def a_class_with_a_method_used_as_a_function(n, x):
    scale = Scale(x)
    twice = scale.__call__
    methods = [Vec(x, 1.0).__mul__, lambda k: Vec(k, k)]
    return twice(n * 1.0), [m(2.0).x for m in methods]


@program((2.0, 0), (2.0, 1))
def a_list_of_objects_indexed_dynamically(x, i):
    points = [Vec(x, 1.0), Vec(3.0, x * x)]
    chosen = points[i]
    return chosen.x + chosen.y, abs(points[-1 - i])


@program((2.0, 0), (2.0, 1))
def a_list_of_callable_objects_of_one_class(x, i):
    return [Scale(2.0), Scale(x + 1)][i](x)


@program((5, 3), (3, 5))
def the_larger_object(a, b):
    p, q = Vec(a * 1.0, 0.0), Vec(b * 1.0, 1.0)
    larger = q if p < q else p
    return larger, max(p.x, q.x)
