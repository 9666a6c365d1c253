"""maximum, minimum and clamp: before => after."""

import pytest

from hloom.passes.rules.min_max import MIN_MAX
from tests.passes.forms import becomes, form, stays
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

_IOTA = "i = $T iota(), iota_dimension=0\n"


def test_the_same_twice():
    becomes(MIN_MAX, "f32[4]", "maximum(x, x)", "x")
    becomes(MIN_MAX, "f32[4]", "minimum(minimum(x, y), y)", "minimum(x, y)")
    becomes(MIN_MAX, "f32[4]", "maximum(x, maximum(x, y))", "maximum(x, y)")
    becomes(MIN_MAX, "f32[4]", "maximum(x, maximum(y, x))", "maximum(x, y)")
    becomes(MIN_MAX, "s32[4]", "maximum(x, minimum(x, y))", "x")
    stays(MIN_MAX, "f32[4]", "maximum(x, minimum(x, y))")


def test_the_least_and_the_greatest():
    becomes(MIN_MAX, "f32[4]", "maximum(x, #-inf)", "x")
    becomes(MIN_MAX, "f16[4]", "minimum(#inf, x)", "x")
    becomes(MIN_MAX, "s8[4]", "maximum(x, #-128)", "x")
    becomes(MIN_MAX, "u8[4]", "minimum(x, #255)", "x")
    becomes(MIN_MAX, "s8[4]", "maximum(x, #127)", "#127")
    becomes(MIN_MAX, "pred[4]", "maximum(x, #false)", "x")
    stays(MIN_MAX, "f32[4]", "maximum(x, #inf)")
    stays(MIN_MAX, "s8[4]", "maximum(x, #-127)")


def test_mixed_precision():
    lines = "x = f16[] constant(-inf)\ny = f32[] parameter(0)"
    assert_rewrites(MIN_MAX, f"{lines}\nROOT r = f32[] maximum(x, y)", "ROOT y = f32[] parameter(0)")
    lines = "x = f32[] constant(-inf)\ny = f16[] parameter(0)"
    assert_keeps(MIN_MAX, f"{lines}\nROOT r = f32[] maximum(x, y)")


def test_bounds():
    becomes(MIN_MAX, "s32[5]", f"{_IOTA}maximum(i, #-1)", f"{_IOTA}i")
    becomes(MIN_MAX, "s32[5]", f"{_IOTA}minimum(i, #4)", f"{_IOTA}i")
    becomes(MIN_MAX, "s32[5]", f"{_IOTA}clamp(#0, i, #4)", f"{_IOTA}i")
    stays(MIN_MAX, "s32[5]", f"{_IOTA}clamp(#1, i, #4)")


def test_constants():
    becomes(MIN_MAX, "f32[]", "maximum(maximum(x, #1), #2)", "maximum(x, maximum(#1, #2))")
    stays(MIN_MAX, "f32[]", "maximum(maximum(x, #0), #-0.0)")


def test_clamps():
    becomes(MIN_MAX, "f32[4]", "minimum(maximum(#3, x), #4)", "clamp(#3, x, #4)")
    becomes(MIN_MAX, "f32[4]", "maximum(#3, minimum(x, #4))", "clamp(#3, x, #4)")
    stays(MIN_MAX, "f32[4]", "minimum(maximum(#4, x), #3)")
    stays(MIN_MAX, "f32[4]", "minimum(maximum(#3, x), y)")


def test_clamps_of_clamps():
    becomes(MIN_MAX, "f32[]", "clamp(x, clamp(x, y, z), z)", "clamp(x, y, z)")
    becomes(MIN_MAX, "s32[]", "clamp(#1, clamp(#0, x, #7), #5)", "clamp(clamp(#1, #0, #5), x, clamp(#1, #7, #5))")
    becomes(MIN_MAX, "s32[]", "clamp(x, y, x)", "x")
    stays(MIN_MAX, "f32[]", "clamp(x, y, x)")
    stays(MIN_MAX, "f32[]", "clamp(x, clamp(x, y, z), w)")


def test_extremes_of_clamps():
    becomes(
        MIN_MAX,
        "f32[]",
        "a = $T constant(1)\nb = $T constant(2)\nmaximum(clamp(a, x, b), a)",
        "a = $T constant(1)\nb = $T constant(2)\nclamp(a, x, b)",
    )
    stays(MIN_MAX, "f32[]", "maximum(clamp(x, y, z), x)")


@pytest.mark.parametrize("count", [6, 7])
def test_the_number_of_a_partition(count: int):
    text = form("a = u32[] constant(0)\nb = u32[] constant(5)\ni = u32[] partition-id()\nclamp(a, i, b)", "u32[]")
    before = text.replace("HloModule form", f"HloModule form, num_partitions={count}")
    after = f"HloModule form, num_partitions={count}\n\nENTRY e {{\n  ROOT i = u32[] partition-id()\n}}"
    assert_rewrites(MIN_MAX, before, after if count == 6 else before)
