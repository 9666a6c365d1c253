"""A triangle of scaled values, and a scaled triangle."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.rewrite import PatternBuilder, rule

SCALAR = ("has_float_operand", "float_operand", "has_int_operand", "int_operand")
FILL = ("diagonal", "floating_fill_value", "integer_fill_value", "is_floating_fill_value")


def _scale(scalar: dict) -> dict:
    return {
        "is_floating_scale_value": scalar["has_float_operand"],
        "floating_scale_value": scalar["float_operand"],
        "integer_scale_value": scalar["int_operand"],
    }


@rule(rows=OPS)
def tril_of_scaled(p: PatternBuilder) -> None:
    """tril(scalar_mul(x)) -> fused_scale_tril(x)"""
    x, scalar, fill = p.value("x"), p.attributes(*SCALAR), p.attributes(*FILL)
    scaled = p.op("oneflow.scalar_mul", x, **scalar)
    out = p.op("oneflow.tril", scaled, **fill)
    p.where(scalar["has_float_operand"] | scalar["has_int_operand"])
    p.where_same(scaled, out, "device_tag", "device_name")
    with p.rewrite() as r:
        r.replace({out: r.op("oneflow.fused_scale_tril", x, **fill, **_scale(scalar), carry=out)})


@rule(rows=OPS)
def scaled_tril(p: PatternBuilder) -> None:
    """scalar_mul(tril(x)) -> fused_scale_tril(x), where it is filled with zeros and the scale is finite

    The fused op scales first and then fills; zeros stay what they are either way.
    """
    x, scalar, fill = p.value("x"), p.attributes(*SCALAR), p.attributes(*FILL)
    triangle = p.op("oneflow.tril", x, **fill)
    out = p.op("oneflow.scalar_mul", triangle, **scalar)
    filled = p.choose(fill["is_floating_fill_value"], fill["floating_fill_value"], fill["integer_fill_value"])
    p.where(scalar["has_float_operand"] | scalar["has_int_operand"], filled == 0)
    p.where(~scalar["has_float_operand"] | (scalar["float_operand"] * 0 == 0))
    p.where_same(triangle, out, "device_tag", "device_name")
    with p.rewrite() as r:
        r.replace({out: r.op("oneflow.fused_scale_tril", x, **fill, **_scale(scalar), carry=out)})


FUSE_SCALE_TRIL = (tril_of_scaled, scaled_tril)
