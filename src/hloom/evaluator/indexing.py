"""Gathers, and slices with computed offsets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, arrays_of, evaluator
from hloom.ir import Apply


@evaluator("dynamic-slice")
def _dynamic_slice(node: Apply, operands: Values, run: Runner) -> Value:
    operand, *indices = arrays_of(operands)
    return operand[window(operand.shape, node.attribute("dynamic_slice_sizes"), starts(indices, operand.ndim))]


@evaluator("dynamic-update-slice")
def _dynamic_update_slice(node: Apply, operands: Values, run: Runner) -> Value:
    operand, update, *indices = arrays_of(operands)
    result = operand.copy()
    result[window(operand.shape, update.shape, starts(indices, operand.ndim))] = update
    return result


def starts(indices: Sequence[np.ndarray], rank: int) -> list[int]:
    """Where a slice starts: one scalar per dimension, or one vector of them all."""
    if len(indices) == 1 and indices[0].ndim == 1:
        return [int(index) for index in indices[0]]
    return [int(index) for index in indices]


def window(dims: Sequence[int], sizes: Sequence[int], where: Sequence[int]) -> tuple[slice, ...]:
    """The slices of these sizes, moved so that they are within the array."""
    first = [min(max(start, 0), dim - size) for dim, size, start in zip(dims, sizes, where, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(first, sizes, strict=True))


@evaluator("gather")
def _gather(node: Apply, operands: Values, run: Runner) -> Value:
    """One slice per index vector, moved so that it is within the operand."""
    operand, indices = arrays_of(operands)
    sizes = node.attribute("slice_sizes")
    vector_dimension = node.attribute("index_vector_dim")
    batching = dict(
        zip(node.attribute("operand_batching_dims"), node.attribute("start_indices_batching_dims"), strict=True)
    )
    first = index_vectors(indices, vector_dimension, node.attribute("start_index_map"), batching, operand.ndim)
    most = np.array(operand.shape, np.int64) - np.array(sizes, np.int64)
    first = np.clip(first, 0, most)
    dropped = {*node.attribute("collapsed_slice_dims"), *batching}
    kept = [axis for axis in range(operand.ndim) if axis not in dropped]
    places = linear(first, operand.shape)[:, None] + linear_grid(operand.shape, sizes, kept).reshape(1, -1)
    batch_dims = [size for axis, size in enumerate(indices.shape) if axis != vector_dimension]
    slices = operand.reshape(-1)[places].reshape((*batch_dims, *(sizes[axis] for axis in kept)))
    offset_dims = node.attribute("offset_dims")
    batch_places = [dim for dim in range(slices.ndim) if dim not in offset_dims]
    return slices.transpose(np.argsort([*batch_places, *offset_dims]))


def index_vectors(
    indices: np.ndarray, vector_dimension: int, mapped: Sequence[int], batching: dict[int, int], rank: int
) -> np.ndarray:
    """Where each window starts: one row per index vector, one column per dimension of the operand.

    `mapped` says which dimension each element of a vector indexes; `batching` which dimension of the operand goes
    along with which of the indices. The rest start at zero.
    """
    if vector_dimension == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, vector_dimension, -1)
    batch_dims = vectors.shape[:-1]
    result = np.zeros((*batch_dims, rank), np.int64)
    result[..., list(mapped)] = signed(vectors)
    for operand_axis, indices_axis in batching.items():
        axis = indices_axis - (indices_axis > vector_dimension)
        between = [-1 if dim == axis else 1 for dim in range(len(batch_dims))]
        result[..., operand_axis] = np.arange(batch_dims[axis]).reshape(between)
    return result.reshape(math.prod(batch_dims), rank)


def signed(indices: np.ndarray) -> np.ndarray:
    """Indices as 64-bit integers; the greatest unsigned ones, which no array has, stay great."""
    if indices.dtype == np.uint64:
        return np.minimum(indices, np.uint64(2**62)).astype(np.int64)
    return indices.astype(np.int64)


def linear(places: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    """Places in a flattened array, from one row of indices each."""
    return places @ np.array(strides(dims), np.int64)


def linear_grid(dims: Sequence[int], sizes: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """Places relative to its first of a window's elements, in a flattened array; one dimension per axis given."""
    grid = np.zeros([sizes[axis] for axis in axes], np.int64)
    steps = strides(dims)
    for number, axis in enumerate(axes):
        between = [-1 if dim == number else 1 for dim in range(len(axes))]
        grid = grid + (np.arange(sizes[axis]) * steps[axis]).reshape(between)
    return grid


def strides(dims: Sequence[int]) -> list[int]:
    """The number of elements between neighbours along each dimension of a flattened array."""
    steps = [1] * len(dims)
    for axis in range(len(dims) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * dims[axis + 1]
    return steps
