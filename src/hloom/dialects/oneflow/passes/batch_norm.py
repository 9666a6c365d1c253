"""Batch normalisation, with an addition and a relu behind it."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.dialects.oneflow.passes import native_functions as native_functions
from hloom.dialects.oneflow.passes.typed_numbers import segments
from hloom.dialects.oneflow.rows import RESULT_SEGMENTS, SEGMENTS
from hloom.rewrite import ANY, PatternBuilder, rule

SUMS = ("oneflow.add_n2", "oneflow.add_n", "oneflow.broadcast_add")
OPERANDS = ("x", "moving_mean", "moving_variance", "gamma", "beta")
GIVEN = {SEGMENTS: ANY, RESULT_SEGMENTS: ANY}


@rule(rows=OPS)
def fuse_normalization_add_relu(p: PatternBuilder) -> None:
    """relu(normalization(x...) + addend) -> normalization_add_relu(x, addend...), in training

    The mean and the inverse deviation of the batch are replaced too.
    """
    x, *statistics = map(p.value, OPERANDS)
    addend = p.value("addend")
    numbers = p.attributes("axis", "epsilon", "momentum")
    y, mean, inverse = p.op(
        "oneflow.normalization", x, *statistics, **numbers, training=True, attributes=GIVEN, results=3
    )
    out = p.op("oneflow.relu", p.op(SUMS, y, addend, commutative=True))
    p.where(p.call("oneflow.operands", y) == " ".join(OPERANDS), addend.type == x.type)
    p.where_same(y, out, "device_tag", "device_name")
    with p.rewrite() as r:
        sizes = {SEGMENTS: segments(1, 1, 1, 1, 1, 1), RESULT_SEGMENTS: segments(1, 1, 1, 1)}
        fused, _, new_mean, new_inverse = r.op(
            "oneflow.normalization_add_relu",
            x,
            addend,
            *statistics,
            **numbers,
            training=True,
            attributes=sizes,
            results=4,
            carry=out,
        )
        r.replace({out: fused, mean: new_mean, inverse: new_inverse})


@rule(rows=OPS)
def fuse_normalization_infer_add_relu(p: PatternBuilder) -> None:
    """relu(normalization_infer(x...) + addend) -> normalization_add_relu(x, addend...)"""
    x, *statistics = map(p.value, OPERANDS)
    addend, training = p.value("addend"), p.attribute("training")
    numbers = p.attributes("axis", "epsilon", "momentum")
    opcodes = ("oneflow.normalization_infer", "oneflow.normalization")
    y = p.op(opcodes, x, *statistics, **numbers, training=training, attributes=GIVEN)
    out = p.op("oneflow.relu", p.op(SUMS, y, addend, commutative=True))
    p.where((y.opcode == "oneflow.normalization_infer") | ~training, addend.type == x.type)
    p.where_same(y, out, "device_tag", "device_name")
    with p.rewrite() as r:
        sizes = {SEGMENTS: segments(1, 1, 1, 1, 1, 1), RESULT_SEGMENTS: segments(1, 1, 0, 0)}
        fused, _ = r.op(
            "oneflow.normalization_add_relu",
            x,
            addend,
            *statistics,
            **numbers,
            training=False,
            attributes=sizes,
            results=2,
            carry=out,
        )
        r.replace({out: fused})


FUSE_NORMALIZATION = (fuse_normalization_add_relu, fuse_normalization_infer_add_relu)
