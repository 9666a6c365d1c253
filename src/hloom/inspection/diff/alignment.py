"""Aligns two sequences: which elements correspond, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

LARGEST_TABLE = 40_000
"""The maximum number of pairs of elements to compare between two aligned elements."""


def align(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The pairs of indices of equal elements that make a long common subsequence, in order.

    Elements that both sequences have once are aligned first, as many as keep their order, and what stands between them
    is aligned by a longest common subsequence where it is short, and element by element from both ends where it is not:
    linear in long sequences. Source: B. Cohen, "patience diff" (Git: xdiff/xpatience.c).

    >>> align("abcd", "bcxd")
    [(1, 0), (2, 1), (3, 3)]
    """
    pairs: list[tuple[int, int]] = []
    start = (0, 0)
    for anchor in [*_anchors(left, right), (len(left), len(right))]:
        pairs += _between(left, right, start, anchor)
        if anchor[0] < len(left) or anchor[1] < len(right):
            pairs.append(anchor)
        start = anchor[0] + 1, anchor[1] + 1
    return pairs


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest rising run of elements that are unique on both sides."""
    counts = Counter(left), Counter(right)
    index_of = {key: index for index, key in enumerate(right) if counts[1][key] == 1}
    unique = [(index, index_of[key]) for index, key in enumerate(left) if counts[0][key] == 1 and key in index_of]
    return [unique[number] for number in rising_run([position for _, position in unique])]


def rising_run(values: Sequence[int]) -> list[int]:
    """The indices of a longest rising subsequence of numbers.

    >>> rising_run([5, 1, 2, 9, 3])
    [1, 2, 4]
    """
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, value in enumerate(values):
        length = bisect_left(tails, value)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            ends.append(number)
        else:
            tails[length], ends[length] = value, number
    run: list[int] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        run.append(number)
        number = before[number]
    return run[::-1]


def _between(
    left: Sequence[Hashable], right: Sequence[Hashable], start: tuple[int, int], end: tuple[int, int]
) -> list[tuple[int, int]]:
    (i, j), (i_end, j_end) = start, end
    head: list[tuple[int, int]] = []
    while i < i_end and j < j_end and left[i] == right[j]:
        head.append((i, j))
        i, j = i + 1, j + 1
    tail: list[tuple[int, int]] = []
    while i < i_end and j < j_end and left[i_end - 1] == right[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
        tail.append((i_end, j_end))
    if 0 < (i_end - i) * (j_end - j) <= LARGEST_TABLE:
        head += _longest_common(left, right, (i, j), (i_end, j_end))
    return head + tail[::-1]


def _longest_common(
    left: Sequence[Hashable], right: Sequence[Hashable], start: tuple[int, int], end: tuple[int, int]
) -> list[tuple[int, int]]:
    (i, j), (i_end, j_end) = start, end
    width = j_end - j
    rows = [[0] * (width + 1)]
    for row in range(i_end - 1, i - 1, -1):
        below, line = rows[-1], [0] * (width + 1)
        for column in range(width - 1, -1, -1):
            if left[row] == right[j + column]:
                line[column] = below[column + 1] + 1
            else:
                line[column] = max(below[column], line[column + 1])
        rows.append(line)
    rows.reverse()
    pairs: list[tuple[int, int]] = []
    row, column = i, 0
    while row < i_end and column < width:
        if left[row] == right[j + column]:
            pairs.append((row, j + column))
            row, column = row + 1, column + 1
        elif rows[row + 1 - i][column] >= rows[row - i][column + 1]:
            row += 1
        else:
            column += 1
    return pairs
