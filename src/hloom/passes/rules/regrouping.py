"""How the dimensions of an array and of its reshape correspond."""

from __future__ import annotations

from collections.abc import Sequence


def unmodified(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """The dimensions that a reshape leaves as they are: pairs of places of equal sizes with equal products before them.

    Dimensions of size 1 are paired where they meet. The arrays must have elements.

    >>> unmodified((2, 3, 4), (6, 4)), unmodified((2, 3, 1), (2, 1, 3))
    ([(2, 1)], [(0, 0), (1, 2)])
    """
    pairs: list[tuple[int, int]] = []
    for start, end in _blocks(before, after):
        if end[0] - start[0] == 1 and end[1] - start[1] == 1:
            pairs.append(start)
    return pairs


def _blocks(before: Sequence[int], after: Sequence[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The shortest runs of dimensions of both sides that hold equally many elements."""
    left = right = 0
    blocks: list[tuple[tuple[int, int], tuple[int, int]]] = []
    while left < len(before) or right < len(after):
        start = left, right
        ours = before[left] if left < len(before) else 1
        theirs = after[right] if right < len(after) else 1
        if ours != theirs and 1 in (ours, theirs):
            left, right = left + (ours == 1 and left < len(before)), right + (theirs == 1 and right < len(after))
            blocks.append((start, (left, right)))
            continue
        left, right = min(left + 1, len(before)), min(right + 1, len(after))
        while ours != theirs:
            if ours < theirs:
                ours *= before[left]
                left += 1
            else:
                theirs *= after[right]
                right += 1
        blocks.append((start, (left, right)))
    return blocks
