"""Collectives: the objective is the sum over devices, so that what one receives, others have to send back.

Covers `rules/collective.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.runtime import run_per_device

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
    gradient, _ = hloom.apply(hloom.vjp(program(name)), "dce")
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
