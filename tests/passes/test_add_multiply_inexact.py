"""Sums and products of floats in another order: before => after."""

from hloom.passes.rules.add_multiply_inexact import ADD_MULTIPLY_INEXACT
from tests.passes.forms import becomes, stays


def test_zeros_of_either_sign():
    for text in ("add(x, #0)", "add(#-0.0, x)", "subtract(x, #-0.0)", "subtract(x, #0)"):
        becomes(ADD_MULTIPLY_INEXACT, "f32[4]", text, "x")
    becomes(ADD_MULTIPLY_INEXACT, "c64[4]", "add(x, #(0,0))", "x")
    becomes(ADD_MULTIPLY_INEXACT, "c64[4]", "multiply(#(1,0), x)", "x")
    becomes(
        ADD_MULTIPLY_INEXACT,
        "f32[3,2]",
        "c = f32[2] constant({0, 0})\nb = $T broadcast(c), dimensions={1}\nadd(b, x)",
        "x",
    )


def test_constants_come_together():
    becomes(ADD_MULTIPLY_INEXACT, "f32[]", "add(add(x, #42), #3)", "add(x, add(#42, #3))")
    becomes(ADD_MULTIPLY_INEXACT, "f32[]", "add(subtract(#1, x), #2)", "subtract(add(#1, #2), x)")
    becomes(ADD_MULTIPLY_INEXACT, "f32[]", "multiply(multiply(x, #2), #3)", "multiply(x, multiply(#2, #3))")
    becomes(
        ADD_MULTIPLY_INEXACT,
        "f32[]",
        "multiply(multiply(x, #2), multiply(y, #4))",
        "multiply(multiply(x, y), multiply(#2, #4))",
    )


def test_constants_are_combined_before_they_are_broadcast():
    becomes(
        ADD_MULTIPLY_INEXACT,
        "f32[4]",
        "multiply(multiply(x, #2), #3)",
        "c = f32[] constant(2)\nd = f32[] constant(3)\nm = f32[] multiply(c, d)\nb = $T broadcast(m), dimensions={}\n"
        "multiply(x, b)",
    )


def test_a_constant_array_is_a_value_like_any_other():
    becomes(
        ADD_MULTIPLY_INEXACT,
        "f32[4]",
        "a = f32[4] constant({2, 3, 4, 5})\nmultiply(multiply(a, #3), #4)",
        "a = f32[4] constant({2, 3, 4, 5})\nc = f32[] constant(3)\nd = f32[] constant(4)\nm = f32[] multiply(c, d)\n"
        "b = $T broadcast(m), dimensions={}\nmultiply(a, b)",
    )


def test_a_constant_goes_into_a_broadcast():
    becomes(
        ADD_MULTIPLY_INEXACT,
        "f32[2,2]",
        "b = $T broadcast(s), dimensions={}\nmultiply(b, multiply(x, #2))",
        "c = f32[] constant(2)\nm = f32[] multiply(s, c)\nb = $T broadcast(m), dimensions={}\nmultiply(x, b)",
    )


def test_common_powers_of_two():
    becomes(
        ADD_MULTIPLY_INEXACT, "f32[4]", "add(multiply(x, #0.125), multiply(y, #0.125))", "multiply(add(x, y), #0.125)"
    )
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "add(multiply(x, #0.3), multiply(y, #0.3))")
    stays(ADD_MULTIPLY_INEXACT, "c64[4]", "add(multiply(x, z), multiply(y, z))")


def test_predicates():
    becomes(ADD_MULTIPLY_INEXACT, "f32[4]", "multiply(x, f32[4] convert(p))", "select(p, x, #0)")


def test_squares_of_roots():
    becomes(ADD_MULTIPLY_INEXACT, "f32[4]", "r = sqrt(abs(x))\nmultiply(r, r)", "abs(x)")
    becomes(ADD_MULTIPLY_INEXACT, "f32[4]", "r = rsqrt(abs(x))\nmultiply(r, r)", "divide(#1, abs(x))")
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "r = sqrt(x)\nmultiply(r, r)")
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "multiply(sqrt(abs(x)), sqrt(exponential(x)))")
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "multiply(rsqrt(abs(x)), rsqrt(exponential(x)))")


def test_magnitudes_of_what_is_not_below_zero():
    becomes(ADD_MULTIPLY_INEXACT, "f32[4]", "abs(select(p, #0, maximum(x, #0)))", "select(p, #0, maximum(x, #0))")
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "abs(maximum(x, #-1))")


def test_only_the_power_of_two_is_taken_out():
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "add(multiply(x, #0.5), multiply(x, y))")
    stays(ADD_MULTIPLY_INEXACT, "f32[4]", "b = $T broadcast(s), dimensions={}\nmultiply(b, $T convert(p))")
