"""Constant folding: before and after."""

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply
from hloom.passes.rules.constant_folding import CONSTANT_FOLDING, element_of_constant, fold_constants, fold_uniform
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
