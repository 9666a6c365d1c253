"""What is read from a module that XLA partitioned."""

from __future__ import annotations

from hloom.distribute.planner.partitioned import read_partitioned
from hloom.distribute.planner.plan import Plan
from hloom.formats.hlo import parse
from hloom.runtime import partition
from hloom.sharding import Mesh, Spec

MESH = Mesh.parse("x=2,y=4")


def test_a_loops_body_counts_as_often_as_it_runs():
    text = """HloModule loop

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[64,64] get-tuple-element(s), index=1
  d = f32[64,64] dot(v, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[64,64]) tuple(j, d)
}

condition {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}

ENTRY main {
  p = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[64,64]) tuple(zero, p)
  w = (s32[], f32[64,64]) while(s), condition=condition, body=body
  ROOT r = f32[64,64] get-tuple-element(w), index=1
}
"""
    result = read_partitioned(partition(Plan(MESH, {0: Spec.replicated(2)}).annotate(parse(text)), 8).module, 8, 0)
    assert result.flops == 5 * 2 * 64**3
    assert result.comm_bytes == 0
