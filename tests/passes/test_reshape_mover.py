"""The pass `reshape-mover`: before and after."""

from __future__ import annotations

import pytest

import hloom
from hloom.ir import verify
from hloom.passes.reshape_mover import move_reshapes
from tests.passes.rule_assertions import module_of


def moved(text: str) -> tuple[hloom.Module, int]:
    module = module_of(text)
    changes = move_reshapes(module).changes
    verify(module)
    result, _ = hloom.apply(module, "dce")
    return result, changes


def assert_moves(before: str, after: str) -> None:
    result, changes = moved(before)
    wanted = module_of(after)
    result.name = wanted.name
    assert changes == 1
    assert hloom.difference(result, wanted) is None, hloom.print(result)
    assert moved(after)[1] == 0


def assert_stays(text: str) -> None:
    assert moved(text)[1] == 0


def test_a_reshape_there_and_back():
    assert_moves(
        """x = f32[2,3] parameter(0)
        a = f32[6] reshape(x)
        z = f32[] constant(0)
        b = f32[6] broadcast(z), dimensions={}
        m = f32[6] maximum(a, b)
        e = f32[6] exponential(m)
        ROOT d = (f32[2,3]) tuple(r)
        """.replace("        ROOT", "        r = f32[2,3] reshape(e)\n        ROOT"),
        """x = f32[2,3] parameter(0)
        z = f32[] constant(0)
        b = f32[2,3] broadcast(z), dimensions={}
        m = f32[2,3] maximum(x, b)
        e = f32[2,3] exponential(m)
        ROOT d = (f32[2,3]) tuple(e)""",
    )


def test_two_reshapes_become_one():
    assert_moves(
        """x = f32[2,3] parameter(0)
        y = f32[2,3] parameter(1)
        a = f32[6] reshape(x)
        b = f32[6] reshape(y)
        ROOT s = f32[6] add(a, b)""",
        """x = f32[2,3] parameter(0)
        y = f32[2,3] parameter(1)
        t = f32[2,3] add(x, y)
        ROOT s = f32[6] reshape(t)""",
    )


def test_what_is_broadcast_and_counted_is_made_in_the_other_shape():
    assert_moves(
        """x = f32[2,3,4] parameter(0)
        y = f32[4] parameter(1)
        a = f32[6,4] reshape(x)
        b = f32[6,4] broadcast(y), dimensions={1}
        i = f32[6,4] iota(), iota_dimension=1
        s = f32[6,4] add(a, b)
        p = f32[6,4] multiply(s, i)
        r = f32[2,3,4] reshape(p)
        ROOT t = (f32[2,3,4]) tuple(r)""",
        """x = f32[2,3,4] parameter(0)
        y = f32[4] parameter(1)
        b = f32[2,3,4] broadcast(y), dimensions={2}
        s = f32[2,3,4] add(x, b)
        i = f32[2,3,4] iota(), iota_dimension=2
        p = f32[2,3,4] multiply(s, i)
        ROOT t = (f32[2,3,4]) tuple(p)""",
    )


@pytest.mark.parametrize(
    "lines",
    [
        "y = f32[6] parameter(1)\n a = f32[6] reshape(x)\n ROOT s = f32[6] add(a, y)",  # no byte fewer
        "a = f32[6] reshape(x)\n b = f32[6] negate(a)\n ROOT s = (f32[6], f32[6]) tuple(a, b)",  # a is used elsewhere
        "a = f32[6] reshape(x)\n ROOT b = s32[6] convert(a)",
        "y = f32[2] parameter(1)\n a = f32[6] reshape(x)\n n = f32[6] negate(a), sharding={replicated}\n"
        "r = f32[2,3] reshape(n)\n ROOT s = (f32[2,3]) tuple(r)",
        "y = f32[2,1] parameter(1)\n b = f32[2] reshape(y)\n c = f32[2,3] broadcast(b), dimensions={0}\n"
        "ROOT s = f32[2,3] add(x, c)",
    ],
)
def test_what_stays(lines: str):
    assert_stays(f"x = f32[2,3] parameter(0)\n {lines}")


def test_regions_beside_each_other():
    """What one region gives the next is a reshape that the first one takes away."""
    result, changes = moved(
        """x = f32[2,3] parameter(0)
        a = f32[6] reshape(x)
        b = f32[6] negate(a)
        c = f32[2,3] reshape(b)
        d = f32[2,3] exponential(c)
        e = f32[6] reshape(d)
        f = f32[6] sine(e)
        g = f32[2,3] reshape(f)
        ROOT t = (f32[2,3]) tuple(g)"""
    )
    assert changes >= 1 and not any(node.opcode == "reshape" for node in result.nodes())
