"""multiply, abs and sign: before => after.

Covers `value_properties.py`.
"""

from hloom.passes.rules.multiply import MULTIPLY
from tests.passes.forms import becomes, stays


def test_multiplying_by_one():
    becomes(MULTIPLY, "f32[4]", "multiply(x, #1)", "x")
    becomes(MULTIPLY, "s32[4]", "multiply(#1, x)", "x")
    stays(MULTIPLY, "c64[4]", "multiply(x, #(1,0))")


def test_multiplying_by_zero():
    becomes(MULTIPLY, "s32[4]", "multiply(x, #0)", "#0")
    stays(MULTIPLY, "f32[4]", "multiply(x, #0)")


def test_multiplying_by_minus_one():
    becomes(MULTIPLY, "f32[4]", "multiply(x, #-1)", "negate(x)")
    stays(MULTIPLY, "c64[4]", "multiply(x, #(-1,0))")


def test_signs_that_cancel_out():
    becomes(MULTIPLY, "f32[4]", "multiply(negate(x), negate(y))", "multiply(x, y)")
    becomes(MULTIPLY, "f32[4]", "a = $T abs(x)\nmultiply(a, a)", "multiply(x, x)")
    stays(MULTIPLY, "f32[4]", "multiply(negate(x), y)")
    stays(MULTIPLY, "f32[4]", "multiply(abs(x), abs(y))")


def test_the_square_of_a_complex_magnitude():
    stays(MULTIPLY, "c64[4]", "a = f32[$D] abs(x)\nmultiply(a, a)")


def test_multiplying_by_a_predicate():
    becomes(MULTIPLY, "s32[4]", "multiply(x, $T convert(p))", "select(p, x, #0)")
    stays(MULTIPLY, "f32[4]", "multiply(x, $T convert(p))")


def test_integer_constants_come_together():
    becomes(MULTIPLY, "s32[]", "multiply(multiply(x, #2), #3)", "multiply(x, multiply(#2, #3))")
    becomes(
        MULTIPLY,
        "s32[]",
        "multiply(multiply(x, #2), multiply(y, #3))",
        "multiply(multiply(x, y), multiply(#2, #3))",
    )
    stays(MULTIPLY, "f32[]", "multiply(multiply(x, #2), #3)")


def test_a_constant_goes_into_a_broadcast():
    becomes(
        MULTIPLY,
        "s32[2,2]",
        "b = $T broadcast(s), dimensions={}\nmultiply(b, multiply(x, #2))",
        "c = $E[] constant(2)\nm = $E[] multiply(s, c)\nb = $T broadcast(m), dimensions={}\nmultiply(x, b)",
    )


def test_magnitudes():
    becomes(MULTIPLY, "s32[4]", "abs(abs(x))", "abs(x)")
    becomes(MULTIPLY, "f32[4]", "abs(negate(x))", "abs(x)")
    becomes(MULTIPLY, "f32[4]", "sign(sign(x))", "sign(x)")


def test_what_is_not_negative_is_its_magnitude():
    for text in ("exponential(x)", "multiply(x, x)", "select(p, exponential(x), #2)", "sqrt(exponential(x))"):
        becomes(MULTIPLY, "f32[4]", f"abs({text})", text)
    becomes(MULTIPLY, "s32[4]", "i = $T iota(), iota_dimension=0\nabs(i)", "i = $T iota(), iota_dimension=0\ni")


def test_what_may_be_negative_or_the_negative_zero():
    for text in ("sqrt(x)", "multiply(x, y)", "maximum(x, #1)", "power(x, y)", "#-0.0"):
        stays(MULTIPLY, "f32[4]", f"abs({text})")
    stays(MULTIPLY, "s32[4]", "abs(multiply(x, x))")
    stays(MULTIPLY, "s8[200]", "i = $T iota(), iota_dimension=0\nabs(i)")
