"""Ragged matrix products: one dimension of the left operand is cut into groups, whose sizes are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.evaluate.contraction import narrowed, other_axes, product, widened
from hloom.evaluate.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import Apply


@evaluator("ragged-dot")
def _ragged_dot(node: Apply, operands: Values, run: Runner) -> Value:
    """Multiply group by group.

    A ragged dimension that is free has a right operand per group (`rhs_group_dims`), and elements behind the last
    group give zeros. One that is contracted gives one product per group. A batch dimension gives the plain product.
    """
    left, right, sizes = arrays_of(operands)
    wide_left, wide_right = widened(left, right), widened(right, left)
    (ragged,) = node.attribute("lhs_ragged_dims")
    operand_type = array_type(node)
    if ragged in node.attribute("lhs_batch_dims"):
        return narrowed(product(node, wide_left, wide_right), operand_type.dtype)
    masks = group_masks(left.shape, sizes, ragged, outer_axes(node, left.ndim, ragged))
    parts = [np.where(mask, wide_left, 0) for mask in masks]
    if ragged in node.attribute("lhs_contracting_dims"):
        return narrowed(np.stack([product(node, part, wide_right) for part in parts]), operand_type.dtype)
    (group_axis,) = node.attribute("rhs_group_dims")
    total = np.zeros(operand_type.dims, wide_left.dtype)
    for number, part in enumerate(parts):
        total += product(node, part, np.take(wide_right, [number], axis=group_axis)).reshape(operand_type.dims)
    return narrowed(total, operand_type.dtype)


def outer_axes(node: Apply, rank: int, ragged: int) -> list[int]:
    """The dimensions of the left operand along which group sizes may differ: those outside the ragged one."""
    batch, contracting = node.attribute("lhs_batch_dims"), node.attribute("lhs_contracting_dims")
    own = list(contracting) if ragged in contracting else other_axes(rank, batch, contracting)
    return [*batch, *own[: own.index(ragged)]]


def group_masks(dims: Sequence[int], sizes: np.ndarray, ragged: int, outer: Sequence[int]) -> list[np.ndarray]:
    """Which elements of the left operand belong to each group, as arrays that broadcast to it."""
    ends = np.cumsum(sizes.astype(np.int64), axis=-1)
    starts = ends - sizes
    places = np.arange(dims[ragged]).reshape([-1 if axis == ragged else 1 for axis in range(len(dims))])
    return [
        (places >= _along(starts[..., group], outer, len(dims))) & (places < _along(ends[..., group], outer, len(dims)))
        for group in range(sizes.shape[-1])
    ]


def _along(values: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    """An array with one dimension per given axis, laid along these axes of an array of some rank."""
    if values.ndim == 0:
        return values
    ordered = values.transpose(np.argsort(axes))
    sizes = dict(zip(axes, values.shape, strict=True))
    return ordered.reshape([sizes.get(axis, 1) for axis in range(rank)])
