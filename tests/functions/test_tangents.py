"""Tangents and cotangents: None for what has none, and those of other dimensions refused.

Covers `functions/gradients.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom

ROWS = np.arange(6.0).reshape(3, 2)
CHOSEN = np.array([2, 0])


def power(x: Any, n: Any) -> Any:
    return x**n


def taken(x: Any, index: Any) -> Any:
    return x[index] ** 2


def chosen(x: Any, is_doubled: Any) -> Any:
    return np.where(is_doubled, 2 * x, x)


def of_tree(tree: Any) -> Any:
    return tree["x"] * tree["n"] + tree["pair"][0] * tree["pair"][1]


def polynomial(x: Any, coefficients: Any) -> Any:
    return coefficients[0] * x * x + coefficients[1]


FORMS = {
    "an integer": (power, (2.0, 3), (1.0, None), 12.0),
    "the first argument": (lambda n, x: x**n, (3, 2.0), (None, 1.0), 12.0),
    "an array of integers": (taken, (ROWS, CHOSEN), (np.ones((3, 2)), None), 2 * ROWS[CHOSEN]),
    "a boolean": (chosen, (2.0, True), (3.0, None), 6.0),
    "inside a dictionary": (
        of_tree,
        ({"x": 2.0, "n": 3, "pair": (4, 5.0)},),
        ({"x": 1.0, "n": None, "pair": (None, 10.0)},),
        43.0,
    ),
    "a whole tuple of integers": (polynomial, (2.0, (3, 4)), (1.0, None), 12.0),
    "a list's element": (lambda pair: pair[0] * pair[1], ([2.0, 3],), ([1.0, None],), 3.0),
    "None and text": (lambda x, none, text: 2 * x, (2.0, None, "text"), (1.0, None, None), 2.0),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_has_no_tangent_is_given_none(name: str):
    function, primals, tangents, expected = FORMS[name]
    value, tangent = hloom.jvp(function, primals, tangents)
    np.testing.assert_array_equal(value, function(*primals))
    np.testing.assert_array_equal(tangent, expected)


def test_inside_a_function():
    assert hloom.function(lambda x, n: hloom.jvp(power, (x, n), (1.0, None)))(2.0, 3) == (8.0, 12.0)


def test_results_without_tangents_have_none():
    assert hloom.jvp(lambda x, n: (x * n, n + 1), (2.0, 3), (1.0, None)) == ((6.0, 4), (3.0, None))


def test_gradients_have_none_in_the_same_places():
    assert hloom.grad(power, (0, 1))(2.0, 3) == (12.0, None)
    assert hloom.vjp(power, 2.0, 3)[1](1.0) == (12.0, None)


@pytest.mark.parametrize(
    ("primals", "tangents", "message"),
    [
        ((2.0, 3.0), (1.0, None), r"the tangent of a primal of type f64\[\] is None: give zeros"),
        ((2.0, 3), (1.0,), "there are fewer tangents than primals"),
        ((2, 3), (None, None), "there is nothing to differentiate with respect to"),
        ((ROWS, 3), (np.ones(3), None), r"the tangent of a primal of type f64\[3,2\] has the dimensions \[3\]"),
        ((np.ones(2), 3), (np.ones((2, 1)), None), r"f64\[2\] has the dimensions \[2, 1\]"),
    ],
)
def test_refused(primals: Any, tangents: Any, message: str):
    with pytest.raises(TypeError, match=message):
        hloom.jvp(power, primals, tangents)


def test_a_cotangent_of_other_dimensions():
    pull_back = hloom.vjp(lambda x: x * 2, np.ones(2))[1]
    with pytest.raises(TypeError, match=r"the cotangent of a result of type f64\[2\] has the dimensions \[3\]"):
        pull_back(np.ones(3))
    np.testing.assert_array_equal(pull_back(1.0)[0], [2.0, 2.0])
