"""What dependences alone say about the order of instructions."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.targets.cpu.dependency_order import DependencyOrdering, ExecutionConstraint

TEXT = """HloModule m
body {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[] get-tuple-element(p), index=1
  j = s32[] add(i, i)
  b = f32[] add(a, a)
  ROOT r = (s32[], f32[]) tuple(j, b)
}
cond {
  q = (s32[], f32[]) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  ROOT t = pred[] compare(k, k), direction=LT
}
ENTRY main {
  s = (s32[], f32[]) parameter(0)
  w = (s32[], f32[]) while(s), condition=cond, body=body
  v = s32[] get-tuple-element(w), index=0
  ROOT o = s32[] negate(v)
}
"""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("v", "v", ExecutionConstraint.SAME),
        ("s", "o", ExecutionConstraint.BEFORE),
        ("o", "s", ExecutionConstraint.AFTER),
        ("j", "b", ExecutionConstraint.UNORDERED),
        ("b", "o", ExecutionConstraint.BEFORE),
        ("t", "j", ExecutionConstraint.BEFORE_END),
    ],
)
def test_order(one: str, other: str, expected: ExecutionConstraint):
    module = parse(TEXT)
    module.index_users()
    nodes = {node.name: node for graph in module.graphs for node in graph.nodes}
    assert DependencyOrdering(module, {}).constraint(nodes[one], nodes[other]) is expected
