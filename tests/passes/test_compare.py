"""compare: before => after.

Covers `value_range.py`.
"""

import pytest

from hloom.passes.rules.compare import COMPARE
from tests.passes.forms import becomes, stays

_TRUE = "c = pred[] constant(true)\nb = pred[$D] broadcast(c), dimensions={}\nb"
_FALSE = "c = pred[] constant(false)\nb = pred[$D] broadcast(c), dimensions={}\nb"
_IOTA = "i = $T iota(), iota_dimension=0\n"


def compare(left: str, right: str, direction: str) -> str:
    return f"c = compare({left}, {right}), direction={direction}\nc"


def test_a_value_with_itself():
    becomes(COMPARE, "s32[4]", compare("x", "x", "GE"), _TRUE)
    becomes(COMPARE, "s32[4]", compare("x", "x", "NE"), _FALSE)
    stays(COMPARE, "f32[4]", compare("x", "x", "EQ"))


def test_unsigned_integers_with_zero():
    becomes(COMPARE, "u32[4]", compare("x", "#0", "LT"), _FALSE)
    becomes(COMPARE, "u32[4]", compare("x", "#0", "GE"), _TRUE)
    becomes(COMPARE, "u32[4]", compare("#0", "x", "GT"), _FALSE)
    becomes(COMPARE, "u32[4]", compare("#0", "x", "LE"), _TRUE)
    stays(COMPARE, "u32[4]", compare("x", "#0", "LE"))
    stays(COMPARE, "s32[4]", compare("x", "#0", "LT"))


def test_bounds():
    becomes(COMPARE, "s32[8]", _IOTA + compare("i", "#0", "LT"), _FALSE)
    becomes(COMPARE, "s32[8]", _IOTA + compare("i", "#8", "LT"), _TRUE)
    becomes(COMPARE, "s32[8]", _IOTA + compare("i", "#9", "EQ"), _FALSE)
    becomes(COMPARE, "s32[8]", compare("clamp(#2, x, #5)", "#5", "LE"), _TRUE)
    stays(COMPARE, "s32[8]", _IOTA + compare("i", "#7", "LT"))


def test_bounds_of_arithmetic():
    """What numpy's and jax's `%` and reflected indices compute cannot be negative."""
    rest = "remainder(x, #10)"
    moved = f"add({rest}, #-5)"
    becomes(COMPARE, "s32[8]", compare(f"abs({moved})", "#0", "LT"), _FALSE)
    becomes(COMPARE, "s32[8]", compare(f"negate({moved})", "#14", "LE"), _TRUE)
    becomes(COMPARE, "s32[8]", compare(f"subtract(#5, {rest})", "#-5", "GT"), _TRUE)
    becomes(COMPARE, "s32[8]", compare(f"multiply({rest}, {rest})", "#81", "GT"), _FALSE)
    stays(COMPARE, "s32[8]", compare(f"multiply({rest}, {rest})", "#0", "GE"))
    stays(COMPARE, "s32[8]", compare("abs(x)", "#0", "LT"))  # the least integer has no absolute value
    stays(COMPARE, "s8[8]", compare("subtract(remainder(x, #100), #50)", "#49", "LE"))  # it wraps around
    stays(COMPARE, "s8[200]", _IOTA + compare("i", "#0", "LT"))
    stays(COMPARE, "s32[8]", compare("abs(x)", "#0", "LT"))


def test_floats_that_are_not_negative():
    becomes(COMPARE, "f32[4]", compare("exponential(x)", "#0", "LT"), _FALSE)
    becomes(COMPARE, "f32[4]", compare("#0", "abs(x)", "GT"), _FALSE)
    stays(COMPARE, "f32[4]", compare("exponential(x)", "#0", "GE"))
    stays(COMPARE, "f32[4]", compare("x", "#0", "LT"))


def test_predicates_with_truths():
    becomes(COMPARE, "pred[4]", compare("x", "#false", "NE"), "x")
    becomes(COMPARE, "pred[4]", compare("#true", "x", "EQ"), "x")
    becomes(COMPARE, "pred[4]", compare("x", "#true", "NE"), "not(x)")
    becomes(COMPARE, "pred[4]", compare("x", "#false", "GT"), "x")
    stays(COMPARE, "pred[4]", compare("x", "y", "EQ"))


def test_choices_between_constants():
    becomes(COMPARE, "f32[4]", compare("select(p, #1, #0)", "#0", "NE"), "p")
    becomes(COMPARE, "f32[4]", compare("select(p, #1, #0)", "#0", "EQ"), "not(p)")
    becomes(COMPARE, "f32[4]", compare("select(p, #nan, #0)", "#0", "GE"), "not(p)")
    becomes(COMPARE, "s32[4]", compare("$T convert(p)", "#0", "NE"), "p")
    becomes(COMPARE, "s32[4]", compare("$T convert(p)", "#2", "EQ"), _FALSE)
    stays(COMPARE, "f32[4]", compare("select(p, x, #0)", "#0", "NE"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (compare("maximum(x, y)", "x", "GT"), compare("y", "x", "GT")),
        (compare("maximum(x, y)", "y", "GT"), compare("x", "y", "GT")),
        (compare("x", "minimum(x, y)", "GT"), compare("x", "y", "GT")),
        (compare("y", "minimum(x, y)", "GT"), compare("y", "x", "GT")),
        (compare("x", "maximum(x, y)", "LT"), compare("x", "y", "LT")),
    ],
)
def test_extremes(before: str, after: str):
    becomes(COMPARE, "f32[4]", before, after)


def test_extremes_in_another_order():
    stays(COMPARE, "f32[4]", compare("maximum(x, y)", "x", "GE"))
    stays(COMPARE, "f32[4]", compare("minimum(x, y)", "x", "GT"))


def both(opcode: str, first: str, second: str) -> str:
    return f"c = compare({first}\nd = compare({second}\n{opcode}(c, d)"


def test_conjunctions():
    narrow = "c = compare(x, #10), direction=LT\nc"
    becomes(COMPARE, "s32[]", both("and", "x, #10), direction=LT", "x, #100), direction=LT"), narrow)
    becomes(COMPARE, "s32[]", both("and", "x, #10), direction=LT", "#100, x), direction=GT"), narrow)
    becomes(COMPARE, "s32[]", both("or", "x, #10), direction=LT", "x, #5), direction=LT"), narrow)
    stays(COMPARE, "s32[]", both("and", "x, #10), direction=LT", "y, #5), direction=LT"))
    stays(COMPARE, "s32[]", both("and", "x, #10), direction=LT", "x, #5), direction=GT"))
