"""Recomputation in programs that are cut into microbatches or partitioned later: nothing waits for other examples."""

import hloom
from hloom.distribute.remat import rematerialize
from hloom.formats.hlo import parse

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LAYERS = " ".join(f"h{n} = f32[512,64] tanh(a{n}) a{n + 1} = f32[512,64] dot(h{n}, w), {DOT}" for n in range(6))
LOSS = f"""
add {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }}
ENTRY loss {{
  w = f32[64,64] parameter(0)
  a0 = f32[512,64] parameter(1)
  {LAYERS}
  zero = f32[] constant(0)
  ROOT sum = f32[] reduce(a6, zero), dimensions={{0,1}}, to_apply=add
}}"""


def test_recomputed_then_cut_into_microbatches():
    step = hloom.grad(parse(LOSS), "w")
    made = rematerialize(step, "900KB", backend="partitioned")
    assert made.peak <= 900_000 < made.original_peak
    cut = hloom.microbatch(made.module, 4, batch={"a0": 0})
    whole, slices = hloom.run(step, seed=1), hloom.run(cut, seed=1)
    assert not hloom.compare(slices.outputs, whole.outputs)


def test_recomputation_sends_nothing():
    step = hloom.grad(parse(LOSS), "w")
    made = rematerialize(step, "900KB", backend="partitioned")
    sent = [hloom.plan(module, "data=4").best.expected for module in (step, made.module)]
    assert sent[0] is not None and sent[1] is not None and sent[1].sent <= 1.01 * sent[0].sent
