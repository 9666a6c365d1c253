"""Exponentials, logarithms, powers and roots: before => after."""

import pytest

from hloom.passes.rules.transcendental_inexact import TRANSCENDENTAL_INEXACT
from tests.passes.forms import becomes, stays


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("multiply(exponential(x), exponential(y))", "exponential(add(x, y))"),
        ("divide(exponential(x), exponential(y))", "exponential(subtract(x, y))"),
        ("divide(x, exponential(y))", "multiply(x, exponential(negate(y)))"),
        ("power(exponential(x), y)", "exponential(multiply(x, y))"),
        ("log(exponential(x))", "x"),
        ("log(divide(exponential(x), exponential(y)))", "subtract(x, y)"),
        ("log(sqrt(x))", "multiply(log(x), #0.5)"),
        ("log(rsqrt(x))", "multiply(log(x), #-0.5)"),
        ("power(x, #3)", "multiply(x, multiply(x, x))"),
        ("sqrt(multiply(x, x))", "abs(x)"),
        ("rsqrt(divide(#1, abs(x)))", "sqrt(abs(x))"),
        ("rsqrt(power(abs(x), #-2))", "abs(x)"),
        ("power(maximum(x, #0), #0.5)", "sqrt(maximum(x, #0))"),
        ("exponential(#0)", "#1"),
        ("maximum(tanh(x), tanh(y))", "tanh(maximum(x, y))"),
        ("maximum(#1, clamp(#1, y, #1))", "clamp(#1, y, #1)"),
    ],
)
def test_floats(before: str, after: str):
    becomes(TRANSCENDENTAL_INEXACT, "f32[4]", before, after)


def test_the_logarithm_of_a_power():
    becomes(
        TRANSCENDENTAL_INEXACT,
        "f32[]",
        "log(power(x, y))",
        "c = compare(y, #0), direction=EQ\nselect(c, #0, multiply(log(abs(x)), y))",
    )


@pytest.mark.parametrize(("exponent", "after"), [("0", "#(1,0)"), ("1", "x"), ("2", "multiply(x, x)")])
def test_complex_powers(exponent: str, after: str):
    becomes(TRANSCENDENTAL_INEXACT, "c64[4]", f"power(x, #({exponent},0))", after)


@pytest.mark.parametrize(
    "text",
    [
        "power(power(x, y), z)",
        "power(x, #0.5)",
        "rsqrt(divide(#1, x))",
        "rsqrt(power(x, #-2))",
        "maximum(tanh(x), erf(y))",
        "maximum(exponential(x), exponential(y))",
        "log(multiply(x, y))",
        "sqrt(multiply(x, y))",
    ],
)
def test_what_stays(text: str):
    stays(TRANSCENDENTAL_INEXACT, "f32[4]", text)


def test_the_root_of_a_complex_square_may_be_its_negation():
    stays(TRANSCENDENTAL_INEXACT, "c64[4]", "sqrt(multiply(x, x))")


def test_a_clamp_whose_bounds_may_be_swapped_stays():
    stays(TRANSCENDENTAL_INEXACT, "f32[4]", "maximum(x, clamp(x, y, z))")
    stays(TRANSCENDENTAL_INEXACT, "f32[4]", "maximum(#2, clamp(#2, y, #1))")
