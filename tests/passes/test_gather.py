"""Gathers: before and after."""

import pytest

from hloom.passes.rules.gather import GATHER, GATHER_AS_XLA
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, rewritten

ROWS = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"


def rows(operand: str, count: int, width: int) -> str:
    """A gather of rows, which is the root."""
    return f"ROOT g = f32[{count},{width}] gather({operand}, i), {ROWS}, slice_sizes={{1,{width}}}"


@pytest.mark.parametrize(
    "before, after",
    [
        (
            "x = f32[3,0] parameter(0)  i = s32[2,1] parameter(1)  " + rows("x", 2, 0),
            "x = f32[3,0] parameter(0)  i = s32[2,1] parameter(1)  c = f32[] constant(0)  ROOT b = f32[2,0] broadcast(c), dimensions={}",
        ),
        (
            "x = f32[1,1] parameter(0)  i = s32[2,1] parameter(1)  " + rows("x", 2, 1),
            "x = f32[1,1] parameter(0)  i = s32[2,1] parameter(1)  r = f32[] reshape(x)  ROOT b = f32[2,1] broadcast(r), dimensions={}",
        ),
        (
            "s = f32[] parameter(0)  i = s32[2,1] parameter(1)  x = f32[5,3] broadcast(s), dimensions={}  "
            + rows("x", 2, 3),
            "s = f32[] parameter(0)  i = s32[2,1] parameter(1)  ROOT b = f32[2,3] broadcast(s), dimensions={}",
        ),
        (
            "x = f32[5,3] parameter(0)  i = s32[1,1] constant({{9}})  " + rows("x", 1, 3),
            "x = f32[5,3] parameter(0)  ROOT s = f32[1,3] slice(x), slice={[4:5], [0:3]}",
        ),
        (
            "x = f32[5,3] parameter(0)  i = s32[2] constant({1, 3})  " + rows("x", 2, 3),
            "x = f32[5,3] parameter(0)  ROOT s = f32[2,3] slice(x), slice={[1:4:2], [0:3]}",
        ),
    ],
    ids=["nothing", "one element", "scalar", "one window", "rows"],
)
def test_gathers(before: str, after: str):
    assert_rewrites(GATHER, before, after)


def test_rows_that_come_to_stand_elsewhere():
    assert_rewrites(
        GATHER,
        "x = f32[5,3] parameter(0)  i = s32[2] constant({1, 2})  "
        "ROOT g = f32[3,2] gather(x, i), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,3}",
        "x = f32[5,3] parameter(0)  s = f32[2,3] slice(x), slice={[1:3], [0:3]}  "
        "ROOT t = f32[3,2] transpose(s), dimensions={1,0}",
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = f32[5,3] parameter(0)  i = s32[2,1] parameter(1)  " + rows("x", 2, 3),
        "x = f32[5,3] parameter(0)  i = s32[2] constant({3, 1})  " + rows("x", 2, 3),
        "x = f32[5,3] parameter(0)  i = s32[2] constant({4, 5})  " + rows("x", 2, 3),
        "x = f32[5,3] parameter(0)  i = s32[2] constant({...})  " + rows("x", 2, 3),
        "x = f32[5] parameter(0)  i = s32[2] constant({1, 2})  "
        "ROOT g = f32[2,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={2}",
    ],
    ids=["anywhere", "backwards", "over the end", "elided", "windows"],
)
def test_gathers_that_stay(text: str):
    assert_keeps(GATHER, text)


def test_gather_of_few():
    assert_rewrites(
        GATHER_AS_XLA,
        "x = f32[2] parameter(0)  i = s32[7] parameter(1)  ROOT g = f32[7] gather(x, i), offset_dims={}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
        """
        x = f32[2] parameter(0)
        i = s32[7] parameter(1)
        a = f32[1] slice(x), slice={[0:1]}
        b = f32[] reshape(a)
        c = f32[7] broadcast(b), dimensions={}
        o = s32[] constant(1)
        p = s32[7] broadcast(o), dimensions={}
        q = pred[7] compare(i, p), direction=GE
        d = f32[1] slice(x), slice={[1:2]}
        e = f32[] reshape(d)
        f = f32[7] broadcast(e), dimensions={}
        ROOT s = f32[7] select(q, f, c)
        """,
    )


GIVEN = "x = f32[5,3] parameter(0)  v = f32[] parameter(1)  i = s32[4,1] parameter(2)  "


def test_gather_of_pad():
    assert_rewrites(
        GATHER_AS_XLA,
        GIVEN + "p = f32[5,8] pad(x, v), padding=0_0x1_4  " + rows("p", 4, 8),
        GIVEN + rows("x", 4, 3).replace("ROOT g", "g") + "  ROOT p = f32[4,8] pad(g, v), padding=0_0x1_4",
    )


def test_gather_of_pad_that_the_indices_share():
    numbers = (
        "offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=1"
    )
    given = "x = f32[2,3,4] parameter(0)  v = f32[] parameter(1)  j = s32[2] parameter(2)  z = s32[] parameter(3)  "
    assert_rewrites(
        GATHER_AS_XLA,
        given + "p = f32[5,3,4] pad(x, v), padding=1_2x0_0x0_0  i = s32[5] pad(j, z), padding=1_2  "
        f"ROOT g = f32[5,4] gather(p, i), {numbers}, slice_sizes={{1,1,4}}",
        given + f"g = f32[2,4] gather(x, j), {numbers}, slice_sizes={{1,1,4}}  "
        "ROOT p = f32[5,4] pad(g, v), padding=1_2x0_0",
    )


def test_gather_of_reshaped_pad():
    given = "x = f32[2,3,3] parameter(0)  v = f32[] parameter(1)  i = s32[4,1] parameter(2)  "
    assert_rewrites(
        GATHER_AS_XLA,
        given + "p = f32[2,3,8] pad(x, v), padding=0_0x0_0x1_4  r = f32[6,8] reshape(p)  " + rows("r", 4, 8),
        given
        + "r = f32[6,3] reshape(x)  "
        + rows("r", 4, 3).replace("ROOT g", "g")
        + "  ROOT p = f32[4,8] pad(g, v), padding=0_0x1_4",
    )


@pytest.mark.parametrize(
    "text",
    [
        GIVEN + "p = f32[7,3] pad(x, v), padding=1_1x0_0  " + rows("p", 4, 3),
        "x = f32[2,3,4] parameter(0)  v = f32[] parameter(1)  i = s32[4,1] parameter(2)  "
        "p = f32[2,4,4] pad(x, v), padding=0_0x0_1x0_0  r = f32[8,4] reshape(p)  " + rows("r", 4, 4),
        "x = f32[5] parameter(0)  i = s32[7] parameter(1)  ROOT g = f32[7] gather(x, i), offset_dims={}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    ],
    ids=["indexed dimension padded", "reshape joins the padded dimension", "five elements"],
)
def test_forms_that_xla_leaves(text: str):
    assert_keeps(GATHER_AS_XLA, text)


def test_indices_that_count():
    gather = (
        "ROOT g = f32[8,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,4}"
    )
    rules = [*GATHER, *GATHER_AS_XLA]
    result = rewritten(rules, f"x = f32[9,4] parameter(0)  i = s32[8] iota(), iota_dimension=0  {gather}")
    assert "gather" not in [node.opcode for node in result.entry.nodes]
    assert_keeps(rules, f"x = f32[9,4] parameter(0)  i = u8[8] iota(), iota_dimension=0  {gather}")
