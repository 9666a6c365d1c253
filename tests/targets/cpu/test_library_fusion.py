"""Which instructions are fused into kernels of the library."""

from __future__ import annotations

from tests.targets.cpu.programs import BIG, program, stored


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


def test_a_reduction_fuses_no_product_of_a_matrix_with_a_vector():
    lines = (
        "v = f32[256] parameter(0)",
        f"x = {BIG} parameter(1)",
        "zero = f32[] constant(0)",
        "d = f32[256] dot(v, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "b = f32[256,32] broadcast(d), dimensions={0}",
        "ROOT s = f32[] reduce(b, zero), dimensions={0,1}, to_apply=add",
    )
    assert stored(program(*lines)) == ["d"]


def test_a_reduction_fuses_nothing_in_the_layout_of_transposed_operands():
    lines = (
        "x = f32[8,4,64,64] parameter(0)",
        "m = f32[64,64] parameter(1)",
        "e = f32[4,8,64,64] parameter(2)",
        "zero = f32[] constant(0)",
        "y = f32[8,4,64,64] tanh(x)",
        "t = f32[4,8,64,64] transpose(y), dimensions={1,0,2,3}",
        "b = f32[4,8,64,64] broadcast(m), dimensions={2,3}",
        "p = f32[4,8,64,64] multiply(t, b)",
        "q = f32[4,8,64,64] multiply(p, e)",
        "ROOT s = f32[4,8,64] reduce(q, zero), dimensions={3}, to_apply=add",
    )
    assert stored(program(*lines)) == ["p"]
