"""Tuples, lists, dicts, namedtuples and dataclasses: in, out, carried, nested, with methods."""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tests.functions.table import program


class Point(NamedTuple):
    x: Any
    y: Any

    def norm(self):
        return (self.x * self.x + self.y * self.y) ** 0.5

    @property
    def swapped(self):
        return Point(self.y, self.x)

    def plus(self, other):
        return self._replace(x=self.x + other.x, y=self.y + other.y)


@dataclass(frozen=True)
class Layer:
    weights: Any
    bias: Any
    name: str = "layer"

    def __call__(self, x):
        return x @ self.weights + self.bias

    @property
    def width(self):
        return self.weights.shape[1]


@dataclass
class Account:
    balance: float
    rate: float = 0.1
    history: tuple = ()

    def after(self, years):
        balance = self.balance
        for _ in range(years):
            balance = balance * (1 + self.rate)
        return dataclasses.replace(self, balance=balance, history=(*self.history, self.balance))

    @staticmethod
    def opened(amount):
        return Account(amount)

    @classmethod
    def with_rate(cls, amount, rate):
        return cls(amount, rate)


@dataclass(frozen=True)
class Vector:
    x: Any
    y: Any

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    def __neg__(self):
        return Vector(-self.x, -self.y)

    def __getitem__(self, position):
        return (self.x, self.y)[position]

    def __len__(self):
        return 2

    def __iter__(self):
        return iter((self.x, self.y))


@program((1, 2.5))
def structures_out(a, b):
    return {"sum": a + b, "pair": (a, [b, a])}, [a], (), {}, None, "text", (None, (b,))


@program(({"b": 1.0, "a": 2.0},))
def the_order_of_a_dict_is_kept(values):
    out = {"z": 1, **values}
    out["c"] = values["a"]
    return out, list(out)


@program(((1, (2.0, [3, 4]), {"k": 5.5}),))
def nested_structures_in(tree):
    a, (b, [c, d]), rest = tree
    return a + b * c - d + rest["k"]


@program((Point(3.0, 4.0),), (Point(1, 2),))
def a_namedtuple(point):
    a, b = point
    return point.x * b + point[1] * a, point._replace(x=a + 1), Point(y=a, x=b)


@program((Point(3.0, 4.0), 2.0))
def methods_of_a_namedtuple(point, factor):
    return point.norm() * factor, point.swapped, point.plus(point.swapped), point.swapped.swapped.norm()


@program((Layer(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -0.5])), np.array([1.0, -1.0])))
def a_dataclass_that_is_called(layer, x):
    return layer(x), layer.width, layer.name


@program((Account(100.0), 3), (Account(50.0, 0.2, (1.0,)), 0))
def methods_of_a_dataclass(account, years):
    later = account.after(years)
    return later, later.balance - account.balance, len(later.history)


@program((100.0, 0.5))
def static_and_class_methods(amount, rate):
    a = Account.opened(amount)
    b = Account.with_rate(amount, rate)
    return a.balance, a.rate, b.after(1).balance, b


@program((Vector(1.0, 2.0), Vector(3, 4), 2.0))
def operators_of_a_dataclass(a, b, factor):
    total = a + b * factor
    x, y = -total
    return total, total[0], x * y, len(a)


@program((3, 1.0))
def a_dataclass_carried_by_a_loop(n, x):
    v = Vector(x, x * 2)
    for i in range(n):
        v = v + v * 0.5
        if i == 1:
            v = -v
    return v


@program((4, Point(1.0, 2.0)), (5, Point(1.0, 2.0)))
def a_namedtuple_carried_by_a_while(n, point):
    while n > 0:
        point = point.swapped if n % 2 else point.plus(Point(0.5, n))
        n -= 1
    return point


@program((2.0, True), (2.0, False))
def a_structure_chosen_by_a_branch(x, flag):
    if flag:
        state = {"p": Point(x, 1.0), "n": 1}
    else:
        state = {"p": Point(0.0, x), "n": 2}
    return state["p"].x + state["n"], state


@program((Point(Point(1, 2), (3, 4)),))
def nested_namedtuples(point):
    return point.x.y + point.y[0], point._replace(x=point.x.x)


@program(({"w": np.ones((2, 2)), "b": np.zeros(2)}, np.array([1.0, 2.0])))
def parameters_in_a_dict(parameters, x):
    updated = {name: value - 0.1 * value for name, value in parameters.items()}
    return np.tanh(x @ parameters["w"] + parameters["b"]), updated


@program(({"a": 1, "b": 2},), ({"a": 1},))
def functions_of_dicts(values):
    b = values.get("b", 100)
    joined = values | {"c": b}
    return b, len(joined), "b" in values, sorted(values), sum(joined.values()), dict(a=b), dict(values, a=b)


@program(({"a": 1.0, "b": 2.0},))
def a_local_dict_is_changed(values):
    table = dict(values)
    table["a"] = 10.0
    table["new"] = table["a"] + table["b"]
    table["b"] *= 3
    table.update(c=1.0)
    removed = table.pop("new")
    del table["a"]
    return table, removed, values


@program((1, 2), (3.5, 2))
def a_local_list_is_changed(a, b):
    values = []
    values.append(a)
    values.append(b)
    values.extend((a, 0))
    values.insert(0, b)
    last = values.pop()
    values += [a + b]
    return values, last, len(values), values[::-1]


@program((3,))
def lists_are_joined_and_repeated(n):
    values = [n] * 3 + [n + 1]
    values = values + list((n, n))
    return values, (1, n) + (2,), (0,) * 3, len(values)


@program((np.array([1.0, 2.0]),))
def a_list_of_arrays(x):
    rows = []
    for i in range(3):
        rows.append(x * i)
    return np.stack(rows), np.array(rows).sum(), rows


@program((2, 5), (2, 6))
def a_list_carried_by_a_dynamic_loop(a, n):
    state = [a, 1]
    for i in range(n):
        state = [state[1] + i, state[0]]
    return state


@program((3,), (0,))
def a_list_changed_in_a_dynamic_loop(n):
    counts = [0, 0, 0]
    for i in range(n):
        counts[i % 3] += i + 1
        counts[0] += 1
    return counts


@program(((1, 2), (3, 4)))
def tuples_are_compared_and_joined(a, b):
    c = a + b
    return c, len(c), c[1:3], c == (1, 2, 3, 4), a < b, max(a, b), tuple(reversed(c))


@program(([1, 2, 3],))
def conversions_of_structures(values):
    pairs = list(enumerate(values))
    return tuple(values), list(tuple(values)), pairs, list(zip(values, (4.0, 5.0, 6.0))), list(range(3))


@program((Account(1.0),))
def asdict_and_fields(account):
    names = [item.name for item in dataclasses.fields(account)]
    return names, getattr(account, "balance"), hasattr(account, "owner"), isinstance(account, Account)


@program((2.0,))
def a_local_dataclass_instance_with_defaults(x):
    account = Account(x)
    other = Account(balance=x, rate=account.rate * 2)
    return account.balance * other.rate, len(account.history)


@program((3.0,))
def unpacking_in_nested_calls(x):
    def stats(*values):
        return {"total": sum(values), "count": len(values)}

    result = stats(*(x, x * 2), *[1.0])
    return {**result, "mean": result["total"] / result["count"]}


@program(((1.0, None, 3.0),), ((None, None),))
def none_among_leaves(values):
    total = 0.0
    for v in values:
        if v is not None:
            total += v
    return total, tuple(None if v is None else v * 2 for v in values)


@program(([[1, 2], [3, 4]],))
def a_list_of_lists(rows):
    transposed = [list(column) for column in zip(*rows)]
    return transposed, [sum(row) for row in rows], rows[1][0]


@program(((np.float64(2.0), 3, True),))
def leaves_keep_their_types(values):
    return values, values[0] + values[1], values[1] + values[2]


@program((2.0, 3))
def a_class_that_holds_functions(x, n):
    v = Vector(lambda y: y + x, n)
    return v.x(1.0) * v.y
