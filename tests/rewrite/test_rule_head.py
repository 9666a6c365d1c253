"""Heads of rules as text (`rule_head.py`): they say of a root and its operands what the whole patterns say."""

from __future__ import annotations

import pytest

import hloom
from hloom.passes.simplify import EXPLORATION, INEXACT, SHAPE_RULES_AS_XLA, STRICT
from hloom.rewrite import RuleError, RuleText
from hloom.rewrite.pattern import OperationTerm
from hloom.rewrite.requirements import requirements_of
from hloom.rewrite.rule_head import Head, heads_of
from hloom.rewrite.rule_words import FormText

TEXTS = {
    f"{family.name}.{rule.name}": rule.text
    for family in (*STRICT, *INEXACT, *EXPLORATION, *SHAPE_RULES_AS_XLA)
    for rule in family
    if isinstance(rule.text, RuleText)
}


def head(text: str) -> Head:
    return heads_of(FormText(text, "", {}), 0)[0]


def orders(text: str) -> int:
    return len(heads_of(FormText(text, "", {}), 0))


def admits(text: str, body: str) -> bool:
    root = hloom.parse(f"ENTRY e {{\n{body}\n}}").entry.root
    return bool(head(text).admits(root, root.operands))


@pytest.mark.parametrize("name", TEXTS)
def test_heads_agree_with_the_variants_of_the_whole_patterns(name: str):
    text = TEXTS[name]
    for number, pattern in enumerate(text.patterns):
        expected: dict[bool, tuple[tuple[str, ...], set[str]]] = {}
        for variant in text.form(number)[1]:
            root = pattern.terms[variant.anchor]
            assert isinstance(root, OperationTerm)
            is_swapped = variant.operands[variant.anchor] != root.operands
            expected[is_swapped] = root.opcodes, {part.words for part in requirements_of(variant.answers)}
        heads = {one.is_swapped: one for one in text.heads if one.form == number}
        assert heads.keys() == expected.keys()
        for is_swapped, (opcodes, words) in expected.items():
            assert heads[is_swapped].roots == opcodes
            assert words <= {part.words for part in heads[is_swapped].requires}


X, Y = "x = s32[2] parameter(0)\n", "y = s32[2] parameter(1)\n"
C = "c = s32[] constant(2)\nb = s32[2] broadcast(c), dimensions={}\n"


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("add(x, x) -> x", "ROOT r = add(x, x)", True),
        ("add(x, x) -> x", "ROOT r = add(x, y)", False),
        ("add(n:negate(x), n) -> x", "n = negate(x)\nROOT r = add(n, n)", True),
        ("subtract(negate(x), y) -> x", "n = negate(x)\nROOT r = subtract(n, y)", True),
        ("subtract(negate(x), y) -> x", "n = negate(x)\nROOT r = subtract(y, n)", False),
        ("subtract(abs|negate(x), y) -> x", "n = abs(x)\nROOT r = subtract(n, y)", True),
        ("add(x, 1) -> x", "c = s32[] constant(1)\nb = s32[2] broadcast(c), dimensions={}\nROOT r = add(x, b)", True),
        ("add(x, 1) -> x", "c = s32[] constant(2)\nb = s32[2] broadcast(c), dimensions={}\nROOT r = add(x, b)", False),
        ("add(x, y) -> x if real", "ROOT r = add(x, y)", False),
        ("add(x, y) -> x if real or predicate or integer", "ROOT r = add(x, y)", True),
        ("add(x, y) -> x if integer, x is not literal, same-type(y, root)", "ROOT r = add(x, y)", True),
        ("add(x, y) -> x if x is constant", "ROOT r = add(x, y)", False),
        ("subtract(negate(x), y) -> x if operands are used once", "n = negate(x)\nROOT r = subtract(n, n)", False),
        ("subtract(n:negate(x), y) -> x if n is used once", "n = negate(x)\nROOT r = subtract(n, y)", True),
        ("subtract(divide(x, c), y) -> x if c is constant", "n = divide(x, y)\nROOT r = subtract(n, y)", False),
        ("subtract(divide(x, c), y) -> x if c is constant", f"{C}n = divide(x, b)\nROOT r = subtract(n, y)", True),
        ("subtract(divide(x, c), y) -> x if c is constant", f"{C}n = divide(b, x)\nROOT r = subtract(n, y)", False),
        ("subtract(multiply(x, c), y) -> x if c is constant", f"{C}n = multiply(b, x)\nROOT r = subtract(n, y)", True),
        ("subtract(multiply(x, c), y) -> x if c is constant", "n = multiply(x, y)\nROOT r = subtract(n, y)", False),
    ],
)
def test_a_head_tests_the_root_and_its_operands(text: str, body: str, expected: bool):
    assert admits(text, X + Y + body) is expected


def test_conditions_on_what_stands_further_below_are_left_to_the_match():
    text = "subtract(negate(abs(x)), y) -> x if x is constant"
    assert admits(text, f"{X}{Y}a = abs(x)\nn = negate(a)\nROOT r = subtract(n, y)")


def test_operands_of_commutative_roots_are_swapped_where_it_matters():
    assert orders("add(negate(x), y) -> x") == 2
    assert orders("add(x, y) -> x if x is constant") == 2
    assert orders("add(x, 1) -> x") == 2
    assert orders("add(x, y) -> negate(x)") == 1
    assert orders("add(x, x) -> x") == 1
    assert orders("subtract(negate(x), y) -> x") == 1
    assert orders("add(negate(x), y) -> x if in order") == 1


@pytest.mark.parametrize("text", ["add(x, y", "add", "", "add(x, y) -> maximum(x, y) if x is purple"])
def test_heads_of_what_is_no_rule_say_what_is_wrong(text: str):
    with pytest.raises(RuleError, match=r"is missing|is no condition|no op is called"):
        _ = RuleText(text).heads


def test_a_text_that_ends_too_early_is_an_error():
    with pytest.raises(RuleError, match=r"something is missing at the end: add\(x, y\) -> maximum\(x"):
        _ = RuleText("add(x, y) -> maximum(x").patterns
