"""The order of kernels."""

from __future__ import annotations

from tests.xla_cpu.programs import BIG, program, schedule


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
