"""How far work has come, as a listener is told."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.text import listening, report, say, tracked


def told_by(work) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    with listening(lambda done, total: told.append((done, total))):
        work()
    return told


def test_items_are_counted_by_their_size():
    assert told_by(lambda: list(tracked([3, 1], size=lambda item: item))) == [(0, 4), (3, 4), (4, 4)]


def test_what_a_tracked_loop_calls_is_silent():
    def work() -> None:
        for _ in tracked(range(2)):
            report(7, 9)
            assert list(tracked(range(3))) == [0, 1, 2]

    assert told_by(work) == [(0, 2), (1, 2), (2, 2)]


def test_what_is_known_so_far_is_told_also_within_a_loop():
    said: list[str] = []
    with listening(lambda done, total: None, said.append):
        for number in tracked(range(2)):
            say(f"{number + 1} plans")
    say("nobody listens")
    assert said == ["1 plans", "2 plans"]


def test_without_a_listener_a_loop_is_a_loop():
    report(1, 2)
    assert list(tracked(range(3))) == [0, 1, 2]


def test_reading_reports_where_it_is():
    text = "a { x = f32[] parameter(0) } ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=a }"
    assert told_by(lambda: parse(text)) == [(29, len(text)), (len(text), len(text))]
