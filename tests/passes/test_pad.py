"""Pads and concatenations: before and after."""

import pytest

from hloom.passes.rules.broadcast import BROADCAST
from hloom.passes.rules.pad import PAD
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

X = "x = f32[2,3] parameter(0)  "
XV = X + "v = f32[] parameter(1)  "


@pytest.mark.parametrize(
    "before, after",
    [
        (XV + "ROOT p = f32[2,3] pad(x, v), padding=0_0x0_0", "ROOT x = f32[2,3] parameter(0)  v = f32[] parameter(1)"),
        (
            "x = f32[3,0] parameter(0)  v = f32[] parameter(1)  ROOT p = f32[5,2] pad(x, v), padding=1_1x1_1",
            "x = f32[3,0] parameter(0)  v = f32[] parameter(1)  ROOT b = f32[5,2] broadcast(v), dimensions={}",
        ),
        (
            "x = f32[2,1] parameter(0)  v = f32[] parameter(1)  ROOT p = f32[5,7] pad(x, v), padding=1_1_1x3_3_3",
            "x = f32[2,1] parameter(0)  v = f32[] parameter(1)  ROOT p = f32[5,7] pad(x, v), padding=1_1_1x3_3",
        ),
        (
            "x = f32[10,10] parameter(0)  v = f32[] parameter(1)  ROOT p = f32[11,5] pad(x, v), padding=-1_2x-2_-3",
            "x = f32[10,10] parameter(0)  v = f32[] parameter(1)  p = f32[12,10] pad(x, v), padding=0_2x0_0  "
            "ROOT s = f32[11,5] slice(p), slice={[1:12], [2:7]}",
        ),
        (
            XV + "ROOT p = f32[1,2] pad(x, v), padding=-1_0x0_-1",
            XV + "ROOT s = f32[1,2] slice(x), slice={[1:2], [0:2]}",
        ),
        (
            "v = f32[] constant(nan)  b = f32[2] broadcast(v), dimensions={}  w = f32[] constant(nan)  "
            "ROOT p = f32[5] pad(b, w), padding=2_1",
            "v = f32[] constant(nan)  ROOT b = f32[5] broadcast(v), dimensions={}",
        ),
        (
            XV + "a = f32[4,6] pad(x, v), padding=1_1x0_1_1  ROOT p = f32[6,7] pad(a, v), padding=2_0x0_1",
            XV + "ROOT p = f32[6,7] pad(x, v), padding=3_1x0_2_1",
        ),
        (
            "x = f32[3] parameter(0)  v = f32[] parameter(1)  b = f32[1,5,3] broadcast(x), dimensions={2}  "
            "ROOT p = f32[1,5,9] pad(b, v), padding=0_0x0_0x2_4",
            "x = f32[3] parameter(0)  v = f32[] parameter(1)  p = f32[9] pad(x, v), padding=2_4  "
            "ROOT b = f32[1,5,9] broadcast(p), dimensions={2}",
        ),
    ],
    ids=["nothing", "no elements", "between one", "less", "only less", "with the same", "of pad", "of broadcast"],
)
def test_pads(before: str, after: str):
    assert_rewrites([*PAD, *BROADCAST], before, after)


@pytest.mark.parametrize(
    "text",
    [
        XV + "ROOT p = f32[3,3] pad(x, v), padding=0_1x0_0",
        "v = f32[] constant(0)  b = f32[2] broadcast(v), dimensions={}  w = f32[] constant(-0.0)  ROOT p = f32[5] pad(b, w), padding=2_1",
        XV + "a = f32[3,3] pad(x, v), padding=1_0x0_0  ROOT p = f32[5,3] pad(a, v), padding=0_0_1x0_0",
        XV + "w = f32[] parameter(2)  a = f32[3,3] pad(x, v), padding=1_0x0_0  "
        "ROOT p = f32[4,3] pad(a, w), padding=0_1x0_0",
        XV + "b = f32[2,3,4] broadcast(x), dimensions={0,1}  ROOT p = f32[3,3,4] pad(b, v), padding=0_1x0_0x0_0",
    ],
    ids=["something", "another zero", "between what was padded", "other values", "broadcast of unpadded dimensions"],
)
def test_pads_that_stay(text: str):
    assert_keeps(PAD, text)


@pytest.mark.parametrize(
    "before, after",
    [
        (X + "ROOT c = f32[2,3] concatenate(x), dimensions={0}", X.replace("x =", "ROOT x =")),
        (
            "x = f32[2] parameter(0)  e = f32[0] parameter(1)  y = f32[3] parameter(2)  "
            "ROOT c = f32[5] concatenate(x, e, y), dimensions={0}",
            "x = f32[2] parameter(0)  e = f32[0] parameter(1)  y = f32[3] parameter(2)  "
            "ROOT c = f32[5] concatenate(x, y), dimensions={0}",
        ),
        (
            "e = f32[0] parameter(0)  f = f32[0] parameter(1)  ROOT c = f32[0] concatenate(e, f), dimensions={0}",
            "ROOT e = f32[0] parameter(0)  f = f32[0] parameter(1)",
        ),
        (
            "x = f32[2] parameter(0)  y = f32[3] parameter(1)  a = f32[5] concatenate(x, y), dimensions={0}  "
            "ROOT c = f32[8] concatenate(y, a), dimensions={0}",
            "x = f32[2] parameter(0)  y = f32[3] parameter(1)  ROOT c = f32[8] concatenate(y, x, y), dimensions={0}",
        ),
        (
            X + "a = f32[2,1] slice(x), slice={[0:2], [0:1]}  b = f32[2,1] slice(x), slice={[0:2], [1:2]}  "
            "ROOT c = f32[2,4] concatenate(a, b, a, b), dimensions={1}",
            X + "s = f32[2,2] slice(x), slice={[0:2], [0:2]}  t = f32[2,2] slice(x), slice={[0:2], [0:2]}  "
            "ROOT c = f32[2,4] concatenate(s, t), dimensions={1}",
        ),
        (
            "s = f32[] parameter(0)  a = f32[2] broadcast(s), dimensions={}  b = f32[3] broadcast(s), dimensions={}  d = f32[1] broadcast(s), dimensions={}  "
            "ROOT c = f32[6] concatenate(a, b, d), dimensions={0}",
            "s = f32[] parameter(0)  ROOT c = f32[6] broadcast(s), dimensions={}",
        ),
        (
            XV + "b = f32[2,2] broadcast(v), dimensions={}  ROOT c = f32[2,5] concatenate(b, x), dimensions={1}",
            XV + "ROOT p = f32[2,5] pad(x, v), padding=0_0x2_0",
        ),
        (
            XV + "b = f32[2,2] broadcast(v), dimensions={}  ROOT c = f32[2,5] concatenate(x, b), dimensions={1}",
            XV + "ROOT p = f32[2,5] pad(x, v), padding=0_0x0_2",
        ),
        (
            "x = f32[2,1] parameter(0)  ROOT c = f32[2,3] concatenate(x, x, x), dimensions={1}",
            "x = f32[2,1] parameter(0)  r = f32[2] reshape(x)  ROOT c = f32[2,3] broadcast(r), dimensions={0}",
        ),
    ],
    ids=["one", "nothing", "only nothing", "flat", "neighbours", "one scalar", "in front", "behind", "the same"],
)
def test_concatenations(before: str, after: str):
    assert_rewrites(PAD, before, after)


@pytest.mark.parametrize(
    "text",
    [
        X + "ROOT c = f32[4,3] concatenate(x, x), dimensions={0}",
        X + "a = f32[4,3] concatenate(x, x), dimensions={0}  ROOT c = f32[4,6] concatenate(a, a), dimensions={1}",
        X + "a = f32[1,1] slice(x), slice={[0:1], [0:1]}  b = f32[1,1] slice(x), slice={[1:2], [1:2]}  "
        "ROOT c = f32[1,2] concatenate(a, b), dimensions={1}",
        X + "a = f32[2,1] slice(x), slice={[0:2], [0:2:2]}  b = f32[2,1] slice(x), slice={[0:2], [2:3]}  "
        "ROOT c = f32[2,2] concatenate(a, b), dimensions={1}",
        "x = f32[2] parameter(0)  b = f32[2,3] broadcast(x), dimensions={0}  "
        "y = f32[2,3] parameter(1)  ROOT c = f32[4,3] concatenate(b, y), dimensions={0}",
        "x = f32[2]{0} parameter(0)  y = f32[2]{0} negate(x)  "
        "ROOT c = f32[2]{0} concatenate(x), dimensions={0}, control-predecessors={y}",
    ],
    ids=["two", "another dimension", "other rows", "stride", "broadcast of no scalar", "waits"],
)
def test_concatenations_that_stay(text: str):
    assert_keeps(PAD, text)
