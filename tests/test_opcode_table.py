"""Every opcode has a rule for every concern, or says why not; and docs/opcodes.md says so."""

from __future__ import annotations

import pytest

from hloom.autodiff import RULES as DERIVATIVES
from hloom.ir import Op
from hloom.ops import OPS
from scripts.make_opcode_table import CONCERNS, PAGE, cell, holes, page


def test_there_are_no_silent_holes():
    assert holes() == []


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "python scripts/make_opcode_table.py"


def test_every_rule_is_for_an_opcode():
    assert set(DERIVATIVES) <= set(OPS)


@pytest.mark.parametrize("concern", [figure for figure in CONCERNS if figure != "effect"])
def test_an_opcode_without_rules_or_reasons_is_a_hole(concern: str):
    assert cell(Op("nothing"), concern) == ("", "")


def test_a_reason_fills_a_hole():
    assert cell(Op("nothing", because={"axes": "it has none"}), "axes") == ("none", "it has none")
