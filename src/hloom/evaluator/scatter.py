"""Scatters: updates combined into an operand, in order, by any graph."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hloom.evaluator.indexing import index_vectors, linear, linear_grid
from hloom.evaluator.reduction import Replace, ufunc_of
from hloom.evaluator.table import Runner, Value, Values, arrays_of, evaluator
from hloom.ir import Apply, Graph


@evaluator("scatter")
def _scatter(node: Apply, operands: Values, run: Runner) -> Value:
    """Combine windows of updates into the operand; a window that is not within it is dropped."""
    arrays = arrays_of(operands)
    count = len(arrays) // 2
    inputs, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
    places, sources = update_places(node, inputs[0].shape, indices, updates[0].shape)
    flat = [array.reshape(-1).copy() for array in inputs]
    moved = [array.reshape(-1)[sources] for array in updates]
    combine_at(run, node.attribute("to_apply"), flat, places, moved)
    results = tuple(array.reshape(inputs[0].shape) for array in flat)
    return results[0] if count == 1 else results


def update_places(
    node: Apply, dims: tuple[int, ...], indices: np.ndarray, update_dims: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Which element of the flattened operand each update that is not dropped goes to, and which update it is."""
    window_axes = node.attribute("update_window_dims")
    vector_dimension = node.attribute("index_vector_dim")
    batching = dict(
        zip(node.attribute("input_batching_dims"), node.attribute("scatter_indices_batching_dims"), strict=True)
    )
    inserted = {*node.attribute("inserted_window_dims"), *batching}
    kept = [axis for axis in range(len(dims)) if axis not in inserted]
    sizes = [1] * len(dims)
    for axis, update_axis in zip(kept, window_axes, strict=True):
        sizes[axis] = update_dims[update_axis]
    mapped = node.attribute("scatter_dims_to_operand_dims")
    first = index_vectors(indices, vector_dimension, mapped, batching, len(dims))
    fits = ((first >= 0) & (first <= np.array(dims, np.int64) - np.array(sizes, np.int64))).all(axis=1)
    batch_axes = [axis for axis in range(len(update_dims)) if axis not in window_axes]
    update_grid = linear_grid(update_dims, update_dims, [*batch_axes, *window_axes]).reshape(
        len(first), math.prod(sizes)
    )
    window_grid = linear_grid(dims, sizes, kept).reshape(1, -1)
    places = linear(first[fits], dims)[:, None] + window_grid
    return places.reshape(-1), update_grid[fits].reshape(-1)


def combine_at(
    run: Runner, graph: Graph, targets: Sequence[np.ndarray], places: np.ndarray, updates: Sequence[np.ndarray]
) -> None:
    """Combine updates into flat arrays, in place and in order: target[place] = graph(target[place], update)."""
    known = ufunc_of(graph, targets[0].dtype) if len(targets) == 1 else None
    if known is Replace.SECOND:
        targets[0][places] = updates[0]
    elif isinstance(known, np.ufunc):
        known.at(targets[0], places, updates[0])
    else:
        _combine_in_rounds(run, graph, targets, places, updates)


def _combine_in_rounds(
    run: Runner, graph: Graph, targets: Sequence[np.ndarray], places: np.ndarray, updates: Sequence[np.ndarray]
) -> None:
    """The general way: the first updates of all places together, then the second ones, and so on."""
    if not places.size:
        return
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    is_first = np.ones(len(ranked), bool)
    is_first[1:] = ranked[1:] != ranked[:-1]
    positions = np.arange(len(ranked))
    ranks = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
    by_rank = order[np.argsort(ranks, kind="stable")]
    ends = np.cumsum(np.bincount(ranks))
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        chosen = by_rank[start:end]
        where = places[chosen]
        combined = run.map(graph, [*(array[where] for array in targets), *(array[chosen] for array in updates)])
        for target, value in zip(targets, combined if isinstance(combined, tuple) else (combined,), strict=True):
            target[where] = value
