"""Timelines: what overlaps, what is waited for, and what could hide it; with round rates, so that times are plain."""

from __future__ import annotations

import json

import pytest

import hloom
from hloom.analysis import Device, Interconnect, roofline
from hloom.analysis.timeline import MOST_SECONDS, _excess, timeline  # pyright: ignore[reportPrivateUsage]
from tests.helpers.work import calls, growth

LINK = Interconnect("ring", "NVLink", "switch", 100.0, 0.0)
HOST = Interconnect("host", "PCIe", "host", 10.0, 0.0)
ROUND = Device("round", "one", 1e9, 400.0, 0.0, {"f32": 10.0}, {"f32": 10.0}, {"default": 1.0}, {}, (LINK, HOST))
"""An addition of 100 numbers takes 10 s, an all-gather to 2 devices of 8,000 bytes 40 s."""
GATHER = "channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true"
OVERLAPPED = f"""HloModule m, is_scheduled=true, num_partitions=2
ENTRY e {{
  x = f32[1000] parameter(0)
  y = f32[100] parameter(1)
  g = (f32[1000], f32[2000]) all-gather-start(x), {GATHER}
  a = f32[100] add(y, y)
  d = f32[2000] all-gather-done(g)
  b = f32[100] multiply(a, a)
  ROOT t = (f32[2000], f32[100]) tuple(d, b)
}}"""


def events(made) -> dict[str, tuple[str, float, float]]:
    return {event.node.name: (event.stream, event.start, event.end) for event in made.entry.events}


def test_a_collective_overlaps_with_what_stands_between_its_start_and_its_end():
    made = timeline(OVERLAPPED, ROUND)
    assert events(made) == {"g": ("NVLink", 0, 40), "a": ("compute", 0, 10), "b": ("compute", 40, 50)}
    assert made.seconds == 50
    assert [(row.node.name, row.seconds, row.duration) for row, _ in made.exposed] == [("g", 30, 40)]
    assert made.streams() == [("compute", 20, 30), ("NVLink", 40, 10)]


def test_prices_are_those_of_the_roofline():
    made = timeline(OVERLAPPED, ROUND)
    assert made.serial_seconds == roofline(OVERLAPPED, ROUND).seconds == 60


def test_what_would_help_is_independent_of_the_collective():
    (hint,) = timeline(OVERLAPPED, ROUND).hints()
    assert [(node.name, seconds) for node, seconds in hint.independent] == [("a", 10), ("b", 10)]
    assert (hint.room, hint.saved) == (10, 10)  # b could stand before the end too; a does


def test_rounding_is_no_time():
    made = timeline(
        """HloModule m, is_scheduled=true, num_partitions=4
ENTRY e {
  x = f32[256,512] parameter(0)
  g = (f32[256,512], f32[1024,512]) all-gather-start(x), replica_groups={{0,1,2,3}}, dimensions={0}, channel_id=1
  t = f32[256,512] tanh(x)
  ROOT d = f32[1024,512] all-gather-done(g)
}""",
        "tpu-v5e",
    )
    (hint,) = made.hints()
    assert 0 < hint.exposure.seconds < hint.exposure.duration
    assert hint.saved == 0  # t hides its part already
    assert _excess(8_250 + 1e-12, 8_250) == 0
    assert _excess(3.5, 1.25) == 2.25


def test_the_critical_path_follows_what_was_waited_for():
    path = timeline(OVERLAPPED, ROUND).critical_path()
    assert [(event.node.name, times) for event, times in path] == [("g", 1), ("b", 1)]


def test_gaps_are_what_a_stream_idles_before_its_next_operation():
    assert [(gap.stream, gap.node.name, gap.seconds) for gap in timeline(OVERLAPPED, ROUND).gaps()] == [
        ("compute", "b", 30)
    ]


def test_a_link_runs_one_collective_at_a_time():
    made = timeline(
        f"""HloModule m, is_scheduled=true, num_partitions=2
ENTRY e {{
  x = f32[1000] parameter(0)
  g = (f32[1000], f32[2000]) all-gather-start(x), {GATHER}
  h = (f32[1000], f32[2000]) all-gather-start(x), {GATHER}
  d = f32[2000] all-gather-done(g)
  f = f32[2000] all-gather-done(h)
  ROOT t = (f32[2000], f32[2000]) tuple(d, f)
}}""",
        ROUND,
    )
    assert events(made) == {"g": ("NVLink", 0, 40), "h": ("NVLink", 40, 80)}


def test_a_synchronous_collective_stops_the_computation():
    made = timeline(
        f"""HloModule m, is_scheduled=true, num_partitions=2
ENTRY e {{
  x = f32[1000] parameter(0)
  y = f32[100] parameter(1)
  g = f32[2000] all-gather(x), {GATHER}
  a = f32[100] add(y, y)
  ROOT t = (f32[2000], f32[100]) tuple(g, a)
}}""",
        ROUND,
    )
    assert events(made) == {"g": ("NVLink", 0, 40), "a": ("compute", 40, 50)}
    (hint,) = made.hints()
    assert (hint.exposure.is_asynchronous, hint.room) == (False, 10)


def test_copies_run_on_their_own_stream_and_copies_of_the_host_on_the_hosts():
    made = timeline(
        """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[100]{0} parameter(0)
  c = (f32[100]{0:S(1)}, f32[100]{0}, u32[]) copy-start(x)
  h = (f32[100]{0:S(5)}, f32[100]{0}, u32[]) copy-start(x)
  s = ((f32[100]{0}), f32[50]{0:S(1)}, s32[]) slice-start(x), slice={[0:50]}
  cd = f32[100]{0:S(1)} copy-done(c)
  hd = f32[100]{0:S(5)} copy-done(h)
  sd = f32[50]{0:S(1)} slice-done(s)
  ROOT t = (f32[100], f32[100], f32[50]) tuple(cd, hd, sd)
}""",
        ROUND,
    )
    assert {name: row[0] for name, row in events(made).items()} == {"c": "copies", "h": "host", "s": "copies"}
    assert events(made)["h"][2] == 40


LOOP = """HloModule m, is_scheduled=true
body {{
  p = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  n = s32[] add(i, one)
  v = f32[100] get-tuple-element(p), index=1
  a = f32[100] add(v, v)
  ROOT t = (s32[], f32[100]) tuple(n, a)
}}
test {{
  p = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  most = s32[] constant({trips})
  ROOT less = pred[] compare(i, most), direction=LT
}}
ENTRY e {{
  x = f32[100] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[100]) tuple(zero, x)
  ROOT w = (s32[], f32[100]) while(s), condition=test, body=body
}}"""


def test_a_loop_is_its_bodys_timeline_times_its_trips():
    few, many = (timeline(LOOP.format(trips=trips), ROUND) for trips in (1, 1000))
    assert many.seconds == pytest.approx(roofline(LOOP.format(trips=1000), ROUND).seconds)
    assert len(many.graphs) == len(few.graphs) == 3
    assert {graph.name: times for graph, times in many.runs.items()} == {"e": 1, "body": 1000, "test": 1001}
    assert ("a", 1000) in [(event.node.name, times) for event, times in many.critical_path()]


def test_trip_counts_of_any_size_end():
    made = timeline(LOOP.format(trips=2**31 - 1), ROUND, trip_counts={"w": 10**400})
    assert made.seconds == MOST_SECONDS
    json.dumps(made.to_json(), allow_nan=False)


def test_a_conditional_takes_its_longest_branch_and_says_so():
    made = timeline(
        """HloModule m, is_scheduled=true
short { p = f32[100] parameter(0)
  ROOT a = f32[100] add(p, p) }
long { p = f32[100] parameter(0)
  ROOT l = f32[100] tanh(p) }
ENTRY e { x = f32[100] parameter(0)
  c = pred[] parameter(1)
  ROOT r = f32[100] conditional(c, x, x), true_computation=short, false_computation=long }""",
        ROUND,
    )
    assert made.seconds == 100
    assert made.notes() == ["conditionals take their longest branch: r"]


def test_a_module_without_a_schedule_is_ordered_by_the_list_scheduler():
    made = timeline(OVERLAPPED.replace(", is_scheduled=true", ""), ROUND)
    assert made.notes() == ["the module is not scheduled: instructions run in the order of hloom's list scheduler"]
    assert made.seconds <= 60


def test_a_start_without_an_end_and_an_end_without_a_start_are_named():
    made = timeline(
        f"""HloModule m, is_scheduled=true, num_partitions=2
ENTRY e {{
  x = f32[1000] parameter(0)
  s = (f32[1000], f32[2000]) parameter(1)
  g = (f32[1000], f32[2000]) all-gather-start(x), {GATHER}
  ROOT d = f32[2000] all-gather-done(s)
}}""",
        ROUND,
    )
    assert made.seconds == 40
    assert made.notes() == [
        "ends without a start of their own before them wait for nothing: d",
        "starts without an end are waited for at the end of their computation: g",
    ]


def test_the_tpu_compilers_collective_fusions_are_one_collective():
    state = "(f32[1000], f32[2000], u32[])"
    made = timeline(
        f"""HloModule m, is_scheduled=true, num_partitions=2
starting {{
  x = f32[1000] parameter(0)
  g = f32[2000] all-gather(x), {GATHER}
  ROOT s = {state} custom-call(g), custom_call_target="AsyncCollectiveStart"
}}
between {{
  x = f32[1000] parameter(0)
  r = f32[2000] parameter(1)
  u = u32[] parameter(2)
  y = f32[100] parameter(3)
  g = f32[2000] all-gather(x), {GATHER}
  a = f32[100] add(y, y)
  ROOT t = (f32[100], f32[1000], f32[2000], u32[]) tuple(a, x, g, u)
}}
ending {{
  x = f32[1000] parameter(0)
  r = f32[2000] parameter(1)
  u = u32[] parameter(2)
  g = f32[2000] all-gather(x), {GATHER}
  ROOT d = f32[2000] custom-call(g, u), custom_call_target="AsyncCollectiveDone"
}}
ENTRY e {{
  x = f32[1000] parameter(0)
  y = f32[100] parameter(1)
  start = {state} fusion(x), kind=kCustom, calls=starting
  x1 = f32[1000] get-tuple-element(start), index=0
  r1 = f32[2000] get-tuple-element(start), index=1
  u1 = u32[] get-tuple-element(start), index=2
  mid = (f32[100], f32[1000], f32[2000], u32[]) fusion(x1, r1, u1, y), kind=kLoop, calls=between
  x2 = f32[1000] get-tuple-element(mid), index=1
  r2 = f32[2000] get-tuple-element(mid), index=2
  u2 = u32[] get-tuple-element(mid), index=3
  ROOT done = f32[2000] fusion(x2, r2, u2), kind=kCustom, calls=ending
}}""",
        ROUND,
    )
    found = events(made)
    assert found["start"][:2] == ("NVLink", 0)
    assert found["start"][2] == pytest.approx(40, rel=0.01)
    assert found["mid"][0] == "compute"
    assert "done" not in found
    assert made.notes()[:1] != ["starts without an end"]


def _pairs(count: int) -> str:
    lines = "".join(
        f"  g{n} = (f32[8], f32[16]) all-gather-start(x), {GATHER}\n  a{n} = f32[8] add(x, x)\n"
        f"  d{n} = f32[16] all-gather-done(g{n})\n"
        for n in range(count)
    )
    return f"HloModule m, is_scheduled=true, num_partitions=2\nENTRY e {{\n  x = f32[8] parameter(0)\n{lines}  ROOT t = f32[8] add(x, x)\n}}"


def test_the_work_grows_with_the_number_of_instructions():
    def work(count: int) -> int:
        module = hloom.parse(_pairs(count))
        return calls(lambda: timeline(module, ROUND).to_json())

    assert growth(work, 100) < 1.3
