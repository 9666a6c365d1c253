"""Every rule of the standard passes keeps what programs compute: random programs in which it fires, through XLA.

A rule's programs come from `DOMAINS` of a file in `tests/passes/domains`, by the rule's name. `NARROWED` there, by
the same names, holds what `p.equivalence(...)` of a declared rule would say: tolerances and the like, each with a
reason. Relaxed rules are checked on ordinary numbers only: NaN, infinities and overflow are what they are free to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hloom.passes.simplify import EXPLORATION, INEXACT, STRICT
from hloom.rewrite import Family, Rule
from hloom.rewrite.domain import check_domain
from hloom.testing.rules import check_rule
from tests.helpers.properties import is_long

FOLDER = Path(__file__).parent / "domains"
FILES = [import_module(f"tests.passes.domains.{path.stem}") for path in sorted(FOLDER.glob("[a-z]*.py"))]
DOMAINS: dict[str, Any] = {name: make for file in FILES for name, make in getattr(file, "DOMAINS", {}).items()}
UNTESTED: dict[str, str] = {name: why for file in FILES for name, why in getattr(file, "WITHOUT_NUMBERS", {}).items()}
NARROWED: dict[str, Any] = {name: item for file in FILES for name, item in getattr(file, "NARROWED", {}).items()}

FIRINGS = 20 if is_long() else 3
"""In how many programs a rule must fire."""
INEXACT_SETTINGS = {"finite": True, "reason": "what XLA's defaults allow", "tolerance": 2e-5}


def rules(families: tuple[Family, ...]) -> list[Any]:
    return [pytest.param(rule, id=f"{family.name}.{rule.name}") for family in families for rule in family]


def check(rule: Rule, settings: Mapping[str, Any]) -> None:
    if rule.name in UNTESTED:
        pytest.skip(UNTESTED[rule.name])
    domain = DOMAINS.get(rule.name)
    if domain is None and rule.pattern is None:
        pytest.fail(f"rule {rule} has no programs: give it a function in DOMAINS of a file in tests/passes/domains")
    narrowed = {**settings, **NARROWED.get(rule.name, {})}
    check_domain(narrowed)
    assert check_rule(rule, firings=FIRINGS, domain=domain, narrowed=narrowed).firings >= FIRINGS


@pytest.mark.parametrize("rule", rules(STRICT))
def test_a_strict_rule(rule: Rule):
    check(rule, {})


@pytest.mark.parametrize("rule", rules(INEXACT))
def test_a_relaxed_rule(rule: Rule):
    check(rule, INEXACT_SETTINGS)


@pytest.mark.parametrize("rule", rules(EXPLORATION))
def test_a_rule_of_saturation(rule: Rule):
    check(rule, INEXACT_SETTINGS | {"tolerance": 2e-4})


def test_each_domain_is_of_one_rule():
    seen: dict[str, str] = {}
    for file in FILES:
        for name in getattr(file, "DOMAINS", {}):
            assert seen.setdefault(name, file.__name__) == file.__name__, f"{name}: also in {seen[name]}"
