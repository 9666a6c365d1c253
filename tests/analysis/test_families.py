"""Which cost rule an op has: its own, or the one that its flow and traits imply."""

from __future__ import annotations

import pytest

from hloom.analysis.rules import cost_rule
from hloom.analysis.rules.control_flow import CONTROL_FLOW
from hloom.analysis.rules.table import COST_RULES
from hloom.ir import Op
from hloom.ops import OPS


@pytest.mark.parametrize("opcode", ["add", "broadcast", "dot", "reduce", "gather", "fusion", "all-reduce", "rng"])
def test_an_op_with_a_rule_of_its_own_in_any_family(opcode: str):
    assert cost_rule(OPS[opcode]) is COST_RULES[opcode]


def test_control_flow_counts_what_it_calls():
    assert {id(cost_rule(OPS[opcode])) for opcode in ("while", "conditional", "call")} == {id(CONTROL_FLOW)}


def test_an_elementwise_op_has_the_rule_that_its_traits_imply():
    assert "sine" not in COST_RULES
    assert cost_rule(OPS["sine"]) is not None


def test_an_unknown_op_has_none():
    assert cost_rule(Op("no-such-op", is_known=False)) is None
