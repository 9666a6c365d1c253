"""convert, bitcast-convert, complex parts and rounding: before => after."""

import pytest

from hloom.passes.rules.convert import CONVERT
from tests.passes.forms import becomes, stays
from tests.passes.pass_assertions import assert_leaves, assert_makes
from tests.passes.rule_assertions import assert_rewrites


def test_nothing_to_convert():
    becomes(CONVERT, "f32[4]", "$T convert(x)", "x")
    becomes(CONVERT, "bf16[4]", "$T bitcast-convert(x)", "x")


@pytest.mark.parametrize(
    ("element", "wider"),
    [("f16", "f32"), ("bf16", "f64"), ("u8", "s16"), ("s32", "f64"), ("pred", "s8"), ("s8", "f16")],
)
def test_there_and_back(element: str, wider: str):
    becomes(CONVERT, f"{element}[4]", f"$T convert({wider}[4] convert(x))", "x")


@pytest.mark.parametrize(
    ("element", "narrower"),
    [("f32", "f16"), ("f16", "bf16"), ("bf16", "f16"), ("s8", "u16"), ("s32", "f32"), ("s16", "f16")],
)
def test_what_loses_values(element: str, narrower: str):
    stays(CONVERT, f"{element}[4]", f"$T convert({narrower}[4] convert(x))")


def test_one_conversion_decides():
    becomes(CONVERT, "f16[4]", "s32[4] convert(f32[4] convert(x))", "s32[4] convert(x)")
    becomes(CONVERT, "s8[4]", "u8[4] convert(s32[4] convert(x))", "u8[4] convert(x)")
    stays(CONVERT, "s16[4]", "s8[4] convert(f32[4] convert(x))")


def test_integers_computed_wide():
    becomes(CONVERT, "s8[4]", "$T convert(add(s32[4] convert(x), s32[4] convert(y)))", "add(x, y)")
    becomes(CONVERT, "u8[4]", "$T convert(divide(u16[4] convert(x), u16[4] convert(y)))", "divide(x, y)")
    stays(CONVERT, "s8[4]", "$T convert(divide(s16[4] convert(x), s16[4] convert(y)))")
    stays(CONVERT, "s8[4]", "$T convert(add(u16[4] convert(x), u16[4] convert(y)))")
    stays(CONVERT, "s4[4]", "$T convert(add(s8[4] convert(x), s8[4] convert(y)))")
    stays(CONVERT, "f16[4]", "$T convert(add(f32[4] convert(x), f32[4] convert(y)))")


def test_bits():
    becomes(CONVERT, "s16[4]", "f16[4] bitcast-convert(u16[4] bitcast-convert(x))", "f16[4] bitcast-convert(x)")
    becomes(CONVERT, "s16[4]", "$T bitcast-convert(u16[4] bitcast-convert(x))", "x")
    joined = "c = u32[8] concatenate(u32[4] bitcast-convert(x), u32[4] bitcast-convert(y)), dimensions={0}\n"
    becomes(CONVERT, "s32[4]", f"{joined}s32[8] bitcast-convert(c)", "c = s32[8] concatenate(x, y), dimensions={0}\nc")
    stays(CONVERT, "f32[4]", f"{joined}s32[8] bitcast-convert(c)")


def test_bitcasts_around_one_op():
    becomes(
        CONVERT,
        "f32[4]",
        "b = f32[2,2] bitcast(x)\nn = f32[2,2] negate(b)\nf32[1,4] bitcast(n)",
        "n = f32[4] negate(x)\nf32[1,4] bitcast(n)",
    )
    stays(CONVERT, "f32[4]", "b = s32[4] bitcast(x)\nn = s32[4] negate(b)\nf32[4] bitcast(n)")
    moved = "b = f32[2,2]{1,0} bitcast(x)\nn = f32[2,2]{0,1} negate(b)\nf32[4]{0} bitcast(n)"
    stays(CONVERT, "f32[4]{0}", moved)


def test_parts_of_complex_numbers():
    becomes(CONVERT, "c64[4]", "complex(real(x), imag(x))", "x")
    becomes(CONVERT, "f32[4]", "real(complex(x, y))", "x")
    becomes(CONVERT, "f32[4]", "imag(complex(x, y))", "y")
    becomes(CONVERT, "f32[4]", "real(x)", "x")
    becomes(CONVERT, "f32[4]", "imag(x)", "#0")
    stays(CONVERT, "c64[4]", "complex(imag(x), real(x))")


def test_whole_numbers():
    becomes(CONVERT, "f32[4]", "floor(ceil(x))", "ceil(x)")
    becomes(CONVERT, "s32[4]", "floor(f32[4] convert(x))", "f32[4] convert(x)")
    becomes(
        CONVERT,
        "s32[4]",
        "is-finite(f32[4] convert(x))",
        "c = pred[] constant(true)\nb = pred[4] broadcast(c), dimensions={}\nb",
    )
    stays(CONVERT, "s32[4]", "is-finite(f16[4] convert(x))")


def test_parts_of_reals_of_dynamic_dimensions():
    assert_rewrites(
        CONVERT,
        "x = f32[<=8] parameter(0)  ROOT i = f32[<=8] imag(x)",
        "x = f32[<=8] parameter(0)  z = f32[] constant(0)  ROOT i = f32[<=8] broadcast(z), dimensions={}",
    )


def test_roundings_between_go_on_demand():
    single = "p = f32[2,3] parameter(0)\nc = bf16[2,3] convert(p)\nROOT r = (bf16[2,3]) tuple(c)"
    assert_leaves("drop-roundings", single)
    back = "p = f32[2,3] parameter(0)\nc = bf16[2,3] convert(p)\nd = f32[2,3] convert(c)\nROOT r = (f32[2,3]) tuple(d)"
    assert_makes("drop-roundings", back, "p = f32[2,3] parameter(0)\nROOT r = (f32[2,3]) tuple(p)", runs=False)
    chain = "p = f64[2] parameter(0)\nc = f16[2] convert(p)\nd = f32[2] convert(c)\nROOT b = bf16[2] convert(d)"
    assert_makes("drop-roundings", chain, "p = f64[2] parameter(0)\nROOT b = bf16[2] convert(p)", runs=False)


def test_integers_between_stay():
    assert_leaves("drop-roundings", "p = f32[2] parameter(0)\nc = s32[2] convert(p)\nROOT d = f32[2] convert(c)")
    assert_leaves("drop-roundings", "p = f32[2] parameter(0)\nc = bf16[2] convert(p)\nROOT d = s32[2] convert(c)")
