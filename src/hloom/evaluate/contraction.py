"""Matrix products of any dimensions, dense, scaled and ragged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hloom.evaluate.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import Apply, DType, DTypeKind, dtype_of, round_doubles
from hloom.text import Unsupported


@evaluator("dot")
def _dot(node: Apply, operands: Values, run: Runner) -> Value:
    """Sum up in doubles and round once, whatever `algorithm` and `operand_precision` allow to be less exact."""
    left, right = arrays_of(operands)
    return narrowed(product(node, widened(left, right), widened(right, left)), array_type(node).dtype)


def widened(operand: np.ndarray, other: np.ndarray) -> np.ndarray:
    """An operand in the type in which products are summed: doubles for floats, 64 bits for integers and pred."""
    return operand.astype(np.result_type(_wide(operand), _wide(other)))


def _wide(operand: np.ndarray) -> type:
    element_type = dtype_of(operand.dtype)
    if element_type.is_complex:
        return np.complex128
    return np.float64 if element_type.is_float else np.int64


def narrowed(total: np.ndarray, dtype: DType) -> np.ndarray:
    """A sum in the type of the result: floats rounded, integers cut off, pred whether it is not zero."""
    if dtype.kind is DTypeKind.BOOLEAN:
        return total != 0
    if dtype.is_float and total.dtype.kind != "c":
        return round_doubles(total.astype(np.float64).reshape(-1), dtype).reshape(total.shape)
    return total.astype(dtype.numpy)


def product(node: Apply, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Batch dimensions, then what is left of the left operand, then what is left of the right one."""
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    left_batch, left_contracting, right_batch, right_contracting = (node.attribute(name) for name in names)
    left_free = other_axes(left.ndim, left_batch, left_contracting)
    right_free = other_axes(right.ndim, right_batch, right_contracting)
    batch = [left.shape[axis] for axis in left_batch]
    rows, columns = [left.shape[axis] for axis in left_free], [right.shape[axis] for axis in right_free]
    inner = math.prod(left.shape[axis] for axis in left_contracting)
    a = left.transpose((*left_batch, *left_free, *left_contracting)).reshape((*batch, math.prod(rows), inner))
    b = right.transpose((*right_batch, *right_contracting, *right_free)).reshape((*batch, inner, math.prod(columns)))
    return np.matmul(a, b).reshape((*batch, *rows, *columns))


def other_axes(rank: int, *taken: Sequence[int]) -> list[int]:
    used = {axis for axes in taken for axis in axes}
    return [axis for axis in range(rank) if axis not in used]


@evaluator("scaled-dot")
def _scaled_dot(node: Apply, operands: Values, run: Runner) -> Value:
    """The product of operands whose elements are multiplied by scales, each for a block of neighbours."""
    left, right, left_scale, right_scale = arrays_of(operands)
    a, b = scaled(left, left_scale), scaled(right, right_scale)
    return narrowed(product(node, a, b), array_type(node).dtype)


def scaled(operand: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """An operand times its scales, as doubles; a scale of rank 0 or of ones means that there is none."""
    wide = scale.astype(np.float64)
    for axis, (size, count) in enumerate(zip(operand.shape, scale.shape, strict=False)):
        if count == 0 or size % count:
            raise Unsupported(f"{count} scales do not divide dimension {axis} of size {size}")
        wide = np.repeat(wide, size // count, axis=axis)
    return operand.astype(np.float64) * wide


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
    parts = (np.where(mask, wide_left, 0) for mask in masks)
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
