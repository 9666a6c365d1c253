"""divide, remainder and power: before => after."""

from hloom.passes.rules.divide import DIVIDE
from tests.passes.forms import becomes, stays

_IOTA = "i = $T iota(), iota_dimension=0\n"


def test_dividing_by_one():
    becomes(DIVIDE, "f32[4]", "divide(x, #1)", "x")
    becomes(DIVIDE, "s32[4]", "divide(x, #-1)", "negate(x)")
    stays(DIVIDE, "c64[4]", "divide(x, #(1,0))")


def test_dividing_unsigned_integers_by_powers_of_two():
    becomes(DIVIDE, "u32[4]", "divide(x, #8)", "shift-right-logical(x, #3)")
    becomes(DIVIDE, "u32[4]", "remainder(x, #8)", "and(x, #7)")
    stays(DIVIDE, "u32[4]", "divide(x, #6)")
    stays(DIVIDE, "s32[4]", "divide(x, #8)")


def test_dividing_floats_by_powers_of_two():
    becomes(DIVIDE, "f32[4]", "divide(x, #256)", "multiply(x, #0.00390625)")
    becomes(
        DIVIDE,
        "f32[3]",
        "c = f32[3] constant({1, 2, -4})\ndivide(x, c)",
        "c = f32[3] constant({1, 0.5, -0.25})\nmultiply(x, c)",
    )


def test_reciprocals_that_are_rounded():
    stays(DIVIDE, "f32[4]", "divide(x, #3)")
    stays(DIVIDE, "f32[4]", "divide(x, #0)")
    stays(DIVIDE, "f32[4]", "divide(x, #1.7014118e38)")


def test_remainders():
    becomes(DIVIDE, "s32[4]", "remainder(x, #1)", "#0")
    becomes(DIVIDE, "f32[4]", "remainder(remainder(x, y), y)", "remainder(x, y)")
    stays(DIVIDE, "f32[4]", "remainder(x, #1)")


def test_remainders_of_iota():
    becomes(DIVIDE, "s32[5,100]", f"{_IOTA}remainder(i, #5)", f"{_IOTA}i")
    becomes(DIVIDE, "s32[5,100]", f"{_IOTA}remainder(add(i, #3), #3)", f"{_IOTA}remainder(i, #3)")
    stays(DIVIDE, "s32[5,100]", f"{_IOTA}remainder(i, #3)")


def test_sums_that_wrap_around():
    stays(DIVIDE, "s8[126]", f"{_IOTA}remainder(add(i, #5), #5)")


def test_small_powers():
    becomes(DIVIDE, "f32[4]", "power(x, #0)", "#1")
    becomes(DIVIDE, "f32[4]", "power(x, #1)", "x")
    becomes(DIVIDE, "f32[4]", "power(x, #2)", "multiply(x, x)")
    becomes(DIVIDE, "s32[4]", "power(x, #3)", "multiply(x, multiply(x, x))")
    becomes(DIVIDE, "f32[4]", "power(x, #-1)", "divide(#1, x)")
    becomes(DIVIDE, "f32[4]", "power(exponential(x), #0.5)", "sqrt(exponential(x))")
    becomes(DIVIDE, "f32[4]", "c = f32[] constant(0)\npower(x, c)", "#1")


def test_powers_that_stay():
    stays(DIVIDE, "f32[4]", "power(x, #3)")
    stays(DIVIDE, "f32[4]", "power(x, #0.5)")
    stays(DIVIDE, "s32[4]", "power(x, #-1)")
    stays(DIVIDE, "s1[4]", "power(x, #0)")
    stays(DIVIDE, "f32[4]", "power(power(x, y), z)")
