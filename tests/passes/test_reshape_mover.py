"""The pass `reshape-mover`, and `sink-reshapes`: before and after.

The cases of the latter restate those of XLA's xla/hlo/transforms/simplifiers/reshape_mover_test.cc.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom import HloomError
from hloom.ir import verify
from hloom.passes import apply
from hloom.passes.reshape_mover import move_reshapes
from tests.passes.pass_assertions import assert_leaves, assert_makes, assert_same_outputs
from tests.passes.rule_assertions import module_of


def moved(text: str) -> tuple[hloom.Module, int]:
    module = module_of(text)
    changes = move_reshapes(module).changes
    verify(module)
    result, _ = hloom.opt(module, "dce")
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


X, Y, Z = (f"{name} = f32[1,6,1,4] parameter({number})\n" for number, name in enumerate("xyz"))


def reshaped(*names: str) -> str:
    return "".join(f"r{name} = f32[6,4] reshape({name})\n" for name in names)


SINKING = {
    "two reshapes of one shape": (
        X + Y + reshaped("x", "y") + "ROOT s = f32[6,4] add(rx, ry)",
        X + Y + "t = f32[1,6,1,4] add(x, y)\n ROOT s = f32[6,4] reshape(t)",
    ),
    "below a select": (
        "p = pred[6] parameter(0)\n a = f32[6] parameter(1)\n b = f32[6] parameter(2)\n rp = pred[2,3] reshape(p)\n"
        "ra = f32[2,3] reshape(a)\n rb = f32[2,3] reshape(b)\n ROOT s = f32[2,3] select(rp, ra, rb)",
        "p = pred[6] parameter(0)\n a = f32[6] parameter(1)\n b = f32[6] parameter(2)\n"
        "t = f32[6] select(p, a, b)\n ROOT s = f32[2,3] reshape(t)",
    ),
    "below a select with a constant": (
        "p = pred[6] parameter(0)\n a = f32[6] parameter(1)\n k = f32[2,3] constant({{1,2,3},{4,5,6}})\n"
        "rp = pred[2,3] reshape(p)\n ra = f32[2,3] reshape(a)\n ROOT s = f32[2,3] select(rp, ra, k)",
        "p = pred[6] parameter(0)\n a = f32[6] parameter(1)\n k = f32[2,3] constant({{1,2,3},{4,5,6}})\n"
        "rk = f32[6] reshape(k)\n t = f32[6] select(p, a, rk)\n ROOT s = f32[2,3] reshape(t)",
    ),
    "one reshape and a constant": (
        "a = f32[2,3] parameter(0)\n k = f32[3,2] constant({{1,2},{3,4},{5,6}})\n r = f32[3,2] reshape(a)\n"
        "ROOT s = f32[3,2] add(r, k)",
        "a = f32[2,3] parameter(0)\n k = f32[3,2] constant({{1,2},{3,4},{5,6}})\n rk = f32[2,3] reshape(k)\n"
        "t = f32[2,3] add(a, rk)\n ROOT s = f32[3,2] reshape(t)",
    ),
    "one below the other": (
        X + Y + "z = f32[6,4,1] parameter(2)\n rx = f32[6,4,1] reshape(x)\n ry = f32[6,4,1] reshape(y)\n"
        "s = f32[6,4,1] add(rx, ry)\n rs = f32[6,4] reshape(s)\n rz = f32[6,4] reshape(z)\n ROOT u = f32[6,4] add(rs, rz)",
        X + Y + "z = f32[6,4,1] parameter(2)\n s = f32[1,6,1,4] add(x, y)\n rs = f32[6,4,1] reshape(s)\n"
        "u = f32[6,4,1] add(rs, z)\n ROOT r = f32[6,4] reshape(u)",
    ),
    "a transpose and a scalar": (
        "a = f32[20,8] parameter(0)\n k = f32[] parameter(1)\n t = f32[8,20] transpose(a), dimensions={1,0}\n"
        "b = f32[8,20] broadcast(k), dimensions={}\n ROOT m = f32[8,20] multiply(t, b)",
        "a = f32[20,8] parameter(0)\n k = f32[] parameter(1)\n b = f32[20,8] broadcast(k), dimensions={}\n"
        "m = f32[20,8] multiply(a, b)\n ROOT t = f32[8,20] transpose(m), dimensions={1,0}",
    ),
    "several that share reshapes": (
        X + Y + Z + "k = f32[] parameter(3)\n b = f32[6,4] broadcast(k), dimensions={}\n" + reshaped("x", "y", "z")
        + "p = f32[6,4] add(rx, b)\n q = f32[6,4] add(rx, ry)\n r = f32[6,4] add(ry, rz)\n"
        "ROOT t = (f32[6,4], f32[6,4], f32[6,4]) tuple(p, q, r)",
        X + Y + Z + "k = f32[] parameter(3)\n b = f32[1,6,1,4] broadcast(k), dimensions={}\n"
        "sp = f32[1,6,1,4] add(x, b)\n sq = f32[1,6,1,4] add(x, y)\n sr = f32[1,6,1,4] add(y, z)\n"
        "p = f32[6,4] reshape(sp)\n q = f32[6,4] reshape(sq)\n r = f32[6,4] reshape(sr)\n"
        "ROOT t = (f32[6,4], f32[6,4], f32[6,4]) tuple(p, q, r)",
    ),
    "an operand twice": (
        X + reshaped("x") + "ROOT s = f32[6,4] add(rx, rx)",
        X + "t = f32[1,6,1,4] add(x, x)\n ROOT s = f32[6,4] reshape(t)",
    ),
    "rows that stay whole": (
        "v = f32[2,3] parameter(0)\n a = f32[2,3,5,7] parameter(1)\n b = f32[2,3,35] broadcast(v), dimensions={0,1}\n"
        "r = f32[2,3,35] reshape(a)\n ROOT s = f32[2,3,35] add(b, r)",
        "v = f32[2,3] parameter(0)\n a = f32[2,3,5,7] parameter(1)\n b = f32[2,3,5,7] broadcast(v), dimensions={0,1}\n"
        "t = f32[2,3,5,7] add(b, a)\n ROOT s = f32[2,3,35] reshape(t)",
    ),
    "a transposed row": (
        "v = f32[2] parameter(0)\n a = f32[3,2] parameter(1)\n b = f32[2,3] broadcast(v), dimensions={0}\n"
        "t = f32[2,3] transpose(a), dimensions={1,0}\n ROOT s = f32[2,3] add(b, t)",
        "v = f32[2] parameter(0)\n a = f32[3,2] parameter(1)\n b = f32[3,2] broadcast(v), dimensions={1}\n"
        "t = f32[3,2] add(b, a)\n ROOT s = f32[2,3] transpose(t), dimensions={1,0}",
    ),
    "in a called computation": (
        "f {\n" + X + Y + reshaped("x", "y") + "ROOT s = f32[6,4] add(rx, ry)\n}\nENTRY e {\n" + X + Y
        + "ROOT c = f32[6,4] call(x, y), to_apply=f\n}",
        "f {\n" + X + Y + "t = f32[1,6,1,4] add(x, y)\n ROOT s = f32[6,4] reshape(t)\n}\nENTRY e {\n" + X + Y
        + "ROOT c = f32[6,4] call(x, y), to_apply=f\n}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SINKING.values(), ids=SINKING)
def test_what_sinks(before: str, after: str):
    assert_makes("sink-reshapes", before, after)


FLOATING = {
    "other shapes before": X + "y = f32[1,6,4,1] parameter(1)\n" + reshaped("x", "y") + "ROOT s = f32[6,4] add(rx, ry)",
    "random numbers": "z = f32[] constant(0)\n o = f32[] constant(1)\n"
    "x = f32[1,6,1,4] rng(z, o), distribution=rng_uniform\n k = f32[6,4] constant({...})\n" + reshaped("x")
    + "ROOT s = f32[6,4] add(rx, k)",
    "a parameter": X + "y = f32[6,4] parameter(1)\n" + reshaped("x") + "ROOT s = f32[6,4] add(rx, y)",
    "reshapes of constants": "p = pred[3,2] parameter(0)\n a = f32[2,3] constant({{1,2,3},{4,5,6}})\n"
    "b = f32[2,3] constant({{1,2,3},{7,8,9}})\n ra = f32[3,2] reshape(a)\n rb = f32[3,2] reshape(b)\n"
    "ROOT s = f32[3,2] select(p, ra, rb)",
    "users elsewhere": X + Y + "w = f32[6,4] parameter(2)\n k = f32[] parameter(3)\n"
    "b = f32[6,4] broadcast(k), dimensions={}\n" + reshaped("x", "y")
    + "p = f32[6,4] add(rx, b)\n q = f32[6,4] add(rx, ry)\n r = f32[6,4] add(ry, w)\n"
    "ROOT t = (f32[6,4], f32[6,4], f32[6,4]) tuple(p, q, r)",
    "a broadcast row": "v = f32[2] parameter(0)\n a = f32[6] parameter(1)\n b = f32[2,3] broadcast(v), dimensions={0}\n"
    "r = f32[2,3] reshape(a)\n ROOT s = f32[2,3] add(b, r)",
    "rows that are joined": "v = f32[2,3] parameter(0)\n a = f32[6,5,7] parameter(1)\n"
    "b = f32[2,3,35] broadcast(v), dimensions={0,1}\n r = f32[2,3,35] reshape(a)\n ROOT s = f32[2,3,35] add(b, r)",
    "rows in another order": "v = f32[2,3] parameter(0)\n a = f32[3,2,5] parameter(1)\n"
    "b = f32[2,3,5] broadcast(v), dimensions={0,1}\n t = f32[2,3,5] transpose(a), dimensions={1,0,2}\n"
    "ROOT s = f32[2,3,5] add(b, t)",
    "what is given to a call": "f {\n x = f32[6,4] parameter(0)\n ROOT n = f32[6,4] negate(x)\n}\nENTRY e {\n" + X
    + reshaped("x") + "ROOT c = f32[6,4] call(rx), to_apply=f\n}",
    "what a call yields": "f {\n" + X + "ROOT r = f32[6,4] reshape(x)\n}\nENTRY e {\n" + X + Y + reshaped("x")
    + "c = f32[6,4] call(y), to_apply=f\n ROOT s = f32[6,4] add(rx, c)\n}",
    "a sharding": X + Y + reshaped("x", "y") + "ROOT s = f32[6,4] add(rx, ry), sharding={replicated}",
}  # fmt: skip


@pytest.mark.parametrize("text", FLOATING.values(), ids=FLOATING)
def test_what_does_not_sink(text: str):
    assert_leaves("sink-reshapes", text)


def test_broadcast_rows_are_reshaped_when_asked():
    assert_makes(
        "sink-reshapes(rows=1)",
        FLOATING["a broadcast row"],
        """v = f32[2] parameter(0)
        a = f32[6] parameter(1)
        b = f32[2,3] broadcast(v), dimensions={0}
        rb = f32[6] reshape(b)
        t = f32[6] add(rb, a)
        ROOT s = f32[2,3] reshape(t)""",
    )
    with pytest.raises(HloomError, match="rows is 0 or 1"):
        apply(module_of(X), "sink-reshapes(rows=2)")


@pytest.mark.parametrize("seed", range(8))
def test_random_reshapes(seed: int):
    """Random reshapes, transposes and elementwise instructions, one upon another."""
    random = Random(seed)
    shapes = [(2, 6), (6, 2), (12,), (3, 4)]
    lines = [f"x{number} = f32[{','.join(map(str, dims))}] parameter({number})" for number, dims in enumerate(shapes)]
    values = {dims: [f"x{number}"] for number, dims in enumerate(shapes)}
    for number in range(24):
        dims = random.choice(shapes)
        name = random.choice(values[dims][-3:])
        match random.randrange(4):
            case 0:
                dims, operation = random.choice(shapes), f"reshape({name})"
            case 1 if dims in ((2, 6), (6, 2)):
                dims, operation = dims[::-1], f"transpose({name}), dimensions={{1,0}}"
            case _:
                operation = f"{random.choice(['add', 'multiply', 'maximum'])}({name}, {random.choice(values[dims])})"
        lines.append(f"v{number} = f32[{','.join(map(str, dims))}] {operation}")
        values[dims].append(f"v{number}")
    results = [(name, dims) for dims in shapes for name in values[dims][-2:]]
    types = ", ".join(f"f32[{','.join(map(str, dims))}]" for _, dims in results)
    lines.append(f"ROOT t = ({types}) tuple({', '.join(name for name, _ in results)})")
    before = hloom.parse("ENTRY e {\n" + "\n".join(lines) + "\n}")
    after, _ = apply(before, "sink-reshapes")
    verify(after)
    assert_same_outputs(before, after)
