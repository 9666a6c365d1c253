"""add, subtract and negate: before => after."""

from hloom.passes.rules.add import ADD
from tests.passes.forms import becomes, stays


def test_adding_zero():
    becomes(ADD, "s32[4]", "add(x, #0)", "x")
    becomes(ADD, "s32[4]", "add(#0, x)", "x")
    becomes(ADD, "pred[4]", "add(x, #false)", "x")
    becomes(ADD, "f32[4]", "add(x, #-0.0)", "x")


def test_adding_the_positive_zero_makes_one_of_the_negative():
    stays(ADD, "f32[4]", "add(x, #0)")


def test_subtracting_zero():
    becomes(ADD, "s32[4]", "subtract(x, #0)", "x")
    becomes(ADD, "f32[4]", "subtract(x, #0)", "x")


def test_subtracting_a_value_from_itself():
    becomes(ADD, "s32[4]", "subtract(x, x)", "#0")
    stays(ADD, "f32[4]", "subtract(x, x)")


def test_subtracting_from_zero():
    becomes(ADD, "u8[4]", "subtract(#0, x)", "negate(x)")
    becomes(ADD, "f32[4]", "subtract(#-0.0, x)", "negate(x)")
    stays(ADD, "f32[4]", "subtract(#0, x)")


def test_constants_go_to_the_right():
    becomes(ADD, "f32[]", "add(#42, x)", "add(x, #42)")
    stays(ADD, "f32[]", "add(#42, #41)")


def test_subtracting_a_constant():
    becomes(ADD, "f32[]", "subtract(x, #3)", "add(x, negate(#3))")
    becomes(
        ADD,
        "f32[4]",
        "subtract(x, #3)",
        "c = $E[] constant(3)\nn = $E[] negate(c)\nb = $T broadcast(n), dimensions={}\nadd(x, b)",
    )


def test_adding_and_subtracting_what_is_negated():
    becomes(ADD, "f32[4]", "add(x, negate(y))", "subtract(x, y)")
    becomes(ADD, "f32[4]", "add(negate(y), x)", "subtract(x, y)")
    becomes(ADD, "f32[4]", "subtract(x, negate(y))", "add(x, y)")
    stays(ADD, "f32[4]", "n = $T negate(y)\nm = $T multiply(n, n)\nadd(m, add(x, n))")


def test_negating():
    becomes(ADD, "f32[4]", "negate(negate(x))", "x")
    becomes(ADD, "s32[4]", "negate(subtract(x, y))", "subtract(y, x)")
    stays(ADD, "f32[4]", "negate(subtract(x, y))")


def test_integer_constants_come_together():
    becomes(ADD, "s32[]", "add(add(x, #1), #2)", "add(x, add(#1, #2))")
    becomes(ADD, "s32[]", "add(subtract(#1, x), #2)", "subtract(add(#1, #2), x)")
    becomes(ADD, "s32[]", "subtract(#1, add(x, #2))", "subtract(subtract(#1, #2), x)")
    becomes(ADD, "s32[]", "subtract(#1, subtract(#2, x))", "add(x, subtract(#1, #2))")
    stays(ADD, "f32[]", "add(add(x, #1), #2)")


def test_constants_are_combined_before_they_are_broadcast():
    becomes(
        ADD,
        "s32[4]",
        "add(add(x, #1), #2)",
        "c = $E[] constant(1)\nd = $E[] constant(2)\ne = $E[] add(c, d)\nb = $T broadcast(e), dimensions={}\nadd(x, b)",
    )


def test_what_cancels_out():
    for text in ("add(x, subtract(y, x))", "add(subtract(y, x), x)", "subtract(x, subtract(x, y))"):
        becomes(ADD, "s32[4]", text, "y")
        stays(ADD, "f32[4]", text)
    becomes(ADD, "s32[4]", "subtract(add(x, y), x)", "y")
    becomes(ADD, "s32[4]", "subtract(x, add(x, y))", "negate(y)")


def test_common_factors():
    becomes(ADD, "s32[4]", "add(multiply(x, z), multiply(y, z))", "multiply(add(x, y), z)")
    becomes(ADD, "s32[4]", "add(multiply(z, x), multiply(y, z))", "multiply(add(x, y), z)")
    stays(ADD, "f32[4]", "add(multiply(x, z), multiply(y, z))")


def test_products_with_other_uses_are_not_factored():
    stays(ADD, "s32[4]", "m = $T multiply(x, z)\nn = $T multiply(y, z)\nsum = $T add(m, n)\nmultiply(sum, m)")
