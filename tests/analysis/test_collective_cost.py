"""Bytes that a device sends, and steps, from replica groups; transfers and copies to the host."""

from __future__ import annotations

import pytest

from hloom.analysis import CollectiveCost, cost, roofline
from hloom.analysis.call_graph import build_call_graph
from hloom.analysis.collective_cost import traffic
from hloom.analysis.cost_analysis import LOOPED, CostAnalysis, run_counts
from hloom.formats.hlo import parse
from hloom.text import HloomError
from tests.corpus import lowered

ADD = """
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
"""
FOUR = "replica_groups={{0,1,2,3},{4,5,6,7}}"


def costs_of(
    instruction: str, header: str = "", algorithm: str = "ring", parameter: str = "f32[64]"
) -> tuple[CollectiveCost, ...]:
    text = f"HloModule m{header}\n{ADD}\nENTRY e {{\n  a = {parameter} parameter(0)\n  ROOT r = {instruction}\n}}"
    return cost(parse(text)).traffic(algorithm)


@pytest.mark.parametrize(
    ("instruction", "sent", "ring", "halving"),
    [
        (f"f32[64] all-reduce(a), {FOUR}, to_apply=add", 384, 6, 4),
        (f"f32[64] all-reduce-start(a), {FOUR}, to_apply=add", 384, 6, 4),
        (f"f32[256] all-gather(a), {FOUR}, dimensions={{0}}", 768, 3, 2),
        (f"(f32[64], f32[256]) all-gather-start(a), {FOUR}, dimensions={{0}}", 768, 3, 2),
        (f"f32[16] reduce-scatter(a), {FOUR}, dimensions={{0}}, to_apply=add", 192, 3, 2),
        (f"f32[64] all-to-all(a), {FOUR}, dimensions={{0}}", 192, 3, 3),
        (f"f32[64] collective-broadcast(a), {FOUR}", 256, 3, 2),
        ("f32[64] collective-permute(a), source_target_pairs={{0,1},{1,0}}", 256, 1, 1),
        ("f32[64] collective-permute(a), source_target_pairs={{0,0}}", 0, 1, 1),
        ("f32[64] all-reduce(a), replica_groups={{0},{1}}, to_apply=add", 0, 2, 2),
    ],
)
def test_bytes_and_steps(instruction: str, sent: int, ring: int, halving: int):
    (by_ring,) = costs_of(instruction)
    (by_halving,) = costs_of(instruction, algorithm="halving-doubling")
    assert by_ring.comm_bytes == by_halving.comm_bytes == sent
    if sent:
        assert (by_ring.steps, by_halving.steps) == (ring, halving)


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("", 2),  # all replicas
        ("replica_groups={}", 2),
        ("replica_groups={{0,1}}", 2),
        ("channel_id=1", 8),  # all replicas and partitions
        ("channel_id=1, replica_groups={{0},{1}}", 4),  # a replica's partitions take part too
        ("channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3},{4,5},{6,7}}", 2),
        ("channel_id=1, use_global_device_ids=true, replica_groups=[2,4]<=[8]", 4),
        ("replica_groups={{0,1,2},{3}}", 3),  # the largest decides
    ],
)
def test_group_sizes(groups: str, size: int):
    header = ", replica_count=2, num_partitions=4"
    (transfer,) = costs_of(f"f32[64] all-reduce(a){', ' if groups else ''}{groups}, to_apply=add", header)
    assert transfer.group_size == size


def test_without_global_ids_a_channel_means_partitions():
    (transfer,) = costs_of("f32[64] all-to-all(a), channel_id=1, dimensions={0}", ", replica_count=2, num_partitions=4")
    assert transfer.group_size == 4


def test_the_host():
    (copied,) = costs_of("(f32[64]{0:S(5)}, f32[64], u32[]) copy-start(a)")
    assert (copied.host_bytes, copied.comm_bytes) == (256, 0)
    assert costs_of("(f32[64]{0:S(1)}, f32[64], u32[]) copy-start(a)") == ()
    (fed,) = costs_of("(f32[8], token[]) infeed(a)", parameter="token[]")
    assert fed.host_bytes == 32


def test_what_is_malformed_is_named():
    with pytest.raises(HloomError, match=r"collective-permute takes .*, not 0"):
        costs_of("f32[64] collective-permute(), source_target_pairs={{0,1}}, slice_sizes={{4}}")


def test_a_copy_counts_where_it_leads_to_the_host():
    (copied,) = costs_of("f32[64]{0:S(5)} copy(a)")
    assert (copied.opcode, copied.host_bytes, copied.comm_bytes) == ("copy", 256, 0)
    assert costs_of("f32[64] copy(a)") == ()


def test_sends_count_where_they_start():
    text = """
ENTRY e {
  a = f32[64] parameter(0)
  t = token[] after-all()
  s = (f32[64], u32[], token[]) send(a, t), channel_id=1
  d = token[] send-done(s), channel_id=1
  r = (f32[64], u32[], token[]) recv(t), channel_id=1
  e = (f32[64], token[]) recv-done(r), channel_id=1
  h = (f32[64], u32[], token[]) send(a, t), channel_id=2, is_host_transfer=true
  ROOT f = token[] send-done(h), channel_id=2, is_host_transfer=true
}
"""
    transferred = {
        transfer.name: (transfer.comm_bytes, transfer.host_bytes) for transfer in cost(parse(text)).collective_costs
    }
    assert transferred == {"s": (256, 0), "r": (0, 0), "h": (0, 256)}


def test_collectives_in_loops_count_as_often_as_they_run():
    looped = [
        transfer
        for transfer in cost(parse(lowered("after")["sharding.pipeline_scan"])).collective_costs
        if transfer.times > 1
    ]
    assert looped


def test_other_algorithms_are_refused():
    module = parse("ENTRY e { ROOT a = f32[] parameter(0) }")
    call_graph = build_call_graph(module)
    with pytest.raises(ValueError, match="no algorithm is called 'star'"):
        traffic(module, call_graph, run_counts(CostAnalysis(call_graph, LOOPED, {})), "star")


@pytest.mark.parametrize(
    ("header", "groups"),
    [
        ("replica_count=1000000000", ""),
        ("replica_count=1000000000, num_partitions=1000000000", ", channel_id=1, replica_groups={{0,1}}"),
        ("replica_count=1", ", replica_groups=[1000000,1000]<=[1000000000]"),
    ],
)
def test_more_devices_than_are_listed_are_refused(header: str, groups: str):
    text = f"""HloModule m, {header}
    ENTRY e {{ x = f32[4] parameter(0) ROOT g = f32[8] all-gather(x), dimensions={{0}}{groups} }}"""
    with pytest.raises(HloomError, match="devices are too large to be listed"):
        _ = roofline(parse(text), "tpu-v5e").timings


ASYNC_GATHER = """HloModule m, num_partitions=4, is_scheduled=true
start {
  p = f32[8,128]{1,0:T(8,128)} parameter(0)
  g = f32[32,128]{1,0:T(8,128)} all-gather(p), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  ROOT s = (f32[8,128]{1,0:T(8,128)}, f32[32,128]{1,0:T(8,128)}) custom-call(g), custom_call_target="AsyncCollectiveStart"
}
during {
  p = f32[8,128]{1,0:T(8,128)} parameter(0)
  q = f32[32,128]{1,0:T(8,128)} parameter(1)
  g = f32[32,128]{1,0:T(8,128)} all-gather(p), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  n = f32[8,128]{1,0:T(8,128)} negate(p)
  ROOT t = (f32[8,128]{1,0:T(8,128)}, f32[32,128]{1,0:T(8,128)}) tuple(n, g)
}
done {
  p = f32[8,128]{1,0:T(8,128)} parameter(0)
  g = f32[32,128]{1,0:T(8,128)} all-gather(p), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  ROOT d = f32[32,128]{1,0:T(8,128)} custom-call(g), custom_call_target="AsyncCollectiveDone"
}
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
all-reduce-scatter {
  p = f32[32,128]{1,0:T(8,128)} parameter(0)
  r = f32[32,128]{1,0:T(8,128)} all-reduce(p), channel_id=4, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  zero = u32[] constant(0)
  ROOT s = f32[8,128]{1,0:T(8,128)} dynamic-slice(r, zero, zero), dynamic_slice_sizes={8,128}
}
ENTRY e {
  x = f32[8,128]{1,0:T(8,128)} parameter(0)
  started = (f32[8,128]{1,0:T(8,128)}, f32[32,128]{1,0:T(8,128)}) fusion(x), kind=kCustom, calls=start
  x1 = f32[8,128]{1,0:T(8,128)} get-tuple-element(started), index=0
  g1 = f32[32,128]{1,0:T(8,128)} get-tuple-element(started), index=1
  meanwhile = (f32[8,128]{1,0:T(8,128)}, f32[32,128]{1,0:T(8,128)}) fusion(x1, g1), kind=kLoop, calls=during
  x2 = f32[8,128]{1,0:T(8,128)} get-tuple-element(meanwhile), index=0
  gathered = f32[32,128]{1,0:T(8,128)} fusion(x2), kind=kCustom, calls=done
  ROOT scattered = f32[8,128]{1,0:T(8,128)} fusion(gathered), kind=kCustom, calls=all-reduce-scatter
}
"""


def test_a_collective_of_several_fusions_is_sent_once_and_a_cut_all_reduce_is_a_reduce_scatter():
    report = cost(parse(ASYNC_GATHER))
    sent = {(one.opcode, one.computation): (one.comm_bytes, one.times) for one in report.collective_costs}
    bytes_sent = 3 * 8 * 128 * 4
    assert sent == {("all-gather", "start"): (bytes_sent, 1), ("reduce-scatter", "all-reduce-scatter"): (bytes_sent, 1)}


def test_a_fused_collective_takes_the_time_of_its_links():
    priced = roofline(parse(ASYNC_GATHER), "tpu-v5e")
    links = {timing.node.name: timing.link for timing in priced.timings}
    assert links["started"] > 0 and links["scattered"] > 0
    assert links["meanwhile"] == links.get("gathered", 0.0) == 0
