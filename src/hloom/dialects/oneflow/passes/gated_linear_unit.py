"""Gated linear units: one half of a product with weights, times an activation of the other."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.dialects.oneflow.passes import native_functions as native_functions
from hloom.dialects.oneflow.passes.typed_numbers import segments
from hloom.dialects.oneflow.rows import RESULT_SEGMENTS, SEGMENTS
from hloom.rewrite import Handle, PatternBuilder, rule

ACTIVATIONS = ("oneflow.gelu", "oneflow.fast_gelu", "oneflow.silu", "oneflow.sigmoid", "oneflow.relu")
PRODUCTS = ("oneflow.broadcast_matmul", "oneflow.matmul")


def _gate(p: PatternBuilder, x: Handle, w: Handle, b: Handle, biased: Handle) -> None:
    """What stands behind the biased product, and the replacement."""
    dim, half = p.attribute("dim"), p.attribute("half")
    hidden = p.op("oneflow.narrow", biased, dim=dim, start=0, length=half)
    gate = p.op("oneflow.narrow", biased, dim=dim, start=half, length=half)
    active = p.op(ACTIVATIONS, gate)
    out = p.op(("oneflow.broadcast_mul", "oneflow.multiply"), hidden, active, commutative=True)
    p.where(dim % biased.rank == biased.rank - 1, 2 * half == w.shape[0], b.shape[0] == w.shape[0])
    p.where_same(biased, out, "device_tag", "device_name")
    p.equivalence(reason="products may be summed up in another order", finite=True, tolerance=1e-5)
    with p.rewrite() as r:
        y, products = r.op(
            "oneflow.fused_glu",
            x,
            w,
            b,
            activation=p.call("oneflow.short-name", active.opcode),
            has_bias=True,
            is_split=False,
            attributes={SEGMENTS: segments(1, 1, 1, 0, 0), RESULT_SEGMENTS: segments(1, 1, 0)},
            results=2,
            carry=out,
        )
        r.replace({out: y, biased: products})


@rule(rows=OPS)
def fuse_glu(p: PatternBuilder) -> None:
    """biased = broadcast_matmul(x, w) + b, narrow(biased) * gelu(narrow(biased)) -> fused_glu(x, w, b)

    The first half of the last dimension is the value, the second half the gate; `biased`, which may be used elsewhere,
    is the fused op's second result.
    """
    x, w, b = p.value("x"), p.value("w", rank=2), p.value("b", rank=1)
    product = p.op(PRODUCTS, x, w, transpose_b=True)
    _gate(p, x, w, b, p.op("oneflow.broadcast_add", product, b, commutative=True))


@rule(rows=OPS)
def fuse_glu_of_bias_add(p: PatternBuilder) -> None:
    """The same, where the bias is added by bias_add along the last dimension"""
    x, w, b, axis = p.value("x"), p.value("w", rank=2), p.value("b", rank=1), p.attribute("axis")
    biased = p.op("oneflow.bias_add", p.op(PRODUCTS, x, w, transpose_b=True), b, axis=axis)
    p.where(axis % biased.rank == biased.rank - 1)
    _gate(p, x, w, b, biased)


@rule(rows=OPS)
def fuse_glu_of_matmul_bias(p: PatternBuilder) -> None:
    """The same, where product and bias are one op already"""
    x, w, b = p.value("x"), p.value("w", rank=2), p.value("b", rank=1)
    _gate(p, x, w, b, p.op("oneflow.fused_matmul_bias", x, w, b))


FUSE_GLU = (fuse_glu, fuse_glu_of_bias_add, fuse_glu_of_matmul_bias)
