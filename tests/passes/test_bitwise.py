"""and, or, xor, not and shifts: before => after."""

import pytest

from hloom.passes.rules.bitwise import BITWISE
from tests.passes.forms import becomes, stays


def test_truths():
    becomes(BITWISE, "pred[4]", "and(x, #true)", "x")
    becomes(BITWISE, "pred[4]", "and(#false, x)", "#false")
    becomes(BITWISE, "pred[4]", "or(#false, x)", "x")
    becomes(BITWISE, "pred[4]", "or(x, #true)", "#true")
    becomes(BITWISE, "pred[4]", "xor(x, #false)", "x")
    becomes(BITWISE, "pred[4]", "xor(x, #true)", "not(x)")


def test_bits():
    becomes(BITWISE, "s32[4]", "and(x, #-1)", "x")
    becomes(BITWISE, "u8[4]", "and(x, #255)", "x")
    becomes(BITWISE, "u8[4]", "or(x, #255)", "#255")
    becomes(BITWISE, "u4[4]", "xor(x, #15)", "not(x)")
    becomes(BITWISE, "s32[4]", "and(x, #0)", "#0")
    stays(BITWISE, "s32[4]", "and(x, #1)")


@pytest.mark.parametrize("opcode", ["and", "or"])
def test_the_same_twice(opcode: str):
    other = "or" if opcode == "and" else "and"
    becomes(BITWISE, "u8[4]", f"{opcode}(x, x)", "x")
    becomes(BITWISE, "u8[4]", f"{opcode}(x, {opcode}(y, x))", f"{opcode}(y, x)")
    becomes(BITWISE, "u8[4]", f"{opcode}({other}(x, y), x)", "x")
    becomes(BITWISE, "u8[4]", f"{opcode}(x, not(x))", "#0" if opcode == "and" else "#255")
    becomes(BITWISE, "u8[]", f"{opcode}({opcode}(x, #3), #5)", f"{opcode}(x, {opcode}(#3, #5))")


def test_exclusive_or_with_itself():
    becomes(BITWISE, "s32[4]", "xor(x, x)", "#0")
    becomes(
        BITWISE,
        "s32[4]",
        "c = pred[$D] compare(x, y), direction=LT\nd = pred[$D] compare(x, y), direction=LT\nxor(c, d)",
        "c = pred[] constant(false)\nb = pred[$D] broadcast(c), dimensions={}\nb",
    )
    stays(BITWISE, "s32[4]", "c = compare(x, y), direction=LT\nd = compare(x, y), direction=GT\nxor(c, d)")


def test_negations():
    becomes(BITWISE, "pred[4]", "not(not(x))", "x")
    becomes(BITWISE, "s32[4]", "c = compare(x, y), direction=LT\nnot(c)", "c = compare(x, y), direction=GE\nc")
    becomes(BITWISE, "f32[4]", "c = compare(x, y), direction=EQ\nnot(c)", "c = compare(x, y), direction=NE\nc")


def test_no_order_holds_with_nan():
    stays(BITWISE, "f32[4]", "c = compare(x, y), direction=LT\nnot(c)")
    becomes(
        BITWISE,
        "f32[4]",
        "c = compare(x, y), direction=LT, type=TOTALORDER\nnot(c)",
        "c = compare(x, y), direction=GE, type=TOTALORDER\nc",
    )


def test_shifts():
    becomes(BITWISE, "s32[4]", "shift-left(x, #0)", "x")
    becomes(BITWISE, "s32[4]", "shift-right-arithmetic(#0, x)", "#0")
    becomes(BITWISE, "s32[4]", "shift-left(x, #32)", "#0")
    becomes(BITWISE, "s32[4]", "shift-right-logical(x, #-1)", "#0")
    becomes(BITWISE, "s32[4]", "shift-left(shift-left(x, #3), #4)", "shift-left(x, #7)")
    stays(BITWISE, "s32[4]", "shift-left(x, #31)")
    stays(BITWISE, "s32[4]", "shift-right-arithmetic(x, #32)")
    stays(BITWISE, "s8[4]", "shift-left(shift-left(x, #3), #5)")
