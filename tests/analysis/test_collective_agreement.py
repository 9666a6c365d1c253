"""Cost reports, the roofline model, the planner's tables and partitioned modules give a collective the same cost."""

from __future__ import annotations

import pytest

from hloom.analysis import collective_seconds, cost, device, liveness, roofline
from hloom.analysis.collective_cost import ALGORITHMS, comm_bytes, comm_factor, group_members, step_count
from hloom.distribute.partitioner import TracedCollective
from hloom.distribute.planner.cost_model import Rates, StepCost
from hloom.distribute.planner.partitioned import read_partitioned
from hloom.formats.hlo import parse
from hloom.ir import Apply
from hloom.sharding import Mesh
from hloom.targets.memory import memory

TRIPS = 6
TEXT = """
HloModule step, num_partitions=8, is_scheduled=true, entry_computation_layout={(f32[512,256]{1,0})->f32[512,256]{1,0}}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  state = (s32[], f32[512,256]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(index, one)
  x = f32[512,256] get-tuple-element(state), index=1
  reduced = f32[512,256] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=add
  part = f32[64,256] reduce-scatter(reduced), channel_id=2, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, dimensions={0}, to_apply=add
  gathered = f32[512,256] all-gather(part), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, dimensions={0}
  moved = f32[512,256] collective-permute(gathered), channel_id=4, source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}
  ROOT result = (s32[], f32[512,256]) tuple(next, moved)
}

condition {
  state = (s32[], f32[512,256]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(6)
  ROOT is_less = pred[] compare(index, limit), direction=LT
}

ENTRY main_spmd {
  zero = s32[] constant(0)
  x = f32[512,256] parameter(0)
  start = (s32[], f32[512,256]) tuple(zero, x)
  loop = (s32[], f32[512,256]) while(start), condition=condition, body=body
  ROOT y = f32[512,256] get-tuple-element(loop), index=1
}
"""
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "collective-permute")
NAMES = ("reduced", "part", "gathered", "moved")
BYTES = 512 * 256 * 4


def test_report_roofline_and_partitioned_module_agree_on_bytes():
    module = parse(TEXT)
    expected = {opcode: TRIPS * comm_factor(opcode, 8) * BYTES for opcode in COLLECTIVES}
    report = cost(module)
    assert {collective.opcode: collective.times * collective.comm_bytes for collective in report.collective_costs} == expected
    partitioned = read_partitioned(module, 8, 0)
    assert {collective.name: collective.sent for collective in partitioned.collectives} == dict(zip(NAMES, expected.values(), strict=True))
    timed = [timing for timing in roofline(module, "h100").timings if timing.comm_bytes]
    assert {timing.node.opcode: timing.times * timing.comm_bytes for timing in timed} == expected


@pytest.mark.parametrize("name", ["h100", "a100-80"])
def test_roofline_and_planner_agree_on_seconds(name: str):
    module, chosen = parse(TEXT), device(name)
    mesh = Mesh.parse("x=8")
    rates, planned = Rates.of(chosen, mesh), StepCost()
    for opcode in COLLECTIVES:
        step = TracedCollective(opcode, 8, 512 * 256, ("x",))
        planned.add_collectives([step], 4, TRIPS, rates.collectives(mesh))
    timed = [timing for timing in roofline(module, chosen).timings if timing.node.opcode in COLLECTIVES]
    assert sum(timing.link * timing.times for timing in timed) == pytest.approx(planned.comm_seconds(rates), rel=1e-6)
    for collective in cost(module).collective_costs:
        node = module["body"][collective.name]
        assert isinstance(node, Apply)
        (timing,) = [timing for timing in timed if timing.node is node] or [None]
        if timing is not None:
            assert timing.link == collective_seconds(collective, group_members(node, module), chosen)


def test_cost_and_liveness_walk_the_same_loop():
    module = parse(TEXT)
    run = liveness(module)
    walked = {node.graph.name for node in run.steps}
    counted = {node_cost.node.graph.name for node_cost in cost(module).per_node}
    assert walked - {"add"} == counted - {"add"} == {"main_spmd", "body", "condition"}
    assert memory(module).peak >= 2 * BYTES


@pytest.mark.parametrize("opcode", COLLECTIVES)
def test_bytes_and_steps_do_not_depend_on_who_asks(opcode: str):
    for size in (2, 3, 8):
        assert comm_bytes(size * 12, size, opcode) == pytest.approx(comm_factor(opcode, size) * size * 12) or (
            opcode == "collective-permute"
        )
        assert TracedCollective(opcode, size, 100).elements_sent == pytest.approx(comm_factor(opcode, size) * 100)
        assert all(step_count(opcode, size, algorithm) >= 1 for algorithm in ALGORITHMS)
