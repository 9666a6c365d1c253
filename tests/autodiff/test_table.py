"""The table of derivative rules: every opcode has one rule, and every linear op one transposition."""

from __future__ import annotations

import pytest

from hloom.autodiff import RULES
from hloom.autodiff.table import expansion, is_differentiable, none, rules, transposition
from hloom.ops import OPS


def test_every_opcode_has_a_rule_or_a_reason():
    assert [opcode for opcode in OPS if opcode not in RULES] == []
    for opcode, rule in RULES.items():
        ways = [rule.linearize is not None, rule.structural, bool(rule.because)]
        assert sum(ways) == 1 or (rule.expand is not None and sum(ways) == 0), opcode


def test_a_second_rule_is_refused():
    for declare in (rules("sine"), expansion("sine")):
        with pytest.raises(ValueError, match="sine has a rule already"):
            declare(lambda *arguments: None)
    with pytest.raises(ValueError, match="sine has a rule already"):
        none("sine", because="a test")
    with pytest.raises(ValueError, match="slice has a transposition already"):
        transposition("slice")(lambda *arguments: None)


def test_a_zero_derivative_is_told_from_a_missing_one():
    assert not is_differentiable("floor")
    assert is_differentiable("sine")
    assert is_differentiable("an-opcode-of-a-dialect")
