"""Rules from a pair of functions, and rules of the other surface: both are the same data."""

from __future__ import annotations

from typing import Any

import pytest

from hloom import ops
from hloom.rewrite import RuleError, rule, rule_from, same_rule
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

AXES = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}


def product_of_negated(x, w):
    """dot(negate(x), w) -> negate(dot(x, w))"""
    return ops.dot(ops.negate(x), w, **AXES)


def negated_product(x, w):
    return ops.negate(ops.dot(x, w, **AXES))


def test_a_pair_of_functions():
    result = rule_from(product_of_negated, negated_product, x="f32[?,?]", w="f32[?,?]")
    arrays = "x = f32[2,3] parameter(0)\n w = f32[3,4] parameter(1)\n"
    axes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert_rewrites(
        result,
        f"{arrays} n = f32[2,3] negate(x)\n ROOT d = f32[2,4] dot(n, w), {axes}",
        f"{arrays} d = f32[2,4] dot(x, w), {axes}\n ROOT n = f32[2,4] negate(d)",
    )
    text = f"{arrays} n = f32[2,3] negate(x)\n ROOT d = f32[2,4] dot(n, w), {axes}"
    assert_keeps(result, text.replace("f32", "f64"))


def test_both_surfaces_make_the_same_rule():
    @rule(name="product-of-negated")
    def declared(p):
        """dot(negate(x), w) -> negate(dot(x, w))"""
        x, w = p.value("x", dtype="f32", shape=[None, None]), p.value("w")
        outer = p.op("dot", p.op("negate", x), w, **AXES)
        with p.rewrite() as r:
            r.replace({outer: r.op("negate", r.op("dot", x, w, **AXES))})

    assert same_rule(declared, rule_from(product_of_negated, negated_product, x="f32[?,?]"))


def test_variables_conditions_and_sizes():
    def joined(a, b, *, axis):
        return ops.concatenate(ops.negate(a), ops.negate(b), dimensions=axis)

    def negated(a, b, *, axis):
        return ops.negate(ops.concatenate(a, b, dimensions=axis))

    result = rule_from(joined, negated, a="*[n,?]", b="*[n,?]", where=lambda a, b, *, axis: axis == (1,))
    text = "a = {0} parameter(0)\n b = {0} parameter(1)\n n = {0} negate(a)\n m = {0} negate(b)\n"
    assert_rewrites(
        result,
        text.format("f32[2,3]") + "ROOT c = f32[2,6] concatenate(n, m), dimensions={1}",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n c = f32[2,6] concatenate(a, b), dimensions={1}\n"
        "ROOT n = f32[2,6] negate(c)",
    )
    assert_keeps(result, text.format("f32[2,3]") + "ROOT c = f32[4,3] concatenate(n, m), dimensions={0}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "f99[?]"}, "'x' is specified as 'f99[?]'"),
        ({"y": "f32[?]"}, "'y' is specified, but is not a value of the pattern"),
    ],
)
def test_what_is_wrong_with_a_pair(options: dict[str, Any], message: str):
    with pytest.raises(RuleError) as caught:
        rule_from(product_of_negated, negated_product, **options)
    line = product_of_negated.__code__.co_firstlineno
    assert caught.value.message == f"rule product-of-negated ({__file__}:{line}): {message}"


def test_functions_of_other_values_are_no_pair():
    with pytest.raises(RuleError, match="the replacement takes x, the pattern x, w"):
        rule_from(product_of_negated, lambda x: x)
