"""Slices and reversals: before and after."""

import pytest

from hloom.passes.rules.slice import SLICE
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

X = "x = f32[6,7] parameter(0)  "


@pytest.mark.parametrize(
    "before, after",
    [
        (X + "ROOT s = f32[6,7] slice(x), slice={[0:6], [0:7]}", "ROOT x = f32[6,7] parameter(0)"),
        (
            X + "a = f32[4,5] slice(x), slice={[1:5], [2:7]}  ROOT s = f32[2,2] slice(a), slice={[2:4], [1:3]}",
            X + "ROOT s = f32[2,2] slice(x), slice={[3:5], [3:5]}",
        ),
        (
            X + "a = f32[3,7] slice(x), slice={[1:6:2], [0:7]}  ROOT s = f32[2,7] slice(a), slice={[0:3:2], [0:7]}",
            X + "ROOT s = f32[2,7] slice(x), slice={[1:6:4], [0:7]}",
        ),
        (
            X + "ROOT s = f32[1,3] slice(x), slice={[2:3:2], [0:7:3]}",
            X + "ROOT s = f32[1,3] slice(x), slice={[2:3], [0:7:3]}",
        ),
    ],
    ids=["everything", "of slice", "of strided slice", "idle stride"],
)
def test_slices(before: str, after: str):
    assert_rewrites(SLICE, before, after)


PAD = "x = f32[2,2] parameter(0)  v = f32[] parameter(1)  p = f32[5,5] pad(x, v), padding=2_0_1x2_0_1  "
EDGES = "x = f32[2,2] parameter(0)  v = f32[] parameter(1)  p = f32[5,4] pad(x, v), padding=2_1x1_1  "


@pytest.mark.parametrize(
    "before, after",
    [
        (PAD + "ROOT s = f32[2,2] slice(p), slice={[2:5:2], [2:5:2]}", "ROOT x = f32[2,2] parameter(0)"),
        (EDGES + "ROOT s = f32[2,4] slice(p), slice={[0:2], [0:4]}", "ROOT b = f32[2,4] broadcast(v), dimensions={}"),
        (
            EDGES + "ROOT s = f32[1,2] slice(p), slice={[3:4], [1:3]}",
            "ROOT s = f32[1,2] slice(x), slice={[1:2], [0:2]}",
        ),
    ],
    ids=["undoes", "only padding", "no padding"],
)
def test_slices_of_pads(before: str, after: str):
    given = "v = f32[] parameter(1)  " + ("" if "ROOT x" in after else "x = f32[2,2] parameter(0)  ")
    assert_rewrites(SLICE, before, given + after)


def test_slice_of_broadcast():
    assert_rewrites(
        SLICE,
        """
        x = f32[10,20] parameter(0)
        b = f32[10,30,20] broadcast(x), dimensions={0,2}
        ROOT s = f32[5,5,5] slice(b), slice={[0:5], [5:25:4], [5:15:2]}
        """,
        """
        x = f32[10,20] parameter(0)
        s = f32[5,5] slice(x), slice={[0:5], [5:15:2]}
        ROOT b = f32[5,5,5] broadcast(s), dimensions={0,2}
        """,
    )
    assert_rewrites(
        SLICE,
        "x = f32[3] parameter(0)  b = f32[3,9] broadcast(x), dimensions={0}  "
        "ROOT s = f32[3,4] slice(b), slice={[0:3], [2:6]}",
        "x = f32[3] parameter(0)  ROOT b = f32[3,4] broadcast(x), dimensions={0}",
    )


FOUR = "".join(f"x{n} = f32[5,2] parameter({n})  " for n in range(4))
JOINED = FOUR + "c = f32[20,2] concatenate(x0, x1, x2, x3), dimensions={0}  "


@pytest.mark.parametrize(
    "before, after",
    [
        ("ROOT s = f32[5,2] slice(c), slice={[10:15], [0:2]}", FOUR.replace("x2 =", "ROOT x2 =")),
        (
            "ROOT s = f32[2,1] slice(c), slice={[6:8], [1:2]}",
            FOUR + "ROOT s = f32[2,1] slice(x1), slice={[1:3], [1:2]}",
        ),
        (
            "ROOT s = f32[8,2] slice(c), slice={[6:14], [0:2]}",
            FOUR
            + "a = f32[10,2] concatenate(x1, x2), dimensions={0}  ROOT s = f32[8,2] slice(a), slice={[1:9], [0:2]}",
        ),
    ],
    ids=["an operand", "of one operand", "of some"],
)
def test_slices_of_concatenations(before: str, after: str):
    assert_rewrites(SLICE, JOINED + before, after)


def test_slice_of_reshape_from_the_middle():
    assert_rewrites(
        SLICE,
        "x = f32[6,4] parameter(0)  r = f32[2,3,4] reshape(x)  ROOT s = f32[1,3,4] slice(r), slice={[1:2], [0:3], [0:4]}",
        "x = f32[6,4] parameter(0)  s = f32[3,4] slice(x), slice={[3:6], [0:4]}  ROOT r = f32[1,3,4] reshape(s)",
    )


def test_slice_of_reshape():
    assert_rewrites(
        SLICE,
        "x = f32[6,4] parameter(0)  r = f32[2,3,4] reshape(x)  "
        "ROOT s = f32[1,3,4] slice(r), slice={[0:1], [0:3], [0:4]}",
        "x = f32[6,4] parameter(0)  s = f32[3,4] slice(x), slice={[0:3], [0:4]}  ROOT r = f32[1,3,4] reshape(s)",
    )


def test_slice_of_reverse():
    assert_rewrites(
        SLICE,
        """
        x = f32[8,7,32] parameter(0)
        r = f32[8,7,32] reverse(x), dimensions={0,1,2}
        ROOT s = f32[2,2,7] slice(r), slice={[2:4], [0:7:4], [0:32:5]}
        """,
        """
        x = f32[8,7,32] parameter(0)
        s = f32[2,2,7] slice(x), slice={[4:6], [2:7:4], [1:32:5]}
        ROOT r = f32[2,2,7] reverse(s), dimensions={0,1,2}
        """,
    )


def test_slice_of_iota():
    assert_rewrites(
        SLICE,
        "i = s32[6,7] iota(), iota_dimension=0  ROOT s = s32[3,2] slice(i), slice={[0:3], [1:7:4]}",
        "ROOT i = s32[3,2] iota(), iota_dimension=0",
    )


@pytest.mark.parametrize(
    "text",
    [
        X + "ROOT s = f32[5,7] slice(x), slice={[1:6], [0:7]}",
        EDGES + "ROOT s = f32[3,2] slice(p), slice={[1:4], [1:3]}",
        JOINED + "ROOT s = f32[18,2] slice(c), slice={[1:19], [0:2]}",
        "x = f32[1,12,5,1,4] parameter(0)  r = f32[60,4] reshape(x)  ROOT s = f32[16,4] slice(r), slice={[0:16], [0:4]}",
        "x = f32[1,6,4] parameter(0)  r = f32[24] reshape(x)  ROOT s = f32[8] slice(r), slice={[8:16]}",
        "i = s32[6] iota(), iota_dimension=0  ROOT s = s32[3] slice(i), slice={[1:4]}",
    ],
    ids=["part", "elements and padding", "all operands", "parts of rows", "rows within a row", "not from 0"],
)
def test_slices_that_stay(text: str):
    assert_keeps(SLICE, text)


@pytest.mark.parametrize(
    "before, after",
    [
        (
            "x = f32[4,1,1] parameter(0)  ROOT r = f32[4,1,1] reverse(x), dimensions={1,2}",
            "ROOT x = f32[4,1,1] parameter(0)",
        ),
        (X + "a = f32[6,7] reverse(x), dimensions={0}  ROOT r = f32[6,7] reverse(a), dimensions={0}", ""),
        (
            X + "a = f32[6,7] reverse(x), dimensions={0,1}  ROOT r = f32[6,7] reverse(a), dimensions={1}",
            X + "ROOT r = f32[6,7] reverse(x), dimensions={0}",
        ),
        (
            "x = f32[6] parameter(0)  b = f32[6,7] broadcast(x), dimensions={0}  "
            "ROOT r = f32[6,7] reverse(b), dimensions={0,1}",
            "x = f32[6] parameter(0)  r = f32[6] reverse(x), dimensions={0}  "
            "ROOT b = f32[6,7] broadcast(r), dimensions={0}",
        ),
        (
            "i = s32[6,7] iota(), iota_dimension=0  ROOT r = s32[6,7] reverse(i), dimensions={1}",
            "ROOT i = s32[6,7] iota(), iota_dimension=0",
        ),
        (
            X + "c = f32[] constant(1)  b = f32[6,7] broadcast(c)  a = f32[6,7] add(b, x)  "
            "ROOT r = f32[6,7] reverse(a), dimensions={0}",
            X + "c = f32[] constant(1)  b = f32[6,7] broadcast(c)  r = f32[6,7] reverse(x), dimensions={0}  "
            "ROOT a = f32[6,7] add(b, r)",
        ),
        (
            "x = f32[3,4,5] parameter(0)  a = f32[1,3,1,4,1,5] reshape(x)  "
            "ROOT r = f32[1,3,1,4,1,5] reverse(a), dimensions={0,1,3,4}",
            "x = f32[3,4,5] parameter(0)  r = f32[3,4,5] reverse(x), dimensions={0,1}  "
            "ROOT a = f32[1,3,1,4,1,5] reshape(r)",
        ),
    ],
    ids=["of ones", "twice", "some twice", "of broadcast", "of iota", "of sum with a scalar", "of reshape"],
)
def test_reversals(before: str, after: str):
    assert_rewrites(SLICE, before, after or X.replace("x =", "ROOT x ="))


@pytest.mark.parametrize(
    "text",
    [
        X + "ROOT r = f32[6,7] reverse(x), dimensions={0}",
        X + "y = f32[6,7] parameter(1)  a = f32[6,7] add(x, y)  ROOT r = f32[6,7] reverse(a), dimensions={0}",
        "i = s32[6] iota(), iota_dimension=0  ROOT r = s32[6] reverse(i), dimensions={0}",
        "x = f32[6] parameter(0)  a = f32[2,3] reshape(x)  ROOT r = f32[2,3] reverse(a), dimensions={0}",
    ],
    ids=["a parameter", "two arrays", "counted", "reshape that splits"],
)
def test_reversals_that_stay(text: str):
    assert_keeps(SLICE, text)
