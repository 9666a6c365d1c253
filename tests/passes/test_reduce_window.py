"""Reductions over windows: before => after."""

import pytest

from hloom.passes.rules.reduce_window import REDUCE_WINDOW, REDUCE_WINDOW_INEXACT
from tests.passes.computations import program
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

BOTH = [*REDUCE_WINDOW_INEXACT, *REDUCE_WINDOW]
ZERO = "z = f32[] constant(0)\n"
LOWEST = "z = f32[] constant(-inf)\n"


def windowed(body: str, result: str, window: str, op: str = "add_f32", start: str = ZERO) -> str:
    return program(f"{start}{body}\nROOT r = {result} reduce-window(x, z), window={{{window}}}, to_apply={op}")


def test_windows_over_nothing():
    after = program(f"{ZERO}x = f32[0] parameter(0)\nROOT b = f32[2] broadcast(z), dimensions={{}}")
    assert_rewrites(REDUCE_WINDOW, windowed("x = f32[0] parameter(0)", "f32[2]", "size=1 pad=1_1"), after)


def test_windows_of_one_element():
    x = "x = f32[4,3] parameter(0)"
    after = f"{ZERO}{x}\nb = f32[4,3] broadcast(z), dimensions={{}}\nROOT a = f32[4,3] add(x, b)"
    assert_rewrites(REDUCE_WINDOW, windowed(x, "f32[4,3]", "size=1x1"), program(after))


def test_padded_windows_of_one_element():
    x = "x = f32[4,3] parameter(0)"
    after = (
        f"{LOWEST}{x}\nb = f32[4,3] broadcast(z), dimensions={{}}\nm = f32[4,3] maximum(x, b)\n"
        "ROOT p = f32[7,10] pad(m, z), padding=1_2x3_4"
    )
    before = windowed(x, "f32[7,10]", "size=1x1 pad=1_2x3_4", "maximum_f32", LOWEST)
    assert_rewrites(REDUCE_WINDOW, before, program(after))


def test_windows_of_one_element_that_skip_or_turn_stay():
    x = "x = f32[4,3] parameter(0)"
    assert_keeps(BOTH, windowed(x, "f32[4,2]", "size=1x1 stride=1x2"))
    assert_keeps(BOTH, windowed(x, "f32[7,3]", "size=1x1 lhs_dilate=2x1"))
    assert_keeps(BOTH, windowed(x, "f32[4,3]", "size=1x1 rhs_dilate=2x1"))
    assert_keeps(BOTH, windowed(x, "f32[4,3]", "size=1x1 rhs_reversal=1x1"))


def test_windows_of_an_unknown_computation_stay():
    head = "second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }\n"
    text = windowed("x = f32[4] parameter(0)", "f32[4]", "size=1", "second")
    assert_keeps(BOTH, head + text)


def test_a_start_that_is_met_twice_on_the_padding_stays():
    one = "z = f32[] constant(1)\n"
    assert_keeps(BOTH, windowed("x = f32[4] parameter(0)", "f32[5]", "size=1 pad=1_0", start=one))


def test_windows_as_large_as_dimensions():
    x = "x = s32[3,4,5] parameter(0)"
    zero = "z = s32[] constant(0)\n"
    after = f"{zero}{x}\nr = s32[3] reduce(x, z), dimensions={{1,2}}, to_apply=add_s32\nROOT s = s32[3,1,1] reshape(r)"
    assert_rewrites(REDUCE_WINDOW, windowed(x, "s32[3,1,1]", "size=1x4x5", "add_s32", zero), program(after))
    assert_keeps(REDUCE_WINDOW, windowed(x, "s32[3,1,5]", "size=1x4x5 pad=0_0x0_0x2_2", "add_s32", zero))


def test_a_pad_goes_into_the_window():
    five = "z = f32[] constant(5)\n"
    body = "p = f32[1,2,3,4] parameter(0)\nx = f32[1,3,3,6] pad(p, z), padding=0_0x1_0x0_0x0_2"
    window = "size=2x2x2x2 pad={} lhs_dilate=1x1x1x3"
    before = windowed(body, "f32[20,112,112,125]", window.format("10_10x10_100x10_100x10_100"), start=five)
    after = (
        f"{five}p = f32[1,2,3,4] parameter(0)\nROOT r = f32[20,112,112,125] reduce-window(p, z), "
        f"window={{{window.format('10_10x11_100x10_100x10_106')}}}, to_apply=add_f32"
    )
    assert_rewrites(BOTH, before, program(after))


def test_a_pad_inside_becomes_a_dilation():
    body = "p = f32[4] parameter(0)\nx = f32[8] pad(p, z), padding=0_1_1"
    after = program(
        f"{ZERO}p = f32[4] parameter(0)\n"
        "ROOT r = f32[7] reduce-window(p, z), window={size=2 pad=0_1 lhs_dilate=2}, to_apply=add_f32"
    )
    assert_rewrites(REDUCE_WINDOW, windowed(body, "f32[7]", "size=2"), after)
    assert_keeps(REDUCE_WINDOW, windowed(body, "f32[14]", "size=2 lhs_dilate=2"))


def test_a_pad_below_a_conversion():
    narrow = "n = bf16[] constant(0)\n"
    body = f"{narrow}p = bf16[6] parameter(0)\nq = bf16[8] pad(p, n), padding=1_1\nx = f32[8] convert(q)"
    after = program(
        f"{ZERO}p = bf16[6] parameter(0)\nx = f32[6] convert(p)\n"
        "ROOT r = f32[7] reduce-window(x, z), window={size=2 pad=1_1}, to_apply=add_f32"
    )
    assert_rewrites(REDUCE_WINDOW, windowed(body, "f32[7]", "size=2"), after)
    little = body.replace("[6]", "[23]").replace("[8]", "[24]").replace("1_1", "1_0")
    assert_keeps(REDUCE_WINDOW, windowed(little, "f32[23]", "size=2"))


def test_a_pad_of_a_start_that_counts_stays_or_is_taken_for_neutral():
    five, p = "z = f32[] constant(5)\n", "p = f32[4] parameter(0)"
    before = windowed(f"{p}\nx = f32[6] pad(p, z), padding=1_1", "f32[5]", "size=2", start=five)
    assert_keeps(REDUCE_WINDOW, before)
    after = windowed(p, "f32[5]", "size=2 pad=1_1", start=five)
    assert_rewrites(BOTH, before, after.replace("(x, z)", "(p, z)"))


def test_a_pad_of_another_number_stays():
    body = "o = f32[] constant(1)\np = f32[4] parameter(0)\nx = f32[6] pad(p, o), padding=1_1"
    assert_keeps(BOTH, windowed(body, "f32[5]", "size=2"))


def test_a_pad_that_cuts_below_a_window_that_pads_stays():
    body = "p = f32[6] parameter(0)\nx = f32[5] pad(p, z), padding=-1_0"
    assert_keeps(BOTH, windowed(body, "f32[5]", "size=2 pad=1_0"))


def test_windows_that_hold_one_element_each():
    body = "p = f32[2,1,3] parameter(0)\nx = f32[2,5,3] pad(p, z), padding=0_0x2_2x0_0"
    after = "p = f32[2,1,3] parameter(0)\ns = f32[2,3] reshape(p)\nROOT b = f32[2,3,3] broadcast(s), dimensions={0,2}"
    before = windowed(body, "f32[2,3,3]", "size=1x3x1", "maximum_f32", LOWEST)
    assert_rewrites(REDUCE_WINDOW, before, program(after))
    assert_rewrites(BOTH, windowed(body, "f32[2,3,3]", "size=1x3x1"), program(after))


def test_a_window_over_a_scalar():
    x = "x = f32[] parameter(0)"
    before = program(f"{ZERO}{x}\nROOT r = f32[] reduce-window(x, z), to_apply=add_f32")
    assert_rewrites(BOTH, before, program(f"ROOT {x}"))
    assert_rewrites(REDUCE_WINDOW, before, program(f"{ZERO}{x}\nROOT a = f32[] add(x, z)"))


def test_a_running_sum_of_one_number():
    window = "size=1x5 pad=0_0x4_0"
    body = "c = {e}[] constant(2)\nx = {e}[3,5] broadcast(c), dimensions={{}}"
    after = (
        "i = s32[3,5] iota(), iota_dimension=1\no = s32[] constant(1)\nb = s32[3,5] broadcast(o), dimensions={{}}\n"
        "n = s32[3,5] add(i, b)\n{convert}c = {e}[] constant(2)\nv = {e}[3,5] broadcast(c), dimensions={{}}\n"
        "ROOT m = {e}[3,5] multiply(v, {count})"
    )
    zero = "z = s32[] constant(0)\n"
    integers = windowed(body.format(e="s32"), "s32[3,5]", window, "add_s32", zero)
    assert_rewrites(REDUCE_WINDOW, integers, program(after.format(e="s32", convert="", count="n")))
    floats = windowed(body.format(e="f32"), "f32[3,5]", window)
    assert_keeps(REDUCE_WINDOW, floats)
    converted = program(after.format(e="f32", convert="f = f32[3,5] convert(n)\n", count="f"))
    assert_rewrites(REDUCE_WINDOW_INEXACT, floats, converted)


def test_scattering_nothing():
    before = (
        f"{ZERO}x = f32[4] parameter(0)\ny = f32[0] parameter(1)\n"
        "ROOT r = f32[4] select-and-scatter(x, y, z), window={size=5}, select=ge_f32, scatter=add_f32"
    )
    after = f"{ZERO}x = f32[4] parameter(0)\ny = f32[0] parameter(1)\nROOT b = f32[4] broadcast(z), dimensions={{}}"
    assert_rewrites(REDUCE_WINDOW, program(before), program(after))


def test_selecting_from_single_elements():
    head = f"{ZERO}x = f32[4] parameter(0)\ny = f32[4] parameter(1)\n"
    scatter = "ROOT r = f32[4] select-and-scatter(x, y, z), window={size=1}, select=ge_f32, scatter=add_f32"
    after = "b = f32[4] broadcast(z), dimensions={}\nROOT a = f32[4] add(y, b)"
    assert_rewrites(REDUCE_WINDOW, program(head + scatter), program(head + after))


def test_the_last_of_a_running_sum_is_the_sum():
    assert_rewrites(
        REDUCE_WINDOW_INEXACT,
        program(
            "x = s32[2,8] parameter(0)\n z = s32[] constant(0)\n"
            "w = s32[2,8] reduce-window(x, z), window={size=1x8 pad=0_0x7_0}, to_apply=add_s32\n"
            "ROOT s = s32[2,1] slice(w), slice={[0:2], [7:8]}"
        ),
        program(
            "x = s32[2,8] parameter(0)\n z = s32[] constant(0)\n"
            "r = s32[2] reduce(x, z), dimensions={1}, to_apply=add_s32\n ROOT s = s32[2,1] reshape(r)"
        ),
    )


@pytest.mark.parametrize("part", ["[0:2], [6:7]", "[0:1], [7:8]"])
def test_another_place_of_a_running_sum_stays(part: str):
    rows = 2 if part.startswith("[0:2]") else 1
    assert_keeps(
        REDUCE_WINDOW_INEXACT,
        program(
            "x = s32[2,8] parameter(0)\n z = s32[] constant(0)\n"
            "w = s32[2,8] reduce-window(x, z), window={size=1x8 pad=0_0x7_0}, to_apply=add_s32\n"
            f"ROOT s = s32[{rows},1] slice(w), slice={{{part}}}"
        ),
    )


def test_windows_over_several_arrays_of_nothing():
    both = (
        "both {\n a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n d = s32[] parameter(3)\n"
        "e = f32[] add(a, c)\n f = s32[] add(b, d)\n ROOT t = (f32[], s32[]) tuple(e, f)\n}\n"
    )
    given = "x = f32[3,0] parameter(0)\n y = s32[3,0] parameter(1)\n s = f32[] parameter(2)\n t = s32[] parameter(3)\n"
    window = "window={size=1x1 pad=1_1x1_1}, to_apply=both"
    assert_rewrites(
        REDUCE_WINDOW,
        f"{both}ENTRY e {{\n{given}ROOT r = (f32[5,2], s32[5,2]) reduce-window(x, y, s, t), {window}\n}}",
        f"ENTRY e {{\n{given}b = f32[5,2] broadcast(s), dimensions={{}}\n c = s32[5,2] broadcast(t), dimensions={{}}\n"
        "ROOT r = (f32[5,2], s32[5,2]) tuple(b, c)\n}",
    )
