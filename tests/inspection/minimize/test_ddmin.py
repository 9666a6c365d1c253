"""Few items that a test passes with, and how often it is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hloom.inspection.minimize import minimize_items


def asked(count: int, needed: set[int]) -> tuple[list[int], int]:
    """What is left of so many items, of which some are needed, and how often the test was asked."""
    times = 0

    def passes(kept: Sequence[int]) -> bool:
        nonlocal times
        times += 1
        return needed <= set(kept)

    return minimize_items(range(count), passes), times


@pytest.mark.parametrize(
    "needed", [{0}, {999}, {500, 499}, {3, 400, 998}, set(range(10, 20)), set(range(0, 1000, 100))]
)
def test_what_is_needed_is_left(needed: set[int]):
    assert asked(1000, needed)[0] == sorted(needed)


def test_a_neighbourhood_takes_logarithmically_many_questions():
    times = [asked(count, {count // 3, count // 3 + 3})[1] for count in (1_000, 1_000_000)]
    assert times[1] < 2.5 * times[0] < 150


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_nothing_is_needed(count: int):
    assert asked(count, set())[0] == []


def test_all_are_needed():
    kept, times = asked(40, set(range(40)))
    assert kept == list(range(40)) and times < 200
