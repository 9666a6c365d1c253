"""The check of the programs itself: what it takes for equal, where it looks for lines, what it does not let pass."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import hloom
from tests.functions import differences
from tests.functions.check import Failure, check_hloom, check_python, difference
from tests.functions.table import Program, program

Pair = namedtuple("Pair", "x y")


@program((2,), (-2,))
@program((0,), raises=ZeroDivisionError)
def inverse(x):
    return 1 / x  # raises


@program((2,), refused="generator")
def generated(x):
    yield x  # refused


def entry_of(function: Any) -> Program:
    return function.__dict__["program"]


@pytest.mark.parametrize(
    "value",
    [
        1,
        2.5,
        True,
        None,
        "text",
        (1, [2.0]),
        {"a": (1,)},
        Pair(1, 2.0),
        np.ones((2, 3), np.float32),
        float("nan"),
        math.inf,
    ],
)
def test_equal_values_have_no_difference(value: Any):
    assert difference(value, value, 1e-9) is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (1, 1.0),
        (True, 1),
        (1.0, 1.0 + 1e-6),
        ((1, 2), [1, 2]),
        ((1, 2), Pair(1, 2)),
        ((1, 2), (1, 2, 3)),
        (0, None),
        (None, 0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.ones(3), np.ones((3, 1))),
        (np.ones(3, np.float32), np.ones(3)),
        (math.nan, 1.0),
        (1.0, math.inf),
        ("a", "b"),
    ],
)
def test_unequal_values_have_one(actual: Any, expected: Any):
    assert difference(actual, expected, 1e-9)


def test_a_scalar_of_numpy_is_pythons_number():
    assert difference((np.int64(3), np.float64(0.5), np.bool_(True)), (3, 0.5, True), 1e-9) is None


def failing(message: str, *bases: type[Exception]) -> Any:
    """A function that raises an HloomError which is another error as well."""
    error = type("Raised", (hloom.HloomError, *bases), {})

    def raising(*_arguments: Any) -> Any:
        raise error(message)

    return raising


def line_of_inverse() -> int:
    return inverse.__code__.co_firstlineno + 3


def test_an_error_of_the_same_class_at_the_same_line_passes():
    entry = entry_of(inverse)
    check_python(entry, entry.cases[2])
    check_hloom(entry, entry.cases[2], failing(f"test_check.py:{line_of_inverse()}:12: zero", ZeroDivisionError))


@pytest.mark.parametrize(
    ("compiled", "message"),
    [
        (failing("test_check.py:1:1: zero", ZeroDivisionError), "names line 1"),
        (failing("zero", ZeroDivisionError), "names line none"),
        (failing(f"test_check.py:{line_of_inverse()}:12: zero"), "instead of ZeroDivisionError"),
        (lambda x: math.inf, "where Python raises"),
        (inverse, "is not a HloomError"),
    ],
)
def test_another_error_fails(compiled: Any, message: str):
    entry = entry_of(inverse)
    with pytest.raises(Failure, match=message):
        check_hloom(entry, entry.cases[2], compiled)


def test_a_refusal_names_its_line_and_what_it_refuses():
    entry = entry_of(generated)
    line = generated.__code__.co_firstlineno + 2
    check_hloom(entry, entry.cases[0], failing(f"a/test_check.py:{line}:5: generators are not taken"))
    with pytest.raises(Failure, match="no 'generator'"):
        check_hloom(entry, entry.cases[0], failing(f"test_check.py:{line}:5: no"))
    with pytest.raises(Failure, match="should be refused"):
        check_hloom(entry, entry.cases[0], lambda x: 2)


def test_differences_of_structures():
    gradient = differences.grad(lambda p, n: p["a"] ** n * p["b"][1], (0, 1))({"a": 2.0, "b": (5, 3.0)}, 2)
    assert difference(gradient, ({"a": 12.0, "b": (None, 4.0)}, None), 1e-9) is None


def test_nested_differences():
    second = differences.hessian(lambda v: v[0] ** 2 * v[1])(np.array([1.0, 3.0]))
    np.testing.assert_allclose(second, [[6.0, 2.0], [2.0, 0.0]], atol=1e-6)
    value, pullback = differences.vjp(lambda a, b: (a * b, a), 2.0, 3.0)
    assert value == (6.0, 2.0)
    np.testing.assert_allclose(pullback((1.0, 10.0)), (13.0, 2.0), rtol=1e-9)
    np.testing.assert_allclose(differences.jvp(lambda a, b: a * b, (2.0, 3.0), (1.0, 0.5))[1], 4.0, rtol=1e-9)
