"""Repeated substrings of a sequence of integers, by a suffix array and its longest common prefixes.

Suffix array: prefix doubling (Manber and Myers, SIAM J. Comput. 22(5), 1993). Longest common prefixes: Kasai and
others (CPM 2001). Maximal runs of a common prefix: Abouelhoda, Kurtz and Ohlebusch (J. Discrete Algorithms 2(1),
2004).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

import numpy as np

_OVERSAMPLING = 8
"""How many candidates are looked at for each one that is wanted."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A word's length, and positions where it occurs, in order, none overlapping another."""

    length: int
    positions: tuple[int, ...]

    @property
    def saved(self) -> int:
        """How many letters need not be written if the word is written once."""
        return self.length * (len(self.positions) - 1)


def repeats(text: Sequence[int], shortest: int, most: int) -> list[Repeat]:
    """The repeated words that save the most letters, at most so many, each as long as its occurrences allow.

    Where occurrences overlap, as they do when a word follows upon itself again and again, the word ends where the
    next one begins.

    >>> repeats([1, 2, 3, 9, 1, 2, 3, 8, 1, 2], 3, 1)
    [Repeat(length=3, positions=(0, 4))]
    >>> repeats([1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3], 2, 1)
    [Repeat(length=3, positions=(0, 3, 6, 9))]
    """
    if len(text) < 2 * shortest:
        return []
    order = suffix_order(text)
    shared = shared_prefixes(text, order)
    candidates = nlargest(
        _OVERSAMPLING * most, _intervals(shared, shortest), key=lambda interval: _bound(len(text), *interval)
    )
    kept: dict[tuple[int, tuple[int, ...]], Repeat] = {}
    for length, first, last in candidates:
        positions = sorted(order[first : last + 1].tolist())
        for word_length in {length, _period(positions, length)}:
            repeat = Repeat(word_length, _apart(positions, word_length))
            if len(repeat.positions) > 1 and word_length >= shortest:
                kept[word_length, repeat.positions] = repeat
    return nlargest(most, kept.values(), key=lambda repeat: repeat.saved)


def suffix_order(text: Sequence[int]) -> np.ndarray:
    """The positions of a text, sorted by the suffixes that begin there; doubling prefixes, n log n steps."""
    count = len(text)
    _, rank = np.unique(np.asarray(text), return_inverse=True)
    rank = rank.astype(np.int64)
    width = 1
    while True:
        second = np.full(count, -1, np.int64)
        second[: max(count - width, 0)] = rank[width:]
        order = np.lexsort((second, rank))
        first, then = rank[order], second[order]
        steps = np.concatenate(([0], (first[1:] != first[:-1]) | (then[1:] != then[:-1])))
        rank = np.empty(count, np.int64)
        rank[order] = np.cumsum(steps)
        width *= 2
        if rank[order[-1]] == count - 1 or width >= 2 * count:
            return order


def shared_prefixes(text: Sequence[int], order: np.ndarray) -> list[int]:
    """How many letters each sorted suffix begins with like the one before it (Kasai and others, 2001)."""
    symbols, positions = list(text), order.tolist()
    count = len(symbols)
    rank = [0] * count
    for position, start in enumerate(positions):
        rank[start] = position
    shared, length = [0] * count, 0
    for start in range(count):
        if not rank[start]:
            length = 0
            continue
        other = positions[rank[start] - 1]
        while start + length < count and other + length < count and symbols[start + length] == symbols[other + length]:
            length += 1
        shared[rank[start]] = length
        length = max(length - 1, 0)
    return shared


def _intervals(shared: list[int], shortest: int) -> Iterator[tuple[int, int, int]]:
    """Each maximal run of sorted suffixes that begin with one word: its length, the first and the last of the run."""
    opened: list[tuple[int, int]] = []
    for position, length in enumerate([*shared, 0]):
        first = position - 1
        while opened and opened[-1][0] > length:
            closed, first = opened.pop()
            if closed >= shortest:
                yield closed, first, position - 1
        if length and (not opened or opened[-1][0] < length):
            opened.append((length, first))


def _bound(count: int, length: int, first: int, last: int) -> int:
    """How many letters a word can save at most: occurrences that do not overlap fit into the text."""
    return length * (min(last - first + 1, count // length) - 1)


def _period(positions: list[int], length: int) -> int:
    """How far apart occurrences stand that overlap; the length where none do."""
    gaps = [after - before for before, after in pairwise(positions)]
    close = [gap for gap in gaps if gap < length]
    return max(set(close), key=close.count) if close else length


def _apart(positions: list[int], length: int) -> tuple[int, ...]:
    """Those positions that are at least a word apart."""
    apart: list[int] = []
    for position in positions:
        if not apart or position >= apart[-1] + length:
            apart.append(position)
    return tuple(apart)
