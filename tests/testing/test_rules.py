"""Checking rules on random programs: right ones pass, planted wrong ones are caught.

Covers `equivalence.py`, `joined_program.py`.
"""

from __future__ import annotations

from random import Random

import pytest

from hloom.dialects import oneflow
from hloom.rewrite import ANY, Family, Rule, RuleError, register, rule
from hloom.rewrite.instances import instance
from hloom.testing import NotEquivalent, check_rule

pytest.importorskip("jaxlib")

register("rule-checks.composed", lambda first, second: tuple(first[axis] for axis in second))


def dropout_of_bias(scale):
    """dropout(bias_add(a, b)) -> fused_bias_add_mask_scale(a, b, a mask), scaled by a function of the rate."""

    @rule(rows=oneflow.OPS, name="dropout-of-bias")
    def original(p):
        a, b = p.value("a", dtype="f32"), p.value("b", rank=1)
        axis, rate = p.attribute("axis"), p.attribute("rate")
        biased = p.op("oneflow.bias_add", a, b, axis=axis)
        out, mask = p.op("oneflow.dropout", biased, rate=rate, results=2, effects=True)
        p.where(rate < 1)
        p.equivalence(
            reason="a rate is a probability", attributes={"rate": (0.25, 0.5, 0.75)}, dtypes=("f32",), ranks=(1, 2, 3)
        )
        with p.rewrite() as r:
            drawn = r.op("oneflow.random_mask_like", a, rate=rate, seed=3)
            fused = r.op("oneflow.fused_bias_add_mask_scale", a, b, drawn, axis=axis, scale=scale(rate))
            r.replace({out: fused, mask: drawn})

    return original


def product_and_sum(is_right: bool):
    """matmul(x, w) + b -> a fully connected layer; the wrong one ignores which way round w stands"""

    @rule(rows=oneflow.OPS, name="product-and-sum")
    def original(p):
        x, w, b = p.value("x", rank=2, dtype="f32"), p.value("w", rank=2), p.value("b", rank=1)
        given = p.attribute("transpose_b") if is_right else ANY
        product = p.op("oneflow.matmul", x, w, transpose_b=given)
        total = p.op("oneflow.bias_add", product, b, axis=1)
        p.equivalence(reason="square matrices fit either way round", sizes=(3,))
        with p.rewrite() as r:
            made = r.op("oneflow.matmul", x, w, transpose_b=given if is_right else False)
            r.replace({total: r.op("oneflow.bias_add", made, b, axis=1)})

    return original


def greatest_sum(is_right: bool):
    """max(x + y, x + z) -> x + max(y, z); and the wrong max(x + y, z) -> x + max(y, z)"""

    @rule(name="greatest-sum")
    def original(p):
        x, y, z = p.value("x", dtype="f32"), p.value("y"), p.value("z")
        most = p.op("maximum", p.op("add", x, y), p.op("add", x, z) if is_right else z)
        p.equivalence(reason="infinities of both signs make NaN of one side", finite=True)
        with p.rewrite() as r:
            r.replace({most: r.op("add", x, r.op("maximum", y, z))})

    return original


def greatest_of_sums(is_right: bool):
    """max(a + b) over dimensions -> max(a) + max(b), which is wrong; -> max(b + a) is right"""

    @rule(name="greatest-of-sums")
    def original(p):
        a, b, low, dims = p.value("a", dtype="f32"), p.value("b"), p.constant("low", float("-inf")), p.attribute("dims")
        most = p.op(
            "reduce", p.op("add", a, b), low, dimensions=dims, to_apply=p.graph(lambda x, y: p.op("maximum", x, y))
        )
        with p.rewrite() as r:
            one, other = (
                [r.op("reduce", value, low, dimensions=dims, to_apply=most.to_apply) for value in (a, b)]
                if not is_right
                else (r.op("reduce", r.op("add", b, a), low, dimensions=dims, to_apply=most.to_apply), None)
            )
            r.replace({most: r.op("add", one, other) if other else one})

    return original


def transposes(order):
    @rule(name="transposes")
    def original(p):
        """transpose(transpose(x)) -> transpose(x)"""
        x, first, second = p.value("x"), p.attribute("first"), p.attribute("second")
        outer = p.op("transpose", p.op("transpose", x, dimensions=first), dimensions=second)
        with p.rewrite() as r:
            r.replace({outer: r.op("transpose", x, dimensions=p.call("rule-checks.composed", *order(first, second)))})

    return original


RIGHT_AND_WRONG = [
    (dropout_of_bias(lambda rate: 1 / (1 - rate)), dropout_of_bias(lambda rate: rate)),
    (product_and_sum(True), product_and_sum(False)),
    (greatest_sum(True), greatest_sum(False)),
    (greatest_of_sums(True), greatest_of_sums(False)),
    (transposes(lambda a, b: (a, b)), transposes(lambda a, b: (b, a))),
]


def check(checked_rule: Rule):
    return check_rule(checked_rule, lower=oneflow.lower if checked_rule.rows is oneflow.OPS else None)


@pytest.mark.parametrize("checked_rule", [right for right, _ in RIGHT_AND_WRONG], ids=str)
def test_right_rules_pass(checked_rule: Rule):
    outcome = check(checked_rule)
    assert outcome.firings >= 20 and outcome.compared >= 20 and outcome.worst < 1e-5


@pytest.mark.parametrize("checked_rule", [wrong for _, wrong in RIGHT_AND_WRONG], ids=str)
def test_wrong_rules_are_caught(checked_rule: Rule):
    with pytest.raises(NotEquivalent) as caught:
        check(checked_rule)
    message = str(caught.value)
    assert message.startswith(f"rule {checked_rule} changes what a program computes:\n  output 0: ")
    assert all(part in message for part in ("\nbefore:\nHloModule", "\nafter:\nHloModule", "\ninputs:\n  input 0: "))


NATIVE = Family("rule-checks")


@NATIVE.rewrites("add")
def add_of_itself(build, node):
    """add(x, x) -> multiply(x, x), which is wrong"""
    return build.op("multiply", *node.operands) if node.operands[0] is node.operands[1] else None


@NATIVE.rewrites("multiply")
def multiply_by_zero(build, node):
    """multiply(x, x) -> abs(multiply(x, x)), which is right but for the signs of NaN"""
    return build.op("abs", build.like(node, *node.operands)) if not node.users or node.users[0].opcode != "abs" else None


def itself(opcode: str):
    def domain(random: Random) -> str:
        type_text = f"f32[{random.randint(0, 4)}]"
        return f"ENTRY e {{ x = {type_text} parameter(0)\n ROOT a = {type_text} {opcode}(x, x) }}"

    return domain


def test_native_rules_are_given_a_domain():
    with pytest.raises(NotEquivalent, match="changes what a program computes"):
        check_rule(add_of_itself, domain=itself("add"))
    assert check_rule(multiply_by_zero, domain=itself("multiply")).firings == 20
    with pytest.raises(RuleError, match="is native: its check needs a domain"):
        check_rule(add_of_itself)


def test_a_rule_must_fire():
    with pytest.raises(RuleError, match=r"fired in 0 of 160 programs made for it, not in 20"):
        check_rule(add_of_itself, domain=itself("multiply"))


def test_a_difference_of_rounding_passes_only_where_the_rule_says_so():
    @rule
    def other_order(p):
        x, y, z = p.value("x", dtype="f32"), p.value("y"), p.value("z")
        outer = p.op("subtract", p.op("subtract", x, y), z)
        p.equivalence(reason="the last bit, and overflow", finite=True)
        with p.rewrite() as r:
            r.replace({outer: r.op("subtract", x, r.op("add", y, z))})

    assert check_rule(other_order).firings == 20
    with pytest.raises(NotEquivalent):
        check_rule(other_order, narrowed={"exact": True, "reason": "to see the last bit"})


def test_the_same_seed_makes_the_same_programs():
    checked_rule = transposes(lambda a, b: (a, b))
    one, other = (str(instance(checked_rule, Random(seed))) for seed in (3, 3))
    assert one == other


@rule
def many_terms(p):
    """most kinds of terms, to be drawn"""
    x, rest = p.value("x", rank=2), p.values("rest")
    joined = p.op("concatenate", x, rest, dimensions=(1,))
    sides = p.attribute("sides")
    cut = p.op("slice", p.op("negate", joined, optional=True), slice=sides)
    padded = p.op("pad", cut, p.constant("filling"), padding=ANY)
    with p.rewrite() as r:
        again = r.op("slice", r.op("negate", r.op("negate", r.op("concatenate", x, rest, dimensions=(1,)))), slice=sides)
        made = r.op("pad", again, r.constant(0, like=padded), padding=padded.padding)
        r.replace({padded: made})


def test_many_kinds_of_terms_are_drawn():
    instances = [instance(many_terms, Random(seed)) for seed in range(40)]
    assert sum(item is not None for item in instances) >= 20
    assert len({str(item.entry.nodes) for item in instances if item}) >= 20
