"""Which instructions are fused into kernels of the library."""

from __future__ import annotations

from tests.xla_cpu.programs import BIG, program, stored


def test_a_reduction_fuses_operands_that_only_it_reads():
    lines = (
        f"x = {BIG} parameter(0)",
        "zero = f32[] constant(0)",
        f"a = {BIG} negate(x)",
        "s = f32[256] reduce(a, zero), dimensions={1}, to_apply=add",
        f"b = {BIG} tanh(x)",
        "t = f32[256] reduce(b, zero), dimensions={1}, to_apply=add",
        f"c = {BIG} multiply(b, b)",
        f"ROOT r = (f32[256], f32[256], {BIG}) tuple(s, t, c)",
    )
    assert stored(program(*lines)) == ["b"]
