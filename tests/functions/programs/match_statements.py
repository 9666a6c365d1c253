"""`match`: literals, captures, guards, sequences, mappings, classes and alternatives."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.functions.table import program


@dataclass(frozen=True)
class Circle:
    radius: Any


@dataclass(frozen=True)
class Box:
    width: Any
    height: Any


class Pair(NamedTuple):
    left: Any
    right: Any


@program((0,), (1,), (2,), (-4,))
def match_of_literals(n):
    match n:
        case 0:
            return 100
        case 1:
            return 200
        case 2 | 3:
            return 300
    return -1


@program((0,), (7,), (-7,))
def match_with_guards(n):
    match n:
        case 0:
            result = 0
        case v if v > 0:
            result = v * 2
        case v:
            result = v * v
    return result


@program(((1, 2),), ((1, 2, 3),), ((),), ((5,),))
def match_of_sequences(values):
    match values:
        case ():
            return 0
        case (x,):
            return x
        case (x, y):
            return x * y
        case (first, *rest):
            return first * 100 + len(rest)


@program((Circle(2.0),), (Box(2.0, 3.0),), (Box(2.0, 2.0),))
def match_of_classes(shape):
    match shape:
        case Circle(radius=r):
            return 3.0 * r * r
        case Box(width=w, height=h) if w == h:
            return w * w + 1000
        case Box(w, h):
            return w * h


@program(({"op": "add", "x": 1, "y": 2},), ({"op": "neg", "x": 5},), ({"op": "none"},))
def match_of_mappings(command):
    match command:
        case {"op": "add", "x": x, "y": y}:
            return x + y
        case {"op": "neg", "x": x, **rest}:
            return -x + len(rest)
        case _:
            return 0


@program(("sin", 2.0), ("square", 2.0), ("other", 2.0))
def match_of_static_strings(name, x):
    match name:
        case "square":
            return x * x
        case "sin" | "cos":
            return x / 2
        case _:
            return x


@program((None,), (3,), (2.5,), ((1, 2),))
def match_of_types(value):
    match value:
        case None:
            return -1
        case int():
            return value + 1
        case float():
            return value * 2
        case (a, b):
            return a + b


@program((1, 2), (2, 2), (0, 5), (3, 0))
def match_of_dynamic_pairs(a, b):
    match (a, b):
        case (0, y):
            return y
        case (x, 0):
            return -x
        case (x, y) if x == y:
            return x * 1000
        case (x, y):
            return x * 10 + y


@program((Pair(Circle(1.0), (2.0, 3.0)),), (Pair(Box(1.0, 2.0), (4.0, 5.0)),))
def match_of_nested_patterns(pair):
    match pair:
        case Pair(Circle(r), (a, _)):
            return r + a
        case Pair(left=Box(width=w), right=(_, b) as both):
            return w + b + len(both)


@program((True,), (False,))
def match_of_bools(flag):
    match flag:
        case True:
            return 1.5
        case False:
            return 2.5


@program((5,), (0,))
def match_in_a_loop(n):
    total = 0
    for i in range(n):
        match i % 3:
            case 0:
                continue
            case 1:
                total += 10
            case rest:
                total += rest
    return total


@program((7,), (3,))
def a_match_without_a_case(n):
    result = 1
    match n:
        case 3:
            result = 2
    return result


@program((3, 3), (3, 4))
def a_capture_stays_bound(n, k):
    match n:
        case m if m == k:
            pass
        case _:
            pass
    return m
