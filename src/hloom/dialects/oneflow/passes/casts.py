"""Casts that change nothing."""

from __future__ import annotations

from hloom.dialects.oneflow.ops import OPS
from hloom.rewrite import ANY, PatternBuilder, rule


@rule(rows=OPS)
def remove_cast_to_same_type(p: PatternBuilder) -> None:
    """cast(x) -> x, where x has that type already"""
    x = p.value("x")
    out = p.op("oneflow.cast", x, attributes={"dtype": ANY})
    p.where(x.dtype == out.dtype)
    with p.rewrite() as r:
        r.replace({out: x})
