"""Broadcasts and iotas: before and after."""

import pytest

from hloom.passes.rules.broadcast import BROADCAST, BROADCAST_AS_XLA
from tests.passes.rule_assertions import assert_keeps, assert_rewrites


def test_broadcast_that_adds_nothing():
    assert_rewrites(
        BROADCAST,
        "x = f32[2,3] parameter(0)  ROOT b = f32[2,1,3] broadcast(x), dimensions={0,2}",
        "x = f32[2,3] parameter(0)  ROOT b = f32[2,1,3] reshape(x)",
    )
    assert_rewrites(
        BROADCAST,
        "x = f32[2,3] parameter(0)  ROOT b = f32[2,3] broadcast(x), dimensions={0,1}",
        "ROOT x = f32[2,3] parameter(0)",
    )


def test_broadcast_that_transposes():
    assert_rewrites(
        BROADCAST,
        "x = f32[6,4,3] parameter(0)  ROOT b = f32[4,3,6] broadcast(x), dimensions={2,0,1}",
        "x = f32[6,4,3] parameter(0)  ROOT t = f32[4,3,6] transpose(x), dimensions={1,2,0}",
    )


def test_broadcast_of_broadcast():
    assert_rewrites(
        BROADCAST,
        """
        x = f32[2,3] parameter(0)
        a = f32[2,5,3] broadcast(x), dimensions={0,2}
        ROOT b = f32[4,2,5,3] broadcast(a), dimensions={1,2,3}
        """,
        "x = f32[2,3] parameter(0)  ROOT b = f32[4,2,5,3] broadcast(x), dimensions={1,3}",
    )


def test_broadcast_of_reshape():
    assert_rewrites(
        BROADCAST,
        """
        x = f32[5] parameter(0)
        r = f32[1,5,1] reshape(x)
        ROOT b = f32[1,2,3,5,1] broadcast(r), dimensions={0,3,4}
        """,
        "x = f32[5] parameter(0)  ROOT b = f32[1,2,3,5,1] broadcast(x), dimensions={3}",
    )


def test_broadcast_of_iota():
    assert_rewrites(
        BROADCAST,
        "i = f32[2,2] iota(), iota_dimension=1  ROOT b = f32[2,3,2] broadcast(i), dimensions={0,2}",
        "ROOT i = f32[2,3,2] iota(), iota_dimension=2",
    )


def test_iota_of_one():
    assert_rewrites(
        BROADCAST,
        "ROOT i = f32[1,3] iota(), iota_dimension=0",
        "c = f32[] constant(0)  ROOT b = f32[1,3] broadcast(c), dimensions={}",
    )


def test_broadcast_of_ones():
    assert_rewrites(
        BROADCAST_AS_XLA,
        "x = f32[3,1] parameter(0)  ROOT b = f32[3,4,1] broadcast(x), dimensions={0,2}",
        "x = f32[3,1] parameter(0)  y = f32[3] reshape(x)  ROOT b = f32[3,4,1] broadcast(y), dimensions={0}",
    )


def test_pointwise_of_broadcasts():
    assert_rewrites(
        BROADCAST,
        """
        x = u32[2] parameter(0)
        y = u32[2] parameter(1)
        a = u32[8,1,2] broadcast(x), dimensions={2}
        b = u32[8,1,2] broadcast(y), dimensions={2}
        ROOT o = u32[8,1,2] or(a, b)
        """,
        """
        x = u32[2] parameter(0)
        y = u32[2] parameter(1)
        o = u32[2] or(x, y)
        ROOT b = u32[8,1,2] broadcast(o), dimensions={2}
        """,
    )


def test_pointwise_of_a_broadcast_scalar_and_a_broadcast_array():
    assert_rewrites(
        BROADCAST,
        """
        x = f32[2] parameter(0)
        s = f32[] parameter(1)
        a = f32[2,8] broadcast(x), dimensions={0}
        b = f32[2,8] broadcast(s), dimensions={}
        ROOT c = pred[2,8] compare(b, a), direction=LT
        """,
        """
        x = f32[2] parameter(0)
        s = f32[] parameter(1)
        b = f32[2] broadcast(s), dimensions={}
        c = pred[2] compare(b, x), direction=LT
        ROOT d = pred[2,8] broadcast(c), dimensions={0}
        """,
    )


def test_pointwise_of_one_scalar():
    assert_rewrites(
        BROADCAST,
        "s = f32[] parameter(0)  b = f32[5,6] broadcast(s), dimensions={}  ROOT n = f32[5,6] negate(b)",
        "s = f32[] parameter(0)  n = f32[] negate(s)  ROOT b = f32[5,6] broadcast(n), dimensions={}",
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = f32[2] parameter(0)  ROOT b = f32[2,2] broadcast(x), dimensions={0}",
        "x = f32[6] parameter(0)  r = f32[2,3] reshape(x)  ROOT b = f32[2,4,3] broadcast(r), dimensions={0,2}",
        """
        x = f32[2] parameter(0)
        y = f32[2] parameter(1)
        a = f32[2,2] broadcast(x), dimensions={0}
        b = f32[2,2] broadcast(y), dimensions={1}
        ROOT s = f32[2,2] add(a, b)
        """,
        "x = f32[2,2] parameter(0)  s = f32[] parameter(1)  b = f32[2,2] broadcast(s)  ROOT a = f32[2,2] add(x, b)",
        "s = f32[] parameter(0)  b = f32[5]{0} broadcast(s)  ROOT c = f32[5]{0:S(5)} copy(b)",
        "x = f32[<=2] parameter(0)  ROOT b = f32[<=2,3] broadcast(x), dimensions={0}",
        "ROOT i = f32[2,1] iota(), iota_dimension=0",
    ],
    ids=["repeats", "reshape that splits", "other places", "no broadcast", "copy", "dynamic", "counts"],
)
def test_what_stays(text: str):
    assert_keeps(BROADCAST, text)


def test_a_scalar_constant_stays_broadcast():
    assert_keeps(BROADCAST, "c = f32[] constant(2)  ROOT b = f32[1,1] broadcast(c), dimensions={}")
