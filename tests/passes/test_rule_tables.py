"""The standard rules that are lines of tables: how many, that each is sound as a declared rule, and where it stands."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import hloom.passes.rules
from hloom.ops import OPS
from hloom.passes.rules.fast_math import FAST_MATH
from hloom.passes.simplify import EXPLORATION, INEXACT, STRICT
from hloom.rewrite import Family, Rule, check_pattern, explain, registered
from hloom.rewrite.expressions import text_of
from tests.passes.rule_assertions import module_of

FAMILIES: tuple[Family, ...] = (*STRICT, *INEXACT, *EXPLORATION, FAST_MATH)
LINES = [rule for family in FAMILIES for rule in family if rule.text is not None]
FEWEST = 200
MODULES = [
    import_module(found.name) for found in walk_packages(hloom.passes.rules.__path__, f"{hloom.passes.rules.__name__}.")
]
ALL_FAMILIES = {
    value.name: value for module in MODULES for value in vars(module).values() if isinstance(value, Family)
}.values()


def test_most_identities_are_lines():
    assert len(LINES) >= FEWEST


@pytest.mark.parametrize("rule", LINES, ids=lambda rule: f"{rule.family}.{rule.name}")
def test_a_line_is_a_sound_pattern(rule: Rule):
    assert rule.patterns
    for pattern in rule.patterns:
        variables = {name for condition in pattern.conditions for name in condition.test.names()}
        check_pattern(pattern, variables, OPS, values_may_be_unused=True)
        assert set(pattern.terms[pattern.roots[0]].opcodes) <= set(rule.roots)  # pyright: ignore[reportAttributeAccessIssue]
        for condition in pattern.conditions:
            assert text_of(condition.test)


@pytest.mark.parametrize("rule", LINES, ids=lambda rule: f"{rule.family}.{rule.name}")
def test_a_line_is_where_its_origin_says(rule: Rule):
    assert rule.origin is not None
    line = Path(rule.origin.file).read_text().splitlines()[rule.origin.line - 1]
    assert line.startswith((f"{rule.name}:", f"{rule.name} ["))


@pytest.mark.parametrize("rule", LINES, ids=lambda rule: f"{rule.family}.{rule.name}")
def test_a_line_says_why(rule: Rule):
    assert rule.statement.startswith(tuple(rule.roots)) or " for " in rule.statement
    assert not rule.statement.endswith((": .", "..")), "a reason stands behind #"


def test_a_native_rule_says_what_no_line_can_say():
    families = {rule.family: rule for family in ALL_FAMILIES for rule in family}
    assert len(families) > 60
    for family in ALL_FAMILIES:
        for rule in family:
            said = rule.because
            assert bool(said) == (rule.text is None and rule.pattern is None), f"{rule}: why is it not a line?"
            assert len(said) < 80 and not said.endswith(".") and said[:1].islower() == bool(said), f"{rule}: {said}"


def test_a_line_goes_by_the_former_name_of_its_family_too():
    assert registered("extremes.extreme-of-disjoint-ranges") is registered("min-max.extreme-of-disjoint-ranges")


def test_a_line_says_why_it_does_not_fire():
    module = module_of("x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT r = s32[4] multiply(x, y)")
    rules = [rule for rule in LINES if rule.name in ("multiply-by-one", "multiply-negated", "multiply-by-zero")]
    reasons = {rule.name: reason for rule, reason in explain(rules, module.entry.root)}
    assert "is not 1" in reasons["multiply-by-one"]
    assert "operand 0 is parameter, not negate" in reasons["multiply-negated"]
    assert reasons["multiply-by-zero"] == "not true that z is zero"


def test_tables_are_in_the_files_of_their_families():
    folder = Path(hloom.passes.rules.__file__).parent
    assert all(Path(rule.origin.file).parent == folder for rule in LINES if rule.origin is not None)
