"""Loops carry one array for those that they concatenate (`loop_concatenation.py`).

The cases restate those of XLA's xla/service/while_loop_concat_code_motion_test.cc.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.ir import Module, verify
from hloom.passes import apply
from tests.passes.pass_assertions import assert_leaves, assert_same_outputs, changed

SQUARE = "f32[4,4]"


def loop(types: list[str], lines: str, yielded: str, *, config: str = "", more: str = "") -> str:
    """A loop of three rounds over parameters of these types; `g1`, `g2`... are its elements in the body."""
    state = ", ".join(["s32[]", *types])
    gets = "".join(f"g{n} = {array} get-tuple-element(s), index={n}\n" for n, array in enumerate(types, 1))
    parameters = "".join(f"x{n} = {array} parameter({n - 1})\n" for n, array in enumerate(types, 1))
    names = ", ".join(f"x{n}" for n in range(1, len(types) + 1))
    return f"""
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
cond {{
  s = ({state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  l = s32[] constant(3)
  ROOT p = pred[] compare(i, l), direction=LT
}}
body {{
  s = ({state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  {gets} one = s32[] constant(1)
  n = s32[] add(i, one)
  zero = f32[] constant(0)
  {lines}
  ROOT t = ({state}) tuple(n, {yielded})
}}
ENTRY e {{
  z = s32[] constant(0)
  {parameters} t = ({state}) tuple(z, {names})
  ROOT w = ({state}) while(t), condition=cond, body=body{config}
}}{more}"""


def joined(first: str, second: str, name: str) -> str:
    """A concatenation, what is computed of it, and its halves, which end in `a` and `b`."""
    return (
        f"c{name} = f32[8,4] concatenate({first}, {second}), dimensions={{0}}\n v{name} = f32[8,4] sine(c{name})\n"
        f"{name}a = {SQUARE} slice(v{name}), slice={{[0:4], [0:4]}}\n"
        f"{name}b = {SQUARE} slice(v{name}), slice={{[4:8], [0:4]}}\n"
    )


def state_of(module: Module) -> str:
    (state,) = [str(node.type) for node in module.entry.nodes if node.opcode == "while"]
    return state


def carried(text: str) -> Module:
    module, has_changed = changed("carry-concatenations", text)
    assert has_changed
    assert_leaves("carry-concatenations", hloom.print(module))
    return module


def test_one_array_for_two():
    text = loop(
        [SQUARE] * 2, joined("g1", "g2", "h") + f"k = {SQUARE} broadcast(zero), dimensions={{}}\n k2 = {SQUARE} cosine(k)\n"
        f"a = {SQUARE} add(ha, k2)\n b = {SQUARE} add(hb, k2)", "a, b",
    )  # fmt: skip
    module = carried(text)
    assert state_of(module) == "(s32[], f32[8,4])"
    (node,) = [node for node in module.entry.nodes if node.opcode == "while"]
    body = node.attributes["body"]
    assert not any(inner.opcode in ("concatenate", "slice") for inner in body.nodes)
    assert body.root.operands[1].operands[1].opcode == "reshape", "what both are given is broadcast"
    assert [value.opcode for value in module.entry.root.operands] == ["get-tuple-element", "slice", "slice"]


def test_effects_take_slices():
    text = loop(
        [SQUARE] * 2, joined("g1", "g2", "h") + "k = token[] after-all()\n o = token[] outfeed(g2, k)", "ha, hb"
    )
    module, has_changed = changed("carry-concatenations", text, runs=False)
    assert has_changed and state_of(module) == "(s32[], f32[8,4])"
    assert sum(node.opcode == "outfeed" for node in module.nodes()) == 1


def test_what_goes_with_it():
    sums = f"a = {SQUARE} add(ha, g3)\n b = {SQUARE} add(hb, g4)\n c = {SQUARE} add(g3, g3)\n d = {SQUARE} add(g4, g4)"
    assert state_of(carried(loop([SQUARE] * 4, joined("g1", "g2", "h") + sums, "a, b, c, d"))) == (
        "(s32[], f32[8,4], f32[8,4])"
    )


BOTH = joined("g1", "g2", "h") + joined("g3", "g4", "k")
DIFFERENCES = f"c = {SQUARE} subtract(ha, ka)\n d = {SQUARE} subtract(hb, kb)"


def test_two_concatenations():
    sums = f"a = {SQUARE} add(ha, ka)\n b = {SQUARE} add(hb, kb)\n"
    assert state_of(carried(loop([SQUARE] * 4, BOTH + sums + DIFFERENCES, "a, b, c, d"))) == (
        "(s32[], f32[8,4], f32[8,4])"
    )


def test_of_two_the_one_that_keeps_its_order():
    sums = f"a = {SQUARE} add(ha, kb)\n b = {SQUARE} add(hb, ka)\n"
    assert state_of(carried(loop([SQUARE] * 4, BOTH + sums + DIFFERENCES, "a, b, c, d"))) == (
        "(s32[], f32[4,4], f32[4,4], f32[8,4])"
    )


OTHER_OPS = """
ra = f32[1,4,4] reshape(g1)
rb = f32[1,4,4] reshape(g2)
c = f32[2,4,4] concatenate(ra, rb), dimensions={0}
v = f32[2,4,4] sine(c)
sa = f32[1,4,4] slice(v), slice={[0:1], [0:4], [0:4]}
sb = f32[1,4,4] slice(v), slice={[1:2], [0:4], [0:4]}
ta = f32[4,4] reshape(sa)
tb = f32[4,4] reshape(sb)
da = f32[4] reduce(ra, zero), dimensions={0,1}, to_apply=sum
db = f32[4] reduce(rb, zero), dimensions={0,1}, to_apply=sum
ea = f32[4] add(da, g3)
eb = f32[4] add(db, g4)
fa = f32[4,4] broadcast(ea), dimensions={1}
fb = f32[4,4] broadcast(eb), dimensions={1}
ha = f32[4,4] subtract(ta, fa)
hb = f32[4,4] subtract(tb, fb)
ja = f32[] reshape(g5)
jb = f32[] reshape(g6)
ka = f32[4] broadcast(ja), dimensions={}
kb = f32[4] broadcast(jb), dimensions={}
la = f32[4] add(ea, ka)
lb = f32[4] add(eb, kb)
ma = f32[] add(zero, ja)
mb = f32[] add(zero, jb)
oa = f32[1] reshape(ma)
ob = f32[1] reshape(mb)"""


def test_reshapes_sums_and_broadcasts():
    """Each group along the dimension that its values have, or one of its own."""
    types = [SQUARE, SQUARE, "f32[4]", "f32[4]", "f32[1]", "f32[1]"]
    module = carried(loop(types, OTHER_OPS, "ha, hb, la, lb, oa, ob"))
    assert state_of(module) == "(s32[], f32[2,4,4], f32[2,4], f32[2])"


STAYING = {
    "another order": loop([SQUARE] * 2, joined("g1", "g2", "h"), "hb, ha"),
    "one array twice": loop([SQUARE] * 2, joined("g1", "g1", "h"), "ha, hb"),
    "another op": loop(
        [SQUARE] * 2, joined("g1", "g2", "h") + f"a = {SQUARE} sine(ha)\n b = {SQUARE} cosine(hb)", "a, b"
    ),
    "used by itself too": loop(
        [SQUARE] * 3, joined("g1", "g2", "h") + f"a = {SQUARE} sine(ha)\n b = {SQUARE} sine(hb)\n c = {SQUARE} add(a, g3)",
        "a, b, c",
    ),
    "a sharding": loop([SQUARE] * 2, joined("g1", "g2", "h"), "ha, hb", config=", sharding={replicated}"),
    "a sharding inside": loop(
        [SQUARE] * 2, joined("g1", "g2", "h").replace("[0:4], [0:4]}", "[0:4], [0:4]}, sharding={replicated}", 1), "ha, hb"
    ),
    "a dependence": loop(
        [SQUARE] * 2, joined("g1", "g2", "h").replace("[0:4], [0:4]}", "[0:4], [0:4]}, control-predecessors={n}", 1),
        "ha, hb",
    ),
    "the state is used whole": loop([SQUARE] * 2, joined("g1", "g2", "h"), "ha, hb").replace(
        "zero = f32[] constant(0)", "whole = (s32[], f32[4,4], f32[4,4]) opt-barrier(s)"
    ),
    "no loop": "ENTRY e { ROOT x = f32[] parameter(0) }",
}  # fmt: skip


@pytest.mark.parametrize("text", STAYING.values(), ids=STAYING)
def test_what_stays(text: str):
    assert_leaves("carry-concatenations", text)


def test_a_configuration_names_the_elements_that_are_left():
    config = ', backend_config={"known_trip_count":{"n":"3"},"known_induction_variable":{"tuple_index":"0"}}'
    module = carried(loop([SQUARE] * 2, joined("g1", "g2", "h"), "ha, hb", config=config))
    (node,) = [node for node in module.entry.nodes if node.opcode == "while"]
    assert node.attributes["backend_config"] == config.split("backend_config=")[1]


@pytest.mark.parametrize("seed", range(6))
def test_random_bodies(seed: int):
    """Random elementwise instructions, some the same for both halves."""
    random = Random(seed)
    lines, pairs = [BOTH], [("ha", "hb"), ("ka", "kb"), ("g1", "g2"), ("g3", "g4"), ("ha", "ha")]
    for number in range(6):
        opcode, (one, other), (third, fourth) = random.choice(["add", "maximum"]), *random.choices(pairs, k=2)
        if random.random() < 0.15:
            third, fourth = fourth, third
        lines.append(
            f"p{number} = {SQUARE} {opcode}({one}, {third})\n q{number} = {SQUARE} {opcode}({other}, {fourth})\n"
        )
        pairs.append((f"p{number}", f"q{number}"))
    results = random.choices(pairs[-4:], k=2)
    before = hloom.parse(loop([SQUARE] * 4, "".join(lines), ", ".join(name for pair in results for name in pair)))
    after, _ = apply(before, "carry-concatenations")
    verify(after)
    assert_same_outputs(before, after)
