"""A pad before a convolution, and a batch normalisation behind it: before and after, and where they stay.

Covers `convolution.py`, `batch_norm.py`.
"""

from __future__ import annotations

import pytest

from tests.dialects.oneflow.jobs import assert_kept, assert_rewrites, job

CPU, GPU = ', device_tag = "cpu"', ', device_tag = "gpu"'
W, C = "tensor<4x3x2x2xf32>", "tensor<4xf32>"


def conv(padding="0 : si32, 0 : si32", layout="channels_first", segments="1, 1, 0, 0") -> str:
    return (
        f'data_format = "{layout}", dilation_rate = [1 : si32, 1 : si32], filters = 4 : si32, groups = 1 : si32,'
        f' kernel_size = [2 : si32, 2 : si32], op_name = "conv", operand_segment_sizes = dense<[{segments}]> :'
        f" vector<4xi32>, padding_before = [{padding}], strides = [1 : si32, 1 : si32]"
    )


PADDED = {
    "channels_first": ("tensor<1x3x4x5xf32>", W, "tensor<1x4x5x8xf32>"),
    "channels_last": ("tensor<1x4x5x3xf32>", "tensor<4x2x2x3xf32>", "tensor<1x5x8x4xf32>"),
}


def pad_and_conv(
    before=(0, 0, 1, 2), after=None, value="0.000000e+00", own="0 : si32, 0 : si32", layout="channels_first", more=""
) -> str:
    x, w, y = PADDED[layout]
    dims = [int(size) for size in x[7:].split("x")[:-1]]
    after = after or before
    wide = [p + n + q for p, n, q in zip(before, dims, after, strict=True)]
    padded = f"tensor<{'x'.join(map(str, wide))}xf32>"
    w, y = _fitting(wide, w, y, own, layout)
    pads = (", ".join(f"{size} : si64" for size in each_side) for each_side in (before, after))
    lines = (
        f'%0 = "oneflow.pad"(%x) {{padding_before = [{next(pads)}], padding_after = [{next(pads)}],'
        f" floating_constant_value = {value} : f64, integral_constant_value = 0 : si64{more}}} : ({x}) -> {padded}\n"
        f'%y = "oneflow.conv2d"(%0, %w) {{{conv(own, layout)}{GPU if more else ""}}} : ({padded}, {w}) -> {y}'
    )
    return job(f"%x: {x}, %w: {w}", lines, f"%y : {y}")


def _fitting(wide: list[int], w: str, y: str, own: str, layout: str) -> tuple[str, str]:
    """The types of weights and result that fit a padded image."""
    pads = [int(pad.split()[0]) for pad in own.split(",")]
    channels, sides = (wide[3], wide[1:3]) if layout == "channels_last" else (wide[1], wide[2:])
    sides = [side + 2 * pad - 1 for side, pad in zip(sides, pads, strict=True)]
    if layout == "channels_last":
        return f"tensor<4x2x2x{channels}xf32>", f"tensor<{wide[0]}x{sides[0]}x{sides[1]}x4xf32>"
    return f"tensor<4x{channels}x2x2xf32>", f"tensor<{wide[0]}x4x{sides[0]}x{sides[1]}xf32>"


def only_conv(padding: str, layout="channels_first") -> str:
    x, w, y = PADDED[layout]
    line = f'%y = "oneflow.conv2d"(%x, %w) {{{conv(padding, layout)}}} : ({x}, {w}) -> {y}'
    return job(f"%x: {x}, %w: {w}", line, f"%y : {y}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pad_and_conv(), only_conv("1 : si32, 2 : si32")),
        (pad_and_conv((0, 0, 1, 1), own="0 : si32, 1 : si32"), only_conv("1 : si32, 2 : si32")),
        (pad_and_conv((0, 1, 2, 0), layout="channels_last"), only_conv("1 : si32, 2 : si32", "channels_last")),
    ],
)
def test_a_pad_goes_into_the_convolution(before, after):
    assert_rewrites("fold-pad-into-conv", before, after)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (pad_and_conv((0, 0, 1, 2), (0, 0, 1, 1)), "not before == after"),
        (pad_and_conv((1, 0, 1, 2)), "not before[0] == 0"),
        (pad_and_conv((0, 1, 1, 2)), "== 0"),
        (pad_and_conv((0, 0, 1, 2), layout="channels_last"), "== 0"),
        (pad_and_conv((0, 0, -1, 2)), ">= 0"),
        (pad_and_conv(value="1.000000e+00"), "floating_constant_value of oneflow.pad is another"),
        (pad_and_conv(more=CPU), "not oneflow.pad.device_tag == oneflow.conv2d.device_tag"),
    ],
)
def test_a_pad_stays(text, reason):
    assert_kept("fold-pad-into-conv", text, reason)


X, Y = "tensor<1x3x5x6xf32>", "tensor<1x4x4x5xf32>"
ARGUMENTS = f"%x: {X}, %w: {W}, %b: {C}, %mean: {C}, %variance: {C}, %gamma: {C}, %beta: {C}"
NORM = 'axis = {} : si32, epsilon = 1.000000e-01 : f32, momentum = 0.899999976 : f32, op_name = "norm", training = {}'


CONV, BIASED = conv(), conv(segments="1, 1, 1, 0")


def normalised(
    opcode="normalization_infer",
    axis="1",
    training="true",
    bias=False,
    layout=CONV,
    returned=f"%y : {Y}",
    more=("", ""),
) -> str:
    convolved, kinds = ("(%x, %w, %b)", f"{X}, {W}, {C}") if bias else ("(%x, %w)", f"{X}, {W}")
    return job(
        ARGUMENTS,
        f'%0 = "oneflow.conv2d"{convolved} {{{layout}{more[0]}}} : ({kinds}) -> {Y}\n'
        f'%y = "oneflow.{opcode}"(%0, %mean, %variance, %gamma, %beta) {{{NORM.format(axis, training)}{more[1]}}} :'
        f" ({Y}, {C}, {C}, {C}, {C}) -> {Y}",
        returned,
    )


def folded(last: str) -> str:
    return job(
        ARGUMENTS,
        f"""
    %0 = "oneflow.scalar_add"(%variance) {{float_operand = 0.10000000149011612 : f64, has_float_operand = true, op_name = "norm-variance-shifted"}} : ({C}) -> {C}
    %1 = "oneflow.sqrt"(%0) {{op_name = "norm-deviation"}} : ({C}) -> {C}
    %2 = "oneflow.broadcast_div"(%gamma, %1) {{op_name = "norm-scale"}} : ({C}, {C}) -> {C}
    %3 = "oneflow.reshape"(%2) {{op_name = "norm-scale-column", shape = [4 : si64, 1 : si64, 1 : si64, 1 : si64]}} : ({C}) -> tensor<4x1x1x1xf32>
    %4 = "oneflow.broadcast_mul"(%w, %3) {{op_name = "norm-weight-scaled"}} : ({W}, tensor<4x1x1x1xf32>) -> {W}
{last}
    %y = "oneflow.conv2d"(%x, %4, %bias) {{{conv(segments="1, 1, 1, 0").replace('"conv"', '"norm"')}}} : ({X}, {W}, {C}) -> {Y}""",
        f"%y : {Y}",
    )  # fmt: skip


WITHOUT_BIAS = f"""
    %5 = "oneflow.broadcast_mul"(%mean, %2) {{op_name = "norm-mean-scaled"}} : ({C}, {C}) -> {C}
    %bias = "oneflow.broadcast_sub"(%beta, %5) {{op_name = "norm-bias"}} : ({C}, {C}) -> {C}"""
WITH_BIAS = f"""
    %5 = "oneflow.broadcast_sub"(%b, %mean) {{op_name = "norm-bias-centred"}} : ({C}, {C}) -> {C}
    %6 = "oneflow.broadcast_mul"(%5, %2) {{op_name = "norm-bias-scaled"}} : ({C}, {C}) -> {C}
    %bias = "oneflow.broadcast_add"(%beta, %6) {{op_name = "norm-bias"}} : ({C}, {C}) -> {C}"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (normalised(), WITHOUT_BIAS),
        (normalised("normalization", training="false"), WITHOUT_BIAS),
        (normalised(axis="-3"), WITHOUT_BIAS),
        (normalised(bias=True, layout=BIASED), WITH_BIAS),
    ],
)
def test_batch_normalisation_goes_into_the_weights(before, after):
    assert_rewrites("fold-batch-norm-into-conv", before, folded(after))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (normalised(returned=f"%y, %0 : {Y}, {Y}"), "oneflow.conv2d is used elsewhere too"),
        (normalised("normalization"), "| not(training)"),
        (normalised(more=(CPU, GPU)), "not oneflow.conv2d.device_tag == oneflow.normalization_infer.device_tag"),
    ],
)
def test_batch_normalisation_stays(text, reason):
    assert_kept("fold-batch-norm-into-conv", text, reason)


def test_batch_normalisation_of_another_axis_stays():
    y, c = "tensor<1x4x4x4xf32>", "tensor<4xf32>"
    text = normalised(axis="2").replace(Y, y).replace(X, "tensor<1x3x5x5xf32>").replace(C, c)
    assert_kept("fold-batch-norm-into-conv", text, "not (axis % 4) == choose(")


def test_what_is_added_to_a_convolution_is_no_bias():
    text = normalised(bias=True, layout=conv(segments="1, 1, 0, 1")).replace(f"%b: {C}", f"%b: {Y}")
    text = text.replace(f"({X}, {W}, {C})", f"({X}, {W}, {Y})")
    assert_kept("fold-batch-norm-into-conv", text, "bias has another rank than 1")
