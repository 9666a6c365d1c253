"""Classes of the user: operators, properties, calls, inheritance, generic containers, class constants, data inside."""

import abc
import dataclasses
import enum
import functools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import numpy as np

from tests.functions.table import program


@dataclass(frozen=True)
class Rational:
    top: Any
    bottom: Any = 1

    def __add__(self, other):
        other = other if isinstance(other, Rational) else Rational(other)
        return Rational(self.top * other.bottom + other.top * self.bottom, self.bottom * other.bottom)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self + -other

    def __neg__(self):
        return Rational(-self.top, self.bottom)

    def __mul__(self, other):
        if not isinstance(other, Rational):
            return NotImplemented
        return Rational(self.top * other.top, self.bottom * other.bottom)

    def __truediv__(self, other):
        return Rational(self.top * other.bottom, self.bottom * other.top)

    def __pow__(self, n):
        return Rational(self.top**n, self.bottom**n)

    def __eq__(self, other):
        return self.top * other.bottom == other.top * self.bottom

    def __lt__(self, other):
        return self.top * other.bottom < other.top * self.bottom

    def __bool__(self):
        return self.top != 0

    def __float__(self):
        return self.top / self.bottom

    def __abs__(self):
        return Rational(abs(self.top), abs(self.bottom))


@dataclass
class Grid:
    cells: Any
    width: int = 2

    def __getitem__(self, position):
        row, column = position
        return self.cells[row * self.width + column]

    def __setitem__(self, position, value):
        row, column = position
        self.cells[row * self.width + column] = value

    def __len__(self):
        return len(self.cells)

    def __iter__(self):
        return iter(self.cells)

    def __contains__(self, value):
        return any(cell == value for cell in self.cells)


class Polynomial:
    """Coefficients, the lowest first."""

    def __init__(self, *coefficients):
        self.coefficients = coefficients

    def __call__(self, x):
        total = 0
        for coefficient in reversed(self.coefficients):
            total = total * x + coefficient
        return total

    def __add__(self, other):
        longer, shorter = self.coefficients, other.coefficients
        if len(longer) < len(shorter):
            longer, shorter = shorter, longer
        return Polynomial(*(a + b for a, b in zip(longer, shorter)), *longer[len(shorter) :])

    @property
    def degree(self):
        return len(self.coefficients) - 1

    def derivative(self):
        return Polynomial(*(k * c for k, c in enumerate(self.coefficients)))._dropped()

    def _dropped(self):
        return Polynomial(*self.coefficients[1:])


class Animal(abc.ABC):
    legs = 4

    def __init__(self, weight):
        self.weight = weight

    @abc.abstractmethod
    def noise(self): ...

    def report(self):
        return self.noise() * self.legs + self.weight

    @classmethod
    def heavy(cls, weight):
        return cls(weight * 10)

    @staticmethod
    def scale(x):
        return x * 0.5


class Dog(Animal):
    def noise(self):
        return self.scale(3.0)


class Bird(Animal):
    legs = 2

    def __init__(self, weight, wings=2):
        super().__init__(weight + wings)
        self.wings = wings

    def noise(self):
        return 1.0

    def report(self):
        return super().report() + self.wings


@dataclass
class Linear:
    weight: Any
    bias: Any = 0.0

    def __matmul__(self, x):
        return self.weight * x + self.bias

    def then(self, other):
        return Linear(other.weight * self.weight, other.weight * self.bias + other.bias)


@dataclass
class Adam:
    rate: float = 0.1
    moments: tuple = (0.0, 0.0)
    steps: int = 0

    def step(self, gradient):
        m, v = self.moments
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient * gradient
        self.moments = (m, v)
        self.steps += 1
        return self.rate * m / (math.sqrt(v) + 1e-8)


@dataclass(order=True, frozen=True)
class Version:
    major: Any
    minor: Any


@dataclass
class Node:
    value: Any
    left: Optional["Node"] = None
    right: Optional["Node"] = None

    def total(self):
        result = self.value
        if self.left is not None:
            result = result + self.left.total()
        if self.right is not None:
            result = result + self.right.total()
        return result

    def map(self, f):
        return Node(f(self.value), self.left and self.left.map(f), self.right and self.right.map(f))

    @functools.cached_property
    def depth(self):
        return 1 + max(self.left.depth if self.left else 0, self.right.depth if self.right else 0)


@dataclass
class Settings:
    rate: float = 0.5
    sizes: list = field(default_factory=lambda: [1, 2])
    name: str = "plain"

    def __post_init__(self):
        self.total = sum(self.sizes)


class Celsius(NamedTuple):
    degrees: Any

    def __add__(self, other):
        return Celsius(self.degrees + other.degrees)

    def to_fahrenheit(self):
        return self.degrees * 9 / 5 + 32


class Mode(enum.Enum):
    UP = 1
    DOWN = -1

    @property
    def opposite(self):
        return Mode.DOWN if self is Mode.UP else Mode.UP


class Temperature:
    def __init__(self, degrees):
        self._degrees = degrees

    @property
    def degrees(self):
        return self._degrees

    @degrees.setter
    def degrees(self, value):
        self._degrees = max(value, -273.15)


class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)
        return self

    def pop(self):
        return self.items.pop()

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return len(self.items) > 0


@program((1, 2, 3, 4), (5, 2, -3, 4))
def rationals_by_their_operators(a, b, c, d):
    p, q = Rational(a, b), Rational(c, d)
    return p + q, p - q, p * q, p / q, p**2, p == q, p < q, p + 1, 2 + q, abs(q), float(p), bool(p - p)


@program((1, 2))
def sum_and_max_of_objects(a, b):
    values = [Rational(a, b), Rational(b, 3), Rational(1, 7)]
    return sum(values, Rational(0)), sum(values), len([v for v in values if v is not None])


@program((3, 1), (1, 3))
def a_product_that_is_not_implemented(a, b):
    r = Rational(a, b)
    return r * r if isinstance(r, Rational) else r


@program((3, 1.5))
def an_object_indexed_assigned_and_iterated(a, b):
    grid = Grid([a, b, 3, 4])
    grid[1, 0] = a * b
    grid[0, 1] += 2
    return grid[1, 0], [cell for cell in grid], len(grid), 4 in grid, list(grid), sum(grid)


@program((2.0, 3))
def polynomials_called_and_derived(x, n):
    p = Polynomial(1, n, 3, 0.5)
    q = p.derivative()
    return p(x), q(x), p.degree, q.degree, (p + q)(x), (Polynomial(n) + p)(n)


@program((2.0,))
def abstract_classes_and_overriding(w):
    animals = [Dog(w), Bird(w), Bird.heavy(w), Dog.heavy(1.0)]
    return [animal.report() for animal in animals], Dog.legs + Bird.legs, isinstance(animals[1], Animal), Animal.scale(w)


@program((2.0, True), (2.0, False))
def an_object_of_one_of_two_classes(w, flag):
    animal = Dog(w) if flag else Bird(w)
    return animal.report()


@program((2.0, 3.0))
def matmul_of_objects_and_composition(a, b):
    f, g = Linear(a, 1.0), Linear(b)
    return f @ 2.0, f.then(g) @ a, g.then(f) @ a, dataclasses.astuple(f.then(g))


@program((5.0, 10), (5.0, 0), grad=0)
def an_optimiser_object_in_a_dynamic_loop(x, n):
    optimiser = Adam()
    for _ in range(n):
        x = x - optimiser.step(2 * x)
    return x + optimiser.steps


@program((1, 2), (2, 1), (1, 1))
def an_ordered_dataclass(a, b):
    p, q = Version(a, b), Version(b, a)
    return p < q, p <= q, p > q, p == q, p != q


@program((Node(1.0, Node(2.0), Node(3.0, None, Node(4.0))),), (Node(2.5),), grad=0)
def a_tree_with_methods(tree):
    return tree.total() * tree.value


@program((Node(1.0, Node(2.0), Node(3.0, None, Node(4.0))), 2.0))
def a_tree_mapped_and_measured(tree, k):
    scaled = tree.map(lambda v: v * k)
    return scaled, scaled.total(), tree.depth, scaled.depth


@program((2.0,))
def a_dataclass_with_factories_and_post_init(x):
    s = Settings()
    t = Settings(rate=x, sizes=[3, 4, 5])
    s.sizes.append(7)
    return s.total, t.total, s.sizes, t.rate * t.total, s.name + t.name == "plainplain", Settings().sizes


@program((20.0, 1.5))
def methods_of_a_typed_tuple(a, b):
    t = Celsius(a) + Celsius(b)
    return t, t.to_fahrenheit(), Celsius(degrees=a).degrees, t._replace(degrees=b), t._fields == ("degrees",)


@program((5, Mode.UP), (5, Mode.DOWN))
def an_enum_with_a_property(x, mode):
    return x * mode.value, mode.opposite is Mode.DOWN, mode.name == "UP", Mode(1) is mode, Mode["DOWN"].value * x, len(Mode)


@program((-500.0,), (20.0,))
def a_property_that_is_set(x):
    t = Temperature(1.0)
    t.degrees = x
    t.degrees += 1.0
    return t.degrees, t._degrees


@program((3, 4))
def a_stack_object(a, b):
    stack = Stack().push(a).push(b)
    top = stack.pop()
    stack.push(top * a).push(0)
    total = 0
    while stack:
        total = total * 10 + stack.pop()
    return total, len(stack)


@program((2, 3))
def attributes_by_name(a, b):
    point = Linear(a, b)
    setattr(point, "bias", b * 10)
    names = [f.name for f in dataclasses.fields(point)]
    return getattr(point, "bias"), getattr(point, "none", 7), hasattr(point, "weight"), [getattr(point, n) for n in names]


@program((2, 3))
def bound_and_unbound_methods(a, b):
    f = Linear(a, b)
    bound = f.then
    g = bound(Linear(3))
    return Linear.then(f, f).weight, g.weight, list(map(f.__matmul__, (1, 2))), type(f) is Linear, type(f).__name__ == "Linear"


@program((2.0, 3), grad=0)
def an_object_replaced_in_a_loop(x, n):
    layer = Linear(x)
    for k in range(n):
        layer = dataclasses.replace(layer, weight=layer.weight * x, bias=layer.bias + k)
    return layer @ 2.0


@program((2.0, 1), (2.0, -1), grad=0)
def an_attribute_set_in_a_branch(x, n):
    layer = Linear(x, 1.0)
    if n > 0:
        layer.bias = x * x
    else:
        layer.weight *= 3
    return layer @ x


@program(([Linear(1.0, 2.0), Linear(3.0)],), grad=0)
def a_list_of_dataclasses_as_an_argument(layers):
    x = 1.0
    for layer in layers:
        x = layer @ x
    return x * x


@program((2.0,))
def a_class_as_a_value(x):
    classes = {"a": Linear, "b": lambda w: Linear(w, w)}
    make = classes["a"]
    return [f(x) @ x for f in classes.values()], make(bias=x, weight=1.0) @ x, isinstance(make(x), (int, Linear))


@program((np.array([1.0, 2.0]), 3.0))
def an_object_that_holds_an_array(v, k):
    f = Linear(v * 1.0, k)
    f.weight[0] = 10.0
    f.weight *= 2
    return f @ k, f.weight, f.then(f) @ 1.0


class Amount:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value if isinstance(other, Amount) else NotImplemented

    def __lt__(self, other):
        return self.value < other.value if isinstance(other, Amount) else NotImplemented

    def __contains__(self, item):
        return 1

    __hash__ = None  # type: ignore[assignment]


class OtherAmount(Amount):
    def __eq__(self, other):
        return False

    def __gt__(self, other):
        return True

    __hash__ = None  # type: ignore[assignment]


@program((3,), (2.5,))
def comparisons_that_are_not_implemented(x):
    a, b, c = Amount(x), Amount(x), OtherAmount(x)
    equal = a == b, a != b, a == x, a != x, x == a, a == c, a != c, c != a
    return equal, a < c, Amount(x) > Amount(x + 1), 5 in a, 5 not in a


@program((3,), raises=TypeError)
def an_order_that_is_not_implemented(x):
    return Amount(x) < x  # raises
