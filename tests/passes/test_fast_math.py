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


def test_one_division_for_many():
    becomes(
        FAST_MATH,
        "f32[2]",
        "b = $T broadcast(s), dimensions={}\ndivide(f32[2] convert(p), b)",
        "c = f32[] constant(1)\nd = f32[] divide(c, s)\nb = $T broadcast(d), dimensions={}\nmultiply(f32[2] convert(p), b)",
    )
    becomes(
        FAST_MATH,
        "f32[2]",
        "b = $T broadcast(s), dimensions={}\ndivide(x, b)",
        "c = f32[] constant(1)\nd = f32[] divide(c, s)\nb = $T broadcast(d), dimensions={}\nmultiply(x, b)",
    )
    stays(FAST_MATH, "f32[1]", "b = $T broadcast(s), dimensions={}\ndivide(x, b)")
    stays(FAST_MATH, "s32[2]", "b = $T broadcast(s), dimensions={}\ndivide(x, b)")
