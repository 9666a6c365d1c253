"""The assertions for users: what passes, and what the messages name."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.testing import assert_bytes_accessed, assert_equivalent, assert_flops, assert_no_collective

MODULE = parse("""
HloModule step

ENTRY main {
  a = f32[8,8] parameter(0)
  d = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="model.py" source_line=12}
  ROOT g = f32[32,8] all-gather(d), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={source_file="model.py" source_line=13}
}
""")
LOOP = parse("""
body {
  t = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  j = s32[] add(i, i)
  ROOT r = (s32[], s32[]) tuple(j, n)
}
condition {
  t = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  t = (s32[], s32[]) parameter(0)
  ROOT w = (s32[], s32[]) while(t), condition=condition, body=body
}
""")


def test_flops_within_bounds():
    assert_flops(MODULE, at_most=1024, at_least=1024)
    assert_bytes_accessed(MODULE, at_most=1e4)


def test_too_many_flops_name_the_costliest_instructions():
    with pytest.raises(AssertionError) as caught:
        assert_flops(MODULE, at_most=1000)
    assert str(caught.value).splitlines()[:2] == [
        "step takes 1,024 FLOPs, more than 1,000:",
        "  1,024 FLOPs: main/d = f32[8,8] dot  model.py:12",
    ]


def test_too_few_flops():
    with pytest.raises(AssertionError, match="step takes 1,024 FLOPs, fewer than 2,000"):
        assert_flops(MODULE, at_least=2000)


def test_an_upper_bound_needs_trip_counts():
    with pytest.raises(AssertionError, match="the data decide how often w run"):
        assert_flops(LOOP, at_most=100)
    assert_flops(LOOP, at_most=100, trip_counts={"w": 10})


def test_no_collective():
    assert_no_collective(MODULE, "all-reduce", "all-to-all")
    assert_no_collective(LOOP)
    with pytest.raises(AssertionError) as caught:
        assert_no_collective(MODULE, "all-gather")
    assert str(caught.value) == (
        "step should hold no all-gather, but holds 1:\n  main/g = f32[32,8] all-gather  model.py:13"
    )
    with pytest.raises(AssertionError, match="should hold no collective"):
        assert_no_collective(MODULE)


def test_an_opcode_that_does_not_communicate_is_refused():
    with pytest.raises(ValueError, match="add is not a collective"):
        assert_no_collective(MODULE, "add")


def program(body: str) -> str:
    return f"ENTRY e {{\n  x = f32[5] parameter(0)\n  {body}\n}}"


def test_equivalent_programs():
    twice = program("ROOT y = f32[5] add(x, x)")
    assert_equivalent(
        twice,
        program("c = f32[] constant(2)\n  b = f32[5] broadcast(c), dimensions={}\n  ROOT y = f32[5] multiply(x, b)"),
    )
    with pytest.raises(AssertionError, match=r"(?s)the programs differ in 1 of 1 outputs:\n  output 0: f32\[5\]"):
        assert_equivalent(twice, program("ROOT y = f32[5] multiply(x, x)"))


def test_what_differs_is_named_with_its_instructions_and_source_lines():
    line = 'metadata={source_file="model.py" source_line=7}'
    one = program(f"y = f32[5] sine(x)\n  z = f32[5] add(x, x), {line}\n  ROOT t = (f32[5], f32[5]) tuple(y, z)")
    other = program("y = f32[5] sine(x)\n  z = f32[5] multiply(x, x)\n  ROOT t = (f32[5], f32[5]) tuple(y, z)")
    with pytest.raises(AssertionError) as failed:
        assert_equivalent(one, other)
    assert str(failed.value).splitlines()[1].startswith("  output 1: f32[5]")
    assert str(failed.value).splitlines()[2:] == [
        "    <z = f32[5] add(x, x)>  model.py:7",
        "    <z = f32[5] multiply(x, x)>  (unknown)",
        "  hloom's evaluator, too, finds that the programs differ; XLA agrees with it on the first program and on the second program",
    ]
