"""Masks of weights: keeps the elements with the highest scores.

The number of removed elements is `round(sparsity * elements)`, as in torch.nn.utils.prune; among equal scores the first
are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.compress.pruning.pattern import BlockPattern, GroupPattern, Pattern


def group_mask(scores: np.ndarray, pattern: GroupPattern) -> np.ndarray:
    """Keep n of every m elements along what is summed up; `scores` are [stack, summed, free].

    >>> group_mask(np.array([[[3.0], [1.0], [2.0], [4.0]]]), GroupPattern(2, 4))[0, :, 0]
    array([ True, False, False,  True])
    """
    stack, summed, free = scores.shape
    groups = scores.reshape(stack, summed // pattern.size, pattern.size, free).swapaxes(2, 3)
    mask = ~lowest(groups, pattern.size - pattern.kept)
    return mask.swapaxes(2, 3).reshape(scores.shape)


def output_mask(scores: np.ndarray, sparsity: float) -> np.ndarray:
    """Remove a share of what is summed up for each output; `scores` are [stack, summed, free]."""
    return ~lowest(scores.swapaxes(1, 2), count_of(sparsity, scores.shape[1])).swapaxes(1, 2)


def weight_mask(scores: np.ndarray, sparsity: float, pattern: Pattern = None) -> np.ndarray:
    """Remove a share of every matrix of a stack, by elements or blocks; `scores` are [stack, summed, free]."""
    units = unit_scores(scores, pattern)
    flat = units.reshape(len(units), -1)
    removed = lowest(flat, count_of(sparsity, flat.shape[1])).reshape(units.shape)
    return spread(~removed, scores.shape, pattern)


def model_masks(weights: Sequence[np.ndarray], sparsity: float, pattern: Pattern = None) -> list[np.ndarray]:
    """Remove a share of all weights together, by elements or blocks; scores are [stack, summed, free]."""
    units = [unit_scores(scores, pattern) for scores in weights]
    flat = np.concatenate([scores.reshape(-1) for scores in units])
    removed = lowest(flat, count_of(sparsity, len(flat)))
    ends = np.cumsum([scores.size for scores in units])
    return [
        spread(~removed[end - scores.size : end].reshape(scores.shape), whole.shape, pattern)
        for end, scores, whole in zip(ends, units, weights, strict=True)
    ]


def unit_scores(scores: np.ndarray, pattern: Pattern) -> np.ndarray:
    """The scores of units kept or removed together: elements, or blocks by their root mean square."""
    if not isinstance(pattern, BlockPattern):
        return scores
    starts = np.arange(0, scores.shape[1], pattern.rows), np.arange(0, scores.shape[2], pattern.columns)
    if not scores.size:
        return np.zeros((scores.shape[0], len(starts[0]), len(starts[1])))
    squares = np.square(scores, dtype=np.float64)
    sums = np.add.reduceat(np.add.reduceat(squares, starts[0], axis=1), starts[1], axis=2)
    sizes = [np.diff([*start, size]) for start, size in zip(starts, scores.shape[1:], strict=True)]
    return np.sqrt(sums / np.outer(*sizes))


def spread(mask: np.ndarray, shape: Sequence[int], pattern: Pattern) -> np.ndarray:
    """The mask of elements of one of blocks."""
    if not isinstance(pattern, BlockPattern):
        return mask
    rows = mask.repeat(pattern.rows, axis=1)[:, : shape[1]]
    return rows.repeat(pattern.columns, axis=2)[:, :, : shape[2]]


def lowest(scores: np.ndarray, count: int) -> np.ndarray:
    """Of the last dimension, the `count` lowest scores.

    >>> lowest(np.array([3.0, 1.0, 1.0, 2.0]), 3)
    array([False,  True,  True,  True])
    """
    if not count or not scores.size:
        return np.zeros(scores.shape, bool)
    limit = np.partition(scores, count - 1, axis=-1)[..., count - 1 : count]
    below, equal = scores < limit, scores == limit
    missing = count - below.sum(axis=-1, keepdims=True)
    return below | (equal & (equal.cumsum(axis=-1) <= missing))


def count_of(sparsity: float, size: int) -> int:
    """The number of elements to remove out of `size`."""
    return round(sparsity * size)
