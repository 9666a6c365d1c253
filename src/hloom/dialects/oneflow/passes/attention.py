"""Multi-head attention as one op, for inference."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.dialects.oneflow.passes.typed_numbers import f64, segments, si64
from hloom.dialects.oneflow.rows import SEGMENTS
from hloom.rewrite import ANY, Expression, Handle, PatternBuilder, rule

TOLERANCE = 1e-5
"""How far the scale may be from 1 / sqrt(head size), which kernels that take no scale use."""
PRODUCTS = ("oneflow.batch_matmul", "oneflow.broadcast_matmul")
HEADS_FIRST = (0, 2, 1, 3)
"""The permutation from (batch, length, head, feature) to (batch, head, length, feature), and back."""


def _split(p: PatternBuilder, x: Handle, order: tuple[int, ...]) -> tuple[Handle, Handle]:
    """Batch, sequence, heads and head size of an array, and these in another order."""
    split = p.op("oneflow.reshape", x, shape=ANY)
    p.where(split.rank == 4, split.shape[0] == x.shape[0], split.shape[1] == x.shape[1])
    return split, p.op("oneflow.transpose", split, perm=order)


def _flattened(p: PatternBuilder, x: Handle) -> Handle:
    """Batch and heads as one dimension."""
    flat = p.op("oneflow.reshape", x, shape=ANY)
    p.where(flat.rank == 3, flat.shape[1] == x.shape[2], flat.shape[2] == x.shape[3])
    return flat


def _fuse(
    p: PatternBuilder, operands: tuple[Handle, Handle, Handle], queries: Handle, out: Handle, scale: Expression
) -> None:
    """The conditions on scale and result, and the replacement."""
    query, size = operands[0], queries.shape[3]
    p.where(abs(scale - size**-0.5) <= TOLERANCE)
    p.where(out.rank == 3, out.shape[0] == query.shape[0], out.shape[1] == query.shape[1])
    p.where_same(queries, out, "device_tag", "device_name")
    p.equivalence(reason="the products are scaled and summed up otherwise", finite=True, tolerance=1e-5)
    layouts = {f"{name}_layout": "BM(HK)" for name in ("query", "key", "value", "output")}
    with p.rewrite() as r:
        fused = r.op(
            "oneflow.fused_multi_head_attention_inference",
            *operands,
            query_head_size=si64(size),
            scale=f64(scale),
            attn_mask_type="none",
            causal_diagonal_offset=si64(0),
            query_max_seq_len=si64(0),
            key_max_seq_len=si64(0),
            attributes={**layouts, SEGMENTS: segments(1, 1, 1, 0, 0, 0, 0)},
            carry=out,
        )
        r.replace({out: fused})


@rule(rows=OPS)
def fuse_attention_inference(p: PatternBuilder) -> None:
    """softmax(q . k / sqrt(head size)) . v, with q, k and v split into heads, and these joined again

    -> fused_multi_head_attention_inference(query, key, value): 12 ops become one. The scale must be that of the head
    size, to 1e-5; scalar_mul may stand in place of scalar_div.
    """
    query, key, value = (p.value(name, rank=3) for name in ("query", "key", "value"))
    queries, q = _split(p, query, HEADS_FIRST)
    _, k = _split(p, key, (0, 2, 3, 1))
    _, v = _split(p, value, HEADS_FIRST)
    scores = p.op(PRODUCTS, q, k, alpha=(alpha := p.attribute("alpha")))
    by = p.attribute("by")
    scaled = p.op(
        ("oneflow.scalar_div", "oneflow.scalar_mul"),
        scores,
        has_float_operand=True,
        float_operand=by,
        has_int_operand=False,
        int_operand=ANY,
    )
    mixed = p.op(PRODUCTS, p.op("oneflow.softmax", scaled), v)
    out = p.op("oneflow.reshape", p.op("oneflow.transpose", mixed, perm=HEADS_FIRST), shape=ANY)
    scale = p.choose(scaled.opcode == "oneflow.scalar_div", alpha / by, alpha * by)
    _fuse(p, (query, key, value), queries, out, scale)


@rule(rows=OPS)
def fuse_batched_attention_inference(p: PatternBuilder) -> None:
    """The same, where heads and batch are one dimension of the products, and the scale is the first one's alpha"""
    query, key, value = (p.value(name, rank=3) for name in ("query", "key", "value"))
    queries, q = _split(p, query, HEADS_FIRST)
    _, k = _split(p, key, HEADS_FIRST)
    _, v = _split(p, value, HEADS_FIRST)
    q, k, v = (_flattened(p, operand) for operand in (q, k, v))
    k = p.op("oneflow.transpose", k, perm=(0, 2, 1))
    scores = p.op(PRODUCTS, q, k, alpha=(alpha := p.attribute("alpha")))
    mixed = p.op(PRODUCTS, p.op("oneflow.softmax", scores), v)
    heads = p.op("oneflow.reshape", mixed, shape=ANY)
    out = p.op("oneflow.reshape", p.op("oneflow.transpose", heads, perm=HEADS_FIRST), shape=ANY)
    p.where(heads.rank == 4, heads.shape[0] == query.shape[0], heads.shape[2] == query.shape[1])
    _fuse(p, (query, key, value), queries, out, alpha)


FUSE_ATTENTION = (fuse_attention_inference, fuse_batched_attention_inference)
