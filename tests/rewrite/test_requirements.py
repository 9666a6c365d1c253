"""Requirements of rules (`requirements.py`): what a signature leaves possible, and that no rule requires more
than it looks for."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from hloom.formats.hlo import parse, print_module
from hloom.passes import EXPLORATION, INEXACT, STRICT
from hloom.rewrite import (
    Requirement,
    Rule,
    RuleIndex,
    all_numbers,
    all_operands,
    complex_numbers,
    constant_at,
    either,
    emptiness,
    floats,
    inexact_numbers,
    integers,
    integers_or_predicates,
    number_at,
    operand_is,
    predicates,
    rewrite,
    rule,
    some_constant,
    some_number,
    some_operand,
    timed_rules,
)
from hloom.rewrite.requirements import MOST_OPERANDS, signature_of
from tests.passes.random_modules import module_of, text_of

TEXT = """ENTRY e {
  x = f32[4] parameter(0)
  one = f32[] constant(1)
  zero = f32[] constant(-0)
  table = f32[4] constant({1, 2, 3, 4})
  ones = f32[4] broadcast(one), dimensions={}
  spread = f32[4] reshape(ones)
  again = f32[4] broadcast(spread), dimensions={0}
  n = f32[4] negate(x)
  one_more = f32[4] add(n, ones)
  by_table = f32[4] multiply(x, table)
  by_unknown = f32[4] multiply(x, again)
  sum = f32[] add(one, zero)
  nothing = f32[0] slice(x), slice={[0:0]}
  truth = pred[4] compare(x, n), direction=LT
  count = s32[4] iota(), iota_dimension=0
  shifted = s32[4] negate(count)
  turned = c64[4] complex(x, n)
  turned_more = c64[4] negate(turned)
  ROOT t = (f32[4]) tuple(one_more)
}"""


@pytest.mark.parametrize(
    ("name", "possible", "impossible"),
    [
        ("one_more", operand_is(0, "negate", "abs"), operand_is(1, "negate")),
        ("one_more", some_operand("broadcast"), all_operands("broadcast")),
        ("one_more", number_at(1, 1), number_at(1, 0, -1)),
        ("one_more", some_number(), all_numbers()),
        ("one_more", constant_at(1), constant_at(0)),
        ("one_more", either(integers(), floats()), either(integers(), predicates())),
        ("one_more", inexact_numbers(), complex_numbers()),
        ("one_more", some_constant(), emptiness()),
        ("by_table", constant_at(1), number_at(1)),
        ("by_unknown", number_at(1, 7), constant_at(1)),
        ("sum", all_numbers(), some_number(2)),
        ("sum", some_number(0), operand_is(2, "constant")),
        ("nothing", emptiness(), integers_or_predicates()),
        ("truth", predicates(), integers()),
        ("shifted", integers(), floats()),
        ("turned_more", complex_numbers(), floats()),
        ("t", emptiness(), floats()),
    ],
)
def test_what_a_signature_leaves_possible(name: str, possible: Requirement, impossible: Requirement):
    signature = signature_of(parse(TEXT).entry[name])
    assert possible.admits(signature) and not impossible.admits(signature), (str(possible), str(impossible))


def test_of_a_node_with_many_operands_nothing_is_said():
    lines = "\n".join(f"  x{number} = f32[2] parameter({number})" for number in range(MOST_OPERANDS + 1))
    names = ", ".join(f"x{number}" for number in range(MOST_OPERANDS + 1))
    wide = parse(f"ENTRY e {{\n{lines}\n  ROOT c = f32[18] concatenate({names}), dimensions={{0}}\n}}").entry.root
    assert operand_is(0, "negate").admits(signature_of(wide)) and all_numbers().admits(signature_of(wide))


@pytest.mark.parametrize("seed", range(12))
def test_no_rule_requires_more_than_it_looks_for(seed: int):
    """Rules without their requirements take the same steps to the same text."""
    families = STRICT + (INEXACT if seed % 2 else ())
    rules = [rule for family in families for rule in family]
    text = text_of(module_of(Random(seed)), Random(seed))
    with_all, without = parse(text), parse(text)
    one = rewrite(with_all, rules)
    other = rewrite(without, [replace(rule, requires=()) for rule in rules])
    assert one.steps == other.steps
    assert print_module(with_all) == print_module(without)
    assert sum(account.tried for account in one.rules) < sum(account.tried for account in other.rules)


def test_every_rule_says_its_requirements_in_words():
    rules = [rule for family in STRICT + INEXACT + EXPLORATION for rule in family]
    words = [str(requirement) for rule in rules for requirement in rule.requires]
    assert len(words) > 100 and all(words)


@rule
def half_of_negation(p: Any) -> None:
    """multiply(negate(x), 0.5) -> multiply(x, -0.5)"""
    x = p.value("x")
    product = p.op("multiply", p.op("negate", x), 0.5)
    with p.rewrite() as r:
        r.replace({product: r.op("multiply", x, r.constant(-0.5, like=x))})


def test_a_declared_rule_requires_what_its_pattern_has():
    text = """ENTRY e {
      x = f32[4] parameter(0)
      half = f32[] constant(0.5)
      third = f32[] constant(3)
      halves = f32[4] broadcast(half), dimensions={}
      thirds = f32[4] broadcast(third), dimensions={}
      n = f32[4] negate(x)
      first = f32[4] multiply(n, halves)
      turned = f32[4] multiply(halves, n)
      no_half = f32[4] multiply(n, x)
      no_negation = f32[4] multiply(x, halves)
      ROOT t = (f32[4], f32[4], f32[4], f32[4]) tuple(first, turned, no_half, no_negation)
    }"""
    module, index = parse(text), RuleIndex([half_of_negation])
    tried = {node.name: [candidate.requires for candidate in index.at(node)] for node in module.entry.nodes}
    assert [list(map(str, requires)) for requires in tried["first"]] == [["operand 0 is negate", "operand 1 is 0.5"]]
    assert [list(map(str, requires)) for requires in tried["turned"]] == [["operand 0 is 0.5", "operand 1 is negate"]]
    assert tried["no_half"] == tried["no_negation"] == []


def test_what_a_declared_rule_requires_is_counted_though_it_is_not_tried():
    lines = [f"  a{n} = f32[4] multiply(x, y)" for n in range(50)]
    types, names = ", ".join(["f32[4]"] * 50), ", ".join(f"a{n}" for n in range(50))
    text = "ENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n" + "\n".join(lines)
    report = rewrite(parse(text + f"\n ROOT t = ({types}) tuple({names})\n}}"), [half_of_negation])
    account = report["half-of-negation"]
    assert (account.tried, dict(account.rejected)) == (
        100,
        {"operand 0 is parameter, not negate": 50, "operand 0 is parameter, not 0.5": 50},
    )


def test_signatures_are_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hloom.rewrite.index.MOST_SIGNATURES", 1)
    rules: list[Rule] = [rule for family in STRICT for rule in family]
    index = RuleIndex(rules)
    module = parse(TEXT)
    assert [index.at(node) for node in module.entry.nodes] == [index.at(node) for node in module.entry.nodes]


def test_seconds_are_measured_where_they_are_asked_for():
    rules = [rule for family in STRICT for rule in family]
    plain = rewrite(parse(TEXT), rules)
    with timed_rules():
        timed = rewrite(parse(TEXT), rules)
    assert not any(account.seconds for account in plain.rules) and any(account.seconds for account in timed.rules)
