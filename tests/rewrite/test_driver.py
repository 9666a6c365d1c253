"""Running rules: which one comes first, what ends, what the report says, and taking its steps again.

Covers `index.py`, `report.py`.
"""

from __future__ import annotations

import re

import pytest

import hloom
from hloom.rewrite import RuleError, apply_at, explain, replay, rewrite, rule
from tests.passes.rule_assertions import assert_rewrites, module_of


def exchange(before: str, after: str, **options):
    """A rule that puts one elementwise op in another's place."""

    @rule(name=f"{before}-to-{after}", **options)
    def matched(p):
        x = p.value("x")
        outer = p.op(before, x)
        with p.rewrite() as r:
            r.replace({outer: r.op(after, x)})

    return matched


@rule
def double_negation(p):
    """negate(negate(x)) -> x"""
    x = p.value("x")
    outer = p.op("negate", p.op("negate", x))
    with p.rewrite() as r:
        r.replace({outer: x})


def test_the_greater_benefit_wins_and_then_the_first():
    text, after = "x = f32[] parameter(0)\n ROOT s = f32[] sign(x)", "x = f32[] parameter(0)\n ROOT a = f32[] {}(x)"
    one, other = exchange("sign", "abs"), exchange("sign", "sine", benefit=2)
    assert_rewrites([one, other], text, after.format("sine"))
    assert_rewrites([one, exchange("sign", "cosine")], text, after.format("abs"))


def test_rules_that_undo_each_other_are_named():
    there, back = exchange("sine", "cosine"), exchange("cosine", "sine")
    module = module_of("x = f32[] parameter(0)\n ROOT s = f32[] sine(x)")
    with pytest.raises(RuleError, match=r"rules undo each other at .* of graph e: ") as caught:
        rewrite(module, [there, back])
    assert f"{there} -> {back}" in caught.value.message


def test_a_rule_that_never_ends_is_stopped():
    @rule
    def growing(p):
        x = p.value("x")
        outer = p.op("sine", x)
        with p.rewrite() as r:
            r.replace({outer: r.op("sine", r.op("cosine", x))})

    with pytest.raises(RuleError, match=r"no end of rewriting at .*, the last by growing"):
        rewrite(module_of("x = f32[] parameter(0)\n ROOT s = f32[] sine(x)"), [growing])


NEGATIONS = "x = f32[] parameter(0)\n a = f32[] negate(x)\n b = f32[] negate(a)\n c = f32[] negate(b)\n ROOT d = f32[] negate(c)"


def test_the_report_counts():
    module = module_of(NEGATIONS)
    report = rewrite(module, [double_negation], name="negations")
    account = report["double-negation"]
    assert report.changed and report.matched == 2 and report.erased == 4
    assert account.matched == 2 and account.tried == account.matched + sum(account.rejected.values())
    assert list(account.rejected) == ["operand 0 is parameter, not negate"]
    assert [tuple(step.values()) for step in report.to_json()["steps"]] == report.steps
    assert len(module.entry.nodes) == 1


def test_the_report_says_which_clause_rejected():
    @rule
    def small(p):
        x = p.value("x")
        outer = p.op("abs", p.op("negate", x))
        p.where(x.rank == 0, x.dtype == "f32")
        with p.rewrite() as r:
            r.replace({outer: r.op("abs", x)})

    text = "x = {} parameter(0)\n n = {} negate(x)\n ROOT a = {} abs(n)"
    for array_text, reason in {"f32[2]": "not x.rank == 0", "s32[]": "not x.dtype == 'f32'"}.items():
        module = module_of(text.replace("{}", array_text))
        assert dict(rewrite(module, [small])["small"].rejected) == {reason: 1}
        assert explain([small, double_negation], module.entry.root) == [
            (small, reason),
            (double_negation, "its root is negate, not abs"),
        ]


def test_explaining_leaves_the_module_as_it_is():
    module = module_of(NEGATIONS)
    before = hloom.print(module)
    assert explain([double_negation], module.entry["b"]) == [(double_negation, "")]
    assert hloom.print(module) == before


def test_steps_can_be_taken_again_one_by_one():
    module, again = module_of(NEGATIONS), module_of(NEGATIONS)
    texts: list[str] = []
    report = rewrite(module, [double_negation], watch=lambda step: texts.append(hloom.print(module)))
    texts.append(hloom.print(module))
    seen = [hloom.print(again)]
    seen += [hloom.print(again) for _ in replay(again, [double_negation], report.steps)]
    assert seen == texts


def test_steps_of_other_rules_and_of_other_modules_are_refused():
    report = rewrite(module_of(NEGATIONS), [double_negation])
    with pytest.raises(RuleError, match="its rule is not among those given"):
        list(replay(module_of(NEGATIONS), [], report.steps))
    other = module_of(NEGATIONS.replace("b = f32[] negate(a)", "b = f32[] abs(a)"))
    with pytest.raises(RuleError, match="the rule does not fire there"):
        list(replay(other, [double_negation], report.steps))


def test_one_rule_at_one_node():
    module = module_of(NEGATIONS)
    assert not apply_at(module, double_negation, module.entry["a"])
    assert apply_at(module, double_negation, module.entry["b"])
    assert [node.name for node in module.entry.nodes] == ["x", "c", "d"]


def test_a_rule_is_shown_by_its_name_and_origin():
    assert re.fullmatch(r"<rule double-negation \(.*test_driver\.py:\d+\)>", repr(double_negation))


def test_a_miss_names_the_operand_and_its_node():
    @rule
    def deep(p):
        """negate(abs(sine(x))) -> x"""
        x = p.value("x")
        outer = p.op("negate", p.op("abs", p.op("sine", x)))
        with p.rewrite() as r:
            r.replace({outer: x})

    module = module_of("x = f32[] parameter(0)\n c = f32[] cosine(x)\n a = f32[] abs(c)\n ROOT n = f32[] negate(a)")
    [(_, reason)] = explain([deep], module.entry["n"])
    assert reason == "operand 0 of operand 0 is cosine, not sine: <c = f32[] cosine(x)>"
