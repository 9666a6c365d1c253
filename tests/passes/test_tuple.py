"""Tuples and barriers: before and after."""

import pytest

from hloom.passes import apply_in_place
from hloom.passes.rules.tuple import TUPLE
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, module_of

XY = "x = f32[2] parameter(0)  y = f32[3] parameter(1)  "
PAIR = "p = (f32[2], f32[3]) parameter(0)  "


@pytest.mark.parametrize(
    "before, after",
    [
        (
            XY + "t = (f32[2], f32[3]) tuple(x, y)  ROOT g = f32[3] get-tuple-element(t), index=1",
            XY.replace("y =", "ROOT y ="),
        ),
        (
            PAIR + "a = f32[2] get-tuple-element(p), index=0  b = f32[3] get-tuple-element(p), index=1  "
            "ROOT t = (f32[2], f32[3]) tuple(a, b)",
            PAIR.replace("p =", "ROOT p ="),
        ),
        (
            XY + "a = f32[2] negate(x)  b = f32[3] negate(y)  t = (f32[2], f32[3]) tuple(a, b)  "
            "o = (f32[2], f32[3]) opt-barrier(t)  ROOT g = f32[3] get-tuple-element(o), index=1",
            XY + "b = f32[3] negate(y)  t = (f32[3]) tuple(b)  o = (f32[3]) opt-barrier(t)  "
            "ROOT g = f32[3] get-tuple-element(o), index=0",
        ),
        (
            'x = f32[<=8] parameter(0)  c = (f32[8], s32[]) custom-call(x), custom_call_target="PadToStatic"  '
            "a = f32[8] get-tuple-element(c), index=0  n = s32[] get-tuple-element(c), index=1  "
            'ROOT d = f32[<=8] custom-call(a, n), custom_call_target="SliceToDynamic"',
            "ROOT x = f32[<=8] parameter(0)",
        ),
    ],
    ids=["element", "tuple of elements", "barrier", "static and dynamic again"],
)
def test_tuples(before: str, after: str):
    assert_rewrites(TUPLE, before, after)


@pytest.mark.parametrize(
    "text",
    [
        PAIR + "a = f32[2] get-tuple-element(p), index=0  ROOT t = (f32[2]) tuple(a)",
        PAIR + "a = f32[2] get-tuple-element(p), index=0  b = f32[3] get-tuple-element(p), index=1  "
        "ROOT t = (f32[3], f32[2]) tuple(b, a)",
        "x = s32[10] parameter(0), sharding={devices=[2]0,1}  t = (s32[10]) tuple(x)  "
        "ROOT g = s32[10] get-tuple-element(t), index=0, sharding={replicated}",
        "x = f32[2,3]{1,0} parameter(0)  t = (f32[2,3]{1,0}) tuple(x)  "
        "ROOT g = f32[2,3]{0,1} get-tuple-element(t), index=0",
        XY + "a = f32[2] negate(x)  t = (f32[2], f32[3]) tuple(a, y)  ROOT o = (f32[2], f32[3]) opt-barrier(t)",
        XY + 'e = f32[2] custom-call(x), custom_call_target="e", custom_call_has_side_effect=true  '
        "t = (f32[2], f32[3]) tuple(e, y)  o = (f32[2], f32[3]) opt-barrier(t)  "
        "ROOT g = f32[3] get-tuple-element(o), index=1",
        XY + "a = f32[2] negate(x)  t = (f32[2], f32[3]) tuple(a, y)  o = (f32[2], f32[3]) opt-barrier(t)  "
        "g = f32[3] get-tuple-element(o), index=1  ROOT r = (f32[2], f32[3]) tuple(a, g)",
        'x = f32[<=8] parameter(0)  c = (f32[8], s32[]) custom-call(x), custom_call_target="PadToStatic"  '
        "a = f32[8] get-tuple-element(c), index=0  n = s32[] get-tuple-element(c), index=1  "
        'ROOT d = f32[<=9] custom-call(a, n), custom_call_target="SliceToDynamic"',
    ],
    ids=[
        "some elements", "other order", "sharding", "layout", "barrier as the root", "effect", "used elsewhere",
        "other bound",
    ],
)  # fmt: skip
def test_tuples_that_stay(text: str):
    assert_keeps(TUPLE, text)


def test_what_lives_on_in_the_barrier_only_leaves_it_at_once():
    module = module_of(
        XY
        + """n = f32[2] negate(x)  t = (f32[2], f32[3]) tuple(x, y)  o = (f32[2], f32[3]) opt-barrier(t)
        s = f32[0] slice(n), slice={[0:0]}  g = f32[3] get-tuple-element(o), index=1
        ROOT r = (f32[0], f32[3]) tuple(s, g)"""
    )
    apply_in_place(module, "simplify")
    assert module.entry.root.operands[1].operands[0].type == module_of("ROOT p = (f32[3]) parameter(0)").entry.root.type
    assert not apply_in_place(module, "simplify").changed


def test_elements_of_nested_tuples_keep_their_own_shardings():
    """What stands between is sharded otherwise; an element goes where its own sharding is that of what it is."""
    sharded, replicated = "sharding={devices=[2]0,1}", "sharding={replicated}"
    text = f"""
        x = s32[8] parameter(0), {sharded}
        y = s32[8] parameter(1), {sharded}
        t = (s32[8], s32[8]) tuple(x, y)
        u = ((s32[8], s32[8]), s32[8]) tuple(t, x)
        g = (s32[8], s32[8]) get-tuple-element(u), index=0, sharding={{{{replicated}}, {{replicated}}}}
        a = s32[8] get-tuple-element(g), index=1, {sharded}
        b = s32[8] get-tuple-element(g), index=0, {replicated}
        ROOT r = (s32[8], s32[8]) tuple(a, b)"""
    module = module_of(text)
    apply_in_place(module, TUPLE)
    assert [operand.name for operand in module.entry.root.operands] == ["y", "b"]
