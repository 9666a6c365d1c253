"""A recurrent network of 60 steps, whose derivatives explode where its weights are about 1."""

from __future__ import annotations

import hloom
from hloom.ir import Module

SINES = "y = f32[8] sine(v)"
"""The activation: y of v."""


def recurrent(activation: str) -> Module:
    """The squares of the state after 60 steps, summed; of the first state and the weights."""
    return hloom.parse(RECURRENT.replace("ACTIVATION", activation))


RECURRENT = """HloModule recurrent
goes_on {
  s = (s32[], f32[8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(60)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], f32[8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  w = f32[8,8] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[8] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ACTIVATION
  ROOT r = (s32[], f32[8], f32[8,8]) tuple(j, y, w)
}
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
ENTRY e {
  x = f32[8] parameter(0)
  w = f32[8,8] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[8], f32[8,8]) tuple(z, x, w)
  l = (s32[], f32[8], f32[8,8]) while(t), condition=goes_on, body=step
  o = f32[8] get-tuple-element(l), index=1
  squares = f32[8] multiply(o, o)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(squares, zero), dimensions={0}, to_apply=sum
}
"""
