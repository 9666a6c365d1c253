"""Every rule: random jobs in which it fires, before and after through XLA; and it is data.

Covers `casts.py`, `scaled_triangle.py`, `typed_numbers.py`, `native_functions.py`.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from hloom.dialects import oneflow
from hloom.passes import PASSES
from hloom.rewrite import rewrite, rule_from_json, same_rule, to_json
from hloom.testing.rules import check_rule
from tests.dialects.oneflow.domains import DOMAINS
from tests.dialects.oneflow.jobs import lowered
from tests.helpers.properties import is_long

FIRINGS = 20 if is_long() else 3
RULES = {rule.name: rule for rule in oneflow.all_rules(7)}


def test_every_rule_has_a_domain_and_is_in_the_pass_of_all():
    assert set(RULES) == set(DOMAINS) == {rule.name for rule in PASSES["oneflow"].rules}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_keeps_what_jobs_compute(name):
    pytest.importorskip("jaxlib")
    check = check_rule(RULES[name], domain=DOMAINS[name], lower=lowered, firings=FIRINGS)
    assert check.firings >= FIRINGS


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_saved_and_loaded(name):
    rule = RULES[name]
    data = json.loads(json.dumps(to_json(rule)))
    loaded = rule_from_json(data, oneflow.OPS)
    assert same_rule(rule, loaded)
    one = DOMAINS[name](Random(3))
    other = one.clone()
    assert rewrite(one, [rule]).matched == rewrite(other, [loaded]).matched == 1
    assert oneflow.to_text(one) == oneflow.to_text(other)
