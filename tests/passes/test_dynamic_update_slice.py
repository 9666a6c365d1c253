"""Dynamic-update-slices: before and after."""

import pytest

from hloom.passes.rules.dynamic_update_slice import DYNAMIC_UPDATE_SLICE, DYNAMIC_UPDATE_SLICE_AS_XLA
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

X = "x = f32[10] parameter(0)  "
XI = X + "i = s32[] parameter(1)  "


@pytest.mark.parametrize(
    "before, after",
    [
        (
            XI + "y = f32[10] parameter(2)  ROOT d = f32[10] dynamic-update-slice(x, y, i)",
            XI + "ROOT y = f32[10] parameter(2)",
        ),
        (
            XI + "y = f32[0] parameter(2)  ROOT d = f32[10] dynamic-update-slice(x, y, i)",
            XI.replace("x =", "ROOT x =") + "y = f32[0] parameter(2)",
        ),
        (
            "s = f32[] parameter(0)  b = f32[2] broadcast(s)  y = f32[1] parameter(1)  i = s32[] constant(2)  "
            "ROOT d = f32[2] dynamic-update-slice(b, y, i)",
            "s = f32[] parameter(0)  y = f32[1] parameter(1)  ROOT p = f32[2] pad(y, s), padding=1_0",
        ),
        (
            XI
            + "s = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}  ROOT d = f32[10] dynamic-update-slice(x, s, i)",
            XI.replace("x =", "ROOT x ="),
        ),
        (
            XI + "y = f32[4] parameter(2)  z = f32[4] parameter(3)  a = f32[10] dynamic-update-slice(x, y, i)  "
            "ROOT d = f32[10] dynamic-update-slice(a, z, i)",
            XI + "y = f32[4] parameter(2)  z = f32[4] parameter(3)  ROOT d = f32[10] dynamic-update-slice(x, z, i)",
        ),
    ],
    ids=["everything", "nothing", "scalar", "what is there", "twice"],
)
def test_updates(before: str, after: str):
    assert_rewrites(DYNAMIC_UPDATE_SLICE, before, after)


def test_update_of_updated_slice():
    assert_rewrites(
        DYNAMIC_UPDATE_SLICE_AS_XLA,
        XI
        + "j = s32[] parameter(2)  y = f32[2] parameter(3)  s = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}  "
        "u = f32[5] dynamic-update-slice(s, y, j)  ROOT d = f32[10] dynamic-update-slice(x, u, i)",
        XI + "j = s32[] parameter(2)  y = f32[2] parameter(3)  "
        "a = s32[] constant(0)  b = s32[] constant(3)  c = s32[] clamp(a, j, b)  "
        "e = s32[] constant(0)  f = s32[] constant(5)  g = s32[] clamp(e, i, f)  "
        "k = s32[] add(c, g)  ROOT d = f32[10] dynamic-update-slice(x, y, k)",
    )


@pytest.mark.parametrize(
    "text",
    [
        XI + "y = f32[4] parameter(2)  ROOT d = f32[10] dynamic-update-slice(x, y, i)",
        "s = f32[] parameter(0)  b = f32[2] broadcast(s)  y = f32[1] parameter(1)  i = s32[] parameter(2)  "
        "ROOT d = f32[2] dynamic-update-slice(b, y, i)",
        "s = f32[] parameter(0)  b = f32[2] broadcast(s)  y = f32[1] parameter(1)  i = s32[] constant(0)  "
        'm = f32[1] custom-call(y), custom_call_target="MoveToHost"  ROOT d = f32[2] dynamic-update-slice(b, m, i)',
        XI + "j = s32[] parameter(2)  s = f32[4] dynamic-slice(x, j), dynamic_slice_sizes={4}  "
        "ROOT d = f32[10] dynamic-update-slice(x, s, i)",
        XI + "y = f32[4] parameter(2)  z = f32[3] parameter(3)  a = f32[10] dynamic-update-slice(x, y, i)  "
        "ROOT d = f32[10] dynamic-update-slice(a, z, i)",
    ],
    ids=["part", "scalar, but anywhere", "to the host", "from another place", "less"],
)
def test_updates_that_stay(text: str):
    assert_keeps(DYNAMIC_UPDATE_SLICE, text)
