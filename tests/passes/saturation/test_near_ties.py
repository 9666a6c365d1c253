"""Forms of nearly equal FLOPs, of which the fastest is taken.

Covers `extraction.py`, `extraction_model.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.passes.saturation import saturate
from hloom.passes.saturation.extraction_model import ExtractionModel

RNN = """g = f32[16,128] add(a, p)
  n = f32[16,128] tanh(g)"""
LSTM = """g = f32[16,128] add(a, p)
  gi = f32[16,32] slice(g), slice={[0:16], [0:32]}
  gf = f32[16,32] slice(g), slice={[0:16], [32:64]}
  gu = f32[16,32] slice(g), slice={[0:16], [64:96]}
  go = f32[16,32] slice(g), slice={[0:16], [96:128]}
  ti = f32[16,32] logistic(gi)
  tf = f32[16,32] logistic(gf)
  tu = f32[16,32] tanh(gu)
  to = f32[16,32] logistic(go)
  kept = f32[16,32] multiply(tf, h)
  put = f32[16,32] multiply(ti, tu)
  c = f32[16,32] add(kept, put)
  tc = f32[16,32] tanh(c)
  n = f32[16,32] multiply(to, tc)"""
CELL = """condition {
  s = (s32[], f32[16,64], f32[16,STATE], f32[64,128], f32[STATE,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  e = s32[] constant(9)
  ROOT p = pred[] compare(i, e), direction=LT
}
body {
  s = (s32[], f32[16,64], f32[16,STATE], f32[64,128], f32[STATE,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16,64] get-tuple-element(s), index=1
  h = f32[16,STATE] get-tuple-element(s), index=2
  u = f32[64,128] get-tuple-element(s), index=3
  w = f32[STATE,128] get-tuple-element(s), index=4
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[16,128] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[16,128] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  GATES
  ROOT t = (s32[], f32[16,64], f32[16,STATE], f32[64,128], f32[STATE,128]) tuple(j, x, n, u, w)
}
ENTRY e {
  z = s32[] constant(0)
  x = f32[16,64] parameter(0)
  h = f32[16,STATE] parameter(1)
  u = f32[64,128] parameter(2)
  w = f32[STATE,128] parameter(3)
  s = (s32[], f32[16,64], f32[16,STATE], f32[64,128], f32[STATE,128]) tuple(z, x, h, u, w)
  l = (s32[], f32[16,64], f32[16,STATE], f32[64,128], f32[STATE,128]) while(s), condition=condition, body=body
  ROOT r = f32[16,STATE] get-tuple-element(l), index=2
}"""


@pytest.mark.parametrize(("gates", "state"), [(RNN, 128), (LSTM, 32)], ids=["RNN", "LSTM"])
def test_a_recurrent_loop_is_no_slower_for_a_sum_that_is_saved(gates: str, state: int):
    """One product of concatenated arrays saves the sum of two, and the start of a second product on a GPU."""
    before = hloom.parse(CELL.replace("GATES", gates).replace("STATE", str(state)))
    after, _ = saturate(before, cost="flops")
    simplified = hloom.opt(before, "simplify-xla,cse,dce")[0]
    assert hloom.roofline(after, "h100").seconds <= hloom.roofline(simplified, "h100").seconds
    assert hloom.cost(after).total.flops <= hloom.cost(simplified).total.flops
    hloom.verify(after)
    inputs = [0.1 * np.asarray(value) for value in hloom.run(before, seed=3).inputs]  # no error grows over the steps
    for one, two in zip(hloom.run(before, inputs).outputs, hloom.run(after, inputs).outputs, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_of_nearly_equal_costs_the_fastest_is_taken():
    module = hloom.parse("ENTRY e { x = f32[8] parameter(0) y = f32[8] negate(x) z = f32[8] sine(x) ROOT w = f32[8] abs(x) }")
    nodes = list(module.entry.nodes)[:4]
    costs, seconds = (100.0, 101.0, 101.5, 103.0), (9.0, 5.0, 7.0, 1.0)
    model = ExtractionModel(
        {0: nodes}, dict.fromkeys(nodes, ()), dict(zip(nodes, costs, strict=True)), [0],
        dict(zip(nodes, seconds, strict=True)),
    )  # fmt: skip
    solved = model.solve()
    assert solved is not None and solved[0] == {0: nodes[0]} and solved[1] == {0: nodes[1]}
    assert solved[2] == pytest.approx(100.0)
