"""`check_rule` makes programs for rules of a dozen operations and more, whose types hang together.

Covers `rewrite/unified_types.py` and `rewrite/type_relations.py`.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from hloom.ir import TensorType, dtype
from hloom.rewrite import ANY, Rule, rewrite, rule
from hloom.rewrite.instances import instance
from hloom.testing import check_rule

PRODUCT = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}


def reduced(p: Any, x: Any, initial: Any, dimension: int, opcode: str) -> Any:
    combine = p.graph(lambda a, b: p.op(opcode, a, b))
    return p.op("reduce", x, initial, dimensions=(dimension,), to_apply=combine)


def splat(p: Any, *value: Any) -> Any:
    return p.op("broadcast", p.constant("", *value), dimensions=())


@rule
def rms_norm(p: Any) -> None:
    """x * rsqrt(mean(x * x) + eps) * g -> g * (x * rsqrt(..))"""
    x = p.value("x", dtype="f32", rank=2)
    mean = p.op("divide", reduced(p, p.op("multiply", x, x), p.constant("", 0), 1, "add"), splat(p))
    inverse = p.op("broadcast", p.op("rsqrt", p.op("add", mean, splat(p))), dimensions=(0,))
    scale = p.op("broadcast", p.any(), dimensions=(1,))
    result = p.op("multiply", p.op("multiply", x, inverse), scale, commutative=False)
    with p.rewrite() as r:
        r.replace({result: r.op("multiply", scale, r.op("multiply", x, inverse))})


@rule
def bias_gelu(p: Any) -> None:
    """0.5 y (1 + tanh(k (y + c y y y))), y = x + bias -> y (0.5 (1 + tanh(..)))"""
    y = p.op("add", p.value("x", dtype="f32", rank=2), p.op("broadcast", p.any(), dimensions=(1,)))
    half, c, k, one = splat(p, 0.5), splat(p, 0.044715), splat(p), splat(p, 1.0)
    inner = p.op("multiply", k, p.op("add", y, p.op("multiply", c, p.op("multiply", p.op("multiply", y, y), y))))
    gate = p.op("add", one, p.op("tanh", inner))
    result = p.op("multiply", p.op("multiply", half, y), gate)
    p.equivalence(reason="products of large numbers overflow in one order only", finite=True)
    with p.rewrite() as r:
        r.replace({result: r.op("multiply", y, r.op("multiply", half, gate))})


@rule
def attention(p: Any) -> None:
    """softmax(q k) v -> the same with a reciprocal"""
    q, k, v = p.any(), p.any(), p.any()
    axes = {"lhs_batch_dims": (0,), "rhs_batch_dims": (0,), "lhs_contracting_dims": (2,)}
    scores = p.op("dot", q, k, **axes, rhs_contracting_dims=(2,))
    largest = p.op("broadcast", reduced(p, scores, p.constant("m"), 2, "maximum"), dimensions=(0, 1))
    weights = p.op("exponential", p.op("subtract", scores, largest))
    total = p.op("broadcast", reduced(p, weights, p.constant("z", 0), 2, "add"), dimensions=(0, 1))
    result = p.op("dot", p.op("divide", weights, total), v, **axes, rhs_contracting_dims=(1,))
    p.equivalence(reason="rounds otherwise", finite=True, tolerance=1e-4, dtypes=("f32", "f64"))
    with p.rewrite() as r:
        inverse = r.op("divide", r.constant(1, like=total), total)
        r.replace({result: r.op("dot", r.op("multiply", weights, inverse), v, **axes, rhs_contracting_dims=(1,))})


@rule
def convolution_bias(p: Any) -> None:
    """maximum(conv(x, w) + bias, 0) -> maximum(0, ..)"""
    open_attributes = dict.fromkeys(("window", "dim_labels", "feature_group_count", "batch_group_count"), ANY)
    product = p.op("convolution", p.any(), p.any(), attributes=open_attributes)
    biased = p.op("add", product, p.op("broadcast", p.any(), dimensions=(3,)))
    zero = splat(p, 0)
    result = p.op("maximum", biased, zero, commutative=False)
    with p.rewrite() as r:
        r.replace({result: r.op("maximum", zero, biased)})


@rule
def swiglu(p: Any) -> None:
    """(a * logistic(a) * b) w -> (b * ..) w, a = x u, b = x v"""
    x, w = p.value("x", rank=2, dtype="f32"), p.value("w", rank=2)
    a, b = (p.op("dot", x, p.any(), **PRODUCT) for _ in range(2))
    gate = p.op("multiply", a, p.op("logistic", a))
    result = p.op("dot", p.op("multiply", gate, b, commutative=False), w, **PRODUCT)
    with p.rewrite() as r:
        r.replace({result: r.op("dot", r.op("multiply", b, gate), w, **PRODUCT)})


@rule
def split_heads(p: Any) -> None:
    """negate(transpose(reshape(x) + y)) -> transpose(negate(..))"""
    split = p.op("add", p.op("reshape", p.value("x", rank=3)), p.any())
    moved = p.op("transpose", split, dimensions=(0, 2, 1, 3))
    result = p.op("negate", moved)
    with p.rewrite() as r:
        r.replace({result: r.op("transpose", r.op("negate", split), dimensions=(0, 2, 1, 3))})


@rule
def joined(p: Any) -> None:
    """negate(concatenate(x, y) + z) -> negate(concatenate) - z"""
    both, z = p.op("concatenate", p.any(), p.any(), dimensions=(1,)), p.value("z")
    result = p.op("negate", p.op("add", both, z))
    p.equivalence(reason="the sign of zero", dtypes=("s32",))
    with p.rewrite() as r:
        r.replace({result: r.op("subtract", r.op("negate", both), z)})


@pytest.mark.parametrize(
    "tested", [rms_norm, bias_gelu, attention, convolution_bias, swiglu, split_heads, joined], ids=lambda tested: tested.name
)
def test_most_programs_made_for_a_rule_match(tested: Rule):
    made = [module for seed in range(30) if (module := instance(tested, Random(seed))) is not None]
    fired = sum(rewrite(module.clone(), [tested]).matched > 0 for module in made[:10])
    assert len(made) >= 10 and fired >= 8


@pytest.mark.parametrize("tested", [rms_norm, bias_gelu, attention], ids=lambda tested: tested.name)
def test_equivalence(tested: Rule):
    assert check_rule(tested, firings=8).firings == 8


def test_the_types_that_a_pattern_names_are_drawn():
    module = next(m for seed in range(9) if (m := instance(rms_norm, Random(seed))))
    x = module.entry.parameters[0].type
    assert isinstance(x, TensorType) and x.dtype is dtype("f32") and x.rank == 2
