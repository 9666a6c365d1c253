"""What stands before and behind a convolution, folded into it."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.dialects.oneflow.passes import native_functions as native_functions
from hloom.dialects.oneflow.passes.typed_numbers import f64, segments, si32, si64
from hloom.dialects.oneflow.rows import RESULT_SEGMENTS, SEGMENTS
from hloom.rewrite import ANY, PatternBuilder, Rule, rule

SHAPE = ("data_format", "filters", "kernel_size", "strides", "dilation_rate", "groups")
"""What stays of a convolution's attributes where its padding changes."""


@rule(rows=OPS)
def fold_pad_into_conv(p: PatternBuilder) -> None:
    """conv2d(pad(x), w...) -> conv2d(x, w...), with the padding added to the convolution's own

    Where the image is padded with zeros, on its two sides alone, as much before as after.
    """
    x, rest = p.value("x"), p.values("rest")
    before, after, own = p.attribute("before"), p.attribute("after"), p.attribute("own")
    kept = p.attributes(*SHAPE, SEGMENTS)
    padded = p.op(
        "oneflow.pad",
        x,
        padding_before=before,
        padding_after=after,
        floating_constant_value=0,
        integral_constant_value=0,
    )
    out = p.op("oneflow.conv2d", padded, rest, padding_before=own, **kept)
    is_last = kept["data_format"] == "channels_last"
    p.where(before == after, before[0] == 0, before[p.choose(is_last, 3, 1)] == 0)
    p.where_same(padded, out, "device_tag", "device_name")
    height, width = before[p.choose(is_last, 1, 2)], before[p.choose(is_last, 2, 3)]
    p.where(height >= 0, width >= 0)
    with p.rewrite() as r:
        padding = (si32(own[0] + height), si32(own[1] + width))
        r.replace({out: r.op("oneflow.conv2d", x, rest, padding_before=padding, **kept, carry=out)})


def _fold_batch_norm(p: PatternBuilder, *, has_bias: bool) -> None:
    x, weight = p.value("x"), p.value("weight", rank=4)
    bias = [p.value("bias", rank=1)] if has_bias else []
    mean, variance, gamma, beta = (p.value(name, rank=1) for name in ("mean", "variance", "gamma", "beta"))
    axis, epsilon, training = p.attribute("axis"), p.attribute("epsilon"), p.attribute("training")
    kept = p.attributes(*SHAPE, "padding_before")
    convolved = p.op("oneflow.conv2d", x, weight, *bias, **kept, attributes={SEGMENTS: ANY})
    out = p.op(
        ("oneflow.normalization_infer", "oneflow.normalization"),
        convolved,
        mean,
        variance,
        gamma,
        beta,
        axis=axis,
        epsilon=epsilon,
        training=training,
        momentum=ANY,
        attributes={SEGMENTS: ANY, RESULT_SEGMENTS: ANY},
    )
    p.where((out.opcode == "oneflow.normalization_infer") | ~training)
    p.where(axis % 4 == p.choose(kept["data_format"] == "channels_last", 3, 1))
    p.where(p.call("oneflow.operands", convolved) == ("in weight bias" if has_bias else "in weight"))
    p.where_same(convolved, out, "device_tag", "device_name")
    p.equivalence(reason="weights are scaled before they are summed up", finite=True, positive=True, tolerance=1e-4)
    with p.rewrite() as r:

        def beside(opcode, *operands, suffix, **attributes):
            name = p.call("oneflow.named-after", out, suffix)
            return r.op(f"oneflow.{opcode}", *operands, op_name=name, carry=out, drop=["output_lbns"], **attributes)

        shifted = beside(
            "scalar_add", variance, has_float_operand=True, float_operand=f64(epsilon), suffix="variance-shifted"
        )
        deviation = beside("sqrt", shifted, suffix="deviation")
        scale = beside("broadcast_div", gamma, deviation, suffix="scale")
        column = beside("reshape", scale, shape=(si64(weight.shape[0]), *[si64(1)] * 3), suffix="scale-column")
        scaled = beside("broadcast_mul", weight, column, suffix="weight-scaled")
        if has_bias:
            centred = beside("broadcast_sub", *bias, mean, suffix="bias-centred")
            offset = beside("broadcast_mul", centred, scale, suffix="bias-scaled")
            whole = beside("broadcast_add", beta, offset, suffix="bias")
        else:
            offset = beside("broadcast_mul", mean, scale, suffix="mean-scaled")
            whole = beside("broadcast_sub", beta, offset, suffix="bias")
        sizes = {SEGMENTS: segments(1, 1, 1, 0)}
        r.replace({out: r.op("oneflow.conv2d", x, scaled, whole, **kept, attributes=sizes, carry=out)})


@rule(rows=OPS)
def fold_batch_norm_into_conv(p: PatternBuilder) -> None:
    """normalization_infer(conv2d(x, w)) -> conv2d(x, w * s, beta - mean * s), s = gamma / sqrt(variance + epsilon)

    Each channel is scaled in the weights rather than in the result: products are rounded otherwise.
    """
    _fold_batch_norm(p, has_bias=False)


@rule(rows=OPS)
def fold_batch_norm_into_conv_with_bias(p: PatternBuilder) -> None:
    """normalization_infer(conv2d(x, w, b)) -> conv2d(x, w * s, beta + (b - mean) * s), s as without a bias"""
    _fold_batch_norm(p, has_bias=True)


FOLD_BATCH_NORM: tuple[Rule, ...] = (fold_batch_norm_into_conv, fold_batch_norm_into_conv_with_bias)
