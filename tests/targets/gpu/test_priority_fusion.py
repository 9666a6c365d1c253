"""Which instructions run as one kernel."""

from __future__ import annotations

from tests.targets.gpu.kernels import stored

BIG = "f32[1024,1024]"
ZERO = "zero = f32[] constant(0)"


def test_what_is_cheap_is_computed_by_all_its_readers():
    lines = (
        f"x = {BIG} parameter(0)",
        ZERO,
        f"a = {BIG} multiply(x, x)",
        f"b = {BIG} add(a, x)",
        "c = f32[1024] reduce(a, zero), dimensions={1}, to_apply=add",
        f"ROOT r = ({BIG}, f32[1024]) tuple(b, c)",
    )
    assert sorted(stored(*lines)) == [f"add {BIG}", "reduce f32[1024]"]


def test_what_takes_longer_than_storing_it_is_computed_once():
    lines = (
        f"x = {BIG} parameter(0)",
        f"t = {BIG} sine(x)",
        f"b = {BIG} add(t, x)",
        f"v = {BIG} transpose(x), dimensions={{1,0}}",
        f"c = {BIG} subtract(t, v)",
        f"ROOT r = ({BIG}, {BIG}) tuple(b, c)",
    )
    assert f"sine {BIG}" in stored(*lines)


def test_a_reduction_is_no_part_of_another_one():
    lines = (
        f"x = {BIG} parameter(0)",
        ZERO,
        "a = f32[1024] reduce(x, zero), dimensions={1}, to_apply=add",
        "b = f32[1024] multiply(a, a)",
        "ROOT c = f32[] reduce(b, zero), dimensions={0}, to_apply=add",
    )
    assert stored(*lines) == ["reduce f32[1024]"]


def test_a_short_sum_is_part_of_what_reads_it():
    lines = (
        "x = f32[4,512,512] parameter(0)",
        ZERO,
        "a = f32[512,512] reduce(x, zero), dimensions={0}, to_apply=add",
        "ROOT b = f32[512,512] tanh(a)",
    )
    assert stored(*lines) == ["tanh f32[512,512]"]


def test_softmax_is_one_kernel():
    lines = (
        f"x = {BIG} parameter(0)",
        ZERO,
        f"e = {BIG} exponential(x)",
        "s = f32[1024] reduce(e, zero), dimensions={1}, to_apply=add",
        f"b = {BIG} broadcast(s), dimensions={{0}}",
        f"ROOT d = {BIG} divide(e, b)",
    )
    assert stored(*lines) == [f"multiply {BIG}"]  # by the inverses of the sums


def test_an_update_computes_what_it_writes():
    lines = (
        f"x = {BIG} parameter(0)",
        "u = f32[8,1024] parameter(1)",
        "zero = s32[] constant(0)",
        "t = f32[8,1024] negate(u)",
        f"ROOT d = {BIG} dynamic-update-slice(x, t, zero, zero)",
    )
    assert stored(*lines) == [f"copy {BIG}", f"dynamic-update-slice {BIG}"]


def test_an_update_reads_nothing_else_of_what_it_overwrites():
    lines = (
        f"x = {BIG} parameter(0)",
        "zero = s32[] constant(0)",
        "t = f32[8,1024] slice(x), slice={[8:16], [0:1024]}",
        f"ROOT d = {BIG} dynamic-update-slice(x, t, zero, zero)",
    )
    assert "slice f32[8,1024]" in stored(*lines)
