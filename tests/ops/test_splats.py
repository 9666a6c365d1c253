"""The number in every element of an array: `ops/splats.py`."""

from __future__ import annotations

import pytest

from hloom import parse
from hloom.ops import splat_number


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("ROOT r = f32[] constant(2)", 2),
        ("ROOT r = f32[2] constant({3, 3})", 3),
        ("ROOT r = f32[2] constant({3, 4})", None),
        ("c = f32[] constant(2) b = f32[2,3] broadcast(c), dimensions={} ROOT r = f32[6] reshape(b)", 2),
        ("c = f32[] constant(2) b = f32[2,3] broadcast(c), dimensions={} ROOT r = f32[1,2] slice(b), "
         "slice={[0:1], [0:2]}", 2),
        ("c = s32[] constant(-2) ROOT r = f32[] convert(c)", -2),
        ("c = s32[] constant(300) ROOT r = u8[] convert(c)", 44),
        ("c = f32[] constant(1.001) ROOT r = bf16[] convert(c)", 1),
        ("c = f32[] constant(0.5) ROOT r = s32[] convert(c)", None),
        ("c = f32[] constant(1) ROOT r = s32[] bitcast(c)", None),
        ("c = f32[] constant(1) ROOT r = f32[] negate(c)", None),
        ("x = f32[] parameter(0) ROOT r = f32[2] broadcast(x), dimensions={}", None),
    ],
)  # fmt: skip
def test_a_splat_is_seen_through_movements_and_conversions(lines: str, number: float | None):
    assert splat_number(parse(f"ENTRY e {{ {lines} }}").entry.root) == number
