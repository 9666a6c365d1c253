"""Constant folding: before and after."""

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply
from hloom.passes.rules.constant_folding import (
    CONSTANT_FOLDING,
    element_of_constant,
    fold_constants,
    fold_uniform,
    limited_folding,
)
from hloom.text import HloomError
from tests.passes.pass_assertions import assert_leaves, assert_makes
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "a = s32[] constant(3)\n b = s32[] constant(4)\n ROOT r = s32[] multiply(a, b)",
            "ROOT r = s32[] constant(12)",
        ),
        (
            "a = f32[2] constant({1, -0.0})\n ROOT r = f32[2] negate(a)",
            "ROOT r = f32[2] constant({-1, 0})",
        ),
        (
            "a = s32[2,3] constant({{1,2,3},{4,5,6}})\n ROOT r = s32[3,2] transpose(a), dimensions={1,0}",
            "ROOT r = s32[3,2] constant({{1,4},{2,5},{3,6}})",
        ),
        (
            "a = f32[2] constant({1.5, nan})\n b = f32[] constant(2)\n c = f32[2] broadcast(b), dimensions={}\n"
            "ROOT r = pred[2] compare(a, c), direction=NE",
            "ROOT r = pred[2] constant({true, true})",
        ),
        (
            "a = s4[2] constant({7, -8})\n ROOT r = s8[2] convert(a)",
            "ROOT r = s8[2] constant({7, -8})",
        ),
        (
            "a = c64[] constant((1, 2))\n ROOT r = f32[] imag(a)",
            "ROOT r = f32[] constant(2)",
        ),
        (
            "a = f32[] constant(-inf)\n b = f32[] constant(0.5)\n ROOT r = f32[] power(a, b)",
            "ROOT r = f32[] constant(inf)",
        ),
        (
            "a = f64[] constant(-0)\n b = f64[] constant(0.5)\n ROOT r = f64[] power(a, b)",
            "ROOT r = f64[] constant(0)",
        ),
    ],
)
def test_constants_are_computed(before, after):
    assert_rewrites(CONSTANT_FOLDING, before, after)


def test_what_yields_no_element_is_not_computed():
    assert_rewrites(
        CONSTANT_FOLDING, "x = f32[3,0] parameter(0)\n ROOT r = f32[3,0] tanh(x)",
        "x = f32[3,0] parameter(0)\n ROOT r = f32[3,0] constant({{},{},{}})",
    )  # fmt: skip
    assert_keeps(CONSTANT_FOLDING, "x = f32[3,0] parameter(0)\n ROOT r = (f32[3,0]) tuple(x)")


def test_numbers_spread_out_are_computed_once():
    assert_rewrites(
        fold_uniform,
        """
        a = f32[] constant(1.5)
        x = f32[100000,100000] broadcast(a), dimensions={}
        b = f32[] constant(2)
        y = f32[100000,100000] broadcast(b), dimensions={}
        ROOT r = f32[100000,100000] multiply(x, y)
        """,
        "a = f32[] constant(3)\n ROOT r = f32[100000,100000] broadcast(a), dimensions={}",
    )


@pytest.mark.parametrize(
    "text",
    [
        "a = f32[] constant(1)\n ROOT r = f32[5] broadcast(a), dimensions={}",
        "ROOT r = s32[5] iota(), iota_dimension=0",
        "a = s32[5] iota(), iota_dimension=0\n ROOT r = s32[5] negate(a)",
        "a = f32[] constant(1)\n b = f32[9] broadcast(a), dimensions={}\n c = f32[3,3] reshape(b)\n"
        "ROOT r = f32[3,3] transpose(c), dimensions={1,0}",
        "a = f32[] constant(0)\n b = f32[] constant(1)\n ROOT r = f32[2] rng(a, b), distribution=rng_uniform",
        "a = f32[2] constant({...})\n ROOT r = f32[2] negate(a)",
        "a = f32[] constant(1)\n b = f32[1000,1000] broadcast(a), dimensions={}\n"
        "ROOT r = f32[1001,1000] pad(b, a), padding=0_1x0_0",
        "a = f32[] constant(1)\n b = f32[3] broadcast(a), dimensions={}\n c = f32[] constant(0)\n"
        "ROOT r = f32[5] pad(b, c), padding=1_1",
        "a = f32[] constant(1)\n ROOT r = f32[] custom-call(a), custom_call_target=\"f\"",
        "a = f32[] constant(1)\n ROOT r = f32[] opt-barrier(a)",
        "a = f32[2] constant({1, 2})\n t = (f32[2], f32[2]) tuple(a, a)\n ROOT r = f32[2] get-tuple-element(t), index=0",
    ],
)  # fmt: skip
def test_what_is_not_folded(text):
    assert_keeps(CONSTANT_FOLDING, text)


def test_a_large_constant_may_be_moved_but_not_made():
    assert_keeps(CONSTANT_FOLDING, "a = f32[1,1] constant({{1}})\n b = f32[] constant(0)\n"
                 "ROOT r = f32[100,100] pad(a, b), padding=0_99x0_99")  # fmt: skip


def test_an_operation_that_takes_too_long_stays():
    rows = ",".join("{" + ",".join("12"[k % 2] for k in range(300)) + "}" for _ in range(300))
    text = (
        f"a = f32[300,300] constant({{{rows}}})\n"
        "ROOT r = f32[300,300] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert_keeps(CONSTANT_FOLDING, text)


LOOP = """
cond { s = (s32[], s32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  l = s32[] constant(%d)
  ROOT p = pred[] compare(c, l), direction=LT }
body { s = (s32[], s32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  o = s32[] constant(1)
  x = s32[] get-tuple-element(s), index=1  n = s32[] add(c, o)  y = s32[] add(x, c)  ROOT t = (s32[], s32[]) tuple(n, y) }
ENTRY e { z = s32[] constant(0)  i = (s32[], s32[]) tuple(z, z)  w = (s32[], s32[]) while(i), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=1 }
"""


def test_a_loop_of_constants_is_run():
    module, report = apply(hloom.parse(LOOP % 10), "fold")
    verify(module)
    assert hloom.print(module.entry.root.graph.module, "short").count("constant(45)") == 1
    assert [graph.name for graph in module] == ["e"] and report.matched == 2


def test_a_loop_that_runs_too_long_stays():
    _, report = apply(hloom.parse(LOOP % 1_000_000), "fold")
    assert report.matched == 0
    assert any("elements would be computed" in reason for reason in report["fold-constants"].rejected)


def test_an_element_of_a_constant():
    assert_rewrites(
        element_of_constant,
        "a = (s32[2], f32[]) constant(({1, 2}, 3))\n ROOT r = f32[] get-tuple-element(a), index=1",
        "ROOT r = f32[] constant(3)",
    )


def test_layouts_and_shardings_stay():
    result = rewritten(
        fold_constants,
        "a = s32[2,2]{0,1} constant({{1,2},{3,4}})\n ROOT r = s32[2,2]{0,1} negate(a), sharding={replicated}",
    )
    assert str(result.entry.root.type) == "s32[2,2]{0,1}"
    assert str(result.entry.root.attributes["sharding"]) == "{replicated}"


def test_copies_of_constants():
    assert_rewrites(CONSTANT_FOLDING, "c = f32[] constant(0)\nROOT d = f32[] copy(c)", "ROOT c = f32[] constant(0)")
    p = "p = f32[] parameter(0)\nd = f32[] copy(p)\nc = f32[] constant(0)\n"
    assert_keeps(CONSTANT_FOLDING, p + "ROOT e = f32[] copy(c), control-predecessors={d}")
    assert_keeps(CONSTANT_FOLDING, "c = f32[2,2]{1,0} constant({{1,2},{3,4}})\nROOT d = f32[2,2]{0,1} copy(c)")


UNSTACK = """
unstack { p = u32[2]{0:T(128)} parameter(0)  a = u32[1]{0:T(128)} slice(p), slice={[1:2]}
  b = u32[1]{0:T(128)} slice(p), slice={[0:1]}  ROOT t = (u32[1]{0:T(128)}, u32[1]{0:T(128)}) tuple(a, b) }
"""
KEY = """k = u32[2]{0:T(128)} constant({305419896, 43981})
f = (u32[1]{0:T(128)}, u32[1]{0:T(128)}) fusion(k), kind=kLoop, calls=unstack
q = u32[]{:T(128)} parameter(0)
"""
HALVES = """g = u32[1]{0:T(128)} get-tuple-element(f), index=0
h = u32[1]{0:T(128)} get-tuple-element(f), index=1
"""


@pytest.mark.parametrize("tiles", [":T(128)", ""])
def test_a_fusion_of_constants_is_computed_with_the_layouts_of_its_results(tiles: str):
    reshape = "bitcast" if tiles else "reshape"
    text = f"""{UNSTACK}ENTRY e {{ {KEY}{HALVES}r = u32[]{{:T(128)}} {reshape}(g)  s = u32[]{{:T(128)}} {reshape}(h)
        x = u32[]{{:T(128)}} xor(r, s)  ROOT o = u32[]{{:T(128)}} add(x, q) }}"""
    after = """ENTRY e { c = u32[]{:T(128)} constant(305462709)  q = u32[]{:T(128)} parameter(0)
        ROOT o = u32[]{:T(128)} add(c, q) }"""
    assert_makes("fold", *(_with_tiles(module, tiles) for module in (text, after)), runs=not tiles)


def _with_tiles(text: str, tiles: str) -> str:
    return text if tiles else text.replace("{:T(128)}", "").replace(":T(128)", "")


@pytest.mark.parametrize(
    "text",
    [
        UNSTACK + "ENTRY e { " + KEY + 'ROOT c = u32[1] custom-call(f), custom_call_target="Consume" }',
        UNSTACK + "ENTRY e { " + KEY + HALVES.replace("index=1", "index=1, control-predecessors={q}")
        + "ROOT x = u32[1]{0:T(128)} xor(g, h) }",
        """nested { p = u32[2] parameter(0)  a = u32[2] add(p, p)  i = (u32[2], u32[2]) tuple(p, a)
          ROOT o = ((u32[2], u32[2]), u32[2]) tuple(i, a) }
        ENTRY e { c = u32[2] constant({1, 2})  f = ((u32[2], u32[2]), u32[2]) fusion(c), kind=kLoop, calls=nested
          g = (u32[2], u32[2]) get-tuple-element(f), index=0  h = u32[2] get-tuple-element(f), index=1
          i = u32[2] get-tuple-element(g), index=0  ROOT r = u32[2] add(i, h) }""",
        """own { p = u32[2] parameter(0)  ROOT a = u32[2] add(p, p) }
        ENTRY e { c = u32[2] constant({1, 2})  ROOT f = u32[2] fusion(c), kind=kCustom, calls=own }""",
        """random { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[9] rng(a, b), distribution=rng_uniform }
        ENTRY e { a = f32[] constant(0)  b = f32[] constant(1)  ROOT f = f32[9] fusion(a, b), kind=kLoop, calls=random }""",
        """which { a = u32[] parameter(0)  p = u32[] partition-id()  ROOT r = u32[] add(a, p) }
        ENTRY e { a = u32[] constant(1)  ROOT f = u32[] fusion(a), kind=kLoop, calls=which }""",
        """which { a = u32[] parameter(0)  p = u32[] replica-id()  ROOT r = u32[] add(a, p) }
        ENTRY e { a = u32[] constant(1)  ROOT f = u32[] call(a), to_apply=which }""",
    ],
    ids=[
        "whole tuple", "element that waits", "nested tuple", "custom", "random numbers", "number of the device",
        "call with the number of the replica",
    ],
)  # fmt: skip
def test_fusions_and_calls_that_stay(text: str):
    assert_leaves("fold", text)


ADD = "sum { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] add(a, b) }\n"


def test_windows_over_one_number_are_computed_once():
    assert_makes(
        "fold",
        ADD + """ENTRY e { o = bf16[] constant(1)  x = bf16[40,10,10,32] broadcast(o), dimensions={}
          z = bf16[] constant(0)
          ROOT r = bf16[40,5,5,32] reduce-window(x, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=sum }""",
        "ENTRY e { c = bf16[] constant(4)  ROOT r = bf16[40,5,5,32] broadcast(c), dimensions={} }",
    )  # fmt: skip


@pytest.mark.parametrize("window", ["size=2x2 pad=1_0x0_0", "size=2x2 pad=0_1x0_0", "size=2x2 lhs_dilate=2x1"])
def test_windows_that_reach_beyond_the_array_differ(window: str):
    rows = {"size=2x2 lhs_dilate=2x1": 598}.get(window, 300)
    text = f"""{ADD}ENTRY e {{ o = bf16[] constant(1)  x = bf16[300,9] broadcast(o), dimensions={{}}
      z = bf16[] constant(0)  ROOT r = bf16[{rows},8] reduce-window(x, z), window={{{window}}}, to_apply=sum }}"""
    assert_leaves("fold", text)


@pytest.mark.parametrize(
    ("exponent", "is_folded"), [("0", True), ("63", True), ("-1", False), ("-2", False), ("64", False), ("100", False)]
)
def test_powers_of_integers_that_xla_computes_in_several_ways_stay(exponent: str, is_folded: bool):
    """XLA's simplifier, its folding and its code differ in powers by less than 0 and by more than 63."""
    called = f"f {{ x = s32[] parameter(0)  e = s32[] constant({exponent})  ROOT p = s32[] power(x, e) }}"
    one = f"ENTRY e {{ x = s32[] constant(3)  e = s32[] constant({exponent})  ROOT p = s32[] power(x, e) }}"
    many = f"""ENTRY e {{ x = s32[] constant(3)  e = s32[] constant({exponent})  y = s32[4] broadcast(x), dimensions={{}}
      b = s32[4] broadcast(e), dimensions={{}}  ROOT p = s32[4] power(y, b) }}"""
    within = f"{called}\nENTRY e {{ x = s32[] constant(3)  ROOT r = s32[] call(x), to_apply=f }}"
    for text in (one, many, within):
        opcodes = {node.opcode for node in hloom.opt(hloom.parse(text), "fold")[0].entry.nodes}
        assert bool(opcodes & {"power", "call"}) != is_folded


@pytest.mark.parametrize(
    "text",
    [
        "c = s32[4] constant({305419896, -1, 0, 559038737})\n ROOT b = s4[4,8]{1,0:E(4)} bitcast-convert(c)",
        "c = s4[2,8] constant({{0,1,2,3,4,5,6,7},{-8,-7,-6,-5,-4,-3,-2,-1}})\n ROOT b = s32[2] bitcast-convert(c)",
        "c = s4[16]{0:E(4)} constant({0,1,2,3,4,5,6,7,-8,-7,-6,-5,-4,-3,-2,-1})\n ROOT b = s8[8]{0} bitcast(c)",
        "c = f32[2,2]{1,0:T(2,128)} constant({{1,2},{3,4}})\n ROOT b = f32[4]{0:T(256)} bitcast(c)",
        """f { p = s32[1] parameter(0)  b = s4[1,8] bitcast-convert(p)  ROOT c = s8[1,8] convert(b) }
        ENTRY e { c = s32[1] constant({305419896})  ROOT r = s8[1,8] call(c), to_apply=f }""",
        """f { p = c64[8] parameter(0)  ROOT f = c64[8] fft(p), fft_type=FFT, fft_length={32} }
        ENTRY e { n = c64[] constant((0, 0))  c = c64[8] broadcast(n), dimensions={}
          d = c64[8] constant({(0,0), (1,0), (0,0), (0,0), (0,0), (0,0), (0,0), (0,0)})
          ROOT r = c64[8] call(d), to_apply=f }""",
    ],
    ids=["to parts of bytes", "from parts of bytes", "parts of bytes as they are", "tiles", "in a call", "length of fft"],
)  # fmt: skip
def test_what_each_backend_does_its_own_way_stays(text: str):
    assert_leaves("fold", text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "c = f32[4] constant({1, 2, 3, 4})\n s = f32[2] slice(c), slice={[2:4]}\n p = f32[2] parameter(0)\n"
            "ROOT o = f32[2] add(s, p)",
            "c = f32[2] constant({3, 4})\n p = f32[2] parameter(0)\n ROOT o = f32[2] add(c, p)",
        ),
        (
            """f = f32[2] constant({1.5, 2.5})  i = s32[2] constant({7, -3})  a = s32[2] convert(f)  b = s8[2] convert(i)
            c = s32[2] convert(b)  p = s32[2] parameter(0)  d = s32[2] add(a, p)  ROOT o = s32[2] add(d, c)""",
            """f = f32[2] constant({1.5, 2.5})  a = s32[2] convert(f)  c = s32[2] constant({7, -3})
            p = s32[2] parameter(0)  d = s32[2] add(a, p)  ROOT o = s32[2] add(d, c)""",
        ),
        (
            """c = f32[4] constant({1, 2, 3, 4})  z = f32[] constant(0)  a = f32[6] pad(c, z), padding=1_1
            m = pred[4] constant({1, 0, 1, 0})  d = f32[4] constant({5, 6, 7, 8})  s = f32[4] select(m, c, d)
            i = s32[] constant(1)  y = f32[2] dynamic-slice(d, i), dynamic_slice_sizes={2}
            ROOT t = (f32[6], f32[4], f32[2]) tuple(a, s, y)""",
            """a = f32[6] constant({0, 1, 2, 3, 4, 0})  s = f32[4] constant({1, 6, 3, 8})  y = f32[2] constant({6, 7})
            ROOT t = (f32[6], f32[4], f32[2]) tuple(a, s, y)""",
        ),
    ],
    ids=["slice", "conversions", "pad, select and slice"],
)
def test_floats_are_moved_but_not_computed_on_demand(before: str, after: str):
    assert_makes("fold(floats=0)", before, after)


@pytest.mark.parametrize(
    "text",
    [
        "a = f32[4] constant({1, 2, 3, 4})\n b = f32[4] constant({5, 6, 7, 8})\n ROOT c = f32[4] add(a, b)",
        """f { p = f32[2] parameter(0)  m = f32[2] multiply(p, p)  ROOT c = s32[2] convert(m) }
        ENTRY e { c = f32[2] constant({1.5, 2.5})  ROOT f = s32[2] fusion(c), kind=kLoop, calls=f }""",
        "a = f32[] constant(1)\n b = f32[9] broadcast(a), dimensions={}\n ROOT c = f32[9] exponential(b)",
        "a = c64[] constant((1, 2))\n ROOT r = f32[] imag(a)",
    ],
    ids=["sum", "fusion", "one number", "complex"],
)
def test_floats_that_stay_on_demand(text: str):
    assert_leaves("fold(floats=0)", text)
    assert apply(hloom.parse(text if "ENTRY" in text else f"ENTRY e {{ {text} }}"), "fold")[1].changed


def test_constants_are_as_small_as_asked_for():
    assert_makes(
        "fold(floats=0, elements=1)",
        """a = u32[4] constant({1, 2, 3, 4})  b = u32[4] constant({5, 6, 7, 8})  x = u32[4] xor(a, b)
        c = u32[] constant(6)  d = u32[] constant(3)  y = u32[] xor(c, d)  z = u32[4] broadcast(y), dimensions={}
        ROOT o = u32[4] add(x, z)""",
        """a = u32[4] constant({1, 2, 3, 4})  b = u32[4] constant({5, 6, 7, 8})  x = u32[4] xor(a, b)
        y = u32[] constant(5)  z = u32[4] broadcast(y), dimensions={}  ROOT o = u32[4] add(x, z)""",
    )


def test_limits_that_are_none():
    with pytest.raises(HloomError, match="fold: floats is 0 or 1, not '2'"):
        limited_folding(floats=2)
    with pytest.raises(HloomError, match="fold: elements is a number of elements, not 'few'"):
        limited_folding(elements="few")


def test_results_of_a_reduction_keep_their_layouts():
    text = """add2 { a = s32[] parameter(0)  b = s32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
      e = s32[] add(a, c)  f = s32[] add(b, d)  ROOT t = (s32[], s32[]) tuple(e, f) }
    ENTRY e { c = s32[2,2]{1,0} constant({{1, 2}, {3, 4}})  d = s32[2,2]{1,0} constant({{10, 20}, {30, 40}})
      z = s32[] constant(0)  r = (s32[2]{0:T(128)}, s32[2]{0:T(128)}) reduce(c, d, z, z), dimensions={0}, to_apply=add2
      g = s32[2]{0:T(128)} get-tuple-element(r), index=0  h = s32[2]{0:T(128)} get-tuple-element(r), index=1
      p = s32[2]{0:T(128)} parameter(0)  a = s32[2]{0:T(128)} subtract(p, g)  ROOT o = s32[2]{0:T(128)} multiply(a, h) }"""
    after = """c = s32[2]{0:T(128)} constant({4, 6})  d = s32[2]{0:T(128)} constant({40, 60})
      p = s32[2]{0:T(128)} parameter(0)  a = s32[2]{0:T(128)} subtract(p, c)
      ROOT o = s32[2]{0:T(128)} multiply(a, d)"""
    assert_makes("fold", text, after, runs=False)
