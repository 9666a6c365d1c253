"""Sums: bias_add with gelu, and additions one after the other."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.rewrite import PatternBuilder, rule

SUMS = ("oneflow.add_n2", "oneflow.add_n")


@rule(rows=OPS)
def fuse_bias_add_gelu(p: PatternBuilder) -> None:
    """gelu(bias_add(a, b)) -> fused_bias_add_gelu(a, b)"""
    a, b, axis = p.value("a"), p.value("b"), p.attribute("axis")
    biased = p.op("oneflow.bias_add", a, b, axis=axis)
    out = p.op("oneflow.gelu", biased)
    p.where_same(biased, out, "device_tag", "device_name")
    with p.rewrite() as r:
        r.replace({out: r.op("oneflow.fused_bias_add_gelu", a, b, axis=axis, carry=out)})


@rule(rows=OPS)
def add_first(p: PatternBuilder) -> None:
    """add_n(add_n(x...), y...) -> add_n(x..., y...)

    The same additions in the same order.
    """
    inner = p.op(SUMS, xs := p.values("xs"))
    out = p.op(SUMS, inner, ys := p.values("ys"))
    p.where_same(inner, out, "device_tag", "device_name")
    with p.rewrite() as r:
        r.replace({out: r.op("oneflow.add_n", xs, ys, carry=out)})


@rule(rows=OPS)
def add_second(p: PatternBuilder) -> None:
    """add_n(y, add_n(x...)) -> add_n(x..., y)

    The same additions; the last one has its operands exchanged, which changes no sum.
    """
    y, inner = p.value("y"), p.op(SUMS, xs := p.values("xs"))
    out = p.op(SUMS, y, inner)
    p.where_same(inner, out, "device_tag", "device_name")
    with p.rewrite() as r:
        r.replace({out: r.op("oneflow.add_n", xs, y, carry=out)})


@rule(benefit=2, rows=OPS)
def add_both(p: PatternBuilder) -> None:
    """add_n(add_n(x...), add_n(y...)) -> add_n(x..., y...)

    In another order: the sums of floating-point numbers may be rounded otherwise, as by OneFlow's own pass.
    """
    left, right = p.op(SUMS, xs := p.values("xs")), p.op(SUMS, ys := p.values("ys"))
    out = p.op(SUMS, left, right)
    p.where(left.as_node() != right.as_node())
    p.where_same(left, right, out, "device_tag", "device_name")
    p.equivalence(reason="the order of additions changes", finite=True, positive=True, tolerance=1e-6)
    with p.rewrite() as r:
        r.replace({out: r.op("oneflow.add_n", xs, ys, carry=out)})


FUSE_BIAS_ADD_GELU = (fuse_bias_add_gelu,)
FUSE_ADD_N = (add_both, add_first, add_second)
