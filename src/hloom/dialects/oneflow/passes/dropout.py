"""Dropout of biased values as one op that is given a mask."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.dialects.oneflow.passes import native_functions as native_functions
from hloom.dialects.oneflow.passes.typed_numbers import f32, si64
from hloom.rewrite import PatternBuilder, Rule, rule


def _fuse(p: PatternBuilder, seed: int | None, *, keeps_mask_type: bool) -> None:
    a, b = p.value("a"), p.value("b", rank=1)
    axis, rate = p.attribute("axis"), p.attribute("rate")
    biased = p.op("oneflow.bias_add", a, b, axis=axis)
    out, mask = p.op("oneflow.dropout", biased, rate=rate, results=2, effects=True)
    p.where(b.shape[0] == a.shape[axis], rate <= 1)
    p.where_same(biased, out, "device_tag", "device_name")
    scale = p.choose(rate < 1, 1 / (1 - rate), 1.0)
    with p.rewrite() as r:
        m = r.op(
            "oneflow.random_mask_like",
            a,
            type=mask.type if keeps_mask_type else None,
            rate=rate,
            seed=si64(p.call("oneflow.seed", biased, seed)),
            op_name=biased.op_name,
            carry=out,
            drop=["output_lbns"],
        )
        f = r.op("oneflow.fused_bias_add_mask_scale", a, b, m, axis=axis, scale=f32(scale), carry=out)
        r.replace({out: f, mask: m})


def fuse_bias_add_dropout(seed: int | None = None) -> Rule:
    """The rule, with the seed that the first match's mask gets (`oneflow.seed` says what later ones get)."""

    @rule(rows=OPS)
    def fuse_bias_add_dropout(p: PatternBuilder) -> None:
        """dropout(bias_add(a, b)) -> fused_bias_add_mask_scale(a, b, random_mask_like(a))

        What dropout keeps is scaled by 1 / (1 - rate). At rate 1 nothing is kept: the mask is zero everywhere, and the
        scale stays 1.0, where that formula has no value. No match where dropout adds to an output, where bias_add is
        used twice, where the devices differ, or where dropout's own mask is used: the new one has the type of a.
        """
        _fuse(p, seed, keeps_mask_type=False)

    return fuse_bias_add_dropout


def fuse_bias_add_dropout_with_mask(seed: int | None = None) -> Rule:
    """The rule for a dropout whose mask is used, tried after `fuse_bias_add_dropout`."""

    @rule(rows=OPS)
    def fuse_bias_add_dropout_with_mask(p: PatternBuilder) -> None:
        """dropout(bias_add(a, b)) -> fused_bias_add_mask_scale(a, b, random_mask_like(a)), the mask used

        As without users of the mask, but the new mask has the type of dropout's (si8 in OneFlow 0.9.0).
        """
        _fuse(p, seed, keeps_mask_type=True)

    return fuse_bias_add_dropout_with_mask
