"""Programs with loops, branches, calls and barriers, small enough to read and large enough to be worth splitting."""

from __future__ import annotations

SCAN = """HloModule scan, input_output_alias={ {1}: (1, {}, may-alias) }

square {
  s = f32[64,64] parameter(0)
  ROOT t = f32[64,64] multiply(s, s)
}

body {
  state = (s32[], f32[64,64], f32[4,64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[64,64] get-tuple-element(state), index=1
  ws = f32[4,64,64] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  w1 = f32[1,64,64] dynamic-slice(ws, i, zero, zero), dynamic_slice_sizes={1,64,64}
  w = f32[64,64] reshape(w1)
  pair = (f32[64,64], f32[64,64]) tuple(x, w)
  kept = (f32[64,64], f32[64,64]) opt-barrier(pair)
  kx = f32[64,64] get-tuple-element(kept), index=0
  kw = f32[64,64] get-tuple-element(kept), index=1
  y = f32[64,64] dot(kx, kw), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,64] tanh(y)
  next = s32[] add(i, one)
  ROOT out = (s32[], f32[64,64], f32[4,64,64]) tuple(next, z, ws)
}

condition {
  state = (s32[], f32[64,64], f32[4,64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  four = s32[] constant(4)
  ROOT less = pred[] compare(i, four), direction=LT
}

ENTRY main {
  x = f32[64,64] parameter(0)
  ws = f32[4,64,64] parameter(1)
  zero = s32[] constant(0)
  first = (s32[], f32[64,64], f32[4,64,64]) tuple(zero, x, ws)
  once = (s32[], f32[64,64], f32[4,64,64]) while(first), condition=condition, body=body
  y = f32[64,64] get-tuple-element(once), index=1
  again = (s32[], f32[64,64], f32[4,64,64]) tuple(zero, y, ws)
  twice = (s32[], f32[64,64], f32[4,64,64]) while(again), condition=condition, body=body
  z = f32[64,64] get-tuple-element(twice), index=1
  squared = f32[64,64] call(z), to_apply=square
  wn = f32[4,64,64] add(ws, ws)
  ROOT result = (f32[64,64], f32[4,64,64]) tuple(squared, wn)
}
"""
"""Two loops that share a body with a barrier, and a call."""

MASKED_SCAN = """HloModule masked

body {
  state = (s32[], f32[512,64], f32[64,64], f32[512,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[512,64] get-tuple-element(state), index=1
  w = f32[64,64] get-tuple-element(state), index=2
  low = f32[512,64] get-tuple-element(state), index=3
  one = s32[] constant(1)
  scaled = f32[64,64] tanh(w)
  y = f32[512,64] dot(x, scaled), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[512,64] maximum(y, low)
  next = s32[] add(i, one)
  ROOT out = (s32[], f32[512,64], f32[64,64], f32[512,64]) tuple(next, z, w, low)
}

condition {
  state = (s32[], f32[512,64], f32[64,64], f32[512,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  four = s32[] constant(4)
  ROOT less = pred[] compare(i, four), direction=LT
}

ENTRY main {
  x = f32[512,64] parameter(0)
  w = f32[64,64] parameter(1)
  zero = s32[] constant(0)
  least = f32[] parameter(2)
  low = f32[512,64] broadcast(least), dimensions={}
  first = (s32[], f32[512,64], f32[64,64], f32[512,64]) tuple(zero, x, w, low)
  last = (s32[], f32[512,64], f32[64,64], f32[512,64]) while(first), condition=condition, body=body
  ROOT y = f32[512,64] get-tuple-element(last), index=1
}
"""
"""A loop that takes a value which costs nothing in any spec, and computes what never changes."""

STACKED = """HloModule stacked

body {
  state = (s32[], f32[8,64], f32[16,8,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[8,64] get-tuple-element(state), index=1
  rows = f32[16,8,64] get-tuple-element(state), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  y = f32[8,64] tanh(x)
  row = f32[1,8,64] reshape(x)
  stacked = f32[16,8,64] dynamic-update-slice(rows, row, i, zero, zero)
  ROOT out = (s32[], f32[8,64], f32[16,8,64]) tuple(next, y, stacked)
}

condition {
  state = (s32[], f32[8,64], f32[16,8,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  many = s32[] constant(16)
  ROOT less = pred[] compare(i, many), direction=LT
}

ENTRY main {
  x = f32[8,64] parameter(0)
  zero = s32[] constant(0)
  low = f32[] constant(0)
  rows = f32[16,8,64] broadcast(low), dimensions={}
  first = (s32[], f32[8,64], f32[16,8,64]) tuple(zero, x, rows)
  last = (s32[], f32[8,64], f32[16,8,64]) while(first), condition=condition, body=body
  all = f32[16,8,64] get-tuple-element(last), index=2
  ROOT result = f32[16,8,64] sine(all)
}
"""
"""A loop that stacks rows."""

BRANCHES = """HloModule branches

product {
  given = (f32[64,64], f32[64,64]) parameter(0)
  a = f32[64,64] get-tuple-element(given), index=0
  b = f32[64,64] get-tuple-element(given), index=1
  c = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[64,64], f32[64,64]) tuple(c, b)
}

swap {
  given = (f32[64,64], f32[64,64]) parameter(0)
  a = f32[64,64] get-tuple-element(given), index=0
  b = f32[64,64] get-tuple-element(given), index=1
  ROOT r = (f32[64,64], f32[64,64]) tuple(b, a)
}

negated {
  a = f32[64,64] parameter(0)
  ROOT r = f32[64,64] negate(a)
}

same {
  ROOT a = f32[64,64] parameter(0)
}

ENTRY main {
  p = pred[] parameter(0)
  a = f32[64,64] parameter(1)
  b = f32[64,64] parameter(2)
  pair = (f32[64,64], f32[64,64]) tuple(a, b)
  either = (f32[64,64], f32[64,64]) conditional(p, pair, pair), true_computation=product, false_computation=swap
  first = f32[64,64] get-tuple-element(either), index=0
  turned = f32[64,64] conditional(p, first, first), true_computation=negated, false_computation=same
  index = s32[] constant(1)
  ROOT last = (f32[64,64], f32[64,64]) conditional(index, either, either), branch_computations={swap, product}
}
"""
"""Branches of tuples and of arrays, one of which yields what it is given; the entry yields a branch's tuple."""

COUNTDOWN = """HloModule countdown

halve {
  x = f32[64,64] parameter(0)
  half = f32[] constant(0.5)
  halves = f32[64,64] broadcast(half), dimensions={}
  ROOT y = f32[64,64] multiply(x, halves)
}

large {
  x = f32[64,64] parameter(0)
  corner = f32[1,1] slice(x), slice={[0:1], [0:1]}
  value = f32[] reshape(corner)
  one = f32[] constant(1)
  ROOT more = pred[] compare(value, one), direction=GT
}

ENTRY main {
  x = f32[64,64] parameter(0)
  ROOT y = f32[64,64] while(x), condition=large, body=halve
}
"""
"""A loop over an array whose trip count depends on the data."""
