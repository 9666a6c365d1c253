"""Slices whose place is computed: before and after."""

import numpy as np
import pytest

from hloom.passes.rules.dynamic_slice import DYNAMIC_SLICE, DYNAMIC_SLICE_AS_XLA
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, assert_same_numbers, module_of, rewritten

X = "x = f32[10,20] parameter(0)  "
IJ = "i = s32[] parameter(1)  j = s32[] parameter(2)  "
KL = "k = s32[] parameter(3)  l = s32[] parameter(4)  "


def taken(operand: str, starts: str, sizes: str, element: str = "f32") -> str:
    """A dynamic slice, which is the root."""
    return f"ROOT s = {element}[{sizes}] dynamic-slice({operand}, {starts}), dynamic_slice_sizes={{{sizes}}}"


@pytest.mark.parametrize(
    "before, after",
    [
        (X + IJ + taken("x", "i, j", "10,20"), X.replace("x =", "ROOT x =") + IJ),
        (X + IJ + taken("x", "i, j", "10,5"), X + IJ + "z = s32[] constant(0)  " + taken("x", "z, j", "10,5")),
        (
            "x = f32[10,20] parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)  "
            "b = f32[10,30,20] broadcast(x), dimensions={0,2}  " + taken("b", "i, j, i", "5,5,5"),
            X + IJ + "s = f32[5,5] dynamic-slice(x, i, i), dynamic_slice_sizes={5,5}  "
            "ROOT b = f32[5,5,5] broadcast(s), dimensions={0,2}",
        ),
        (
            X + IJ + "r = f32[10,1,20] reshape(x)  " + taken("r", "i, i, j", "2,1,3"),
            X + IJ + "s = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}  ROOT r = f32[2,1,3] reshape(s)",
        ),
        (
            X + IJ + "t = f32[20,10] transpose(x), dimensions={1,0}  " + taken("t", "i, j", "3,2"),
            X + IJ + "s = f32[2,3] dynamic-slice(x, j, i), dynamic_slice_sizes={2,3}  "
            "ROOT t = f32[3,2] transpose(s), dimensions={1,0}",
        ),
        (
            X + "i = s32[] constant(-3)  j = s32[] constant(99)  " + taken("x", "i, j", "4,5"),
            X + "ROOT s = f32[4,5] slice(x), slice={[0:4], [15:20]}",
        ),
        (
            "i = u32[] parameter(0)  x = s32[5] iota(), iota_dimension=0  " + taken("x", "i", "1", "s32"),
            "i = u32[] parameter(0)  a = u32[] constant(0)  b = u32[] constant(4)  c = u32[] clamp(a, i, b)  "
            "d = s32[] convert(c)  ROOT r = s32[1] broadcast(d), dimensions={}",
        ),
        (
            X + IJ + "a = f32[4,20] slice(x), slice={[3:7], [0:20]}  " + taken("a", "i, j", "4,5"),
            X + IJ + "c = s32[] constant(3)  " + taken("x", "c, j", "4,5"),
        ),
        (
            X + IJ + KL + "a = f32[4,20] dynamic-slice(x, i, j), dynamic_slice_sizes={4,20}  " + taken("a", "k, l", "4,5"),
            X + IJ + KL + taken("x", "i, l", "4,5"),
        ),
        (
            X + IJ + "y = f32[4,5] parameter(3)  d = f32[10,20] dynamic-update-slice(x, y, i, j)  "
            + taken("d", "i, j", "4,5"),
            X + IJ + "ROOT y = f32[4,5] parameter(3)",
        ),
    ],
    ids=[
        "everything", "whole dimension", "broadcast", "reshape", "transpose", "constant", "iota", "slice", "slices",
        "update",
    ],
)  # fmt: skip
def test_dynamic_slices(before: str, after: str):
    if "z = s32[] constant(0)" in after or "r = f32" in before or "10,30,20" in before:
        assert_rewrites([rule for rule in DYNAMIC_SLICE if rule.name != "dynamic-slice-at-constant"], before, after)
    else:
        assert_rewrites([rule for rule in DYNAMIC_SLICE if rule.name != "index-of-whole-dimension"], before, after)


def test_index_of_whole_dimension_of_an_update():
    assert_rewrites(
        DYNAMIC_SLICE,
        X + IJ + "y = f32[10,5] parameter(3)  ROOT d = f32[10,20] dynamic-update-slice(x, y, i, j)",
        X + IJ + "y = f32[10,5] parameter(3)  z = s32[] constant(0)  "
        "ROOT d = f32[10,20] dynamic-update-slice(x, y, z, j)",
    )


def test_dynamic_slice_of_dynamic_slice_by_sum():
    assert_rewrites(
        DYNAMIC_SLICE_AS_XLA,
        "x = f32[100] parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)  "
        "a = f32[30] dynamic-slice(x, i), dynamic_slice_sizes={30}  " + taken("a", "j", "5"),
        "x = f32[100] parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)  "
        "a = s32[] constant(0)  b = s32[] constant(25)  c = s32[] clamp(a, j, b)  "
        "d = s32[] constant(0)  e = s32[] constant(70)  f = s32[] clamp(d, i, e)  "
        "k = s32[] add(c, f)  " + taken("x", "k", "5"),
    )


def test_dynamic_slice_of_progression():
    assert_rewrites(
        DYNAMIC_SLICE_AS_XLA,
        "i = u32[] parameter(0)  x = s32[4] constant({0, 25, 50, 75})  " + taken("x", "i", "1", "s32"),
        "i = u32[] parameter(0)  a = u32[] constant(0)  b = u32[] constant(3)  c = u32[] clamp(a, i, b)  "
        "d = s32[] convert(c)  e = s32[] constant(25)  m = s32[] multiply(d, e)  ROOT r = s32[1] reshape(m)",
    )


@pytest.mark.parametrize(
    "text",
    [
        X + IJ + taken("x", "i, j", "4,5"),
        X + "i = s32[2] parameter(1)  " + taken("x", "i", "10,5"),
        X + IJ + "r = f32[5,2,20] reshape(x)  " + taken("r", "i, i, j", "2,1,3"),
        X + IJ + KL + "a = f32[4,9] dynamic-slice(x, i, j), dynamic_slice_sizes={4,9}  " + taken("a", "k, l", "2,5"),
        X
        + IJ
        + "y = f32[4,5] parameter(3)  d = f32[10,20] dynamic-update-slice(x, y, i, j)  "
        + taken("d", "j, i", "4,5"),
        X + IJ + "a = f32[4,20] slice(x), slice={[3:7], [0:20]}  " + taken("a", "i, j", "2,5"),
        "i = u32[] parameter(0)  x = s32[5] iota(), iota_dimension=0  " + taken("x", "i", "2", "s32"),
    ],
    ids=["part", "vector", "reshape that splits", "cut twice", "another place", "slice cut twice", "two numbers"],
)
def test_dynamic_slices_that_stay(text: str):
    assert_keeps(DYNAMIC_SLICE, text)


def test_what_runs_asynchronously_stays():
    assert_keeps(
        [*DYNAMIC_SLICE, *DYNAMIC_SLICE_AS_XLA],
        """
        x = f32[10]{0} parameter(0)
        i = s32[] constant(0)
        s = ((f32[10]{0}, s32[]), f32[1]{0}, u32[]) dynamic-slice-start(x, i), dynamic_slice_sizes={1}
        ROOT d = f32[1]{0} dynamic-slice-done(s)
        """,
    )


@pytest.mark.parametrize("seed", range(40))
def test_sums_of_starts_out_of_bounds(seed: int):
    numbers = np.random.default_rng(seed)
    (first, second), (element, other) = (
        sorted(numbers.integers(1, 12, 2))[::-1],
        numbers.choice(["s32", "s8", "s64"], 2),
    )
    text = (
        f"x = s32[12] parameter(0)  i = {element}[] parameter(1)  j = {other}[] parameter(2)  "
        f"a = s32[{first}] dynamic-slice(x, i), dynamic_slice_sizes={{{first}}}  " + taken("a", "j", f"{second}", "s32")
    )
    before, after = module_of(text), rewritten([*DYNAMIC_SLICE_AS_XLA], text)
    for _ in range(10):
        starts = [np.int64(numbers.integers(-100, 100)).astype(_NUMPY[item]) for item in (element, other)]
        assert_same_numbers(before, after, [np.arange(12, dtype=np.int32), *starts])


_NUMPY = {"s32": np.int32, "s8": np.int8, "s64": np.int64}
