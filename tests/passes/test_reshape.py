"""Reshapes, bitcasts and copies: before and after.

Covers `dimensions.py`.
"""

import pytest

import hloom
from hloom.passes.rules.reshape import RESHAPE, RESHAPE_AS_XLA
from hloom.rewrite import rewrite
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, rewritten


def test_reshape_to_same_shape():
    assert_rewrites(
        RESHAPE,
        "x = f32[2,3] parameter(0)  ROOT r = f32[2,3] reshape(x)",
        "ROOT x = f32[2,3] parameter(0)",
    )


def test_reshape_that_changes_the_layout_stays():
    assert_keeps(RESHAPE, "x = f32[2,3]{1,0} parameter(0)  ROOT r = f32[2,3]{0,1} reshape(x)")


def test_reshape_of_reshape():
    assert_rewrites(
        RESHAPE,
        "x = f32[2,3] parameter(0)  a = f32[6] reshape(x)  ROOT r = f32[3,2] reshape(a)",
        "x = f32[2,3] parameter(0)  ROOT r = f32[3,2] reshape(x)",
    )


def test_reshape_without_elements():
    result = rewritten(RESHAPE, "x = f32[0,3] parameter(0)  ROOT r = f32[3,0,2] reshape(x)")
    assert result.entry.root.opcode == "constant"
    assert str(result.entry.root.type) == "f32[3,0,2]"


def test_reshape_of_broadcast():
    assert_rewrites(
        RESHAPE,
        """
        x = f32[2,3] parameter(0)
        b = f32[1,2,3,7,12,1] broadcast(x), dimensions={1,2}
        ROOT r = f32[2,3,7,2,1,3,2] reshape(b)
        """,
        "x = f32[2,3] parameter(0)  ROOT b = f32[2,3,7,2,1,3,2] broadcast(x), dimensions={0,1}",
    )


def test_reshape_of_broadcast_scalar():
    assert_rewrites(
        RESHAPE,
        "x = f32[] parameter(0)  b = f32[4,5] broadcast(x), dimensions={}  ROOT r = f32[20,1] reshape(b)",
        "x = f32[] parameter(0)  ROOT b = f32[20,1] broadcast(x), dimensions={}",
    )


def test_reshape_of_broadcast_of_one_that_loses_its_place():
    assert_rewrites(
        RESHAPE,
        "x = f32[1] parameter(0)  b = f32[3,1] broadcast(x), dimensions={1}  ROOT r = f32[3] reshape(b)",
        "x = f32[1] parameter(0)  y = f32[] reshape(x)  ROOT b = f32[3] broadcast(y), dimensions={}",
    )


def test_reshape_that_joins_what_is_broadcast_stays():
    assert_keeps(
        RESHAPE,
        "x = f32[4] parameter(0)  b = f32[3,2,4,2] broadcast(x), dimensions={2}  ROOT r = f32[6,8] reshape(b)",
    )


def test_reshape_of_iota():
    assert_rewrites(
        RESHAPE,
        "i = f32[3,2,4] iota(), iota_dimension=2  ROOT r = f32[6,1,1,4] reshape(i)",
        "ROOT i = f32[6,1,1,4] iota(), iota_dimension=3",
    )


@pytest.mark.parametrize("dims, made, counted", [("3,2", "6", 1), ("3,2,4,2", "6,8", 2)])
def test_reshape_that_joins_what_is_counted_stays(dims: str, made: str, counted: int):
    text = f"i = f32[{dims}] iota(), iota_dimension={counted}  ROOT r = f32[{made}] reshape(i)"
    assert_keeps([*RESHAPE, *RESHAPE_AS_XLA], text)


def test_reshape_of_iota_by_digits():
    assert_rewrites(
        RESHAPE_AS_XLA,
        "i = f32[21] iota(), iota_dimension=0  ROOT r = f32[7,3] reshape(i)",
        """
        a = f32[7,3] iota(), iota_dimension=1
        b = f32[7,3] iota(), iota_dimension=0
        c = f32[] constant(3)
        d = f32[7,3] broadcast(c), dimensions={}
        m = f32[7,3] multiply(b, d)
        ROOT s = f32[7,3] add(a, m)
        """,
    )


def test_digits_that_the_type_does_not_hold_stay():
    assert_keeps(RESHAPE_AS_XLA, "i = bf16[300] iota(), iota_dimension=0  ROOT r = bf16[3,100] reshape(i)")
    assert_keeps(RESHAPE_AS_XLA, "i = s8[256] iota(), iota_dimension=0  ROOT r = s8[2,128] reshape(i)")


def test_reshape_of_dynamic_update_slice():
    assert_rewrites(
        RESHAPE_AS_XLA,
        """
        x = f32[4,3] parameter(0)
        y = f32[1,3] parameter(1)
        i = s32[] parameter(2)
        z = s32[] parameter(3)
        d = f32[4,3] dynamic-update-slice(x, y, i, z)
        ROOT r = f32[1,4,3,1] reshape(d)
        """,
        """
        x = f32[4,3] parameter(0)
        y = f32[1,3] parameter(1)
        i = s32[] parameter(2)
        z = s32[] parameter(3)
        c = s32[] constant(0)
        a = f32[1,4,3,1] reshape(x)
        b = f32[1,1,3,1] reshape(y)
        ROOT d = f32[1,4,3,1] dynamic-update-slice(a, b, c, i, z, c)
        """,
    )


def test_reshape_of_an_update_that_is_used_elsewhere_stays():
    assert_keeps(
        RESHAPE_AS_XLA,
        """
        x = f32[4,3] parameter(0)
        y = f32[1,3] parameter(1)
        i = s32[] parameter(2)
        d = f32[4,3] dynamic-update-slice(x, y, i, i)
        r = f32[1,4,3] reshape(d)
        ROOT t = (f32[1,4,3], f32[4,3]) tuple(r, d)
        """,
    )


def test_copies():
    assert_rewrites(RESHAPE, "x = f32[2] parameter(0)  ROOT c = f32[2] copy(x)", "ROOT x = f32[2] parameter(0)")
    assert_rewrites(
        RESHAPE,
        "x = f32[2,3]{1,0} parameter(0)  c = f32[2,3]{0,1} copy(x)  ROOT d = f32[2,3]{1,0} copy(c)",
        "ROOT x = f32[2,3]{1,0} parameter(0)",
    )
    assert_rewrites(
        RESHAPE,
        "x = f32[2,2,2]{2,1,0} parameter(0)  c = f32[2,2,2]{0,1,2} copy(x)  ROOT d = f32[2,2,2]{0,2,1} copy(c)",
        "x = f32[2,2,2]{2,1,0} parameter(0)  ROOT d = f32[2,2,2]{0,2,1} copy(x)",
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = f32[2,3]{0,1} parameter(0)  ROOT c = f32[2,3]{1,0} copy(x)",
        "x = f32[2]{0} parameter(0)  ROOT c = f32[2]{0:S(5)} copy(x)",
        "x = f32[2]{0} parameter(0)  c = f32[2]{0:S(5)} copy(x)  ROOT d = f32[2]{0} copy(c)",
        "x = f32[8] parameter(0)  ROOT c = f32[8] copy(x), sharding={devices=[2]0,1}",
        "x = f32[2] parameter(0)  y = f32[2] negate(x)  ROOT c = f32[2] copy(x), control-predecessors={y}",
    ],
    ids=["layout", "memory", "through another memory", "sharded root", "waits"],
)
def test_copies_that_stay(text: str):
    assert_keeps(RESHAPE, text)


def test_bitcasts():
    assert_rewrites(
        RESHAPE,
        "x = f32[4] parameter(0)  a = f32[2,2] bitcast(x)  b = f32[4,1] bitcast(a)  ROOT t = (f32[4,1]) tuple(b)",
        "x = f32[4] parameter(0)  b = f32[4,1] bitcast(x)  ROOT t = (f32[4,1]) tuple(b)",
    )
    assert_rewrites(RESHAPE, "x = f32[4] parameter(0)  ROOT a = f32[4] bitcast(x)", "ROOT x = f32[4] parameter(0)")
    assert_rewrites(
        RESHAPE,
        "x = f32[4] parameter(0)  a = f32[2,2] reshape(x)  ROOT b = s32[4] bitcast(a)",
        "x = f32[4] parameter(0)  ROOT b = s32[4] bitcast(x)",
    )
    assert_rewrites(
        RESHAPE,
        "x = f32[] parameter(0)  a = f32[2,2] broadcast(x), dimensions={}  ROOT b = f32[4] bitcast(a)",
        "x = f32[] parameter(0)  ROOT b = f32[4] broadcast(x), dimensions={}",
    )


def test_bitcast_of_unary_of_bitcast():
    assert_rewrites(
        RESHAPE,
        """
        x = f32[10,20] parameter(0)
        a = f32[200] bitcast(x)
        n = f32[200] negate(a)
        b = f32[20,10] bitcast(n)
        ROOT t = (f32[200], f32[20,10]) tuple(a, b)
        """,
        """
        x = f32[10,20] parameter(0)
        a = f32[200] bitcast(x)
        n = f32[10,20] negate(x)
        b = f32[20,10] bitcast(n)
        ROOT t = (f32[200], f32[20,10]) tuple(a, b)
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = f32[2,3]{1,0} parameter(0)  ROOT b = f32[2,3]{0,1} bitcast(x)",
        "x = f32[2,3] parameter(0)  ROOT b = s32[2,3] bitcast(x)",
        "x = f32[4] parameter(0)  a = s32[2,2] bitcast(x)  n = s32[2,2] negate(a)  ROOT b = f32[4] bitcast(n)",
        "x = f32[6]{0} parameter(0)  a = f32[2,3]{0,1} reshape(x)  ROOT b = f32[6]{0} bitcast(a)",
        """x = f32[4]{0} parameter(0)  a = f32[2,2]{1,0} bitcast(x)  n = f32[2,2]{0,1} negate(a)
        ROOT b = f32[4]{0} bitcast(n)""",
    ],
    ids=["layout", "element type", "element type on the way", "reshape into another layout", "op into another layout"],
)
def test_bitcasts_that_stay(text: str):
    assert_keeps(RESHAPE, text)


def test_dynamic_dimensions_stay():
    assert_keeps(RESHAPE, "x = f32[<=4] parameter(0)  a = f32[<=4,1] reshape(x)  ROOT r = f32[1,<=4] reshape(a)")


def test_fragments_stay():
    module = hloom.parse("ENTRY e { ROOT r = f32[2] copy(x) }")
    assert not rewrite(module, RESHAPE).matched


def test_random_numbers_are_drawn_in_the_shape_wanted():
    bounds = "a = f32[] parameter(0)  b = f32[] parameter(1)  "
    assert_rewrites(
        RESHAPE_AS_XLA,
        f"{bounds}r = f32[2,2] rng(a, b), distribution=rng_uniform  ROOT s = f32[4] reshape(r)",
        f"{bounds}ROOT r = f32[4] rng(a, b), distribution=rng_uniform",
    )
    assert_keeps(
        RESHAPE_AS_XLA,
        f"{bounds}r = f32[2,2] rng(a, b), distribution=rng_uniform  s = f32[4] reshape(r)  "
        "ROOT t = (f32[2,2], f32[4]) tuple(r, s)",
    )


def test_what_is_copied_there_and_back_only_changes_its_name():
    assert_rewrites(
        RESHAPE_AS_XLA,
        "x = f32[1,14,4]{2,1,0} parameter(0)  c = f32[1,14,4]{0,1,2} copy(x)  ROOT r = f32[14,4]{1,0} reshape(c)",
        "x = f32[1,14,4]{2,1,0} parameter(0)  ROOT r = f32[14,4]{1,0} bitcast(x)",
    )
    assert_rewrites(
        RESHAPE_AS_XLA,
        "x = f32[1,14,4]{2,1,0} parameter(0)  c = f32[1,14,4]{0,1,2} copy(x)  r = f32[14,4]{0,1} reshape(c)  "
        "ROOT d = f32[14,4]{1,0} copy(r)",
        "x = f32[1,14,4]{2,1,0} parameter(0)  ROOT r = f32[14,4]{1,0} bitcast(x)",
    )
    assert_keeps(
        RESHAPE_AS_XLA,
        "x = f32[1,14,4]{2,1,0} parameter(0)  c = f32[1,14,4]{0,1,2} copy(x)  ROOT r = f32[14,4]{0,1} reshape(c)",
    )


def test_reshape_between_layouts():
    assert_rewrites(
        RESHAPE_AS_XLA,
        "x = f32[2,3]{1,0} parameter(0)  r = f32[2,3]{0,1} reshape(x)  ROOT n = f32[2,3]{1,0} negate(r)",
        "x = f32[2,3]{1,0} parameter(0)  ROOT n = f32[2,3]{1,0} negate(x)",
    )
    assert_keeps(RESHAPE_AS_XLA, "x = f32[2,3]{1,0} parameter(0)  ROOT r = f32[2,3]{0,1} reshape(x)")
