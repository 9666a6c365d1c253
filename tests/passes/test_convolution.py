"""Convolutions: before => after."""

import pytest

import hloom
from hloom.passes.rules.convolution import CONVOLUTION, CONVOLUTION_INEXACT
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, module_of

BOTH = [*CONVOLUTION_INEXACT, *CONVOLUTION]


def convolved(body: str, result: str, window: str, labels: str, more: str = "") -> str:
    return f"{body}\nROOT c = {result} convolution(x, y), window={{{window}}}, dim_labels={labels}{more}"


def test_no_features():
    body = "x = f32[2,5,0] parameter(0)\ny = f32[3,0,4] parameter(1)\n"
    after = f"{body}z = f32[] constant(0)\nROOT b = f32[2,3,4] broadcast(z), dimensions={{}}"
    assert_rewrites(CONVOLUTION, convolved(body, "f32[2,3,4]", "size=3", "b0f_0io->b0f"), after)


PADS = [
    ("1_1", "size=3", "size=3 pad=1_1"),
    ("1_2", "size=3 pad=10_20", "size=3 pad=11_22"),
    ("1_2_3", "size=3", "size=3 pad=1_2 lhs_dilate=4"),
    ("0_0_3", "size=3 pad=1_0", ""),
    ("1_0", "size=3 lhs_dilate=2", ""),
    ("0_0_1", "size=3 lhs_dilate=2", ""),
    ("-1_0", "size=3 pad=2_0", ""),
]


@pytest.mark.parametrize(("padding", "before", "after"), PADS)
def test_a_padded_image(padding: str, before: str, after: str):
    for rules, element in ((CONVOLUTION, "s32"), (CONVOLUTION_INEXACT, "f32")):
        if after:
            assert_rewrites(rules, _padded(element, padding, before), _unpadded(element, padding, before, after))
        else:
            assert_keeps(rules, _padded(element, padding, before))
    assert_keeps(CONVOLUTION, _padded("f32", padding, before))


def _padded(element: str, padding: str, window: str) -> str:
    pad = (
        f"p = {element}[2,9,2] parameter(0)\nz = {element}[] constant(0)\n"
        f"x = {element}[2,{_size(padding)},2] pad(p, z), padding=0_0x{padding}x0_0\n"
    )
    result = f"{element}[2,{_positions(_size(padding), window)},4]"
    return convolved(f"{pad}y = {element}[3,2,4] parameter(1)", result, window, "b0f_0io->b0f")


def _unpadded(element: str, padding: str, before: str, after: str) -> str:
    operands = f"x = {element}[2,9,2] parameter(0)\ny = {element}[3,2,4] parameter(1)"
    result = f"{element}[2,{_positions(_size(padding), before)},4]"
    return convolved(operands, result, after, "b0f_0io->b0f")


def _size(padding: str) -> int:
    low, high, inner = (*map(int, padding.split("_")), 0)[:3]
    return 9 + low + high + 8 * inner


def _positions(size: int, window: str) -> int:
    parts = dict(part.split("=") for part in window.split())
    low, high = map(int, parts.get("pad", "0_0").split("_"))
    return low + high + (size - 1) * int(parts.get("lhs_dilate", "1")) + 1 - int(parts["size"]) + 1


def test_padded_features_and_other_numbers_stay():
    rest = "y = f32[3,3,4] parameter(1)"
    pad = "p = f32[2,9,2] parameter(0)\nz = f32[] constant(0)\nx = f32[2,9,3] pad(p, z), padding=0_0x0_0x1_0\n"
    assert_keeps(BOTH, convolved(pad + rest, "f32[2,7,4]", "size=3", "b0f_0io->b0f"))
    pad = "p = f32[2,8,3] parameter(0)\nz = f32[] constant(1)\nx = f32[2,9,3] pad(p, z), padding=0_0x0_1x0_0\n"
    assert_keeps(BOTH, convolved(pad + rest, "f32[2,7,4]", "size=3", "b0f_0io->b0f"))


def test_a_kernel_padded_inside():
    image = "x = f32[2,9,2] parameter(0)\n"
    kernel = "p = f32[2,2,4] parameter(1)\nz = f32[] constant(0)\ny = f32[4,2,4] pad(p, z), padding=0_0_2x0_0x0_0"
    before = convolved(image + kernel, "f32[2,6,4]", "size=4", "b0f_0io->b0f", ", operand_precision={high,highest}")
    after = convolved(
        f"{image}y = f32[2,2,4] parameter(1)", "f32[2,6,4]", "size=2 rhs_dilate=3", "b0f_0io->b0f",
        ", operand_precision={high,highest}",
    )  # fmt: skip
    assert_rewrites(CONVOLUTION_INEXACT, before, after)
    assert_keeps(CONVOLUTION, before)
    edge = kernel.replace("[2,2,4]", "[3,2,4]").replace("0_0_2", "1_0")
    assert_keeps(BOTH, convolved(image + edge, "f32[2,6,4]", "size=4", "b0f_0io->b0f"))


def test_a_kernel_that_is_larger_than_the_image():
    operands = "x = f32[3,2,5] parameter(0)\ny = f32[4,32,5] parameter(1)\n"
    before = convolved(
        operands,
        "f32[4,32,2]",
        "size=32 pad=30_30 rhs_reversal=1",
        "0bf_o0i->f0b",
        ", operand_precision={high,highest}",
    )
    after = (
        f"{operands}ROOT c = f32[4,32,2] convolution(y, x), window={{size=3 pad=1_1 rhs_reversal=1}}, "
        "dim_labels=b0f_0oi->b0f, operand_precision={highest,high}"
    )
    assert_rewrites(BOTH, before, after)


def test_one_channel_per_group():
    operands = "x = f32[1,10,4,2] parameter(0)\ny = f32[1,10,1,1] parameter(1)\n"
    before = convolved(operands, "f32[1,10,4,2]", "size=1x1", "bf01_io01->bf01", ", feature_group_count=10")
    after = (
        f"{operands}r = f32[1,10] reshape(y)\nb = f32[1,10,4,2] broadcast(r), dimensions={{0,1}}\n"
        "ROOT m = f32[1,10,4,2] multiply(x, b)"
    )
    assert_rewrites(BOTH, before, after)


@pytest.mark.parametrize("window", ["size=1x1 stride=2x1", "size=1x1 pad=1_1x0_0", "size=1x1 lhs_dilate=2x1"])
def test_windows_that_skip_or_pad_stay(window: str):
    dims = {"stride": 2, "pad": 6, "lhs_dilate": 7}[window.split()[1].split("=")[0]]
    operands = "x = f32[1,10,4,2] parameter(0)\ny = f32[1,10,1,1] parameter(1)\n"
    text = convolved(operands, f"f32[1,10,{dims},2]", window, "bf01_io01->bf01", ", feature_group_count=10")
    assert_keeps(BOTH, text)


def test_a_kernel_of_one_element_is_a_matrix():
    operands = "x = f32[10,2,2,3] parameter(0)\ny = f32[1,1,3,10] parameter(1)\n"
    before = convolved(operands, "f32[10,2,2,10]", "size=1x1", "b01f_01io->b01f")
    after = (
        f"{operands}a = f32[40,3] reshape(x)\nb = f32[3,10] reshape(y)\n"
        "d = f32[40,10] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\nROOT r = f32[10,2,2,10] reshape(d)"
    )
    assert_rewrites(BOTH, before, after)


def test_a_kernel_of_one_element_whose_dimensions_would_move_stays():
    operands = "x = f32[10,2,2,3] parameter(0)\ny = f32[1,1,10,3] parameter(1)\n"
    assert_keeps(BOTH, convolved(operands, "f32[10,2,2,10]", "size=1x1", "b01f_01oi->b01f"))
    operands = "x = f32[10,3,2,2] parameter(0)\ny = f32[1,1,3,10] parameter(1)\n"
    assert_keeps(BOTH, convolved(operands, "f32[10,10,2,2]", "size=1x1", "bf01_01io->bf01"))


def test_a_convolution_of_points_is_no_product_before_layouts_are_assigned():
    text = """x = f32[8,5,5,3] parameter(0)
    k = f32[1,1,3,16] parameter(1)
    ROOT c = f32[8,5,5,16] convolution(x, k), window={size=1x1}, dim_labels=b01f_01io->b01f"""
    assert not hloom.opt(module_of(text), "simplify-xla")[1].changed
    product, _ = hloom.opt(module_of(text), "convolution-to-dot")
    assert [node.opcode for node in product.entry.nodes if node.opcode in ("dot", "convolution")] == ["dot"]
