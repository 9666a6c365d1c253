"""Collectives: the objective is the sum over devices, so that what one receives, others have to send back.

Covers `rules/collective.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.runtime import run_per_device
from hloom.text import HloomError

REDUCER = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
REDUCER += "top { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n"
COLLECTIVES = {
    "all-reduce": "ROOT r = f32[4] all-reduce(s), replica_groups={{0,1}}, to_apply=add",
    "all-reduce of maxima": "ROOT r = f32[4] all-reduce(s), replica_groups={{0,1}}, to_apply=top",
    "all-gather": "ROOT r = f32[8] all-gather(s), replica_groups={{0,1}}, dimensions={0}",
    "reduce-scatter": "ROOT r = f32[2] reduce-scatter(s), replica_groups={{0,1}}, dimensions={0}, to_apply=add",
    "all-to-all": "ROOT r = f32[4] all-to-all(s), replica_groups={{0,1}}, dimensions={0}",
    "collective-permute": "ROOT r = f32[4] collective-permute(s), source_target_pairs={{0,1}}",
}


def program(name: str) -> hloom.Module:
    body = f"x = f32[4] parameter(0) s = f32[4] sine(x) {COLLECTIVES[name]}"
    return hloom.parse(f"HloModule m, replica_count=2\n{REDUCER}\nENTRY e {{ {body} }}")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_both_modes_agree_over_all_devices(name: str):
    rng = np.random.default_rng(0)
    inputs, tangents = (rng.uniform(-1, 1, (2, 4)).astype(np.float32) for _ in range(2))
    forward = run_per_device(
        hloom.jvp(program(name)), [[x, t] for x, t in zip(inputs, tangents, strict=True)]
    ).per_device
    moved = [outputs[1] for outputs in forward]
    cotangents = [rng.uniform(-1, 1, value.shape).astype(np.float32) for value in moved]
    gradient = hloom.vjp(program(name))
    result = run_per_device(gradient, [[x, c] for x, c in zip(inputs, cotangents, strict=True)]).per_device
    there = sum(float((c * t).sum()) for c, t in zip(cotangents, moved, strict=True))
    back = sum(float((g[0] * t).sum()) for g, t in zip(result, tangents, strict=True))
    assert back == pytest.approx(there, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "opcode"),
    [("all-gather", "reduce-scatter"), ("reduce-scatter", "all-gather"), ("all-to-all", "all-to-all")],
)
def test_what_is_sent_back(name: str, opcode: str):
    gradient, _ = hloom.opt(hloom.vjp(program(name)), "dce")
    assert [node.opcode for node in gradient.entry.nodes if node.opcode in COLLECTIVES] == [opcode]


def test_a_device_that_takes_a_whole_array_gives_its_part_of_the_sum():
    """Two devices have the same whole array: the cotangent is the sum of theirs."""
    text = """HloModule m, num_partitions=2
    ENTRY e { x = f32[4] parameter(0)
      w = f32[4] custom-call(x), custom_call_target="Sharding", sharding={replicated}
      p = f32[4] custom-call(w), custom_call_target="SPMDFullToShardShape", sharding={manual}
      i = u32[] partition-id() f = f32[] convert(i) b = f32[4] broadcast(f), dimensions={} m = f32[4] multiply(p, b)
      q = f32[4] custom-call(m), custom_call_target="Sharding", sharding={manual}
      ROOT r = f32[8] custom-call(q), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]<=[2]} }"""
    (result,) = hloom.run(hloom.vjp(hloom.parse(text)), [np.ones(4, np.float32), np.arange(8, dtype=np.float32)],
                         devices=2).outputs  # fmt: skip
    np.testing.assert_array_equal(result, [4, 5, 6, 7])


EXACT = """
add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] add(a, b) }
top { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] maximum(a, b) }
low { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] minimum(a, b) }
product { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] multiply(a, b) }
body { s = (s32[], f64[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f64[4] get-tuple-element(s), index=1
  o = s32[] constant(1) j = s32[] add(i, o) m = f64[4] all-reduce(v), replica_groups={}, to_apply=add w = f64[4] sine(m)
  ROOT r = (s32[], f64[4]) tuple(j, w) }
less { s = (s32[], f64[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ring { s = (f64[], f64[4]) parameter(0) e = f64[] get-tuple-element(s), index=0 v = f64[4] get-tuple-element(s), index=1
  p = f64[4] collective-permute(v), source_target_pairs={{0,1},{1,2},{2,3},{3,0}} c = f64[4] cosine(p)
  d = f64[4] multiply(c, v) k = f64[] constant(0.5) b = f64[4] broadcast(k), dimensions={} w = f64[4] multiply(d, b) z = f64[] constant(0) t = f64[] reduce(w, z), dimensions={0}, to_apply=add
  a = f64[] all-reduce(t), replica_groups={}, to_apply=add h = f64[] abs(a)
  ROOT r = (f64[], f64[4]) tuple(h, w) }
going { s = (f64[], f64[4]) parameter(0) e = f64[] get-tuple-element(s), index=0 n = f64[] constant(0.3)
  ROOT p = pred[] compare(e, n), direction=GT }
"""
FOUR_DEVICES = {
    "sum in groups": "ROOT r = f64[4] all-reduce(s), replica_groups={{0,2},{1,3}}, to_apply=add",
    "maximum": "ROOT r = f64[4] all-reduce(s), replica_groups={{0,1,2,3}}, to_apply=top",
    "minimum in groups": "ROOT r = f64[4] all-reduce(s), replica_groups={{0,3},{1,2}}, to_apply=low",
    "product": "ROOT r = f64[4] all-reduce(s), replica_groups={}, to_apply=product",
    "product in groups": "ROOT r = f64[4] all-reduce(s), replica_groups={{0,3},{1,2}}, to_apply=product",
    "several sums": "a = (f64[4], f64[4]) all-reduce(s, x), replica_groups={{0,1},{2,3}}, to_apply=add "
    "b = f64[4] get-tuple-element(a), index=0 c = f64[4] get-tuple-element(a), index=1 ROOT r = f64[4] multiply(b, c)",
    "scatter of a maximum": "ROOT r = f64[1] reduce-scatter(s), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=top",
    "scatter of a minimum, of all": "ROOT r = f64[1] reduce-scatter(s), replica_groups={}, dimensions={0}, to_apply=low",
    "scatter of a product": "ROOT r = f64[2] reduce-scatter(s), replica_groups={{0,2},{1,3}}, dimensions={0}, to_apply=product",
    "scatter of a sum": "ROOT r = f64[2] reduce-scatter(s), replica_groups={{0,2},{1,3}}, dimensions={0}, to_apply=add",
    "gather in groups": "ROOT r = f64[8] all-gather(s), replica_groups={{0,2},{1,3}}, dimensions={0}",
    "permutation": "ROOT r = f64[4] collective-permute(s), source_target_pairs={{0,1},{1,3},{3,0}}",
    "all to all": "ROOT r = f64[4] all-to-all(s), replica_groups={{0,1,2,3}}, dimensions={0}",
    "device's number": "i = u32[] replica-id() f = f64[] convert(i) b = f64[4] broadcast(f), dimensions={} "
    "m = f64[4] multiply(b, s) ROOT r = f64[4] all-reduce(m), replica_groups={}, to_apply=add",
    "sum in a loop": "z = s32[] constant(0) t = (s32[], f64[4]) tuple(z, s) "
    "l = (s32[], f64[4]) while(t), condition=less, body=body ROOT r = f64[4] get-tuple-element(l), index=1",
    "ring until small": "e = f64[] constant(9) t = (f64[], f64[4]) tuple(e, s) "
    "l = (f64[], f64[4]) while(t), condition=going, body=ring ROOT r = f64[4] get-tuple-element(l), index=1",
}


@pytest.mark.parametrize("name", FOUR_DEVICES)
def test_central_differences_over_four_devices(name: str):
    body = f"x = f64[4] parameter(0) s = f64[4] sine(x) {FOUR_DEVICES[name]}"
    program = hloom.parse(f"HloModule m, replica_count=4\n{EXACT}\nENTRY e {{ {body} }}")
    rng = np.random.default_rng(0)
    inputs, tangents = rng.uniform(0.2, 1.2, (4, 4)), rng.uniform(-1, 1, (4, 4))
    step = 1e-6
    ahead, behind = (
        np.stack([outputs[0] for outputs in run_per_device(program, [[row] for row in inputs + sign * step * tangents]).per_device])
        for sign in (1, -1)
    )
    moved = (ahead - behind) / (2 * step)
    cotangents = rng.uniform(-1, 1, moved.shape)
    forward = run_per_device(hloom.jvp(program), [[x, t] for x, t in zip(inputs, tangents, strict=True)]).per_device
    np.testing.assert_allclose(np.stack([outputs[1] for outputs in forward]), moved, rtol=1e-6, atol=1e-7)
    gradient = hloom.vjp(program)
    result = run_per_device(gradient, [[x, c] for x, c in zip(inputs, cotangents, strict=True)]).per_device
    there = float((cotangents * moved).sum())
    back = float((np.stack([outputs[0] for outputs in result]) * tangents).sum())
    assert back == pytest.approx(there, rel=1e-6, abs=1e-7)


def test_the_device_that_sends_is_given_the_sum():
    """XLA's CPU client has no collective-broadcast: the gradient alone is run."""
    body = "x = f64[2] parameter(0) ROOT r = f64[2] collective-broadcast(x), replica_groups={{2,1},{3}}"
    gradient = hloom.vjp(hloom.parse(f"HloModule m, replica_count=4\n{EXACT}\nENTRY e {{ {body} }}"))
    cotangents = np.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0], [1000.0, 2000.0]])
    result = run_per_device(gradient, [[np.zeros(2), row] for row in cotangents]).per_device
    np.testing.assert_array_equal([outputs[0] for outputs in result], [[0, 0], [0, 0], [110, 220], [1000, 2000]])


def test_a_sender_that_is_no_device_is_refused():
    body = "x = f64[2] parameter(0) ROOT r = f64[2] collective-broadcast(x), replica_groups={{7}}"
    with pytest.raises(HloomError, match="replica_groups name devices that are not among the 4"):
        hloom.vjp(hloom.parse(f"HloModule m, replica_count=4\nENTRY e {{ {body} }}"))


def test_an_all_reduce_by_a_computation_of_its_own_is_gathered():
    norm = """norm { a = f64[] parameter(0) b = f64[] parameter(1) x = f64[] multiply(a, a) y = f64[] multiply(b, b)
      z = f64[] add(x, y) ROOT c = f64[] sqrt(z) }"""
    body = "x = f64[2] parameter(0) ROOT r = f64[2] all-reduce(x), replica_groups={}, to_apply=norm"
    gradient = hloom.vjp(hloom.parse(f"HloModule m, replica_count=2\n{norm}\nENTRY e {{ {body} }}"))
    inputs = np.array([[3.0, 5.0], [4.0, 12.0]])
    result = run_per_device(gradient, [[row, np.ones(2)] for row in inputs]).per_device
    np.testing.assert_allclose([outputs[0] for outputs in result], 2 * inputs / np.array([5.0, 13.0]))
