"""The memory of a recomputation choice over time.

A value that is recomputed is in use until the forward part last reads it, and from its second computation on, which
comes right before the first kernel of the backward part that needs it, directly or to recompute another value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hloom.distribute.remat.stored_values import StoredValue, StoredValues


@dataclass(slots=True)
class LiveRanges:
    """The memory in use under a choice.

    `needed` is by value the first time at which the backward part needs it, `last` the last one, `reads` are all;
    values that it never needs are in none. `usage` are the bytes of temporaries at each time; a time stands for a
    kernel and what is recomputed right before it.
    """

    needed: dict[StoredValue, int]
    last: dict[StoredValue, int]
    reads: dict[StoredValue, set[int]]
    usage: np.ndarray
    time: int

    @property
    def peak(self) -> int:
        """The most bytes of temporaries."""
        return int(self.usage.max(initial=0))

    @property
    def peak_time(self) -> int:
        return int(self.usage.argmax())


def live_ranges(stored: StoredValues, time: int, recomputed: Collection[StoredValue]) -> LiveRanges:
    """The memory under a choice of values that are made before `time` and recomputed after it."""
    chosen = set(recomputed)
    needed: dict[StoredValue, int] = {}
    last: dict[StoredValue, int] = {}
    reads: dict[StoredValue, set[int]] = {}
    for value in reversed(stored.values):
        if value.made > time:
            continue
        times = [read for read, _ in value.reads if read > time]
        times += [needed[reader] for _, reader in value.reads if reader in chosen and reader in needed]
        if times:
            needed[value], last[value] = min(times), max(times)
            reads[value] = set(times)
    changes = np.zeros(len(stored.usage) + 2, dtype=np.int64)
    for value in needed:
        first, end = needed[value], last[value]
        held = [(size, start, stop) for size, start, stop in value.spans if start <= time]
        if value not in chosen:
            reached = value.last_read
            if held and end > reached:
                _add(changes, value.size, reached + 1, end)
            continue
        forward = max((read for read, _ in value.reads if read <= time), default=value.made)
        for size, start, stop in held:
            if stop > forward:
                _add(changes, -size, max(start, forward + 1), min(stop, first - 1))
        reached = value.last_read
        if value.is_cheap and held:
            _add(changes, -value.size, first, min(reached, end))
            for read in reads[value]:
                _add(changes, value.size, read, read)
        elif held and end > reached:
            _add(changes, value.size, max(first, reached + 1), end)
    usage = stored.usage + np.cumsum(changes)[: len(stored.usage)]
    return LiveRanges(needed, last, reads, usage, time)


def _add(changes: np.ndarray, size: int, start: int, stop: int) -> None:
    if stop >= start:
        changes[start] += size
        changes[min(stop, len(changes) - 2) + 1] -= size
