"""What is not fused since its code would be repeated."""

from __future__ import annotations

from tests.targets.cpu.programs import BIG, program, stored


def test_a_concatenate_that_two_kernels_index_is_stored():
    lines = (
        f"x = {BIG} parameter(0)",
        "c = f32[512,256] concatenate(x, x), dimensions={0}",
        f"s = {BIG} slice(c), slice={{[0:256], [0:256]}}",
        f"t = {BIG} slice(c), slice={{[128:384], [0:256]}}",
        f"a = {BIG} negate(s)",
        f"b = {BIG} negate(t)",
    )
    assert stored(program(*lines, f"ROOT r = ({BIG}, {BIG}) tuple(a, b)")) == ["c"]
    assert stored(program(*lines[:3], lines[4], f"ROOT r = ({BIG}) tuple(a)")) == []


def test_a_concatenate_of_long_rows_is_a_kernel_of_its_own():
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} negate(x)",
        "c = f32[256,512] concatenate(a, x), dimensions={1}",
        "ROOT r = f32[256,512] negate(c)",
    )
    assert stored(program(*lines)) == ["a", "c"]
