"""The passes `hoist-slices` (`slice_hoister.py`) and `canonical-broadcasts` (`canonical_broadcast.py`).

The cases restate XLA's slice_hoister_test.cc and broadcast_canonicalizer_test.cc.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.passes import apply
from hloom.text import HloomError
from tests.passes.pass_assertions import assert_leaves, assert_makes, changed

XY = "x = f32[8,9] parameter(0)\ny = f32[8,9] parameter(1)\n"
CUT = "slice={[0:2], [0:9]}"


def test_slices_of_sums():
    assert_makes(
        "hoist-slices",
        f"{XY} a = f32[8,9] add(x, y)\n ROOT s = f32[2,9] slice(a), {CUT}",
        f"{XY} a = f32[2,9] slice(x), {CUT}\n b = f32[2,9] slice(y), {CUT}\n ROOT s = f32[2,9] add(a, b)",
    )


def test_slices_of_long_expressions():
    text = f"""{XY}
        z = f32[8,9] parameter(2)
        m = f32[8,9] multiply(x, y)
        a = f32[8,9] add(m, y)
        d = f32[8,9] divide(a, z)
        p = f32[8,9] power(z, d)
        ROOT s = f32[2,9] slice(p), {CUT}"""
    after, _ = changed(["hoist-slices", "cse"], text)
    assert sum(node.opcode == "slice" for node in after.entry.nodes) == 3


def test_slices_of_transposes():
    cut = "slice={[1:3], [0:1:2], [0:4:3]}"
    assert_makes(
        "hoist-slices",
        f"x = f32[2,3,5] parameter(0)\n t = f32[3,2,5] transpose(x), dimensions={{1,0,2}}\n ROOT s = f32[2,1,2] slice(t), {cut}",
        "x = f32[2,3,5] parameter(0)\n s = f32[1,2,2] slice(x), slice={[0:1:2], [1:3], [0:4:3]}\n"
        "ROOT t = f32[2,1,2] transpose(s), dimensions={1,0,2}",
    )


STAYS = {
    "dot": "x = f32[8,6] parameter(0)\n y = f32[6,9] parameter(1)\n"
    f" a = f32[8,9] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n ROOT s = f32[2,9] slice(a), {CUT}",
    "negate": f"{XY} a = f32[8,9] negate(x)\n ROOT s = f32[2,9] slice(a), {CUT}",
    "read twice": f"{XY} a = f32[8,9] add(x, y)\n s = f32[2,9] slice(a), {CUT}\n ROOT t = (f32[8,9], f32[2,9]) tuple(a, s)",
    "sharded": f"{XY} a = f32[8,9] add(x, y), sharding={{devices=[2,1]0,1}}\n ROOT s = f32[2,9] slice(a), {CUT}",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_slices_that_stay(text: str):
    assert_leaves("hoist-slices", text)


def test_slices_of_one_operand_on_demand():
    after, _ = changed("hoist-slices(unary=1)", STAYS["negate"])
    assert after.entry.root.opcode == "negate"
    with pytest.raises(HloomError, match="unary is 0 or 1, not 'all'"):
        apply(hloom.parse(f"ENTRY e {{ {STAYS['negate']} }}"), "hoist-slices(unary=all)")


@pytest.mark.parametrize("seed", range(6))
def test_random_slices(seed: int):
    """Elementwise ops and transposes, one upon another, and slices with strides."""
    random = Random(seed)
    lines, value, dims = ["x = f32[5,6] parameter(0)", "y = f32[5,6] parameter(1)"], "x", [5, 6]
    other = "y"
    for number in range(random.randint(2, 6)):
        if random.random() < 0.3:
            dims = dims[::-1]
            lines += [
                f"{name}{number} = f32[{dims[0]},{dims[1]}] transpose({old}), dimensions={{1,0}}"
                for name, old in (("v", value), ("w", other))
            ]
            value, other = f"v{number}", f"w{number}"
        else:
            opcode = random.choice(("add", "multiply", "maximum", "subtract"))
            lines.append(f"v{number} = f32[{dims[0]},{dims[1]}] {opcode}({value}, {other})")
            value = f"v{number}"
    bounds = [(random.randint(0, 2), random.randint(3, size), random.randint(1, 2)) for size in dims]
    made = ",".join(str(-(-(end - start) // step)) for start, end, step in bounds)
    cut = ", ".join(f"[{start}:{end}:{step}]" for start, end, step in bounds)
    lines.append(f"ROOT s = f32[{made}] slice({value}), slice={{{cut}}}")
    changed("hoist-slices(unary=1)", "\n".join(lines))


@pytest.mark.parametrize(
    ("operand", "result", "dims", "order", "made"),
    [("2,3,2", "3,2,8,2", "1,0,3", "1,0,2", "0,1,3"), ("5,6,7", "8,7,9,5,6", "3,4,1", "2,0,1", "1,3,4")],
)
def test_broadcasts_in_order(operand: str, result: str, dims: str, order: str, made: str):
    after, _ = changed(
        "canonical-broadcasts",
        f"x = f32[{operand}] parameter(0)\nROOT b = f32[{result}] broadcast(x), dimensions={{{dims}}}",
    )
    transpose, broadcast = after.entry.nodes[1:]
    assert ",".join(map(str, transpose.attributes["dimensions"])) == order
    assert ",".join(map(str, broadcast.attributes["dimensions"])) == made


def test_broadcasts_that_are_in_order_stay():
    assert_leaves("canonical-broadcasts", "x = f32[2] parameter(0)\nROOT b = f32[2,3,8,2] broadcast(x), dimensions={0}")


def test_broadcasts_of_called_computations():
    text = """
    f { x = f32[2,3] parameter(0)  ROOT b = f32[3,2] broadcast(x), dimensions={1,0} }
    ENTRY e { x = f32[2,3] parameter(0)  y = f32[2,3] parameter(1)  a = f32[3,2] call(x), to_apply=f
      b = f32[3,2] call(y), to_apply=f  ROOT s = f32[3,2] add(a, b) }
    """
    after, _ = changed("canonical-broadcasts", text)
    assert [node.opcode for node in after["f"].nodes] == ["parameter", "transpose", "broadcast"]
