"""Reciprocals, fewer divisions, and shifts for them: before => after."""

from hloom.passes.rules.divide_inexact import DIVIDE_INEXACT
from tests.passes.forms import becomes, stays


def test_signed_integers_by_powers_of_two():
    lines = "c = compare(x, #0), direction=LT\nm = select(c, negate(x), x)\n"
    becomes(
        DIVIDE_INEXACT,
        "s32[4]",
        "divide(x, #8)",
        f"{lines}y = shift-right-logical(m, #3)\nselect(c, negate(y), y)".replace("y", "k"),
    )
    becomes(DIVIDE_INEXACT, "s32[4]", "remainder(x, #8)", f"{lines}k = and(m, #7)\nselect(c, negate(k), k)")
    stays(DIVIDE_INEXACT, "s32[4]", "divide(x, #-8)")


def test_divisors_that_have_inverses():
    becomes(DIVIDE_INEXACT, "f32[4]", "divide(x, power(y, z))", "multiply(x, power(y, negate(z)))")
    becomes(DIVIDE_INEXACT, "f32[4]", "divide(x, sqrt(y))", "multiply(x, rsqrt(y))")
    becomes(DIVIDE_INEXACT, "f32[4]", "divide(x, rsqrt(y))", "multiply(x, sqrt(y))")
    for root, other in (("sqrt", "rsqrt"), ("rsqrt", "sqrt")):
        broadcast = "r = $E[] {}(s)\nb = $T broadcast(r), dimensions={{}}\n{}(x, b)"
        becomes(DIVIDE_INEXACT, "f32[4]", broadcast.format(root, "divide"), broadcast.format(other, "multiply"))
    stays(DIVIDE_INEXACT, "f32[4]", "r = $E[] sqrt(s)\nb = $T broadcast(r), dimensions={}\na = divide(x, b)\nadd(a, b)")
    stays(DIVIDE_INEXACT, "s32[4]", "divide(x, power(y, z))")
    stays(DIVIDE_INEXACT, "f32[4]", "r = sqrt(y)\nadd(r, divide(x, r))")


def test_constants():
    becomes(DIVIDE_INEXACT, "f32[4]", "divide(x, #256)", "multiply(x, #0.00390625)")
    becomes(DIVIDE_INEXACT, "f32[]", "divide(x, #3)", "multiply(x, #0.333333343)")
    becomes(
        DIVIDE_INEXACT,
        "f32[3]",
        "c = f32[3] constant({1, 2, 5})\ndivide(x, c)",
        "c = f32[3] constant({1, 0.5, 0.2})\nmultiply(x, c)",
    )
    becomes(DIVIDE_INEXACT, "c64[]", "divide(x, #(1,0))", "x")


def test_constants_whose_reciprocal_overflows_or_underflows():
    stays(DIVIDE_INEXACT, "f32[]", "divide(x, #1e-39)")
    stays(DIVIDE_INEXACT, "f32[]", "divide(x, #3e38)")
    stays(DIVIDE_INEXACT, "s32[]", "divide(x, #3)")


def test_quotients_of_quotients():
    becomes(DIVIDE_INEXACT, "f32[]", "divide(divide(x, y), z)", "divide(x, multiply(y, z))")
    becomes(DIVIDE_INEXACT, "f32[]", "divide(x, divide(y, z))", "divide(multiply(x, z), y)")
    becomes(DIVIDE_INEXACT, "f32[]", "divide(divide(x, y), divide(z, w))", "divide(multiply(x, w), multiply(y, z))")
    stays(DIVIDE_INEXACT, "s32[]", "divide(divide(x, y), z)")
