"""The questions of the rule index: facts about a node and its operands, two levels down."""

from __future__ import annotations

from typing import Any

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Node
from hloom.rewrite.questions import Question, answer_to

TEXT = """ENTRY e {
  x = f32[4,8] parameter(0)
  two = f32[] constant(2)
  twos = f32[4,8] broadcast(two), dimensions={}
  t = f32[8,4] transpose(x), dimensions={1,0}
  y = f32[4,8] transpose(t), dimensions={1,0}
  ROOT p = f32[4,8] multiply(y, twos)
}"""


def root() -> Node:
    return parse(TEXT).entry.root


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("opcode", (), ""), "multiply"),
        (("opcode", (0,), ""), "transpose"),
        (("opcode", (0, 0), ""), "transpose"),
        (("opcode", (1, 0), ""), "constant"),
        (("opcode", (2,), ""), None),
        (("opcode", (1, 0, 0), ""), None),
        (("attribute", (0,), "dimensions"), (1, 0)),
        (("attribute", (), "dimensions"), None),
        (("splat", (1,), ""), 2.0),
        (("splat", (0,), ""), None),
        (("element", (0,), ""), "f32"),
        (("rank", (0, 0), ""), 2),
        (("rank", (1, 0), ""), 0),
    ],
)
def test_answers(question: Question, answer: Any):
    assert answer_to(question, root()) == answer


def test_what_cannot_be_hashed_has_no_answer():
    node = root()
    node.graph.set_attributes(node, {**node.attributes, "frontend_attributes": ["a", "list"]})
    assert answer_to(("attribute", (), "frontend_attributes"), node) is None
