"""Rules as text (`rule_text.py`, its `rule_words.py` and `rule_reader.py`, and `family.py` of the tables): what the
notation means, and what is wrong.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.ir import dtype
from hloom.passes.rules.add import ADD
from hloom.passes.rules.multiply import MULTIPLY
from hloom.rewrite import Family, Rule, RuleError, RuleText, explain, register_builder, register_condition
from hloom.testing import check_rule

register_condition("of-rank-two", lambda node: node.type.rank == 2)
register_condition("of-one-rank", lambda one, other: one.type.rank == other.type.rank)
register_builder("twice", lambda build, node: build.op("add", node, node))


def rules_of(lines: str) -> Family:
    family = Family(f"test-{Random(lines).randrange(10**9)}")
    family.table(lines)
    return family


def rewritten(lines: str, text: str) -> str:
    module, _ = hloom.opt(hloom.parse(f"ENTRY e {{\n{text}\n}}"), list(rules_of(lines)))
    root = module.entry.root
    return f"{root.opcode}({', '.join(operand.name for operand in root.operands)})"


X, Y = "x = f32[2] parameter(0)\n", "y = f32[2] parameter(1)\n"


def test_operands_match_in_either_order_where_the_op_allows_it():
    line = "to-maximum: add(negate(x), y) -> maximum(x, y)  # test"
    assert rewritten(line, f"{X}{Y}n = negate(x)\nROOT r = add(n, y)") == "maximum(x, y)"
    assert rewritten(line, f"{X}{Y}n = negate(x)\nROOT r = add(y, n)") == "maximum(x, y)"


def test_operands_stay_where_they_are_in_order():
    line = "to-maximum: add(negate(x), y) -> maximum(x, y) if in order  # test"
    assert rewritten(line, f"{X}{Y}n = negate(x)\nROOT r = add(n, y)") == "maximum(x, y)"
    assert rewritten(line, f"{X}{Y}n = negate(x)\nROOT r = add(y, n)") == "add(y, n)"


def test_one_name_is_one_value():
    line = "halves: add(x, x) -> negate(x)  # test"
    assert rewritten(line, f"{X}{Y}ROOT r = add(x, x)") == "negate(x)"
    assert rewritten(line, f"{X}{Y}ROOT r = add(x, y)") == "add(x, y)"


def test_forms_are_tried_in_turn_and_conditions_are_of_one_or_of_all():
    lines = (
        "first [2]: add(x, y) -> maximum(x, y) if x is of-rank-two; add(x, y) -> minimum(x, y)\n    where real  # test"
    )
    assert rewritten(lines, f"{X}{Y}ROOT r = add(x, y)") == "minimum(x, y)"
    assert rewritten(lines, "x = s32[2] parameter(0)\ny = s32[2] parameter(1)\nROOT r = add(x, y)") == "add(x, y)"


def test_names_of_ops_make_forms():
    line = "opposites: f(x, g(x, y)) -> x for f/g in maximum/minimum, minimum/maximum  # test"
    assert rules_of(line).rules[0].roots == ("maximum", "minimum")
    assert rewritten(line, f"{X}{Y}m = maximum(x, y)\nn = minimum(m, x)\nROOT r = negate(n)") == "negate(x)"


def test_conditions_on_several_values():
    line = "same-rank: multiply(x, y) -> twice(x) if of-one-rank(x, y), x and y are not constant  # test"
    assert rewritten(line, f"{X}{Y}ROOT r = multiply(x, y)") == "add(x, x)"


def test_attributes_are_bound_and_chosen():
    line = "mirrored: compare(negate(x), y, direction=LT|LE) -> compare(y, x, direction=GT)  # test"
    assert rewritten(line, f"{X}{Y}n = negate(x)\nROOT r = pred[2] compare(n, y), direction=LE") == "compare(y, x)"
    assert rewritten(line, f"{X}{Y}n = negate(x)\nROOT r = pred[2] compare(n, y), direction=EQ") == "compare(n, y)"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no-op: ad(x, y) -> x  # test", "no op is called 'ad'"),
        ("no-name: add(x, y) -> z  # test", "'z' names nothing in the pattern"),
        ("no-condition: add(x, y) -> x if purple  # test", "'purple' is no condition"),
        ("no-arrow: add(x, y)  # test", "'->' is missing"),
        ("sign: add(x, %) -> x  # test", "'%' means nothing here"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_read(line: str, message: str):
    rule = rules_of(line).rules[0]
    with pytest.raises(RuleError, match=message):
        _ = rule.patterns


def test_a_line_without_a_reason_is_none():
    with pytest.raises(RuleError, match=r"test_rule_text.py:\d+: a rule is written NAME"):
        rules_of("unreasoned: add(x, y) -> x")


def test_a_rule_says_at_which_operand_it_ended():
    rule = rules_of("negated: add(negate(x), negate(y)) -> x  # test").rules[0]
    node = hloom.parse(f"ENTRY e {{\n{X}{Y}n = negate(x)\nROOT r = add(n, y)\n}}").entry.root
    ((_, reason),) = explain([rule], node)
    assert reason.startswith("operand 1 is parameter, not negate")


def test_what_the_index_asks_follows_from_the_text():
    text = RuleText("add(x, z) -> x if integer, z is zero; add(negate(x), y) -> x")
    assert text.depth == 2
    assert text.roots == ("add",)
    integers, floats = dtype("s32"), dtype("f32")
    assert text.requirement.admits((integers, False, ("parameter", ("constant", 0))))
    assert not text.requirement.admits((floats, False, ("parameter", ("constant", 0))))
    assert text.requirement.admits((floats, False, ("parameter", "negate")))


@pytest.mark.parametrize("name", ["multiply-negated", "subtract-negated", "negate-of-negate"])
def test_programs_are_made_of_a_text(name: str):
    (rule,) = (rule for family in (ADD, MULTIPLY) for rule in family if rule.name == name)
    assert isinstance(rule, Rule)
    assert check_rule(rule, firings=3).firings == 3


def test_a_native_rule_says_why_it_is_none():
    family = Family("test-native", because="walks users")

    @family.rewrites("negate")
    def first(build, node):
        """negate(x) -> x"""

    @family.rewrites("negate", because="counts bytes")
    def second(build, node):
        """negate(x) -> x"""

    family.table("third: negate(negate(x)) -> x  # test")
    assert [rule.because for rule in family] == ["walks users", "counts bytes", ""]
    assert first.display().text.endswith("negate(x) -> x\n\nNative: it walks users.")
    assert "Native" not in family["third"].display().text
