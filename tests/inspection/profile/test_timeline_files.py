"""Timelines as files (`timeline_files`): trace events, and speedscope's openings and closings."""

from __future__ import annotations

from hloom.analysis.timeline import timeline
from hloom.inspection.profile import perfetto, timeline_speedscope
from hloom.inspection.profile.timeline_files import drawn
from tests.analysis.test_timeline import LOOP, OVERLAPPED, ROUND


def test_each_stream_is_a_thread_and_times_are_microseconds():
    trace = perfetto(timeline(OVERLAPPED, ROUND))
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], names[event["tid"]], event["ts"], event["dur"]) for event in events] == [
        ("g", "NVLink", 0, 40e6),
        ("a", "compute", 0, 10e6),
        ("b", "compute", 40e6, 10e6),
    ]


def test_a_loop_is_drawn_with_one_iteration_inside():
    made = timeline(LOOP.format(trips=10), ROUND)
    rows = {row.event.node.name: row for row in drawn(made)}
    assert rows["w"].start <= rows["a"].start < rows["a"].end <= rows["w"].end
    assert (rows["w"].times, rows["a"].times) == (1, 10)


def test_openings_and_closings_nest():
    file = timeline_speedscope(timeline(LOOP.format(trips=10), ROUND))
    for profile in file["profiles"]:
        stack, last = [], 0.0
        for event in profile["events"]:
            assert event["at"] >= last
            last = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert not stack
        assert last <= profile["endValue"]
