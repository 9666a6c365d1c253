"""What stands in place of a match: several roots and results, what is copied, what is refused.

Covers `builder.py`, `cycle_detection.py`.
"""

from __future__ import annotations

import pytest

import hloom
from hloom.rewrite import ANY, RuleError, explain, register, rewrite, rule, rule_from_json, same_rule, to_json
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, module_of, rewritten

register("tests.doubled", lambda build, x: build.op("add", x, x))
register("tests.reversed", lambda build, x: tuple(reversed(range(x.type.rank))))
register("tests.nothing", lambda build, x: build.decline("it is a matter of taste"))


@rule
def sine_and_cosine(p):
    """sine(x), cosine(x) -> the results of one operation"""
    x = p.value("x")
    s, c = p.op("sine", x), p.op("cosine", x)
    with p.rewrite() as r:
        both = r.op("add", x, x)
        r.replace({s: both, c: r.op("negate", both)})


PAIR = "x = f32[2] parameter(0)\n a = f32[2] add(x, x)\n n = f32[2] negate(a)\n ROOT t = (f32[2], f32[2]) tuple({})"


@pytest.mark.parametrize(
    "order", ["s = f32[2] sine(x)\n c = f32[2] cosine(x)", "c = f32[2] cosine(x)\n s = f32[2] sine(x)"]
)
def test_several_roots(order: str):
    text = f"x = f32[2] parameter(0)\n {order}\n ROOT t = (f32[2], f32[2]) tuple(s, c)"
    assert_rewrites(sine_and_cosine, text, PAIR.format("a, n"))


def test_a_root_whose_operand_depends_on_another_root_declines():
    @rule
    def sums(p):
        x, y, z = p.value("x"), p.value("y"), p.value("z")
        first, second = p.op("add", x, y, commutative=False), p.op("subtract", x, z)
        with p.rewrite() as r:
            r.replace({first: r.op("multiply", x, y), second: r.op("multiply", x, z)})

    arrays = "x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = f32[] add(x, y)\n"
    assert_keeps(sums, f"{arrays} s = f32[] subtract(x, a)\n ROOT t = (f32[], f32[]) tuple(a, s)")


def test_operands_of_a_later_root_move_before_the_first():
    @rule
    def two_sums(p):
        x, y, z = p.value("x"), p.value("y"), p.value("z")
        first, second = p.op("add", x, y, commutative=False), p.op("subtract", x, z)
        with p.rewrite() as r:
            total = r.op("multiply", y, z)
            r.replace({first: total, second: r.op("negate", total)})

    assert_rewrites(
        two_sums,
        "x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = f32[] add(x, y)\n"
        "z = f32[] exponential(y)\n s = f32[] subtract(x, z)\n ROOT t = (f32[], f32[]) tuple(a, s)",
        "x = f32[] parameter(0)\n y = f32[] parameter(1)\n z = f32[] exponential(y)\n m = f32[] multiply(y, z)\n"
        "n = f32[] negate(m)\n ROOT t = (f32[], f32[]) tuple(m, n)",
    )


BATCH = (
    "x = f32[2,3] parameter(0)\n s = f32[3] parameter(1)\n o = f32[3] parameter(2)\n"
    "b = (f32[2,3], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.5, feature_index=1\n"
)


@rule
def batch_norm_away(p):
    """the results of batch-norm-training -> other arrays, the last of another type"""
    x, scale, offset = p.value("x"), p.value("scale"), p.any()
    y, mean, variance = p.op("batch-norm-training", x, scale, offset, epsilon=ANY, feature_index=ANY, results=3)
    with p.rewrite() as r:
        r.replace({y: x, mean: scale, variance: x})


def test_several_results_and_a_dead_one_at_another_type():
    assert_rewrites(
        batch_norm_away,
        BATCH + "y = f32[2,3] get-tuple-element(b), index=0\n m = f32[3] get-tuple-element(b), index=1\n"
        "ROOT t = (f32[2,3], f32[3]) tuple(y, m)",
        "x = f32[2,3] parameter(0)\n s = f32[3] parameter(1)\n o = f32[3] parameter(2)\n"
        "ROOT t = (f32[2,3], f32[3]) tuple(x, s)",
    )


def test_a_used_result_is_not_replaced_at_another_type():
    assert_keeps(batch_norm_away, BATCH + "ROOT v = f32[3] get-tuple-element(b), index=2")


def test_a_tuple_used_as_a_whole_is_made_again():
    @rule
    def batch_norm_halved(p):
        x, scale, offset = p.value("x"), p.value("scale"), p.value("offset")
        y, mean, variance = p.op("batch-norm-training", x, scale, offset, epsilon=ANY, feature_index=ANY, results=3)
        with p.rewrite() as r:
            r.replace({y: x, mean: scale, variance: offset})

    assert_rewrites(
        batch_norm_halved,
        BATCH + "ROOT k = (f32[2,3], f32[3], f32[3]) copy(b)",
        "x = f32[2,3] parameter(0)\n s = f32[3] parameter(1)\n o = f32[3] parameter(2)\n"
        "b = (f32[2,3], f32[3], f32[3]) tuple(x, s, o)\n ROOT k = (f32[2,3], f32[3], f32[3]) copy(b)",
    )


def test_native_builders():
    @rule
    def doubled(p):
        x = p.value("x")
        outer = p.op("sign", x)
        with p.rewrite() as r:
            r.replace({outer: r.native("tests.doubled", x)})

    assert_rewrites(
        doubled,
        "x = f32[] parameter(0)\n ROOT s = f32[] sign(x)",
        "x = f32[] parameter(0)\n ROOT a = f32[] add(x, x)",
    )


def test_what_a_native_builder_gives_may_be_an_attribute():
    @rule
    def turned(p):
        x = p.value("x", rank=2)
        outer = p.op("negate", x)
        with p.rewrite() as r:
            r.replace({outer: r.op("transpose", x, dimensions=r.native("tests.reversed", x))})
        p.where(x.shape[0] == x.shape[1])

    before = "x = f32[2,2] parameter(0)\n ROOT n = f32[2,2] negate(x)"
    assert_rewrites(turned, before, "x = f32[2,2] parameter(0)\n ROOT t = f32[2,2] transpose(x), dimensions={1,0}")
    assert same_rule(turned, rule_from_json(to_json(turned)))


def test_a_matched_value_is_no_attribute():
    with pytest.raises(RuleError, match="a value of the pattern stands where a number or an attribute is meant"):

        @rule
        def mistaken(p):
            x = p.value("x")
            outer = p.op("negate", x)
            with p.rewrite() as r:
                r.replace({outer: r.op("transpose", x, dimensions=x)})


def test_what_a_rule_makes_is_no_attribute():
    with pytest.raises(
        RuleError, match="an operation that the rule makes stands where a number or an attribute is meant"
    ):

        @rule
        def mistaken(p):
            x = p.value("x")
            outer = p.op("negate", x)
            with p.rewrite() as r:
                r.replace({outer: r.op("transpose", x, dimensions=r.op("abs", x))})


def test_native_builders_decline():
    @rule
    def never(p):
        x = p.value("x")
        outer = p.op("sign", x)
        with p.rewrite() as r:
            r.replace({outer: r.native("tests.nothing", x)})

    module = module_of("x = f32[] parameter(0)\n ROOT s = f32[] sign(x)")
    assert explain([never], module.entry.root) == [(never, "it is a matter of taste")]
    assert not rewrite(module, [never]).changed


@rule
def sign_again(p):
    """sign(x) -> negate(x), with what the sign carried"""
    x = p.value("x")
    outer = p.op("sign", x)
    with p.rewrite() as r:
        r.replace({outer: r.op("negate", r.op("abs", x), carry=outer, drop=("sharding",))})


def test_metadata_and_carried_attributes_go_over():
    result = rewritten(
        sign_again,
        'x = f32[] parameter(0)\n ROOT s = f32[] sign(x), sharding={replicated}, frontend_attributes={a="b"}, '
        'metadata={op_name="here"}',
    )
    root, inner = result.entry.root, result.entry.root.operands[0]
    assert "sharding" not in root.attributes and "frontend_attributes" in root.attributes
    assert root.metadata and root.metadata.op_name == "here"
    assert "frontend_attributes" not in inner.attributes


def test_the_layout_stays():
    @rule
    def absolute(p):
        x = p.value("x")
        outer = p.op("sign", x)
        with p.rewrite() as r:
            r.replace({outer: r.op("abs", x)})

    result = rewritten(absolute, "x = f32[2,3]{0,1} parameter(0)\n ROOT s = f32[2,3]{0,1} sign(x)")
    assert str(result.entry.root.type) == "f32[2,3]{0,1}"


def test_what_has_no_value_is_no_match():
    @rule
    def scaled(p):
        x, c = p.value("x"), p.constant("c")
        outer = p.op("divide", x, c)
        with p.rewrite() as r:
            r.replace({outer: r.op("multiply", x, r.constant(1 / c.value, like=x))})

    text = "x = f32[] parameter(0)\n c = f32[] constant({})\n ROOT d = f32[] divide(x, c)"
    module = module_of(text.replace("{}", "0"))
    assert explain([scaled], module.entry.root)[0][1].startswith("what the rule makes has no value here: ")
    assert_keeps(scaled, text.replace("{}", "0"))


def test_control_predecessors_stand_in_the_way():
    assert_keeps(
        sign_again,
        "x = f32[] parameter(0)\n y = f32[] exponential(x)\n ROOT s = f32[] sign(x), control-predecessors={y}",
    )


def test_effects_stand_in_the_way_unless_the_rule_says_so():
    text = (
        "x = f32[2] parameter(0)\n"
        'c = f32[2] custom-call(x), custom_call_target="t", custom_call_has_side_effect=true\n ROOT n = f32[2] negate(c)'
    )

    def calls(effects: bool):
        @rule(name="calls")
        def matched(p):
            x = p.value("x")
            called = p.op("custom-call", x, custom_call_target="t", custom_call_has_side_effect=ANY, effects=effects)
            outer = p.op("negate", called)
            with p.rewrite() as r:
                r.replace({outer: r.op("abs", x)})

        return matched

    assert_keeps(calls(False), text)
    assert_rewrites(calls(True), text, "x = f32[2] parameter(0)\n ROOT a = f32[2] abs(x)")


def test_rules_reach_into_called_computations():
    body = "x = f32[2] parameter(0)\n {}"
    module = hloom.parse(
        "body { " + body.format("s = f32[2] sign(x)\n ROOT e = f32[2] exponential(s)") + " }\n"
        "ENTRY e { x = f32[2] parameter(0)\n ROOT f = f32[2] fusion(x), kind=kLoop, calls=body }"
    )
    report = rewrite(module, [sign_again])
    assert [str(step) for step in report.steps] == ["sign-again at body.s"]
    assert [node.opcode for node in module["body"].nodes] == ["parameter", "abs", "negate", "exponential"]


def test_cost_decides():
    def cost(node) -> float:
        return {"exponential": 10.0, "parameter": 0.0}.get(node.opcode, 1.0)

    def declared(rewritten_opcode: str):
        @rule(name="cheaper", cost=cost)
        def matched(p):
            x = p.value("x")
            outer = p.op("negate", p.op("negate", x))
            with p.rewrite() as r:
                r.replace({outer: r.op(rewritten_opcode, x)})

        return matched

    text = "x = f32[] parameter(0)\n n = f32[] negate(x)\n ROOT m = f32[] negate(n)"
    assert_keeps(declared("exponential"), text)
    assert_rewrites(declared("abs"), text, "x = f32[] parameter(0)\n ROOT a = f32[] abs(x)")


def test_mistakes_of_native_parts_come_with_the_rule_and_its_place():
    register("tests.mistaken", lambda node: node.type.element_count / 0)

    @rule
    def mistaken(p):
        x = p.value("x")
        outer = p.op("sign", x)
        p.where(p.call("tests.mistaken", x) > 1)
        with p.rewrite() as r:
            r.replace({outer: r.op("abs", x)})

    module = module_of("x = f32[] parameter(0)\n ROOT s = f32[] sign(x)")
    with pytest.raises(RuleError) as caught:
        rewrite(module, [mistaken])
    assert caught.value.message == (
        f"rule mistaken ({mistaken.origin}) failed at <s = f32[] sign(x)>: "
        "native function 'tests.mistaken': ZeroDivisionError: division by zero"
    )
