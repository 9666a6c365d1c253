"""Which copies of loops' states, branches' results and operands written over remain."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.targets.cpu import simulate_buffers
from tests.targets.cpu.programs import BIG, SUM, schedule

STATE = f"(s32[], {BIG}, {BIG})"


def loop(*body: str, result: str) -> str:
    """A loop over a counter and two arrays `a` and `b`, whose body yields `result`."""
    lines = (
        f"p = {STATE} parameter(0)",
        "i = s32[] get-tuple-element(p), index=0",
        f"a = {BIG} get-tuple-element(p), index=1",
        f"b = {BIG} get-tuple-element(p), index=2",
        "one = s32[] constant(1)",
        "j = s32[] add(i, one)",
        *body,
        f"ROOT r = {STATE} tuple(j, {result})",
    )
    return (
        "HloModule m\n"
        + SUM
        + "body {\n"
        + "\n".join(lines)
        + f"\n}}\ncond {{\n  q = {STATE} parameter(0)\n  k = s32[] get-tuple-element(q), index=0\n"
        + "  n = s32[] constant(9)\n  ROOT t = pred[] compare(k, n), direction=LT\n}\n"
        + f"ENTRY main {{\n  x = {BIG} parameter(0)\n  y = {BIG} parameter(1)\n  z = s32[] constant(0)\n"
        + f"  u = {BIG} tanh(x)\n  v = {BIG} tanh(y)\n  s = {STATE} tuple(z, u, v)\n"
        + f"  w = {STATE} while(s), condition=cond, body=body\n  ROOT o = {BIG} get-tuple-element(w), index=1\n}}\n"
    )


def big_copies(text: str) -> int:
    """How many copies there are of arrays, those of the loop's counter aside."""
    live = simulate_buffers(parse(text))
    return sum(step.opcode == "copy" and "256" in str(step.type) for step in live.steps)


@pytest.mark.parametrize(
    ("body", "result", "copies"),
    [
        ((f"c = {BIG} multiply(a, a)",), "c, b", 0),
        ((f"c = {BIG} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",), "c, b", 1),
        ((), "b, a", 4),
        ((f"c = {BIG} add(a, b)", f"d = {BIG} subtract(a, b)"), "c, d", 2),
    ],
    ids=["in place", "read by what replaces it", "swapped", "each read by both"],
)
def test_a_loop_copies_what_may_still_be_read_when_it_is_overwritten(
    body: tuple[str, ...], result: str, copies: int
):
    assert big_copies(loop(*body, result=result)) == copies


def test_an_array_that_is_read_after_its_update_is_copied():
    text = f"""HloModule m
ENTRY main {{
  x = {BIG} parameter(0)
  row = f32[1,256] parameter(1)
  zero = s32[] constant(0)
  a = {BIG} tanh(x)
  u = {BIG} dynamic-update-slice(a, row, zero, zero)
  ROOT r = ({BIG}, {BIG}) tuple(u, READ)
}}
"""
    read = text.replace("READ", "d").replace("  ROOT", f"  d = {BIG} dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  ROOT")
    assert "copy" in schedule(read)
    assert "copy" not in schedule(text.replace(f", {BIG})", ")").replace(", READ", ""))
