"""`match` by classes, sequences, mappings, values, alternatives and guards; `else` of loops; assignment expressions."""

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tests.functions.table import program


@dataclass
class Num:
    value: Any


@dataclass
class Add:
    left: Any
    right: Any


@dataclass
class Mul:
    left: Any
    right: Any


@dataclass
class Neg:
    operand: Any


@dataclass
class Var:
    name: str


class Point(NamedTuple):
    x: Any
    y: Any


class Op(enum.Enum):
    ADD = "+"
    MUL = "*"


LIMIT = 10


class Codes:
    OK = 200
    GONE = 410


def evaluated(node, scope):
    match node:
        case Num(value):
            return value
        case Var(name=name):
            return scope[name]
        case Add(left=left, right=right):
            return evaluated(left, scope) + evaluated(right, scope)
        case Mul(a, b):
            return evaluated(a, scope) * evaluated(b, scope)
        case Neg(Num(v)):
            return -v
        case Neg(operand):
            return -evaluated(operand, scope)
    raise TypeError("no such node")


@program((3.0, 2), (0.5, -1))
def an_interpreter_of_expressions(x, n):
    tree = Add(Mul(Var("x"), Num(3)), Neg(Add(Num(1), Mul(Var("n"), Var("x")))))
    return evaluated(tree, {"x": x, "n": n}), evaluated(Neg(Num(n)), {})


@program((2.0,), grad=0)
def the_gradient_of_an_interpreted_expression(x):
    tree = Mul(Add(Var("x"), Num(1.0)), Mul(Var("x"), Var("x")))
    return evaluated(tree, {"x": x})


@program(((1, 2, 3),), ((1,),), ((),), ((5, 6),))
def sequences_by_length(values):
    match values:
        case ():
            return 0
        case (only,):
            return only
        case (a, b):
            return a * 10 + b
        case (first, *rest):
            return first + len(rest) * 100
    return -1


@program((0, 0), (0, 5), (5, 0), (3, 3), (3, 4))
def points_by_data(x, y):
    match (x, y):
        case (0, 0):
            return 0
        case (0, v) | (v, 0):
            return v
        case (a, b) if a == b:
            return a * 100
        case (a, b):
            return a * 10 + b
    return -1


@program((200,), (410,), (10,), (7,))
def dotted_names_and_literals(code):
    match code:
        case Codes.OK:
            return 1
        case Codes.GONE | 404 | 405:
            return 2
        case 10 | 20 | 30 as n:
            return n * 2
        case _:
            return 0


@program(({"kind": "circle", "r": 2.0},), ({"kind": "square", "side": 3.0, "extra": 1},), ({"other": 1.0},))
def mappings_with_rest(shape):
    match shape:
        case {"kind": "circle", "r": r}:
            return r * r * 3.0
        case {"kind": "square", "side": side, **rest}:
            return side * side + len(rest)
        case {}:
            return 0.0
    return 1.0


@program((Point(1, 2),), (Point(0, 2),), (Point(3, 3),))
def named_tuples_by_class(p):
    match p:
        case Point(0, y):
            return y
        case Point(x=x, y=y) if x == y:
            return x * 100
        case Point(x, y):
            return x - y
    return 0


@program((3,), (3.5,), (True,), ((1, 2),), ("text",), (None,))
def classes_of_builtins(value):
    match value:
        case bool():
            return 1
        case int(n):
            return n * 2
        case float(x):
            return x * 3
        case str():
            return len(value)
        case None:
            return -1
        case tuple() as t:
            return t[0] + t[1]
    return 0


@program((Op.ADD, 3, 4), (Op.MUL, 3, 4))
def enums_by_value(op, a, b):
    match op:
        case Op.ADD:
            return a + b
        case Op.MUL:
            return a * b


@program(([1, [2, 3], {"k": 4}],))
def nested_patterns(data):
    match data:
        case [a, [b, *_], {"k": k}] if a < b:
            return a + b * 10 + k * 100
        case [a, *_]:
            return a
    return 0


@program((5,), (-5,), (0,), (50,))
def guards_that_fall_through(n):
    result = 0
    match n:
        case k if k > LIMIT:
            result = 1
        case k if k > 0 and (half := k // 2) > 1:
            result = half * 10
        case k if k < 0:
            result = -k
        case _:
            result = 7
    return result, k


@program((5, 2), (20, 2))
def a_match_in_a_loop_with_break_and_continue(n, step):
    total = 0
    for k in range(0, n, step):
        match k % 5:
            case 0:
                continue
            case 4 if k > 10:
                break
            case 1 | 3:
                total += k
            case other:
                total += other * 100
    else:
        total = -total
    return total


@program((7,), (8,), (9,))
def prime_by_the_else_of_a_loop(n):
    for k in range(2, n):
        if n % k == 0:
            factor = k
            break
    else:
        return n, True
    return factor, False


@program((4, 3), (4, 9))
def else_of_nested_loops(n, stop):
    count = 0
    for i in range(n):
        for j in range(n):
            count += 1
            if i * j == stop:
                break
        else:
            count += 100
            continue
        break
    else:
        count += 1000
    return count


@program((10,), (1,), (27,))
def assignment_expressions_in_while(n):
    steps = 0
    while (n := n // 2 if n % 2 == 0 else 3 * n + 1) != 1 and (steps := steps + 1) < 20:
        pass
    return n, steps


@program(((1, 5, 2, 8),))
def assignment_expressions_in_comprehensions(values):
    total = 0
    running = [total := total + v for v in values]
    if any((last := v) > 4 for v in values):
        total += last
    pairs = [(y := v * 2, y + 1) for v in values]
    return running, total, pairs, y


@program((3, 4))
def assignment_expressions_in_arguments(a, b):
    f = lambda x, y: x * 10 + y
    r = f(c := a + b, (d := c * 2) + 1)
    return r, c, d, (e := 5) + e


@program((np.array([1.0, 2.0]),), (np.array([[1.0], [2.0]]),), (np.array(5.0),))
def a_match_of_a_shape(v):
    match v.shape:
        case ():
            return v * 1.0
        case (n,):
            return v.sum() * n
        case (n, m):
            return v.sum() + n * m
    return 0.0


@program((3,), (0,))
def a_match_that_binds_nothing(n):
    x = n
    match n:
        case 1:
            x = 100
    match x:
        case int() as whole if whole:
            return whole
    return -1


@program((1.0,), (-1.0,), (0.0,))
def negative_and_float_literals(x):
    match x:
        case -1.0:
            return "minus" == "minus"
        case 1.0:
            return False
    return True
