"""Constants that all calls give (`constant_propagation.py`); restates cases of XLA's hlo_constant_folding_test.cc."""

from __future__ import annotations

import pytest

import hloom
from hloom.ir import Module, verify
from hloom.passes import apply
from tests.passes.pass_assertions import assert_leaves, assert_same_outputs

CALLED = """
f { a = f32[4] parameter(0)  b = f32[4] parameter(1)  i = f32[4] iota(), iota_dimension=0
  s = f32[4] add(a, i)  ROOT r = f32[4] add(s, b) }
"""
ONE = "k = f32[4] constant({1, -1, 1, -1})"
TWO = "l = f32[4] constant({2, -2, 2, -2})"


def program(*lines: str, called: str = CALLED) -> str:
    return called + "ENTRY e {\n" + "\n".join(lines) + "\n}"


def propagated(text: str, *then: str) -> Module:
    before = hloom.parse(text)
    after, report = apply(before, ["propagate-constants", *then])
    verify(after)
    assert report.passes[0].changed
    assert_same_outputs(before, after)
    return after


X, Y = "x = f32[4] parameter(0)", "y = f32[4] parameter(1)"


@pytest.mark.parametrize(
    "lines",
    [
        (X, ONE, "ROOT c = f32[4] call(k, x), to_apply=f"),
        (X, Y, ONE, "c = f32[4] call(k, x), to_apply=f", "d = f32[4] call(k, y), to_apply=f", "ROOT s = f32[4] add(c, d)"),
        (
            X, Y, ONE, ONE.replace("k =", "l ="), "c = f32[4] call(k, x), to_apply=f", "d = f32[4] call(l, y), to_apply=f",
            "ROOT s = f32[4] add(c, d)",
        ),
    ],
)  # fmt: skip
def test_a_constant_of_all_calls_is_folded_with_what_is_there(lines: tuple[str, ...]):
    after = propagated(program(*lines), "fold", "dce")
    computed = [node.opcode for node in after["f"].nodes if node.opcode != "parameter"]
    assert computed == ["constant", "add"]


def test_some_operands_are_constants_of_all_calls():
    called = """
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
      m = f32[] multiply(a, b)  s = f32[] subtract(m, c)  ROOT r = f32[] add(s, d) }
    """
    lines = (
        "x = f32[] parameter(0)", "k = f32[] constant(1)", "l = f32[] constant(2)",
        "p = f32[] call(k, l, x, l), to_apply=f", "q = f32[] call(k, x, k, l), to_apply=f", "ROOT s = f32[] add(p, q)",
    )  # fmt: skip
    after = propagated(program(*lines, called=called))
    assert [[operand.opcode for operand in node.operands] for node in after["f"].nodes if len(node.operands) > 1] == [
        ["constant", "parameter"], ["multiply", "parameter"], ["subtract", "constant"],
    ]  # fmt: skip


def test_constants_go_through_calls_of_calls():
    called = CALLED + "g { a = f32[4] parameter(0)  b = f32[4] parameter(1)  ROOT c = f32[4] call(a, b), to_apply=f }\n"
    after = propagated(program(X, ONE, "ROOT c = f32[4] call(k, x), to_apply=g", called=called), "fold", "dce")
    assert [node.opcode for node in after["f"].nodes] == ["parameter", "constant", "add"]


@pytest.mark.parametrize(
    "text",
    [
        program(
            X, Y, ONE, TWO, "c = f32[4] call(k, x), to_apply=f", "d = f32[4] call(l, y), to_apply=f",
            "ROOT s = f32[4] add(c, d)",
        ),
        program(X, ONE, "ROOT c = f32[4] call(k, x), to_apply=f", called=CALLED.replace("add(a, i)", "negate(i)")),
        program(X, Y, "ROOT c = f32[4] call(x, y), to_apply=f"),
        program(X, "k = f32[4] constant({...})", "ROOT c = f32[4] call(k, x), to_apply=f"),
        program(
            X, "k = f32[2000] constant({...})", "c = f32[2000] call(k), to_apply=f", "d = f32[2000] call(k), to_apply=f",
            "ROOT t = (f32[2000], f32[2000]) tuple(c, d)",
            called="f { a = f32[2000] parameter(0)  ROOT r = f32[2000] negate(a) }\n",
        ),
    ],
)  # fmt: skip
def test_calls_that_differ_or_read_nothing(text: str):
    assert_leaves("propagate-constants", text)


def test_computations_that_others_than_calls_use_stay():
    text = """
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[4] parameter(0)  k = f32[] constant(1)  l = f32[] constant(2)
      r = f32[] reduce(x, k), dimensions={0}, to_apply=f  c = f32[] call(k, l), to_apply=f  ROOT s = f32[] add(r, c) }
    """
    assert_leaves("propagate-constants", text)
