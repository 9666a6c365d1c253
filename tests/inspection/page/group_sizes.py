"""How large the groups of a graph are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hloom.analysis import ScopePath


def member_counts(paths: Iterable[ScopePath]) -> Mapping[ScopePath, int]:
    """How many members every group has, by its path: instructions and groups."""
    counts: dict[ScopePath, int] = {(): 0}
    for path in paths:
        for length in range(len(path), -1, -1):
            group = path[:length]
            is_known = group in counts
            counts[group] = counts.get(group, 0) + 1
            if is_known:
                break
    return counts
