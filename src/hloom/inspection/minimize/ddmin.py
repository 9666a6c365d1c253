"""Delta debugging: finds few items with which a test still passes, trying halves before single ones.

Source: A. Zeller, R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE Transactions on Software
Engineering 28(2), 2002 (ddmin). Halves that pass alone are taken first, as in a binary search, a half from the middle
among them; then chunks are left out, of a quarter of the items, then of an eighth, down to single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Test = Callable[[Sequence[Item]], bool]
"""Whether some of the items, in order, are enough."""


def minimize_items(items: Sequence[Item], test: Test[Item], finest: int = 1) -> list[Item]:
    """Items of which none can be left out alone, and which the test passes with; it is not asked of all of them.

    Of n items of which few neighbours are needed, the test is asked for about 3 log2(n) times. Chunks of fewer than
    `finest` items are not left out.

    >>> minimize_items(range(1000), lambda kept: 613 in kept and 620 in kept)
    [613, 620]
    """
    kept = list(items)
    while True:
        count = len(kept)
        kept = _bisected(kept, test)
        kept = _without_chunks(kept, test, finest)
        if len(kept) == count:
            return kept


def _bisected(kept: list[Item], test: Test[Item]) -> list[Item]:
    """Halves of halves, as long as one passes alone."""
    while len(kept) > 1:
        count = len(kept)
        middle, quarter = count // 2, count // 4
        halves = [kept[middle:], kept[:middle]]
        if count > 3:
            halves.append(kept[quarter : quarter + middle])
        passing = next((half for half in halves if test(half)), None)
        if passing is None:
            return kept
        kept = passing
    return kept


def _without_chunks(kept: list[Item], test: Test[Item], finest: int) -> list[Item]:
    """What stays when chunks are left out, last ones first, of sizes that halve; ends early when half is gone."""
    start = len(kept)
    size = max(len(kept) // 4, finest)
    while kept:
        end = len(kept)
        while end > 0:
            begin = max(end - size, 0)
            rest = kept[:begin] + kept[end:]
            if test(rest):
                kept = rest
            end = begin
        if size == finest or 2 * len(kept) < start:
            return kept
        size = max(min(size // 2, len(kept) // 2), finest)
    return kept
