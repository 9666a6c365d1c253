"""What holds of real numbers only: before => after."""

from hloom.passes.rules.fast_math import FAST_MATH
from tests.passes.forms import becomes, stays


def test_what_cancels_out():
    becomes(FAST_MATH, "f32[4]", "subtract(x, x)", "#0")
    becomes(FAST_MATH, "f32[4]", "multiply(x, #0)", "#0")
    becomes(FAST_MATH, "f32[4]", "add(x, subtract(y, x))", "y")
    becomes(FAST_MATH, "f32[4]", "subtract(x, add(x, y))", "negate(y)")


def test_integers_are_left_to_the_strict_rules():
    stays(FAST_MATH, "s32[4]", "subtract(x, x)")
