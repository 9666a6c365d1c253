"""The order of kernels."""

from __future__ import annotations

from tests.targets.cpu.programs import BIG, program, schedule


def test_kernels_run_breadth_first():
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"b = {BIG} dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"c = {BIG} dot(b, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"e = {BIG} dot(x, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        f"ROOT r = ({BIG}, {BIG}) tuple(c, e)",
    )
    assert schedule(program(*lines)) == ["a", "e", "b", "c", "r"]


def test_elements_of_a_loops_result_are_read_in_the_order_of_its_users():
    state = "(s32[], f32[4], f32[5], f32[6])"
    text = f"""HloModule m
body {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[4] get-tuple-element(p), index=1
  b = f32[5] get-tuple-element(p), index=2
  c = f32[6] get-tuple-element(p), index=3
  j = s32[] add(i, i)
  x = f32[4] sine(a)
  y = f32[5] sine(b)
  z = f32[6] sine(c)
  ROOT r = {state} tuple(j, x, y, z)
}}
cond {{
  q = {state} parameter(0)
  k = s32[] get-tuple-element(q), index=0
  ROOT t = pred[] compare(k, k), direction=LT
}}
ENTRY main {{
  s = {state} parameter(0)
  w = {state} while(s), condition=cond, body=body
  u1 = f32[4] get-tuple-element(w), index=1
  u2 = f32[5] get-tuple-element(w), index=2
  u3 = f32[6] get-tuple-element(w), index=3
  ROOT o = (f32[4], f32[5], f32[6]) tuple(u1, u2, u3)
}}
"""
    names = schedule(text)
    assert [name for name in names if name.startswith("u")] == ["u3", "u1", "u2"]
    assert [name for name in names if name in "iabc"] == ["c", "b", "a", "i"]


def test_the_last_user_that_is_computed_before_a_reshape_runs_first():
    lines = (
        "x = f32[64,64] parameter(0)",
        "y = f32[64,1] parameter(1)",
        "zero = f32[] constant(0)",
        "s = f32[64] reduce(x, zero), dimensions={1}, to_apply=add",
        "k = f32[64,1] reshape(s)",
        "a = f32[64,1] exponential(k)",
        "b = f32[64,1] tanh(k)",
        "c = f32[64,1] log(k)",
        "ROOT r = (f32[64,1], f32[64,1], f32[64,1]) tuple(a, b, c)",
    )
    assert schedule(program(*lines)) == ["s", "k", "c", "a", "b", "r"]
    mixed = tuple(line.replace("log(k)", "add(k, y)") for line in lines)
    assert schedule(program(*mixed)) == ["s", "k", "a", "b", "c", "r"]
