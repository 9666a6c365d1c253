"""How much a function does, counted in calls: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

CALLS = frozenset({"call", "c_call"})
"""Events of `sys.setprofile`: a function of Python's, or one of C's, is called. A generator's next value is a call."""


def calls(function: Callable[[], object]) -> int:
    """How many functions run while this one does; what a single call of C's does inside is not seen."""
    count = 0

    def tally(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event in CALLS:
            count += 1

    before = sys.getprofile()
    sys.setprofile(tally)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def growth(work: Callable[[int], int], size: int, times: int = 4) -> float:
    """How the work for each part of a problem grows where the problem does: 1 is linear, `times` quadratic."""
    return work(times * size) / work(size) / times
