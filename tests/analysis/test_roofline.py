"""Times by hand: a device of round numbers, and programs small enough to count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hloom.analysis import Device, Interconnect, roofline
from hloom.analysis.devices import devices
from hloom.analysis.fusion import FusionModel, border_bytes
from hloom.formats.hlo import parse
from hloom.ir import Module

SOURCES = {"bandwidth": "round", "latency": "round"}
LINKS = (
    Interconnect("near", "NVLink", "switch", 100.0, 1.0, 4, sources=SOURCES),
    Interconnect("far", "InfiniBand", "switch", 10.0, 5.0, None, sources=SOURCES),
    Interconnect("host", "PCIe", "host", 20.0, 2.0, 1, sources=SOURCES),
)
ROUND = Device(
    name="round",
    title="a device of round numbers",
    memory_bytes=1e9,
    memory_bandwidth=1000.0,
    launch_seconds=0.5,
    matrix={"f32": 100.0, "bf16": 400.0},
    vector={"f32": 10.0},
    transcendental={"default": 2.0, "sine": 1.0},
    opcodes={"sort": 4.0},
    links=LINKS,
)
"""Bytes at 1000/s, matrices of f32 at 100/s, vectors at 10/s, each instruction half a second more."""


def entry(*lines: str, header: str = "") -> Module:
    return parse(f"HloModule m{header}\n\nENTRY main {{\n  " + "\n  ".join(lines) + "\n}\n")


def times(module: Module, on: Device = ROUND) -> dict[str, tuple[float, str]]:
    return {timing.node.name: (timing.total, timing.bound) for timing in roofline(module, on).timings}


def test_a_dot_is_bound_by_computing():
    module = entry(
        "x = f32[4,8] parameter(0)",
        "y = f32[8,2] parameter(1)",
        "ROOT d = f32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    (timing,) = roofline(module, ROUND).timings
    assert timing.cost.flops == 2 * 4 * 8 * 2
    assert timing.cost.bytes_accessed == 4 * (32 + 16 + 8)
    assert (timing.compute, timing.memory, timing.launch) == (128 / 100, 224 / 1000, 0.5)
    assert timing.seconds == 1.28 + 0.5
    assert timing.bound == "compute"
    assert timing.intensity == 128 / 224
    assert timing.achieved == pytest.approx(128 / 1.78)


def test_a_dot_of_bf16_runs_at_its_own_rate():
    module = entry(
        "x = bf16[4,8] parameter(0)",
        "ROOT d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    )
    assert roofline(module, ROUND).timings[0].compute == 2 * 4 * 8 * 4 / 400


def test_a_copy_is_bound_by_memory_and_a_scalar_by_its_launch():
    large = entry("x = f32[1000] parameter(0)", "ROOT c = f32[1000] copy(x)")
    assert times(large) == {"c": (8.0 + 0.5, "memory")}
    small = entry("x = f32[] parameter(0)", "ROOT c = f32[] copy(x)")
    assert times(small) == {"c": (0.008 + 0.5, "launch")}


def test_elementwise_instructions_fuse_and_only_the_border_moves():
    module = entry(
        "x = f32[10] parameter(0)",
        "y = f32[10] parameter(1)",
        "s = f32[10] sine(x)",
        "m = f32[10] multiply(s, y)",
        "ROOT a = f32[10] add(m, x)",
    )
    (timing,) = roofline(module, ROUND).timings
    assert timing.instructions == 3
    assert timing.cost.bytes_accessed == 4 * (10 + 10 + 10)
    assert timing.compute == pytest.approx(10 / 1 + 20 / 10)


def test_a_value_that_two_groups_read_is_written():
    module = entry(
        "x = f32[10] parameter(0)",
        "e = f32[10] exponential(x)",
        "d = f32[10] dot(e, e), lhs_batch_dims={0}, rhs_batch_dims={0}",
        "ROOT a = f32[10] add(e, d)",
    )
    assert set(times(module)) == {"e", "d", "a"}


def test_a_reduction_takes_in_what_it_reads_but_does_not_join():
    module = parse(
        """
sum { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }
ENTRY main {
  x = f32[10,10] parameter(0)
  zero = f32[] constant(0)
  n = f32[10,10] negate(x)
  r = f32[10] reduce(n, zero), dimensions={1}, to_apply=sum
  ROOT h = f32[10] negate(r)
}
"""
    )
    timings = {timing.node.name: timing for timing in roofline(module, ROUND).timings}
    assert set(timings) == {"r", "h"}
    assert timings["r"].cost.bytes_accessed == 4 * (100 + 10)
    assert timings["r"].cost.flops == 100 + 90


def test_broadcasts_are_made_anew_and_reshapes_are_free():
    module = entry(
        "x = f32[10] parameter(0)",
        "c = f32[] constant(2)",
        "b = f32[10] broadcast(c), dimensions={}",
        "m = f32[10] multiply(x, b)",
        "v = f32[5,2] reshape(m)",
        "w = f32[10] divide(x, b)",
        "ROOT t = (f32[5,2], f32[10]) tuple(v, w)",
    )
    bytes_accessed = {timing.node.name: timing.cost.bytes_accessed for timing in roofline(module, ROUND).timings}
    assert bytes_accessed == {"m": 4 * 20 + 4, "w": 4 * 20 + 4}


def test_slices_read_what_they_give():
    module = entry("x = f32[1000] parameter(0)", "s = f32[10] slice(x), slice={[0:10]}", "ROOT n = f32[10] negate(s)")
    groups = FusionModel(is_final=False).groups(module.entry)
    assert [sum(part.size for part in border_bytes(group, lambda node: node.type)) for group in groups] == [4 * 20]


def test_a_transpose_that_only_dots_read_is_free():
    module = entry(
        "x = f32[4,8] parameter(0)",
        "t = f32[8,4] transpose(x), dimensions={1,0}",
        "ROOT d = f32[4,4] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    assert set(times(module)) == {"d"}


def test_a_module_that_a_compiler_fused_is_taken_as_it_is():
    module = parse(
        """
fused { p = f32[10] parameter(0)
  s = f32[10] sine(p)
  ROOT a = f32[10] add(s, p) }
ENTRY main {
  x = f32[10] parameter(0)
  f = f32[10] fusion(x), kind=kLoop, calls=fused
  ROOT n = f32[10] negate(f)
}
"""
    )
    report = roofline(module, ROUND)
    assert report.is_fused
    assert {timing.node.name: timing.compute for timing in report.timings} == {"f": 10 / 1 + 10 / 10, "n": 1.0}


LOOP = """
body {
  s = (s32[], f32[10]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[10] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[10] sine(x)
  ROOT t = (s32[], f32[10]) tuple(j, y)
}
condition {
  s = (s32[], f32[10]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[10] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[10]) tuple(zero, x)
  w = (s32[], f32[10]) while(t), condition=condition, body=body
  ROOT r = f32[10] get-tuple-element(w), index=1
}
"""


def test_loops_count_as_often_as_they_run():
    loop_times = times(parse(LOOP))
    assert loop_times["y"] == (7 * (10 + 0.5), "compute")
    assert loop_times["c"][0] == pytest.approx(8 * (0.1 + 0.5))


def test_a_function_of_elementwise_instructions_is_part_of_its_callers_group():
    module = parse(
        """
relu { p = f32[10] parameter(0)
  c = f32[] constant(0)
  z = f32[10] broadcast(c), dimensions={}
  ROOT m = f32[10] maximum(p, z) }
ENTRY main {
  x = f32[10] parameter(0)
  n = f32[10] negate(x)
  c = f32[10] call(n), to_apply=relu
  ROOT a = f32[10] add(c, x)
}
"""
    )
    (timing,) = roofline(module, ROUND).timings
    assert timing.instructions == 3
    assert timing.cost.flops == 30
    assert timing.cost.bytes_accessed == 4 * 20


def test_an_opcode_with_a_rate_of_its_own():
    module = parse(
        """
less { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = pred[] compare(p, q), direction=LT }
ENTRY main {
  x = f32[3,16] parameter(0)
  ROOT s = f32[3,16] sort(x), dimensions={1}, to_apply=less
}
"""
    )
    assert roofline(module, ROUND).timings[0].compute == 48 * 4 / 4


ALL_REDUCE = """HloModule m, replica_count={count}
sum {{ p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }}
ENTRY main {{
  x = f32[100] parameter(0)
  ROOT r = f32[100] all-reduce(x), replica_groups={groups}, to_apply=sum
}}
"""


@pytest.mark.parametrize(
    ("count", "groups", "seconds"),
    [
        # 4 near devices: 2 * 3/4 * 400 bytes at 100/s, 2 * 3 steps of 1 s
        (4, "{{0,1,2,3}}", 600 / 100 + 6 * 1),
        # two groups of two: 2 * 1/2 * 400 bytes, 2 steps
        (4, "{{0,1},{2,3}}", 400 / 100 + 2 * 1),
        # 8 in two blocks of 4: 700 bytes, near 7.0 s, far 700 / (4 * 10) = 17.5 s; 12 near steps and 2 far ones of 5 s
        (8, "{{0,1,2,3,4,5,6,7}}", 700 / 40 + 12 * 1 + 2 * 5),
        # 2 devices in different blocks: 400 bytes at 10/s, 2 far steps
        (8, "{{0,4},{1,5},{2,6},{3,7}}", 400 / 10 + 2 * 5),
        # the same groups as a transposed range
        (8, "[4,2]<=[2,4]T(1,0)", 400 / 10 + 2 * 5),
    ],
)
def test_an_all_reduce_takes_the_links_that_its_groups_span(count: int, groups: str, seconds: float):
    (timing,) = roofline(parse(ALL_REDUCE.format(count=count, groups=groups)), ROUND).timings
    assert timing.link == pytest.approx(seconds)
    assert timing.bound == "link"


def test_an_exchange_sends_most_of_its_bytes_over_the_far_link():
    module = entry(
        "x = f32[80] parameter(0)",
        "ROOT r = f32[80] all-to-all(x), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}",
        header=", replica_count=8",
    )
    # 280 bytes to 7 others: 3 near, 4 far: 160 bytes at 10/s; 6 near steps of 1 s and one far one of 5 s
    assert roofline(module, ROUND).timings[0].link == pytest.approx(160 / 10 + 6 * 1 + 5)


def test_a_permutation_takes_one_step_on_the_farthest_link():
    line = "ROOT r = f32[10] collective-permute(x), source_target_pairs={{0,1},{1,%d}}"
    for target, seconds in ((2, 40 / 100 + 1), (5, 40 / 10 + 5)):
        module = entry("x = f32[10] parameter(0)", line % target, header=", replica_count=8")
        assert roofline(module, ROUND).timings[0].link == pytest.approx(seconds)


def test_in_a_mesh_each_pair_has_its_own_link():
    mesh = Interconnect("mesh", "Infinity Fabric", "mesh", 100.0, 0.0, 8, sources=SOURCES)
    on = replace(ROUND, links=(mesh,))
    (timing,) = roofline(parse(ALL_REDUCE.format(count=4, groups="{{0,1,2,3}}")), on).timings
    assert timing.link == pytest.approx(600 / (3 * 100))


def test_an_infeed_comes_over_the_hosts_link():
    module = entry(
        "t = token[] after-all()",
        "i = ((f32[100]), token[]) infeed(t)",
        "ROOT g = (f32[100]) get-tuple-element(i), index=0",
    )
    assert roofline(module, ROUND).timings[0].link == pytest.approx(400 / 20 + 2)


def test_scopes_add_up_to_the_whole():
    module = entry(
        "x = f32[10,10] parameter(0)",
        'd = f32[10,10] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/mlp/dot"}',
        'ROOT s = f32[10,10] sine(d), metadata={op_name="jit(f)/act/sin"}',
    )
    report = roofline(module, ROUND)
    rows = {row["scope"]: row["seconds"] for row in report.by("scope", depth=2)}
    assert rows == {"act": 100 + 0.5, "mlp": 2000 / 100 + 0.5}
    assert sum(rows.values()) == pytest.approx(report.seconds)
    assert sum(report.bounds().values()) == pytest.approx(report.seconds)


def test_the_start_counts_once_and_fresh_results_cost_more():
    slow: dict[str, Any] = {
        "start_seconds": 3.0,
        "fresh_bytes": 4000.0,
        "fresh_bandwidth": 100.0,
        "spread_bytes": 1.0,
        "spread_seconds": 0.25,
    }
    on = replace(ROUND, **slow)
    module = entry("x = f32[1000] parameter(0)", "ROOT c = f32[1000] copy(x)")
    assert roofline(module, on).seconds == pytest.approx(3 + 8 + 4000 / 100 + 0.5 + 0.25)


def test_small_loops_launch_nothing():
    on = replace(ROUND, small_loop_bytes=1000.0)
    assert times(parse(LOOP), on)["y"] == (7 * 10, "compute")


@pytest.mark.parametrize("name", sorted(devices()))
def test_every_device_gives_a_time(name: str):
    report = roofline(parse(LOOP), name)
    assert report.seconds > 0
    assert report.to_json()["is_estimate"]
