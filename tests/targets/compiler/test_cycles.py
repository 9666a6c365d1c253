"""The compiler's cycles, summed along the entry."""

from __future__ import annotations

from hloom import parse
from hloom.targets.compiler import compiler_cycles, estimated_cycles

CONFIG = 'backend_config={{"window_config":{{"estimated_cycles":"{}"}}}}'
LOOP = f"""HloModule m, is_scheduled=true

body {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one), {CONFIG.format(5)}
  y = f32[8] negate(x), {CONFIG.format(100)}
  ROOT t = (s32[], f32[8]) tuple(next, y)
}}

condition {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=LT, {CONFIG.format(1)}
}}

short {{ a = f32[8] parameter(0) ROOT b = f32[8] negate(a), {CONFIG.format(7)} }}
long {{ a = f32[8] parameter(0) ROOT b = f32[8] exponential(a), {CONFIG.format(70)} }}

ENTRY main {{
  x = f32[8] parameter(0)
  p = pred[] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(init), condition=condition, body=body
  y = f32[8] get-tuple-element(w), index=1
  c = f32[8] conditional(p, y, y), true_computation=short, false_computation=long
  ROOT r = f32[8] negate(c), {CONFIG.format(1000)}
}}
"""


def test_loops_count_their_iterations_and_conditionals_their_longest_branch():
    cycles = compiler_cycles(parse(LOOP))
    assert cycles is not None
    assert cycles.total == 10 * 105 + 11 * 1 + 70 + 1000
    assert (cycles.instructions, cycles.unknown_loops) == (6, 0)


def test_a_loop_that_depends_on_data_counts_once():
    cycles = compiler_cycles(parse(LOOP.replace("zero = s32[] constant(0)", "zero = s32[] parameter(2)")))
    assert cycles is not None
    assert (cycles.total, cycles.unknown_loops) == (105 + 2 * 1 + 70 + 1000, 1)


def test_a_compiler_without_estimates_has_none():
    module = parse('ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x), backend_config={"a":"1"} }')
    assert compiler_cycles(module) is None
    assert estimated_cycles(module.entry.root) is None
